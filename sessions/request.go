package sessions

import (
	"context"

	"github.com/acpgate/acpgate/agentpool/wire"
)

// callKey names an open call of a client in a view.
type callKey struct {
	att *Attachment
	id  string
}

// Request takes a session-scoped request of the client: session/prompt, session/set_mode, session/set_config_option,
// _acpgate/force_stop, _acpgate/queue_cancel, and whatever else names the session, which is passed to the agent. The reply
// leaves through Pull, unless an error is returned: then the caller answers. f is owned by the view from here on.
func (a *Attachment) Request(f *wire.Frame) error {
	v := a.v
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed {
		return errNotFound(a.handle)
	}
	switch f.Method {
	case "session/prompt":
		return v.prompt(a, f)
	case "_acpgate/force_stop":
		others, kill := v.forceStop()
		v.m.audit.Info("force stop", "principal", v.principal, "conn", a.c.ID(), "view", v.handle, "otherSessions", others)
		a.anchorAt(v.journal.Head().Seq, waiter{a, f.ID.Of(f.Raw)}, reply{result: mustJSON(map[string]int{"otherSessions": others})})
		kill()
		return nil
	case "_acpgate/merge_preview":
		return v.preview(a, waiter{a, f.ID.Of(f.Raw)})
	case "_acpgate/merge":
		return v.sendNote(a, waiter{a, f.ID.Of(f.Raw)}, f.Params.Of(f.Raw))
	case "_acpgate/queue_cancel":
		params := f.Params.Of(f.Raw)
		id, err := wire.Unquote(wire.Lookup(params, "turn").Of(params))
		if err != nil || id == "" {
			return errParams("_acpgate/queue_cancel needs params.turn", "send the turn id of the queue in _acpgate/state")
		}
		if !v.dequeue(func(t *turn) bool { return t.id == id }) {
			return errParams("No such prompt is waiting: "+clip(id, 64), "it has started or ended meanwhile; session/cancel stops a running turn")
		}
		a.anchorAt(v.journal.Head().Seq, waiter{a, f.ID.Of(f.Raw)}, reply{result: []byte("{}")})
		return nil
	}
	return v.pass(a, f)
}

// pass hands a request to the agent and anchors the response where the agent wrote it. Under mu.
func (v *View) pass(a *Attachment, f *wire.Frame) error {
	if len(v.calls)+len(v.onWake) >= v.m.cfg.CallsPerView {
		return &Error{Code: CodeInternal, Reason: "too_many_calls", Message: "Too many open requests in this session", Hint: "wait for the answers"}
	}
	v.touch()
	w := waiter{a, f.ID.Of(f.Raw)}
	if v.proc == nil {
		v.onWake = append(v.onWake, func(err error) {
			if err == nil {
				err = v.write(w, f)
			}
			if err != nil {
				a.anchorAt(v.journal.Head().Seq, w, reply{errObj: AsError(err).Object()})
			}
		})
		v.wake()
		return nil
	}
	return v.write(w, f)
}

func (v *View) write(w waiter, f *wire.Frame) error {
	if v.proc == nil {
		return &Error{Code: CodeInternal, Reason: "agent_exited", Message: "The agent ended", Hint: "send the request again"}
	}
	key := callKey{w.att, wire.CanonicalID(w.id)}
	g, edits := v.rebind(f)
	of := v.session // the view may be elsewhere when the answer comes
	id, err := v.proc.Request(g, edits, func(r Reply) {
		v.mu.Lock()
		defer v.mu.Unlock()
		delete(v.calls, key)
		rep := reply{}
		switch {
		case r.Err != nil:
			rep.errObj = AsError(r.Err).Object()
		case r.Frame.Kind == wire.Failure:
			rep.errObj = agentFailure(r.Frame.Error.Of(r.Frame.Raw), w.att.handle).Object()
		default:
			rep.result = append([]byte(nil), r.Frame.Result.Of(r.Frame.Raw)...)
		}
		w.att.anchorAt(v.journal.Head().Seq, w, rep)
		if rep.errObj == nil {
			of.settingChanged(f.Method, f.Params.Of(f.Raw), rep.result)
		}
	})
	if err != nil {
		return err
	}
	if v.calls == nil {
		v.calls = map[callKey]CallID{}
	}
	v.calls[key] = id
	return nil
}

// Notify takes a session-scoped notification of the client.
func (a *Attachment) Notify(f *wire.Frame) {
	v := a.v
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed {
		return
	}
	if f.Method == "session/cancel" {
		v.cancel()
		return
	}
	if v.proc == nil {
		return
	}
	g, edits := v.rebind(f)
	if err := v.proc.Notify(g, edits); err != nil {
		v.m.log.Warn("notification could not be written", "view", v.handle, "method", clip(f.Method, 64), "err", err)
	}
}

// CancelRequest takes the client's $/cancel_request for its request id (raw JSON): a waiting prompt is answered -32800, of
// anything that the agent has, the agent is told under its own id (rule W4).
func (a *Attachment) CancelRequest(id []byte) {
	v := a.v
	key := wire.CanonicalID(id)
	mine := func(t *turn) bool {
		for _, w := range t.waiters {
			if w.att == a && wire.CanonicalID(w.id) == key {
				return true
			}
		}
		return false
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.dequeue(mine) || v.proc == nil {
		return
	}
	if t := v.turn; t != nil && t.running && mine(t) {
		v.proc.CancelRequest(t.call)
		return
	}
	if c, ok := v.calls[callKey{a, key}]; ok {
		v.proc.CancelRequest(c)
	}
}

// Call passes a request that names no open session to a process of the principal: authenticate, logout, extensions
// (rule W12). It returns the agent's raw result.
func (m *Manager) Call(ctx context.Context, c Client, f *wire.Frame) ([]byte, error) {
	proc, err := m.cfg.Agents.Control(ctx, c.Principal(), c.Agent())
	if err != nil {
		return nil, err
	}
	defer proc.Release()
	var edits []wire.Edit
	if e, ok := f.StripGateMeta(); ok {
		edits = append(edits, e)
	}
	res := call(ctx, proc, f, edits, nil)
	return res.raw, res.err
}

// Notify passes on a notification that names no session. Nothing is started for it: without a running process it is
// dropped, as are those that only concern the connection ($/...).
func (m *Manager) Notify(c Client, f *wire.Frame) {
	if len(f.Method) > 1 && f.Method[:2] == "$/" {
		return
	}
	m.mu.Lock()
	var views []*View
	for k, v := range m.views {
		if k.principal == c.Principal() && k.agent == c.Agent() {
			views = append(views, v)
		}
	}
	m.mu.Unlock()
	for _, v := range views {
		v.mu.Lock()
		p := v.proc
		v.mu.Unlock()
		if p != nil {
			if err := p.Notify(f, nil); err != nil {
				m.log.Warn("notification could not be written", "method", clip(f.Method, 64), "err", err)
			}
			return
		}
	}
}
