package sqlitestore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/acpgate/acpgate/sessions"
)

// hold makes the writer wait until the returned function is called, so that callers gather behind it.
func hold(t testing.TB, s *Store) (release func()) {
	t.Helper()
	begun, end, done := make(chan struct{}), make(chan struct{}), make(chan error)
	go func() {
		done <- s.write(context.Background(), 0, func(*tx) error {
			close(begun)
			<-end
			return nil
		})
	}()
	<-begun
	return func() {
		close(end)
		must(t, <-done)
	}
}

// together runs calls while the writer is held, so that they are in one group, and returns their errors.
func together(t testing.TB, s *Store, calls ...func() error) []error {
	t.Helper()
	release := hold(t, s)
	errs := make([]error, len(calls))
	var wg sync.WaitGroup
	for i, call := range calls {
		wg.Go(func() { errs[i] = call() })
	}
	time.Sleep(50 * time.Millisecond) // they wait for the writer
	release()
	wg.Wait()
	return errs
}

func TestWriter_CallersThatWaitAreCommittedTogether(t *testing.T) {
	s := openWithConfig(t, config(tempPath(t)))
	var calls []func() error
	for i := range 50 {
		calls = append(calls, func() error { return put(t, s, fmt.Sprint("key-", i), []byte("v")) })
	}
	before := s.Stats()
	for _, err := range together(t, s, calls...) {
		must(t, err)
	}
	after := s.Stats()
	if n := after.Transactions - before.Transactions; n > 5 {
		t.Errorf("%d transactions for 50 calls that waited", n)
	}
	if n := after.Calls - before.Calls; n != 51 || after.FileBytes == 0 {
		t.Errorf("%d calls counted, %d bytes", n, after.FileBytes)
	}
}

func TestWriter_AGroupIsBounded(t *testing.T) {
	for name, bound := range map[string]func(*Config){
		"calls": func(c *Config) { c.GroupOps = 10 },
		"bytes": func(c *Config) { c.GroupBytes = 10 * 1000 },
	} {
		t.Run(name, func(t *testing.T) {
			cfg := config(tempPath(t))
			bound(&cfg)
			s := openWithConfig(t, cfg)
			var calls []func() error
			for i := range 50 {
				calls = append(calls, func() error { return put(t, s, fmt.Sprint("key-", i), make([]byte, 1000)) })
			}
			before := s.Stats().Transactions
			for _, err := range together(t, s, calls...) {
				must(t, err)
			}
			if n := s.Stats().Transactions - before; n < 6 {
				t.Errorf("%d transactions for 50 calls, at most 10 in each", n)
			}
		})
	}
}

// Each call of a group gets its own answer: a conflict is one caller's, and so is a call that the database refuses.
func TestWriter_EachCallGetsItsOwnResult(t *testing.T) {
	s := openWithConfig(t, config(tempPath(t)))
	must(t, put(t, s, "taken", nil))
	refused := errors.New("refused by the database")
	calls := []func() error{
		func() error {
			return s.Commit(t.Context(), "alice", sessions.Commit{Expect: []sessions.Expect{{Key: "taken"}}, Writes: []sessions.Write{{Key: "x"}}})
		},
		func() error {
			return s.write(t.Context(), 0, func(t *tx) error {
				if err := t.exec(t.w.setRecord, "alice", "half", t.next(), nil, []byte("v")); err != nil {
					return err
				}
				return refused
			})
		},
	}
	for i := range 20 {
		calls = append(calls, func() error { return put(t, s, fmt.Sprint("key-", i), []byte("v")) })
	}
	errs := together(t, s, calls...)
	if !errors.Is(errs[0], sessions.ErrConflict) {
		t.Errorf("%v, want ErrConflict", errs[0])
	}
	if !errors.Is(errs[1], refused) || !errors.Is(errs[1], sessions.ErrUnavailable) {
		t.Errorf("%v, want what the database said", errs[1])
	}
	for _, err := range errs[2:] {
		must(t, err)
	}
	got, err := s.Read(t.Context(), "alice", "x", "half", "key-0", "key-19")
	must(t, err)
	if got[0].Version != 0 || got[1].Version != 0 || got[2].Version == 0 || got[3].Version == 0 {
		t.Errorf("read %+v", got)
	}
}

// The context of a call ends its wait for the writer, and a call whose wait was ended has done nothing.
func TestWriter_TheWaitEndsWithTheContext(t *testing.T) {
	s := openWithConfig(t, config(tempPath(t)))
	release := hold(t, s)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	err := s.Commit(ctx, "alice", sessions.Commit{Writes: []sessions.Write{{Key: "x"}}})
	if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, sessions.ErrUnavailable) {
		t.Errorf("%v, want ErrUnavailable for the deadline", err)
	}
	release()
	must(t, put(t, s, "y", nil))
	if got, err := s.Read(t.Context(), "alice", "x"); err != nil || got[0].Version != 0 {
		t.Errorf("%v, %v", got, err)
	}
}

// Close answers those that the writer has begun, and refuses those that wait.
func TestWriter_CloseWaitsForWhatIsUnderWay(t *testing.T) {
	s := openWithConfig(t, config(tempPath(t)))
	release := hold(t, s)
	waiting := make(chan error)
	go func() { waiting <- put(t, s, "x", nil) }()
	time.Sleep(20 * time.Millisecond)
	closed := make(chan error)
	go func() { closed <- s.Close() }()
	if err := <-waiting; !errors.Is(err, sessions.ErrUnavailable) {
		t.Errorf("a call that waits: %v", err)
	}
	select {
	case <-closed:
		t.Error("closed while a transaction was under way")
	case <-time.After(50 * time.Millisecond):
	}
	release()
	must(t, <-closed)
}

// Records whose time is over and segments of deleted journals leave the file, a few at a time.
func TestWriter_WhatIsOverIsSwept(t *testing.T) {
	cfg := config(tempPath(t))
	cfg.PurgeEvery = 5 * time.Millisecond
	var clock sync.Mutex
	now := time.Now()
	cfg.Now = func() time.Time {
		clock.Lock()
		defer clock.Unlock()
		return now
	}
	s := openWithConfig(t, cfg)
	var c sessions.Commit
	for i := range 3 * sweepRows {
		c.Writes = append(c.Writes, sessions.Write{Key: fmt.Sprint("key-", i), TTL: time.Hour})
	}
	must(t, s.Commit(t.Context(), "alice", c))
	must(t, segments(t, s, "gone", 3*sweepRows))
	must(t, put(t, s, "kept", nil))
	must(t, s.Commit(t.Context(), "alice", sessions.Commit{Writes: []sessions.Write{{Key: "kept longer", TTL: 3 * time.Hour}}}))
	must(t, fill(t, s, "kept", 1, 10))
	must(t, s.DeleteJournal(t.Context(), "alice", "gone"))
	clock.Lock()
	now = now.Add(2 * time.Hour)
	clock.Unlock()
	var left string
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		var records, segments, garbage int
		must(t, s.readerDB.QueryRow("SELECT (SELECT count(*) FROM records), (SELECT count(*) FROM segments), (SELECT count(*) FROM garbage)").Scan(&records, &segments, &garbage))
		if left = fmt.Sprint(records, segments, garbage); left == "2 1 0" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("records, segments, garbage: %s, want 2 1 0", left)
		}
	}
}

// A journal with many segments is trimmed in steps that others can get between; the result is that of one.
func TestWriter_TrimsInSteps(t *testing.T) {
	s := openWithConfig(t, config(tempPath(t)))
	must(t, segments(t, s, "j", 3*sweepRows+10))
	before := s.Stats().Transactions
	const upto = 4*sweepRows + 101 // in the middle of a segment
	must(t, s.Compact(t.Context(), "alice", "j", 1, upto, nil))
	if n := s.Stats().Transactions - before; n != 3 {
		t.Errorf("%d transactions, want 3", n)
	}
	info, err := s.JournalInfo(t.Context(), "alice", "j")
	must(t, err)
	if left := int64(2*(3*sweepRows+10) - upto); info.First != upto+1 || info.Events != left || info.Bytes != left {
		t.Errorf("%+v, want %d events from %d", info, left, upto+1)
	}
}

// A full disk fails the write and names the file; what is there can be read; Check is red until there is room again.
func TestN1_FullDisk(t *testing.T) {
	cfg := config(tempPath(t))
	cfg.MaxBytes = minMaxBytes
	s := openWithConfig(t, cfg)
	must(t, s.Check(t.Context()))
	must(t, put(t, s, "small", []byte("v")))
	var err error
	n := 0
	for ; err == nil; n++ {
		err = fill(t, s, fmt.Sprint("journal-", n), 10, 5000)
	}
	if !errors.Is(err, sessions.ErrUnavailable) || !strings.Contains(err.Error(), cfg.Path) || !strings.Contains(err.Error(), "no space is left") {
		t.Errorf("%v, want ErrUnavailable that names the file and says why", err)
	}
	if err := s.Check(t.Context()); !errors.Is(err, sessions.ErrUnavailable) || !strings.Contains(err.Error(), cfg.Path) {
		t.Errorf("check on a full disk: %v", err)
	}
	if err := put(t, s, "large", make([]byte, 100_000)); !errors.Is(err, sessions.ErrUnavailable) {
		t.Errorf("writing to a full disk: %v", err)
	}
	got, err := s.Read(t.Context(), "alice", "small", "large")
	must(t, err)
	if string(got[0].Value) != "v" || got[1].Version != 0 {
		t.Errorf("read %+v", got)
	}
	for i := range n - 1 {
		info, err := s.JournalInfo(t.Context(), "alice", fmt.Sprint("journal-", i))
		must(t, err)
		if info.Events != 10 {
			t.Errorf("journal %d has %d events", i, info.Events)
		}
	}
	for i := range n - 1 {
		must(t, s.DeleteJournal(t.Context(), "alice", fmt.Sprint("journal-", i)))
	}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		if err = s.Check(t.Context()); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("check with room again: %v", err)
		}
	}
	must(t, s.Check(t.Context()))
	must(t, fill(t, s, "again", 10, 5000))
	must(t, put(t, s, "large", make([]byte, 100_000)))
}
