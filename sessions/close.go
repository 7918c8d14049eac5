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
	if v := m.lookup(c, id); v != nil {
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
	session := id
	if v := m.lookup(c, id); v != nil {
		session = v.bound.Load().id
		m.stopTurn(ctx, v)
		m.end(ctx, v, false)
	}
	m.audit.Info("session deleted", "principal", c.Principal(), "conn", c.ID(), "view", id)
	ctx, cancel := context.WithTimeout(ctx, m.cfg.CallTimeout)
	defer cancel()
	proc, err := m.cfg.Agents.Control(ctx, c.Principal(), c.Agent())
	if err != nil {
		return nil, err
	}
	defer proc.Release()
	if proc.Info().Delete {
		if res := callMethod(ctx, proc, "session/delete", sessionParams(session)); res.err != nil && AsError(res.err).Code != CodeNotFound {
			return nil, res.err
		}
	}
	hidden := m.known.drop(c.Principal(), c.Agent(), session, !proc.Info().Delete)
	if hidden && proc.Info().List {
		return mustJSON(map[string]any{"_meta": map[string]any{"acpgate": map[string]any{"hidden": true}}}), nil
	}
	return []byte("{}"), nil
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

// end closes a view for good. An empty session is deleted at the agent too, if we made it (rule L3).
func (m *Manager) end(ctx context.Context, v *View, remove bool) {
	proc, ok := v.shut()
	if !ok {
		return
	}
	defer m.leave(v)()
	if proc == nil {
		return
	}
	m.closeAtAgent(ctx, proc, v.bound.Load().id, remove)
}

// shut marks the view closed and takes its process away. What waits is answered; attachments read the last events at
// their own pace. False: it was closed before.
func (v *View) shut() (Agent, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed {
		return nil, false
	}
	v.closed = true
	for _, t := range []*time.Timer{v.idle, v.alone} {
		if t != nil {
			t.Stop()
		}
	}
	for _, id := range append([]int64(nil), v.reqOrder...) {
		v.answerCancelled(v.requests[id], "")
	}
	gone := (&Error{Code: CodeCancelled, Reason: "session_closed", Message: "The session was closed", Hint: "load it again to go on"}).Object()
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
	p := v.proc
	v.proc = nil
	v.journal.Close()
	return p, true
}
