package sessions

import (
	"context"
	"time"

	"github.com/acpgate/acpgate/agentpool/wire"
)

// CloseSession serves session/close (rule V12): the turn is cancelled and waited for, then the session is closed at the
// agent. What is stored of it stays. Closing what is not open succeeds.
func (m *Manager) CloseSession(ctx context.Context, c Client, f *wire.Frame) ([]byte, error) {
	id, err := sessionOf(f)
	if err != nil {
		return nil, err
	}
	if !possibleID(id) {
		return []byte("{}"), nil // nobody can know it
	}
	v := m.lookup(c, id)
	if v == nil {
		if v, err = m.restoreView(ctx, c, id); err != nil { // one that sleeps in the store ends like any other
			return nil, err
		}
	}
	if v == nil {
		m.markID(sessKey(c, id)) // closing the unknown succeeds, and joins the closed-set
	} else {
		m.audit.Info("session closed", "principal", v.principal, "conn", c.ID(), "view", v.handle)
		m.stopTurn(ctx, v)
		m.end(ctx, v, false)
	}
	return []byte("{}"), nil
}

// DeleteSession serves session/delete (rule V13): stop the turn, close, delete at the agent, or hide the session from our
// lists where the agent cannot delete. Deleting what nobody knows succeeds.
func (m *Manager) DeleteSession(ctx context.Context, c Client, f *wire.Frame) ([]byte, error) {
	id, err := sessionOf(f)
	if err != nil {
		return nil, err
	}
	if !possibleID(id) {
		return []byte("{}"), nil
	}
	m.audit.Info("session deleted", "principal", c.Principal(), "conn", c.ID(), "view", id)
	ctx, cancel := context.WithTimeout(ctx, m.cfg.CallTimeout)
	defer cancel()
	if !possibleID(id) {
		return []byte("{}"), nil // nobody can know it
	}
	if err := m.known.recall(ctx, c.Principal(), c.Agent()); err != nil {
		return nil, err
	}
	if m.lookup(c, id) == nil {
		if _, err := m.restoreView(ctx, c, id); err != nil { // one that sleeps in the store ends like any other
			return nil, err
		}
	}
	session, err := m.letGo(ctx, c, id)
	if err != nil {
		return nil, err
	}
	if err := m.deleteID(ctx, session); err != nil {
		return nil, err
	}
	return []byte("{}"), nil
}

// letGo frees the session that a delete of id means: the view whose primary handle it is is closed; any other view that is
// bound to the session moves to a fresh one.
func (m *Manager) letGo(ctx context.Context, c Client, id string) (viewKey, error) {
	k := sessKey(c, id)
	m.mu.Lock()
	v := m.views[k]
	m.mu.Unlock()
	if v != nil {
		v.mu.Lock()
		k.handle = v.home
		v.mu.Unlock()
		m.stopTurn(ctx, v)
		m.end(ctx, v, false)
	}
	s := m.session(k)
	if s == nil {
		return k, nil
	}
	s.mu.Lock()
	other := s.view
	s.mu.Unlock()
	if other == nil {
		return k, nil
	}
	m.stopTurn(ctx, other)
	done := make(chan error, 1)
	other.mu.Lock()
	err := other.begin(&move{
		lost: true,
		open: func(ctx context.Context) (*session, error) { return m.fresh(ctx, other) },
		report: func(*View, int) string {
			return "The session was deleted elsewhere. A new one; nothing was said in it yet."
		},
		finished: func(err error) { done <- err },
	})
	other.mu.Unlock()
	if err != nil {
		return k, err
	}
	select {
	case <-ctx.Done():
		return k, callEnded(ctx)
	case err := <-done:
		return k, err
	}
}

// deleteID deletes a session that no view is bound to: it is closed, then deleted at the agent. It stays out of our lists
// whatever the agent does, so a late save does not bring it back (rule V13).
func (m *Manager) deleteID(ctx context.Context, k viewKey) error {
	m.markID(k)
	m.voidSlots(k)
	m.known.drop(k.principal, k.agent, k.handle) // first: whoever is opening it looks there last
	if s := m.session(k); s != nil {
		if !m.retire(ctx, s, false) {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.view != nil {
				return errInUse(s.view)
			}
			return errNotFound(k.handle)
		}
		m.discard(s)
	} else if m.keeper != nil {
		m.unsaveSession(k)
	}
	err := m.deleteAtAgent(ctx, k)
	if e := m.keeper.flush(ctx); err == nil && e != nil {
		return errStore(e) // what was said to be deleted must not be there after a crash
	}
	return err
}

func (m *Manager) deleteAtAgent(ctx context.Context, k viewKey) error {
	proc, err := m.cfg.Agents.Control(ctx, k.principal, k.agent)
	if err != nil {
		return err
	}
	defer proc.Release()
	if !proc.Info().Delete {
		return nil
	}
	if res := callMethod(ctx, proc, "session/delete", sessionParams(k.handle)); res.err != nil && AsError(res.err).Code != CodeNotFound {
		return res.err
	}
	return nil
}

func sessionOf(f *wire.Frame) (string, error) {
	id, err := wire.Unquote(f.SessionID.Of(f.Raw))
	if err != nil || id == "" {
		return "", errParams(f.Method+" needs params.sessionId", "send the session's id")
	}
	return id, nil
}

// stopTurn cancels what runs and waits for its end, at most Config.CloseWait.
func (m *Manager) stopTurn(ctx context.Context, v *View) {
	v.mu.Lock()
	v.cancel()
	v.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, m.cfg.CloseWait)
	defer cancel()
	t := time.NewTicker(5 * time.Millisecond)
	defer t.Stop()
	for {
		v.mu.Lock()
		running := v.turn != nil
		v.mu.Unlock()
		if !running {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}

// end closes a view for good. Its session is closed at the agent and kept, or forgotten and deleted at the agent if remove
// is set (rule L3: an empty session that we made).
func (m *Manager) end(ctx context.Context, v *View, remove bool) {
	if !v.shut(errSessionClosed()) {
		return
	}
	m.markClosed(v)
	v.mu.Lock()
	v.unsave() // before the view is gone from memory, so that nobody brings it back from the store
	v.mu.Unlock()
	m.remove(v)
	v.mu.Lock()
	s := v.session
	remove = remove || !s.prompted // rule L3
	s.park()
	if !remove {
		s.rest()
	}
	done := s.asleep
	v.mu.Unlock()
	if remove {
		m.retire(ctx, s, true)
		return
	}
	if done != nil {
		select {
		case <-ctx.Done():
		case <-done:
		}
	}
}

// retire forgets a session that no view is bound to, closes it at the agent, and deletes it there if remove is set. False, and
// nothing happened, if a view is bound to it by now.
func (m *Manager) retire(ctx context.Context, s *session, remove bool) bool {
	s.mu.Lock()
	if s.view != nil {
		s.mu.Unlock()
		return false
	}
	done := m.forget(s)
	p := s.end()
	s.mu.Unlock()
	defer done()
	if remove {
		m.discard(s)
	}
	if p != nil {
		m.closeAtAgent(ctx, p, s.bound.Load().id, remove)
	}
	return true
}

// end takes the session's process away for good. Under mu.
func (s *session) end() Agent {
	p := s.proc
	s.proc, s.gone = nil, true
	if s.parked != nil {
		s.parked.Stop()
	}
	s.journal.Close()
	return p
}

// discard stops storing what happens in a session and removes what is stored of it.
func (m *Manager) discard(s *session) {
	if m.keeper == nil {
		return
	}
	s.discarded.Store(true)
	s.journal.Persist(nil)
	s.journal.Failed(errNotFound(s.bound.Load().id)) // whoever waits for the store need not
	m.unsaveSession(s.key())
}

func errSessionClosed() *Error {
	return &Error{Code: CodeCancelled, Reason: "session_closed", Message: "The session was closed", Hint: "load it again to go on"}
}

func errStopped() *Error {
	return &Error{Code: CodeInternal, Reason: "gateway_stopped", Message: "The gateway stopped before the turn ended", Hint: "reconnect; what was said is kept"}
}

// shut marks the view closed. What waits is answered; attachments read the last events at their own pace. False: it was
// closed before.
func (v *View) shut(why *Error) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed {
		return false
	}
	v.closed, v.stopped = true, why.Reason == "gateway_stopped"
	for _, t := range []*time.Timer{v.idle, v.alone} {
		if t != nil {
			t.Stop()
		}
	}
	for _, id := range append([]int64(nil), v.reqOrder...) {
		v.answerCancelled(v.requests[id], "")
	}
	gone := why.Object()
	q := v.queue
	v.queue = nil
	for _, t := range q {
		v.endTurn(t, nil, gone)
	}
	if v.turn != nil {
		v.endTurn(v.turn, nil, gone)
	} else {
		v.stateChanged()
	}
	waiting := v.onWake
	v.onWake = nil
	for _, f := range waiting {
		f(errNotFound(v.handle))
	}
	return true
}
