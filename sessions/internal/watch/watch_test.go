package watch_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"github.com/acpgate/acpgate/sessions"
	"github.com/acpgate/acpgate/sessions/internal/watch"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// drain returns what a watcher gets without waiting for more.
func drain(c <-chan sessions.Change) (out []sessions.Change) {
	for {
		synctest.Wait()
		select {
		case change, ok := <-c:
			if !ok {
				return out
			}
			out = append(out, change)
		default:
			return out
		}
	}
}

func TestHub_ChangesReachTheirWatchersMergedAndInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h watch.Hub
		a, b := h.Watch(t.Context(), "alice", nil), h.Watch(t.Context(), "alice", nil)
		other := h.Watch(t.Context(), "bob", nil)
		h.Tell("alice", "x")
		synctest.Wait() // x is on its way: the next change of it is another one
		h.Tell("alice", "y", "z", "y")
		h.Tell("alice", "z", "x")
		for _, c := range []<-chan sessions.Change{a, b} {
			if got := fmt.Sprint(drain(c)); got != "[{x false} {y false} {z false} {x false}]" {
				t.Errorf("told %s", got)
			}
		}
		if got := drain(other); got != nil {
			t.Errorf("another principal was told %v", got)
		}
		h.Close()
		if _, ok := <-a; ok {
			t.Error("the channel is open after Close")
		}
		if h.Watch(t.Context(), "alice", nil) != nil {
			t.Error("a closed hub takes a watcher")
		}
	})
}

func TestHub_ASlowWatcherIsToldThatItLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h watch.Hub
		defer h.Close()
		slow := h.Watch(t.Context(), "alice", nil)
		for i := range 3 * watch.MaxPending {
			h.Tell("alice", fmt.Sprint(i))
		}
		got := drain(slow)
		if n := len(got); n > watch.MaxPending+2 || !slices.Contains(got, sessions.Change{Lost: true}) {
			t.Errorf("got %d changes, none of which is the loss, or too many", n)
		}
		h.Tell("alice", "after")
		if got := drain(slow); len(got) != 1 || got[0].Key != "after" {
			t.Errorf("after a loss: %v", got)
		}
		h.Lost("alice")
		if got := drain(slow); len(got) != 1 || !got[0].Lost {
			t.Errorf("lost: %v", got)
		}
	})
}

func TestHub_AWatchEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h watch.Hub
		defer h.Close()
		ctx, cancel := context.WithCancel(t.Context())
		left := 0
		c := h.Watch(ctx, "alice", func() { left++ })
		h.Tell("alice", "never read")
		cancel()
		for range c { // ends
		}
		if left != 1 {
			t.Errorf("left was called %d times", left)
		}
		h.Tell("alice", "x")
	})
}
