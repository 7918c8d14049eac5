package storetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/acpgate/acpgate/sessions"
)

func testCloseAndContext(t *testing.T, b Backend) {
	s := b.Open(t)
	openJournal(t, s, "j", 1, 1)
	commit(t, s, set("x", "1"))
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.Read(gone, "alice", "x")
	wantErr(t, "reading for somebody who is gone", err, context.Canceled)
	if errors.Is(err, sessions.ErrUnavailable) {
		t.Errorf("somebody who is gone makes the store unavailable: %v", err)
	}
	if err := s.Commit(gone, "alice", sessions.Commit{Writes: []sessions.Write{set("x", "2")}}); !errors.Is(err, context.Canceled) {
		t.Errorf("committing for somebody who is gone: %v", err)
	}
	wantValue(t, s, "alice", "x", "1")

	c, err := s.Watch(t.Context(), "alice")
	must(t, err)
	must(t, s.Close())
	must(t, s.Close())
	for range c { // until it is closed
	}
	for name, err := range map[string]error{
		"commit":  s.Commit(t.Context(), "alice", sessions.Commit{Writes: []sessions.Write{set("x", "1")}}),
		"append":  appendRun(t, s, run("j", 1, 1, 1)),
		"compact": s.Compact(t.Context(), "alice", "j", 1, 0, nil),
		"close":   s.CloseJournal(t.Context(), "alice", "j", 1),
		"delete":  s.DeleteJournal(t.Context(), "alice", "j"),
		"check":   s.Check(t.Context()),
	} {
		wantErr(t, name+" after Close", err, sessions.ErrUnavailable)
	}
	_, err = s.Read(t.Context(), "alice", "x")
	wantErr(t, "read after Close", err, sessions.ErrUnavailable)
	_, err = s.Scan(t.Context(), "alice", "i", sessions.Query{})
	wantErr(t, "scan after Close", err, sessions.ErrUnavailable)
	_, err = s.ReadJournal(t.Context(), "alice", "j", 0, 0)
	wantErr(t, "reading a journal after Close", err, sessions.ErrUnavailable)
	_, err = s.JournalInfo(t.Context(), "alice", "j")
	wantErr(t, "info after Close", err, sessions.ErrUnavailable)
	_, err = s.OpenJournal(t.Context(), "alice", "j", 1, 1)
	wantErr(t, "opening a journal after Close", err, sessions.ErrUnavailable)
	_, err = s.Watch(t.Context(), "alice")
	wantErr(t, "watching after Close", err, sessions.ErrUnavailable)
}

func testReopen(t *testing.T, b Backend) {
	s := b.Open(t)
	commit(t, s, set("x", "1"), sessions.Write{Key: "brief", Value: []byte("1"), TTL: time.Millisecond}, sessions.Write{Key: "long", Value: []byte("1"), TTL: time.Hour})
	version := read(t, s, "alice", "x")[0].Version
	setRows(t, s, "i", sessions.IndexRow{Member: "m", Score: 5, Value: []byte("v")})
	openJournal(t, s, "clean", 3, 7)
	openJournal(t, s, "left", 4, 9)
	openJournal(t, s, "deleted", 1, 50)
	must(t, appendRun(t, s, run("clean", 3, 1, 20)))
	must(t, appendRun(t, s, run("left", 4, 1, 20)))
	must(t, s.Compact(t.Context(), "alice", "left", 4, 7, nil))
	must(t, s.CloseJournal(t.Context(), "alice", "clean", 3))
	must(t, s.DeleteJournal(t.Context(), "alice", "deleted"))
	time.Sleep(5 * time.Millisecond)
	must(t, s.Close())

	s = b.Open(t)
	wantValue(t, s, "alice", "x", "1")
	wantValue(t, s, "alice", "long", "1")
	wantValue(t, s, "alice", "brief", "-")
	if got := read(t, s, "alice", "x")[0].Version; got != version {
		t.Errorf("version %d, it was %d", got, version)
	}
	commit(t, s, set("x", "2"), set("new", "1"))
	for _, r := range read(t, s, "alice", "x", "new") {
		if r.Version <= version {
			t.Errorf("%s has version %d after %d", r.Key, r.Version, version)
		}
	}
	if rows := scan(t, s, "i", sessions.Query{}); len(rows) != 1 || rows[0].Score != 5 || string(rows[0].Value) != "v" {
		t.Errorf("index rows %v", rows)
	}
	wantErr(t, "a fence from before", appendRun(t, s, run("left", 3, 21, 21)), sessions.ErrFenced)
	if got := openJournal(t, s, "clean", 3, 0); got.Epoch != 7 || !got.Clean || got.Next != 21 {
		t.Errorf("a journal that was closed: %+v", got)
	}
	if got := openJournal(t, s, "left", 5, 0); got.Epoch != 10 || got.Clean || got.First != 8 || got.Next != 21 {
		t.Errorf("a journal that was left open: %+v", got)
	}
	if got := openJournal(t, s, "deleted", 1, 0); got.Epoch != 51 {
		t.Errorf("a journal that was deleted: %+v", got)
	}
	wantEvents(t, readAll(t, s, "alice", "clean", 0, 0), 1, 20)
	wantEvents(t, readAll(t, s, "alice", "left", 0, 0), 8, 20)
	must(t, s.Close())
}

// N3: a takeover fences the owner off, whatever it still tries, and the two never interleave.
func testTakeOver(t *testing.T, b Backend) {
	old, next := open(t, b), open(t, b)
	openJournal(t, old, "j", 1, 1)
	must(t, appendRun(t, old, run("j", 1, 1, 10)))
	done := make(chan error)
	started := make(chan struct{})
	go func() { // the old owner does not know yet
		for seq := uint64(11); ; seq++ {
			if err := old.Append(t.Context(), []sessions.Run{run("j", 1, seq, seq)})[0]; err != nil {
				done <- err
				return
			}
			if seq == 30 {
				close(started)
			}
		}
	}()
	<-started
	state := openJournal(t, next, "j", 2, 0)
	if state.Epoch != 2 || state.Clean {
		t.Errorf("taken over: %+v", state)
	}
	must(t, appendRun(t, next, run("j", 2, state.Next, state.Next+5)))
	wantErr(t, "the old owner ends with", <-done, sessions.ErrFenced)
	wantErr(t, "the old owner compacts", old.Compact(t.Context(), "alice", "j", 1, 5, nil), sessions.ErrFenced)
	wantErr(t, "the old owner closes", old.CloseJournal(t.Context(), "alice", "j", 1), sessions.ErrFenced)
	_, err := old.OpenJournal(t.Context(), "alice", "j", 1, 9)
	wantErr(t, "the old owner opens", err, sessions.ErrFenced)
	wantEvents(t, readAll(t, old, "alice", "j", 0, 0), 1, state.Next+5)
}
