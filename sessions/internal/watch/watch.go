// Package watch hands the changes of a store to those who watch them, without ever making the one who tells wait.
package watch

import (
	"context"
	"sync"

	"github.com/acpgate/acpgate/sessions"
)

// MaxPending bounds the keys that wait for one slow watcher; beyond, it is told that changes were lost.
const MaxPending = 1024

// Hub knows the watchers of each principal. The zero Hub is ready.
type Hub struct {
	mu       sync.Mutex
	watchers map[string]map[*watcher]struct{}
	closed   bool
	wg       sync.WaitGroup
}

type watcher struct {
	wake chan struct{} // of size 1
	done chan struct{} // closed by Close

	mu      sync.Mutex
	pending []string
	seen    map[string]struct{} // what is in pending
	lost    bool
}

// Watch returns a channel of what is told about principal from now on. It is closed when ctx ends or the hub is closed;
// left, if not nil, is called then, before that. On a closed hub it returns nil.
func (h *Hub) Watch(ctx context.Context, principal string, left func()) <-chan sessions.Change {
	w := &watcher{wake: make(chan struct{}, 1), done: make(chan struct{}), seen: map[string]struct{}{}}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil
	}
	if h.watchers == nil {
		h.watchers = map[string]map[*watcher]struct{}{}
	}
	if h.watchers[principal] == nil {
		h.watchers[principal] = map[*watcher]struct{}{}
	}
	h.watchers[principal][w] = struct{}{}
	out := make(chan sessions.Change)
	h.wg.Go(func() {
		defer close(out)
		w.pass(ctx, out)
		h.remove(principal, w)
		if left != nil {
			left()
		}
	})
	return out
}

func (h *Hub) remove(principal string, w *watcher) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.watchers[principal], w)
	if len(h.watchers[principal]) == 0 {
		delete(h.watchers, principal)
	}
}

// Tell tells the watchers of principal that keys have changed.
func (h *Hub) Tell(principal string, keys ...string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for w := range h.watchers[principal] {
		w.add(keys)
	}
}

// Lost tells the watchers of principal that changes may have been lost.
func (h *Hub) Lost(principal string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for w := range h.watchers[principal] {
		w.lose()
	}
}

// Close ends all watches and waits for their goroutines.
func (h *Hub) Close() {
	h.mu.Lock()
	if !h.closed {
		h.closed = true
		for _, ws := range h.watchers {
			for w := range ws {
				close(w.done)
			}
		}
	}
	h.mu.Unlock()
	h.wg.Wait()
}

func (w *watcher) add(keys []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, key := range keys {
		if _, ok := w.seen[key]; ok || w.lost {
			continue
		}
		if len(w.pending) == MaxPending {
			w.drop()
			break
		}
		w.seen[key] = struct{}{}
		w.pending = append(w.pending, key)
	}
	w.notify()
}

func (w *watcher) lose() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.drop()
	w.notify()
}

func (w *watcher) drop() {
	w.lost, w.pending = true, nil
	clear(w.seen)
}

func (w *watcher) notify() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// take returns what waits, one change at a time; a key that changes again while its change is handed over waits anew.
func (w *watcher) take() (c sessions.Change, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lost {
		w.lost = false
		return sessions.Change{Lost: true}, true
	}
	if len(w.pending) == 0 {
		return sessions.Change{}, false
	}
	key := w.pending[0]
	w.pending = w.pending[1:]
	delete(w.seen, key)
	return sessions.Change{Key: key}, true
}

func (w *watcher) pass(ctx context.Context, out chan<- sessions.Change) {
	for {
		for c, ok := w.take(); ok; c, ok = w.take() {
			select {
			case out <- c:
			case <-w.done:
				return
			case <-ctx.Done():
				return
			}
		}
		select {
		case <-w.wake:
		case <-w.done:
			return
		case <-ctx.Done():
			return
		}
	}
}
