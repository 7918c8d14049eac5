package storetest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/acpgate/acpgate/sessions"
)

const victims = 4 // goroutines of Victim, each with keys and a journal of its own

// Victim writes to the store from several goroutines until a write fails, and tells on out, a line each, what was
// acknowledged. It is meant to be killed; TestKill runs it in a process of its own.
//
// Each goroutine g counts up in two records a-g and b-g, always both in one commit, and appends runs to the journal j-g.
func Victim(ctx context.Context, s sessions.Store, out io.Writer) error {
	var mu sync.Mutex
	tell := func(kind string, g int, n uint64) error {
		mu.Lock()
		defer mu.Unlock()
		_, err := fmt.Fprintln(out, kind, g, n)
		return err
	}
	errs := make(chan error, 2*victims)
	for g := range victims {
		go func() { errs <- commitOn(ctx, s, g, tell) }()
		go func() { errs <- appendOn(ctx, s, g, tell) }()
	}
	first := <-errs
	for range 2*victims - 1 {
		<-errs
	}
	return first
}

func commitOn(ctx context.Context, s sessions.Store, g int, tell func(string, int, uint64) error) error {
	a, b := fmt.Sprint("a-", g), fmt.Sprint("b-", g)
	for {
		records, err := s.Read(ctx, "alice", a, b)
		if err != nil {
			return err
		}
		n, _ := strconv.ParseUint(string(records[0].Value), 10, 64) // 0 when there is none
		err = s.Commit(ctx, "alice", sessions.Commit{
			Expect:  []sessions.Expect{{Key: a, Version: records[0].Version}},
			Writes:  []sessions.Write{set(a, fmt.Sprint(n+1)), set(b, fmt.Sprint(n+1))},
			Indexes: []sessions.IndexWrite{{Index: "i", Member: a, Score: int64(n + 1)}},
		})
		if err != nil {
			return err
		}
		if err := tell("commit", g, n+1); err != nil {
			return err
		}
	}
}

func appendOn(ctx context.Context, s sessions.Store, g int, tell func(string, int, uint64) error) error {
	name := fmt.Sprint("j-", g)
	state, err := s.JournalInfo(ctx, "alice", name)
	if err != nil {
		state.Fence = 0
	}
	if state, err = s.OpenJournal(ctx, "alice", name, state.Fence+1, 0); err != nil {
		return err
	}
	if err := tell("epoch", g, state.Epoch); err != nil {
		return err
	}
	for next := state.Next; ; {
		r := run(name, state.Fence, next, next+next%13)
		if err := s.Append(ctx, []sessions.Run{r})[0]; err != nil {
			return err
		}
		next += uint64(len(r.Events))
		if err := tell("append", g, next-1); err != nil {
			return err
		}
	}
}

// TestKill kills a process that writes, several times, and checks each time that a store opened on the same data has
// everything that was acknowledged, nothing by halves, and a new epoch for each journal. command gives the process,
// which runs Victim on its stdout.
func TestKill(t *testing.T, command func() *exec.Cmd, reopen func(t testing.TB) sessions.Store) {
	acked := map[string]uint64{}
	for round := range 3 {
		before := len(acked)
		killVictim(t, command(), time.Duration(100+150*round)*time.Millisecond, acked)
		if len(acked) == 0 || len(acked) < before {
			t.Fatal("nothing was acknowledged before the kill")
		}
		checkAcked(t, reopen(t), acked)
	}
	t.Logf("acknowledged: %v", acked)
}

// killVictim starts the process, lets it write for a while after the first acknowledgement, kills it, and collects what
// it told.
func killVictim(t *testing.T, cmd *exec.Cmd, after time.Duration, acked map[string]uint64) {
	t.Helper()
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	var timer *time.Timer
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		var kind string
		var g int
		var n uint64
		if _, err := fmt.Sscan(lines.Text(), &kind, &g, &n); err != nil {
			t.Errorf("line %q: %v", lines.Text(), err)
		}
		if kind == "append" && timer == nil {
			timer = time.AfterFunc(after, func() { _ = cmd.Process.Kill() }) // it fails if the process is gone, which Wait tells
		}
		acked[fmt.Sprint(kind, "-", g)] = n
	}
	if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() != -1 {
		t.Fatalf("the process ended by itself: %v", err)
	}
}

func checkAcked(t *testing.T, s sessions.Store, acked map[string]uint64) {
	t.Helper()
	defer func() { must(t, s.Close()) }()
	rows := map[string]int64{}
	for _, row := range scan(t, s, "i", sessions.Query{}) {
		rows[row.Member] = row.Score
	}
	for g := range victims {
		records := read(t, s, "alice", fmt.Sprint("a-", g), fmt.Sprint("b-", g))
		a, b := string(records[0].Value), string(records[1].Value)
		n, _ := strconv.ParseUint(a, 10, 64)
		if want := acked[fmt.Sprint("commit-", g)]; n < want || a != b || rows[records[0].Key] != int64(n) {
			t.Errorf("records %q and %q, index %d, acknowledged %d", a, b, rows[records[0].Key], want)
		}
		name := fmt.Sprint("j-", g)
		state, err := s.JournalInfo(t.Context(), "alice", name)
		if err != nil {
			if acked[fmt.Sprint("epoch-", g)] > 0 {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if last, want := state.Next-1, acked[fmt.Sprint("append-", g)]; last < want {
			t.Errorf("%s ends with %d, acknowledged %d", name, last, want)
		}
		if state.Next > 1 {
			wantEvents(t, readAll(t, s, "alice", name, 0, 0), 1, state.Next-1)
		}
		reopened := openJournal(t, s, name, state.Fence, 0)
		if reopened.Epoch != state.Epoch+1 {
			t.Errorf("%s was not closed, yet its epoch %d goes on as %d", name, state.Epoch, reopened.Epoch)
		}
	}
}
