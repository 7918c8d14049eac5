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
	v.waking, v.muted = false, false
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
	asleep := v.asleep
	v.mu.Unlock()
	if asleep != nil {
		select {
		case <-ctx.Done():
			return callEnded(ctx)
		case <-asleep:
		}
	}
	proc, err := m.cfg.Agents.Acquire(ctx, v.principal, v.agentName, v.cwd)
	if err != nil {
		return err
	}
	v.mu.Lock()
	prompted, id := v.prompted, v.bound.Load().id
	v.mu.Unlock()
	var res callResult
	if prompted {
		res = m.reload(ctx, v, proc, id)
	} else {
		res = m.renew(ctx, v, proc)
	}
	if res.err != nil {
		m.giveBack(proc, res, id)
		return res.err
	}
	v.mu.Lock()
	if v.closed {
		v.mu.Unlock()
		m.closeAtAgent(ctx, proc, v.bound.Load().id, false)
		return errNotFound(v.handle)
	}
	v.proc = proc
	v.setOpened(res.raw)
	mode, config := v.snap.mode, v.configValues()
	v.mu.Unlock()
	m.reapply(ctx, v, proc, mode, config)
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

// reload opens the session that the agent has: resumed if it can, else loaded with the replay left out.
func (m *Manager) reload(ctx context.Context, v *View, proc Agent, id string) callResult {
	method := "session/resume"
	if !proc.Info().Resume {
		method = reopenMethod(proc.Info())
	}
	if method == "" {
		return callResult{err: errCannotReopen(v.handle, v.agentName)}
	}
	v.mu.Lock()
	v.muted = true
	v.mu.Unlock()
	if err := proc.Bind(id, v.session); err != nil {
		return callResult{err: err}
	}
	return callMethod(ctx, proc, method, paramsFor(v.openParams, id))
}

// renew makes a new session for a view that never had a prompt: agents keep nothing of such a session, so there is nothing
// to load, and nothing is lost. The handle stays.
func (m *Manager) renew(ctx context.Context, v *View, proc Agent) callResult {
	f := mustFrame(wire.AppendRequest(nil, []byte("0"), "session/new", paramsFor(v.openParams, "")))
	return call(ctx, proc, f, nil, func(r Reply) error {
		id, err := wire.Unquote(r.Frame.SessionID.Of(r.Frame.Raw))
		if err != nil || id == "" {
			return &Error{Code: CodeInternal, Reason: "agent_error", Message: "The agent made a session without an id"}
		}
		v.mu.Lock()
		v.bindTo(id)
		v.mu.Unlock()
		return proc.Bind(id, v.session)
	})
}

// configValues returns the current values of the session's config options by id. Under mu.
func (v *View) configValues() map[string]json.RawMessage {
	line := v.snap.lines["config_option_update"]
	if line == nil {
		return nil
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
func (m *Manager) reapply(ctx context.Context, v *View, proc Agent, mode string, config map[string]json.RawMessage) {
	id := v.bound.Load().id
	v.mu.Lock()
	now := configValues(v.opened["configOptions"])
	var modes struct {
		Current string `json:"currentModeId"`
	}
	hasModes := json.Unmarshal(v.opened["modes"], &modes) == nil && modes.Current != ""
	v.mu.Unlock()
	set := func(method string, members map[string]any) {
		members["sessionId"] = id
		if res := callMethod(ctx, proc, method, mustJSON(members)); res.err != nil {
			m.log.Info("setting could not be applied again", "view", v.handle, "method", method, "err", res.err)
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
