package sessions

import (
	"context"
	"time"
)

// evict takes a view that sleeps, and that nobody is attached to, out of memory. The store has all of it: the next client
// that asks for it brings it back.
func (m *Manager) evict(ctx context.Context, v *View) {
	if !m.flushed(ctx, v.current()) {
		v.mu.Lock()
		v.touch() // later, then
		v.mu.Unlock()
		return
	}
	v.mu.Lock()
	if v.closed || len(v.atts) > 0 || !v.quiet() || v.proc != nil {
		v.touch()
		v.mu.Unlock()
		return
	}
	v.closed = true // whoever has just looked it up looks again
	s := v.session
	s.park()
	v.mu.Unlock()
	m.mu.Lock()
	if k := v.key(); m.views[k] == v {
		delete(m.views, k)
		for a, x := range m.aliases {
			if x == v {
				delete(m.aliases, a)
			}
		}
		if m.perUser[v.principal]--; m.perUser[v.principal] == 0 {
			delete(m.perUser, v.principal)
		}
	}
	m.mu.Unlock()
	m.evictSession(ctx, s)
}

// current is the view's session.
func (v *View) current() *session {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.session
}

// evictWait bounds how long an eviction waits for the store.
const evictWait = 10 * time.Second

// evictSession takes a session that no view is bound to out of memory, once all of it is stored. Until its journal is closed
// nobody brings it back.
func (m *Manager) evictSession(ctx context.Context, s *session) {
	s.mu.Lock()
	if s.view == nil && s.proc == nil && !s.gone {
		s.save()
	}
	s.mu.Unlock()
	stored := m.flushed(ctx, s)
	s.mu.Lock()
	switch {
	case s.view != nil || s.proc != nil || s.gone: // taken in this moment
		s.mu.Unlock()
		return
	case !stored:
		s.park()
		s.mu.Unlock()
		return
	}
	done := m.forget(s)
	s.end()
	s.mu.Unlock()
	defer done()
	if s.storedAs == "" || !s.journal.AllStored() {
		return
	}
	if err := m.keeper.store.CloseJournal(ctx, s.principal, s.storedAs, s.fence); err != nil {
		m.log.Warn("journal could not be closed", "session", s.bound.Load().id, "err", err)
	}
}

// flushed waits until the store has all of s.
func (m *Manager) flushed(ctx context.Context, s *session) bool {
	ctx, cancel := context.WithTimeout(ctx, evictWait)
	defer cancel()
	t := time.NewTicker(keepLinger)
	defer t.Stop()
	for m.keeper.flush(ctx) == nil {
		if s.journal.AllStored() {
			return true
		}
		select {
		case <-ctx.Done():
		case <-t.C:
		}
	}
	return false
}
