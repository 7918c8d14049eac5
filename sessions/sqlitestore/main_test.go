package sqlitestore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/acpgate/acpgate/sessions"
	"github.com/acpgate/acpgate/sessions/journal"
	"github.com/acpgate/acpgate/sessions/storetest"
)

const victimPath = "SQLITESTORE_VICTIM" // the process is one to be killed, on this file

func TestMain(m *testing.M) {
	if path := os.Getenv(victimPath); path != "" {
		fmt.Fprintln(os.Stderr, victim(path))
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

func victim(path string) error {
	s, err := Open(context.Background(), Config{Path: path})
	if err != nil {
		return err
	}
	return storetest.Victim(context.Background(), s, os.Stdout)
}

func config(path string) Config { return Config{Path: path, Logger: slog.New(slog.DiscardHandler)} }

func openWithConfig(t testing.TB, cfg Config) *Store {
	t.Helper()
	s, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("closing: %v", err)
		}
	})
	return s
}

func tempPath(t testing.TB) string { return filepath.Join(t.TempDir(), "acpgate.db") }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// put writes one record.
func put(t testing.TB, s *Store, key string, value []byte) error {
	t.Helper()
	return s.Commit(t.Context(), "alice", sessions.Commit{Writes: []sessions.Write{{Key: key, Value: value}}})
}

// fill appends a run of n events of size bytes to a journal, which it opens.
func fill(t testing.TB, s *Store, name string, n, size int) error {
	t.Helper()
	info, err := s.OpenJournal(t.Context(), "alice", name, 1, 1)
	if err != nil {
		return err
	}
	r := sessions.Run{Principal: "alice", Journal: name, Fence: 1}
	for i := range n {
		r.Events = append(r.Events, journal.Event{Seq: info.Next + uint64(i), Type: journal.Update, Data: make([]byte, size)})
	}
	return s.Append(t.Context(), []sessions.Run{r})[0]
}

// segments appends n runs of two events of one byte to a journal, which it opens.
func segments(t testing.TB, s *Store, name string, n int) error {
	t.Helper()
	if _, err := s.OpenJournal(t.Context(), "alice", name, 1, 1); err != nil {
		return err
	}
	runs := make([]sessions.Run, n)
	for i := range runs {
		seq := uint64(2*i + 1)
		runs[i] = sessions.Run{Principal: "alice", Journal: name, Fence: 1, Events: []journal.Event{{Seq: seq, Data: []byte("a")}, {Seq: seq + 1, Data: []byte("b")}}}
	}
	return errors.Join(s.Append(t.Context(), runs)...)
}

func TestN1_SQLiteKeepsTheContract(t *testing.T) {
	storetest.Run(t, func(t testing.TB) storetest.Backend {
		path := tempPath(t)
		return storetest.Backend{Open: func(t testing.TB) sessions.Store { return openWithConfig(t, config(path)) }}
	})
}

func TestN1_NothingAcknowledgedIsLostByKill(t *testing.T) {
	path := tempPath(t)
	storetest.TestKill(t, func() *exec.Cmd {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), victimPath+"="+path)
		return cmd
	}, func(t testing.TB) sessions.Store { return openWithConfig(t, config(path)) })
}

func BenchmarkAppend200Sessions(b *testing.B) {
	storetest.BenchmarkAppend(b, func(t testing.TB) sessions.Store { return openWithConfig(t, config(tempPath(t))) })
}
