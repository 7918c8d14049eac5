package sessions

import (
	"context"
	"time"
)

// evict takes a view that sleeps, and that nobody is attached to, out of memory. The store has all of it: the next client
// that asks for it brings it back.
func (m *Manager) evict(ctx context.Context, v *View) {
	v.mu.Lock()
	if v.closed || len(v.atts) > 0 || !v.quiet() || v.proc != nil {
		v.mu.Unlock()
		return
	}
	v.closed = true // whoever has just looked it up looks again
	s := v.session
	s.view = nil
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

// evictWait bounds how long an eviction waits for the store.
const evictWait = 10 * time.Second

// evictSession takes a session that no view is bound to out of memory, once all of it is stored.
func (m *Manager) evictSession(ctx context.Context, s *session) {
	ctx, cancel := context.WithTimeout(ctx, evictWait)
	defer cancel()
	s.mu.Lock()
	busy := s.view != nil || s.proc != nil
	if !busy {
		s.save()
	}
	s.mu.Unlock()
	if busy || !m.flushed(ctx, s) {
		return
	}
	done := m.forget(s)
	defer done()
	s.mu.Lock()
	busy = s.view != nil
	s.mu.Unlock()
	if busy { // taken in this moment
		m.mu.Lock()
		m.sessions[s.key()] = s
		m.mu.Unlock()
		return
	}
	s.end()
	if err := m.keeper.store.CloseJournal(ctx, s.principal, s.journalName(), s.fence); err != nil {
		m.log.Warn("journal could not be closed", "session", s.bound.Load().id, "err", err)
	}
}

// flushed waits until the keeper has nothing of s left to store.
func (m *Manager) flushed(ctx context.Context, s *session) bool {
	t := time.NewTicker(keepLinger)
	defer t.Stop()
	for {
		if events, gap := s.journal.Unstored(1); len(events) == 0 && !gap && !m.keeper.hasNews() {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-t.C:
		}
	}
}
