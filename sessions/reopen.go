package sessions

import (
	"context"
	"encoding/json"

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
	case t == nil || t.running:
		v.stateChanged()
	case err != nil:
		m.log.Warn("view could not be woken", "view", v.handle, "agent", v.agentName, "err", err)
		v.endTurn(t, nil, AsError(err).Object())
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
		res = m.renew(ctx, s, proc)
	}
	id := s.bound.Load().id
	if res.err != nil {
		m.giveBack(proc, res, id)
		return res.err
	}
	s.mu.Lock()
	s.muted = false
	if s.proc != nil || m.session(s.key()) != s {
		s.mu.Unlock()
		m.closeAtAgent(ctx, proc, id, false)
		return errNotFound(id)
	}
	s.proc, s.openIn = proc, proc.Process()
	mode, config := s.snap.mode, s.configValues()
	if res.raw != nil {
		s.setOpened(res.raw)
	}
	s.mu.Unlock()
	m.reapply(ctx, s, proc, mode, config)
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
// load, and nothing is lost. The handle of its view stays.
func (m *Manager) renew(ctx context.Context, s *session, proc Agent) callResult {
	f := mustFrame(wire.AppendRequest(nil, []byte("0"), "session/new", paramsFor(s.openParams, "")))
	return call(ctx, proc, f, nil, func(r Reply) error {
		id, err := newSessionID(r.Frame)
		if err != nil {
			return err
		}
		s.mu.Lock()
		old := s.bound.Load().id
		if err := m.rename(s, id); err != nil {
			s.mu.Unlock()
			return err
		}
		if v := s.view; v != nil && v.home == old {
			v.home = id
		}
		s.mu.Unlock()
		m.keep(s)
		s.mu.Lock()
		if s.view != nil {
			s.view.save()
		}
		s.mu.Unlock()
		return proc.Bind(id, s)
	})
}

// configValues returns the current values of the session's config options by id. Under mu.
func (s *session) configValues() map[string]json.RawMessage {
	line := s.snap.lines["config_option_update"]
	if line == nil {
		return configValues(s.opened["configOptions"]) // as they were when it was opened
	}
	f := mustFrame(line)
	return configValues(wire.Lookup(f.Update.Of(line), "configOptions").Of(f.Update.Of(line)))
}

func configValues(options []byte) map[string]json.RawMessage {
	var list []struct {
		ID    string          `json:"id"`
		Value json.RawMessage `json:"currentValue"`
	}
	if json.Unmarshal(options, &list) != nil {
		return nil
	}
	out := map[string]json.RawMessage{}
	for _, o := range list {
		out[o.ID] = o.Value
	}
	return out
}

// reapply sets the mode and the config options that the view had where the reopened session came back with others. A
// session that no longer offers a value keeps its own.
func (m *Manager) reapply(ctx context.Context, s *session, proc Agent, mode string, config map[string]json.RawMessage) {
	id := s.bound.Load().id
	s.mu.Lock()
	now := configValues(s.opened["configOptions"])
	var modes struct {
		Current string `json:"currentModeId"`
	}
	hasModes := json.Unmarshal(s.opened["modes"], &modes) == nil && modes.Current != ""
	s.mu.Unlock()
	set := func(method string, members map[string]any) {
		members["sessionId"] = id
		if res := callMethod(ctx, proc, method, mustJSON(members)); res.err != nil {
			m.log.Info("setting could not be applied again", "session", id, "method", method, "err", res.err)
		}
	}
	if hasModes && mode != "" && mode != modes.Current {
		set("session/set_mode", map[string]any{"modeId": mode})
	}
	for k, x := range now {
		if want := config[k]; want != nil && string(want) != string(x) {
			set("session/set_config_option", map[string]any{"configId": k, "value": want})
		}
	}
}
