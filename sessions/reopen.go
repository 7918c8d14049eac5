package sessions

import (
	"context"

	"github.com/acpgate/acpgate/agentpool/wire"
)

// reopen wakes a view: its session is opened again in a process, without its history, which our journal has (rule V20).
// Then the prompt and the calls that wait go on, or fail with the reason.
func (m *Manager) reopen(ctx context.Context, v *View) {
	ctx, cancel := context.WithTimeout(ctx, m.cfg.CallTimeout)
	defer cancel()
	err := m.reopenAtAgent(ctx, v)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.waking = false
	waiting := v.onWake
	v.onWake = nil
	for _, f := range waiting {
		f(err)
	}
	t := v.turn
	switch {
	case t == nil || t.running || t.slash: // nothing that the agent should get
		v.stateChanged()
	case err != nil:
		m.log.Warn("view could not be woken", "view", v.handle, "agent", v.agentName, "err", err)
		v.endTurn(t, nil, AsError(err).Object())
	case !t.ready: // it goes on by itself once it is stored
		v.stateChanged()
	default:
		v.stateChanged()
		v.send(t)
	}
}

func (m *Manager) reopenAtAgent(ctx context.Context, v *View) error {
	v.mu.Lock()
	s := v.session
	v.mu.Unlock()
	return m.openAgain(ctx, s)
}

// openAgain opens a session that we hold, but whose process is gone or which was put to sleep, without its history.
func (m *Manager) openAgain(ctx context.Context, s *session) error {
	s.mu.Lock()
	asleep, prompted := s.asleep, s.prompted
	s.mu.Unlock()
	if asleep != nil {
		select {
		case <-ctx.Done():
			return callEnded(ctx)
		case <-asleep:
		}
	}
	proc, err := m.cfg.Agents.Acquire(ctx, s.principal, s.agentName, s.cwd)
	if err != nil {
		return err
	}
	var res callResult
	if prompted {
		res = m.reload(ctx, s, proc)
	} else {
		var made string
		if res, made = m.renew(ctx, s, proc); res.err != nil && made != "" {
			m.closeAtAgent(ctx, proc, made, true)
			return res.err
		}
	}
	id := s.bound.Load().id
	if res.err != nil {
		m.giveBack(proc, res, id)
		return res.err
	}
	s.mu.Lock()
	s.muted = false
	if s.proc != nil || s.gone {
		s.mu.Unlock()
		m.closeAtAgent(ctx, proc, id, false)
		return errNotFound(id)
	}
	s.proc, s.openIn = proc, proc.Process()
	want := settings{s.snap.mode, s.configValues()}
	if res.raw != nil {
		s.setReopened(res.raw)
	}
	now := s.openedSettings()
	s.mu.Unlock()
	m.reapply(ctx, s, proc, now, want)
	return nil
}

// giveBack releases a process after an open that failed. One that was only given up may still succeed: then the session is
// closed again.
func (m *Manager) giveBack(proc Agent, res callResult, id string) {
	if res.late == nil {
		proc.Release()
		return
	}
	m.spawn(func(ctx context.Context) { m.closeLate(ctx, proc, res.late, id) })
}

// closeLate waits for an open that was given up, and closes the session if it was opened after all.
func (m *Manager) closeLate(ctx context.Context, proc Agent, late <-chan callResult, id string) {
	select {
	case <-ctx.Done():
		proc.Release()
	case r := <-late:
		if r.err != nil {
			proc.Release()
			return
		}
		m.closeAtAgent(ctx, proc, id, false)
	}
}

// reload opens the session that the agent has: resumed if it can, else loaded with the replay left out. In a process where
// it is still open, because the agent cannot close sessions, nothing is asked of the agent (rule V2).
func (m *Manager) reload(ctx context.Context, s *session, proc Agent) callResult {
	method := "session/resume"
	if !proc.Info().Resume {
		method = reopenMethod(proc.Info())
	}
	id := s.bound.Load().id
	s.mu.Lock()
	open := s.openIn == proc.Process()
	s.muted = !open
	s.mu.Unlock()
	if method == "" && !open {
		return callResult{err: errCannotReopen(id, s.agentName)}
	}
	if err := proc.Bind(id, s); err != nil {
		return callResult{err: err}
	}
	if open {
		return callResult{}
	}
	return callMethod(ctx, proc, method, paramsFor(s.openParams, id))
}

// renew makes a new session for one that never had a prompt: agents keep nothing of such a session, so there is nothing to
// load, and nothing is lost. The handle of its view stays. When it fails, made is a session that the agent has made all the same.
func (m *Manager) renew(ctx context.Context, s *session, proc Agent) (res callResult, made string) {
	f := mustFrame(wire.AppendRequest(nil, []byte("0"), "session/new", paramsFor(s.openParams, "")))
	res = call(ctx, proc, f, nil, func(r Reply) error {
		id, err := newSessionID(r.Frame)
		if err != nil {
			return err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		old := s.key()
		if err := m.rename(s, id); err != nil {
			if sessionsReason(err) != "session_in_use" { // that one is somebody else's
				made = id
			}
			return err
		}
		made = id
		m.known.rename(old, s.key())
		s.save() // the keeper moves the journal when it sees the new name
		if v := s.view; v != nil {
			if v.home == old.handle {
				v.home = id
			}
			v.save()
		}
		return proc.Bind(id, s)
	})
	return res, made
}
