package journal_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/acpgate/acpgate/sessions/journal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// drain reads everything that is there.
func drain(t testing.TB, r *journal.Reader) []journal.Event {
	t.Helper()
	var out []journal.Event
	for {
		c, ok, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			return out
		}
		for i := range c.Len() {
			e := c.At(i)
			out = append(out, e)
			r.Advance(e)
		}
	}
}

func reader(t testing.TB, j *journal.Journal, c journal.Cursor) *journal.Reader {
	t.Helper()
	r, err := j.NewReader(c, func() {}, func() {})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestJournal_EventsComeBackAsTheyWentIn(t *testing.T) {
	j := journal.New(7, journal.Limits{}, nil)
	rnd := rand.New(rand.NewPCG(1, 2))
	var want [][]byte
	for i := range 5000 {
		n := rnd.IntN(300)
		if i%500 == 0 {
			n = 200_000 // larger than a segment
		}
		b := bytes.Repeat([]byte{byte(i)}, n)
		want = append(want, append([]byte(nil), b...))
		if seq := j.Append(journal.Update, now, b); seq != uint64(i+1) {
			t.Fatalf("seq %d, want %d", seq, i+1)
		}
		clear(b) // Append copies
	}
	for _, from := range []uint64{0, 1, 499, 500, 501, 4999, 5000} {
		got := drain(t, reader(t, j, journal.Cursor{Epoch: 7, Seq: from}))
		if len(got) != 5000-int(from) {
			t.Fatalf("from %d: %d events", from, len(got))
		}
		for i, e := range got {
			if k := int(from) + i; e.Seq != uint64(k+1) || !bytes.Equal(e.Data, want[k]) || e.Time != now.UnixMilli() || e.Type != journal.Update {
				t.Fatalf("from %d: event %d is %d bytes of seq %d", from, k+1, len(e.Data), e.Seq)
			}
		}
	}
}

func TestV11_CursorOfAnotherEpochOrTheFuture(t *testing.T) {
	j := journal.New(7, journal.Limits{}, nil)
	j.Append(journal.Update, now, []byte("x"))
	for _, c := range []journal.Cursor{{Epoch: 6, Seq: 0}, {Epoch: 7, Seq: 2}, {Epoch: 7, Seq: 1 << 60}} {
		if _, err := j.NewReader(c, func() {}, nil); !errors.Is(err, journal.ErrEpoch) {
			t.Errorf("cursor %v: %v, want ErrEpoch", c, err)
		}
	}
	if got := j.Head(); got != (journal.Cursor{Epoch: 7, Seq: 1}) {
		t.Errorf("head %v", got)
	}
}

func TestBounds_CountBytesAndAge(t *testing.T) {
	kb := bytes.Repeat([]byte("x"), 1000)
	for name, x := range map[string]struct {
		limits journal.Limits
		step   time.Duration
	}{
		"count": {journal.Limits{MaxEvents: 1500}, 0},
		"bytes": {journal.Limits{MaxBytes: 1 << 20}, 0},
		"age":   {journal.Limits{MaxAge: time.Hour}, 4 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			j := journal.New(1, x.limits, nil)
			lost := 0
			behind, err := j.NewReader(journal.Cursor{Epoch: 1}, func() {}, func() { lost++ })
			if err != nil {
				t.Fatal(err)
			}
			for i := range 4000 {
				j.Append(journal.Update, now.Add(time.Duration(i)*x.step), kb)
			}
			s := j.Stats()
			if s.Events >= 2000 || s.Events < 800 || !j.Trimmed() {
				t.Errorf("retains %d events, %d bytes", s.Events, s.Bytes)
			}
			if lost != 1 {
				t.Errorf("the reader behind was told %d times", lost)
			}
			if _, _, err := behind.Next(); !errors.Is(err, journal.ErrTrimmed) {
				t.Errorf("reading behind: %v", err)
			}
			if _, err := j.NewReader(journal.Cursor{Epoch: 1}, func() {}, nil); !errors.Is(err, journal.ErrTrimmed) {
				t.Errorf("cursor of what is gone: %v", err)
			}
			start := j.Start()
			got := drain(t, reader(t, j, start))
			if len(got) != s.Events || got[0].Seq != start.Seq+1 || got[len(got)-1].Seq != 4000 {
				t.Errorf("%d events from %d", len(got), got[0].Seq)
			}
		})
	}
}

func TestBounds_OneEventOfAnySizeIsAdmitted(t *testing.T) {
	j := journal.New(1, journal.Limits{MaxBytes: 1000}, nil)
	j.Append(journal.Update, now, []byte("small"))
	j.Append(journal.Update, now, make([]byte, 1<<20))
	if got := drain(t, reader(t, j, j.Start())); len(got) != 1 || len(got[0].Data) != 1<<20 {
		t.Errorf("%d events", len(got))
	}
}

func TestBounds_BudgetOfAllJournals(t *testing.T) {
	budget := journal.NewBudget(20 << 20)
	var js []*journal.Journal
	for range 10 {
		js = append(js, journal.New(1, journal.Limits{}, budget))
	}
	line := make([]byte, 10_000)
	for i := range 10_000 { // 100 MB
		js[i%10].Append(journal.Update, now, line)
	}
	if u := budget.Used(); u > 22<<20 || u < 8<<20 {
		t.Errorf("the budget of 20 MiB holds %d bytes", u)
	}
	for _, j := range js {
		j.Close()
		j.Close()
	}
	if u := budget.Used(); u != 0 {
		t.Errorf("%d bytes are left after Close", u)
	}
}

// A reader that ran dry is woken exactly once, however the append and the arming interleave.
func TestReader_NoLostWakeUp(t *testing.T) {
	j := journal.New(1, journal.Limits{}, nil)
	wake := make(chan struct{}, 1)
	r, err := j.NewReader(journal.Cursor{Epoch: 1}, func() {
		select {
		case wake <- struct{}{}:
		default:
			t.Error("woken twice for one arming")
		}
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	const n = 20_000
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range n {
			j.Append(journal.Update, now, fmt.Append(nil, i))
		}
	})
	for got := 0; got < n; {
		got += len(drain(t, r))
		if got < n && r.Arm() {
			<-wake
		}
	}
	wg.Wait()
}

func TestReader_ManyAtTheirOwnPace(t *testing.T) {
	j := journal.New(1, journal.Limits{}, nil)
	var wg sync.WaitGroup
	for k := range 8 {
		wake := make(chan struct{}, 1)
		r, err := j.NewReader(journal.Cursor{Epoch: 1}, func() { wake <- struct{}{} }, nil)
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			next := uint64(1)
			for next <= 3000 {
				for _, e := range drain(t, r) {
					if e.Seq != next || string(e.Data) != fmt.Sprint(next) {
						t.Errorf("reader %d: seq %d data %q, want %d", k, e.Seq, e.Data, next)
						return
					}
					next++
				}
				if next <= 3000 && r.Arm() {
					<-wake
				}
			}
			r.Close()
		})
	}
	for i := range 3000 {
		j.Append(journal.Update, now, fmt.Append(nil, i+1))
	}
	wg.Wait()
	if s := j.Stats(); s.Readers != 0 {
		t.Errorf("%d readers are left", s.Readers)
	}
}
