package storetest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/acpgate/acpgate/sessions"
)

// patience is how long a test waits for what must come.
const patience = 10 * time.Second

// await reads changes until every key of want was told. Others may come too: they were on their way. It fails on what
// must never be told.
func await(t testing.TB, c <-chan sessions.Change, want ...string) {
	t.Helper()
	missing := map[string]bool{}
	for _, key := range want {
		missing[key] = true
	}
	timeout := time.After(patience)
	for len(missing) > 0 {
		select {
		case change, open := <-c:
			if !open || change.Lost || strings.HasPrefix(change.Key, "never") {
				t.Fatalf("told %+v (open: %v), want %v", change, open, want)
			}
			delete(missing, change.Key)
		case <-timeout:
			t.Fatalf("not told of %v", missing)
		}
	}
}

func follow(t testing.TB, s sessions.Store, principal string) (<-chan sessions.Change, context.CancelFunc) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	c, err := s.Watch(ctx, principal)
	must(t, err)
	return c, cancel
}

func testWatch(t *testing.T, b Backend) {
	s := open(t, b)
	commit(t, s, set("before", "1"))
	c, cancel := follow(t, s, "alice")
	other, _ := follow(t, s, "bob")
	must(t, s.Commit(t.Context(), "carol", sessions.Commit{Writes: []sessions.Write{set("never told to others", "1")}}))
	commit(t, s, set("x", "1"), set("y", "1"))
	await(t, c, "x", "y")
	commit(t, s, sessions.Write{Key: "x", Delete: true})
	await(t, c, "x")
	if err := s.Commit(t.Context(), "alice", sessions.Commit{Expect: []sessions.Expect{{Key: "none", Version: 1}}, Writes: []sessions.Write{set("never written", "")}}); err == nil {
		t.Error("a commit that expects what is not there went through")
	}
	openJournal(t, s, "j", 1, 1)
	await(t, c, "journal:j")
	for _, err := range []error{
		appendRun(t, s, run("j", 1, 1, 5)),
		s.Compact(t.Context(), "alice", "j", 1, 2, nil),
		s.CloseJournal(t.Context(), "alice", "j", 1),
		s.DeleteJournal(t.Context(), "alice", "j"),
	} {
		must(t, err)
	}
	commit(t, s, set("mark", "1")) // comes after all of these
	await(t, c, "journal:j", "mark")
	// A second watch of the same principal, and a watch that ends, are nothing to the others.
	again, cancelAgain := follow(t, s, "alice")
	cancel()
	for range c { // until it is closed
	}
	commit(t, s, set("x", "2"))
	await(t, again, "x")
	cancelAgain()
	for range again { // until it is closed
	}
	must(t, s.Commit(t.Context(), "bob", sessions.Commit{Writes: []sessions.Write{set("bobs", "1")}}))
	await(t, other, "bobs")
	third, _ := follow(t, s, "alice")
	commit(t, s, set("z", "2"))
	await(t, third, "z")
	// Names are told as they are.
	for _, name := range strange {
		commit(t, s, set(name, ""))
		await(t, third, name)
	}
}

// Whoever does not read is told in the end that changes were lost, and nobody waits for it.
func testWatchSlow(t *testing.T, b Backend) {
	s := open(t, b)
	slow, _ := follow(t, s, "alice")
	for i := range 5 {
		var writes []sessions.Write
		for k := range 500 {
			writes = append(writes, set(fmt.Sprintf("%d-%d", i, k), ""))
		}
		commit(t, s, writes...)
	}
	witness, _ := follow(t, s, "alice")
	commit(t, s, set("end", ""))
	for c := range witness {
		if c.Lost || c.Key == "end" { // some of the many may still be on their way
			break
		}
	}
	timeout := time.After(patience)
	for n := 0; ; n++ {
		select {
		case c := <-slow:
			if c.Lost {
				commit(t, s, set("after", ""))
				for c := range slow {
					if c.Key == "after" {
						return
					}
				}
				t.Fatal("closed")
			}
			if n > 2000 {
				t.Fatalf("%d changes are kept for a watcher that does not read", n)
			}
		case <-timeout:
			t.Fatal("not told that changes were lost")
		}
	}
}

func testWatchOfSecond(t *testing.T, b Backend) {
	a, z := open(t, b), open(t, b)
	c, _ := follow(t, a, "alice")
	own, _ := follow(t, z, "alice")
	commit(t, z, set("x", "1"))
	await(t, c, "x")
	await(t, own, "x")
	openJournal(t, z, "j", 1, 1)
	must(t, appendRun(t, z, run("j", 1, 1, 1)))
	await(t, c, "journal:j")
	wantEvents(t, readAll(t, a, "alice", "j", 0, 0), 1, 1)
}
