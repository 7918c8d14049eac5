package storetest

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/acpgate/acpgate/sessions"
)

// goes runs f n times at once and waits.
func goes(n int, f func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { f(i) })
	}
	wg.Wait()
}

// increment is how rules use a store: read, decide, commit, again when somebody else was faster.
func increment(t testing.TB, s sessions.Store, key string) (tries int) {
	for {
		tries++
		records, err := s.Read(t.Context(), "alice", key)
		if err != nil {
			t.Error(err)
			return tries
		}
		n, _ := strconv.Atoi(string(records[0].Value)) // 0 when there is none
		err = s.Commit(t.Context(), "alice", sessions.Commit{
			Expect: []sessions.Expect{{Key: key, Version: records[0].Version}},
			Writes: []sessions.Write{set(key, strconv.Itoa(n+1))},
		})
		if err == nil || !errors.Is(err, sessions.ErrConflict) {
			if err != nil {
				t.Error(err)
			}
			return tries
		}
	}
}

func testCounters(t *testing.T, b Backend) {
	s := open(t, b)
	const workers, rounds = 12, 25
	var tries atomic.Int64
	goes(workers, func(i int) {
		for range rounds {
			tries.Add(int64(increment(t, s, "counter")))
			tries.Add(int64(increment(t, s, fmt.Sprint("counter-", i%3))))
		}
	})
	wantValue(t, s, "alice", "counter", fmt.Sprint(workers*rounds))
	for i := range 3 {
		wantValue(t, s, "alice", fmt.Sprint("counter-", i), fmt.Sprint(workers*rounds/3))
	}
	t.Logf("%d tries for %d increments", tries.Load(), 2*workers*rounds)
}

// claim races n claims of one binding and checks that exactly one wins, whose value it is.
func claim(t *testing.T, n int, store func(i int) sessions.Store) {
	t.Helper()
	for round := range 40 {
		key := fmt.Sprint("binding-", round)
		var won atomic.Int64
		winner := make([]bool, n)
		start := make(chan struct{})
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() {
				<-start
				err := store(i).Commit(t.Context(), "alice", sessions.Commit{
					Expect:  []sessions.Expect{{Key: key}},
					Writes:  []sessions.Write{set(key, fmt.Sprint(i)), set(fmt.Sprint("view-", i, "-of-", round), "")},
					Indexes: []sessions.IndexWrite{{Index: key, Member: fmt.Sprint(i)}},
				})
				switch {
				case err == nil:
					won.Add(1)
					winner[i] = true
				case !errors.Is(err, sessions.ErrConflict):
					t.Error(err)
				}
			})
		}
		close(start)
		wg.Wait()
		if won.Load() != 1 {
			t.Fatalf("round %d: %d of %d claims won", round, won.Load(), n)
		}
		for i := range n {
			view := value(t, store(0), "alice", fmt.Sprint("view-", i, "-of-", round))
			if winner[i] {
				wantValue(t, store(0), "alice", key, fmt.Sprint(i))
			}
			if (view == "") != winner[i] {
				t.Errorf("round %d: claim %d won: %v, its other record is %q", round, i, winner[i], view)
			}
		}
		if rows := scan(t, store(0), key, sessions.Query{}); len(rows) != 1 {
			t.Errorf("round %d: %d index rows", round, len(rows))
		}
	}
}

func testClaims(t *testing.T, b Backend) {
	s := open(t, b)
	claim(t, 5, func(int) sessions.Store { return s })
}

func testClaimsOnTwo(t *testing.T, b Backend) {
	stores := []sessions.Store{open(t, b), open(t, b)}
	claim(t, 6, func(i int) sessions.Store { return stores[i%2] })
}

// A reader never sees a part of a commit.
func testWholeCommits(t *testing.T, b Backend) {
	s := open(t, b)
	keys := make([]string, 20)
	for i := range keys {
		keys[i] = fmt.Sprint("part-", i)
	}
	var done atomic.Bool
	goes(4, func(i int) {
		if i == 0 {
			defer done.Store(true)
			for n := range 150 {
				var c sessions.Commit
				for _, key := range keys {
					w := set(key, fmt.Sprint(n))
					w.Delete = n%10 == 9
					c.Writes = append(c.Writes, w)
				}
				if err := s.Commit(t.Context(), "alice", c); err != nil {
					t.Error(err)
				}
			}
			return
		}
		for !done.Load() {
			records, err := s.Read(t.Context(), "alice", keys...)
			if err != nil {
				t.Error(err)
				return
			}
			for _, r := range records {
				if string(r.Value) != string(records[0].Value) || (r.Version == 0) != (records[0].Version == 0) {
					t.Errorf("%s is %q where %s is %q", r.Key, r.Value, records[0].Key, records[0].Value)
					return
				}
			}
		}
	})
}

// Readers at their own cursors see each event once, in order, while others append, compact and take over.
func testAppendersAndReaders(t *testing.T, b Backend) {
	s := open(t, b)
	const journals, events = 6, 400
	for i := range journals {
		openJournal(t, s, fmt.Sprint("j-", i), 1, 1)
	}
	goes(3*journals, func(i int) {
		name := fmt.Sprint("j-", i/3)
		switch i % 3 {
		case 0: // writes
			for from := uint64(1); from <= events; {
				to := min(from+from%9, events)
				if errs := s.Append(t.Context(), []sessions.Run{run(name, 1, from, to)}); errs[0] != nil {
					t.Error(errs[0])
					return
				}
				from = to + 1
			}
		case 1: // follows
			for next := uint64(1); next <= events; {
				page, err := s.ReadJournal(t.Context(), "alice", name, next-1, 500)
				if err != nil {
					t.Error(err)
					return
				}
				for _, e := range page {
					// What was compacted keeps its seq and its content here, so the follower must not notice.
					if !equal(e, event(next)) {
						t.Errorf("%s: event %d, want %d", name, e.Seq, next)
						return
					}
					next++
				}
			}
		case 2: // folds, which here means that it packs anew
			for {
				state, err := s.JournalInfo(t.Context(), "alice", name)
				if err != nil {
					t.Error(err)
					return
				}
				upto := (state.Next - 1) / 2
				if err := s.Compact(t.Context(), "alice", name, 1, upto, run(name, 1, 1, upto).Events); err != nil {
					t.Error(err)
					return
				}
				if state.Next == events+1 {
					return
				}
			}
		}
	})
	for i := range journals {
		wantEvents(t, readAll(t, s, "alice", fmt.Sprint("j-", i), 0, 0), 1, events)
	}
}
