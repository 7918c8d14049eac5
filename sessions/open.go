package sessions

import (
	"context"
	"encoding/json"

	"github.com/acpgate/acpgate/agentpool/wire"
	"github.com/acpgate/acpgate/sessions/journal"
)

type openParams struct {
	SessionID             string            `json:"sessionId"`
	Cwd                   string            `json:"cwd"`
	AdditionalDirectories []string          `json:"additionalDirectories"`
	MCPServers            []json.RawMessage `json:"mcpServers"`
	Meta                  struct {
		Gate struct {
			View  bool        `json:"view"`
			After *cursorData `json:"after"`
		} `json:"acpgate"`
	} `json:"_meta"`
}

// Open serves session/new, session/load, session/resume and session/fork. The reply to f leaves through the attachment:
// first for new, resume and fork, behind the replay for load. ctx is the lifetime of the request; when it ends first, a
// session that the agent still makes is closed again.
func (m *Manager) Open(ctx context.Context, c Client, f *wire.Frame) (*Attachment, error) {
	var p openParams
	if err := json.Unmarshal(f.Params.Of(f.Raw), &p); err != nil {
		return nil, errParams("bad params of "+f.Method+": "+err.Error(), "see the ACP schema of the method")
	}
	if m.draining.Load() {
		return nil, &Error{Code: CodeInternal, Reason: "draining", Message: "The gateway is shutting down", Hint: "reconnect and try again"}
	}
	cwd, err := m.checkDir("cwd", p.Cwd)
	if err != nil {
		return nil, err
	}
	for _, d := range p.AdditionalDirectories {
		if _, err := m.checkDir("additionalDirectories", d); err != nil {
			return nil, err
		}
	}
	if f.Method != "session/new" && p.SessionID == "" {
		return nil, errParams(f.Method+" needs params.sessionId", "list the sessions with session/list")
	}
	ctx, cancel := context.WithTimeout(ctx, m.cfg.CallTimeout)
	defer cancel()
	switch f.Method {
	case "session/new":
		return m.openNew(ctx, c, f, cwd)
	case "session/load":
		return m.openExisting(ctx, c, f, p, cwd, true)
	case "session/resume":
		return m.openExisting(ctx, c, f, p, cwd, false)
	case "session/fork":
		return m.fork(ctx, c, f, p, cwd)
	}
	return nil, &Error{Code: CodeMethodNotFound, Reason: "method_not_found", Message: "Method not found: " + clip(f.Method, 100)}
}

func (m *Manager) openNew(ctx context.Context, c Client, f *wire.Frame, cwd string) (*Attachment, error) {
	v, raw, err := m.create(ctx, c.Principal(), c.Agent(), cwd, f, nil)
	if err != nil {
		return nil, err
	}
	return m.enter(v, c, f, raw)
}

// enter attaches the client to a view that was just made for it, at its beginning, with the reply in front.
func (m *Manager) enter(v *View, c Client, f *wire.Frame, raw []byte) (*Attachment, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	start := journal.Cursor{Epoch: v.journal.Epoch()}
	a, err := v.newAttachment(c, v.handle, start)
	if err != nil {
		return nil, err
	}
	a.stages[0].replay = 0 // nothing of it was there before
	a.anchorAt(0, waiter{a, f.ID.Of(f.Raw)}, reply{result: raw, meta: v.openedMeta(start, "")})
	if a.optedIn {
		a.snapshotFrames(0, false)
	}
	m.audit.Info("session opened", "principal", v.principal, "conn", c.ID(), "view", v.handle, "agent", v.agentName, "method", f.Method, "cwd", v.cwd)
	return a, nil
}

// create makes a session at the agent with the params of f, which is a session/new or session/fork, and a view on it. prep
// runs before the agent's lines can reach the view. It returns the agent's raw result.
func (m *Manager) create(ctx context.Context, principal, agent, cwd string, f *wire.Frame, prep func(*View)) (*View, []byte, error) {
	if err := m.room(principal); err != nil {
		return nil, nil, err
	}
	proc, err := m.cfg.Agents.Acquire(ctx, principal, agent, cwd)
	if err != nil {
		return nil, nil, err
	}
	v := m.newView(principal, agent, cwd)
	if prep != nil {
		prep(v)
	}
	return m.createIn(ctx, v, proc, f)
}

// createIn is create in a process that was acquired; it owns proc.
func (m *Manager) createIn(ctx context.Context, v *View, proc Agent, f *wire.Frame) (*View, []byte, error) {
	agentFrame := withServers(f, proc.Info().MCPServers)
	v.openParams = paramsOf(agentFrame)
	res := call(ctx, proc, agentFrame, nil, func(r Reply) error {
		// On the reader goroutine: lines of the session that came before the response are delivered by Bind, behind it.
		return m.adopt(v, proc, r)
	})
	if res.err != nil {
		if res.late != nil {
			// The agent may still make the session. Whoever asked is gone: close it again.
			m.spawn(func(ctx context.Context) { m.discardLate(ctx, proc, v, res.late) })
			return nil, nil, res.err
		}
		proc.Release()
		return nil, nil, res.err
	}
	return v, res.raw, nil
}

// adopt binds the session that the agent has just made.
func (m *Manager) adopt(v *View, proc Agent, r Reply) error {
	var id string
	if tok := r.Frame.SessionID.Of(r.Frame.Raw); tok != nil {
		id, _ = wire.Unquote(tok) // a token of a frame that was parsed
	}
	if id == "" {
		return &Error{Code: CodeInternal, Reason: "agent_error", Message: "The agent made a session without an id", Hint: "check the agent's version"}
	}
	v.mu.Lock()
	v.bindTo(id)
	v.proc = proc
	v.setOpened(r.Frame.Result.Of(r.Frame.Raw))
	v.mu.Unlock()
	if v.bound.Load().id == v.handle {
		if err := m.add(v); err != nil {
			return err
		}
	}
	if err := proc.Bind(id, v.session); err != nil {
		m.remove(v)
		return err
	}
	return nil
}

// setOpened keeps what the agent said when it opened the session. Under mu.
func (v *View) setOpened(result []byte) {
	v.opened = map[string]json.RawMessage{}
	// A null result, which some agents give, leaves the map as it is.
	if json.Unmarshal(result, &v.opened) != nil || v.opened == nil {
		v.opened = map[string]json.RawMessage{}
	}
	var modes struct {
		Current string `json:"currentModeId"`
	}
	if json.Unmarshal(v.opened["modes"], &modes) == nil && v.snap.mode == "" {
		v.snap.mode = modes.Current
	}
}

func (m *Manager) discardLate(ctx context.Context, proc Agent, v *View, late <-chan callResult) {
	select {
	case <-ctx.Done():
		proc.Release()
	case r := <-late:
		if r.err != nil {
			proc.Release()
			return
		}
		m.end(ctx, v, true)
	}
}

// openExisting serves session/load and session/resume: a live view is joined (rule V2: never opened twice), any other
// session is opened at the agent, with its history captured into our journal.
func (m *Manager) openExisting(ctx context.Context, c Client, f *wire.Frame, p openParams, cwd string, load bool) (*Attachment, error) {
	v, err := m.live(ctx, c, f, p, cwd)
	if err != nil {
		return nil, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed {
		return nil, errNotFound(p.SessionID)
	}
	head := v.journal.Head()
	from, resync := head, ""
	if load {
		from = v.journal.Start()
	}
	after := p.Meta.Gate.After
	if after != nil && c.Features().OptedIn {
		from = journal.Cursor{Epoch: after.Epoch, Seq: after.Seq}
	}
	a, err := v.newAttachment(c, v.handle, from)
	switch {
	case err == journal.ErrEpoch:
		resync = "epoch"
	case err == journal.ErrTrimmed:
		resync = "trimmed"
	}
	if resync != "" {
		from = v.journal.Start()
		a, err = v.newAttachment(c, v.handle, from)
	}
	if err != nil {
		return nil, err
	}
	w := waiter{a, f.ID.Of(f.Raw)}
	r := reply{result: v.joinResult(), meta: v.openedMeta(from, resync)}
	complete := after != nil || load // what is sent contains the current values, unless its beginning was trimmed
	if load {
		r.meta = v.openedMeta(head, resync)
		a.anchorAt(head.Seq, w, r)
		a.snapshotFrames(head.Seq, v.journal.Trimmed())
	} else {
		a.anchorAt(from.Seq, w, r)
		a.snapshotFrames(from.Seq, !complete || resync != "")
	}
	v.checkAnswerable()
	m.audit.Info("session opened", "principal", v.principal, "conn", c.ID(), "view", v.handle, "agent", v.agentName, "method", f.Method, "cwd", v.cwd)
	return a, nil
}

// live returns the view of an existing session, opening it at the agent unless it is live or somebody is opening it.
func (m *Manager) live(ctx context.Context, c Client, f *wire.Frame, p openParams, cwd string) (*View, error) {
	k := viewKey{c.Principal(), c.Agent(), p.SessionID}
	for {
		m.mu.Lock()
		if v := m.views[k]; v != nil {
			m.mu.Unlock()
			return v, nil
		}
		if ch := m.closing[k]; ch != nil {
			m.mu.Unlock()
			select {
			case <-ctx.Done():
				return nil, callEnded(ctx)
			case <-ch:
			}
			continue
		}
		o := m.opening[k]
		if o == nil {
			o = &opening{done: make(chan struct{})}
			m.opening[k] = o
			m.mu.Unlock()
			o.view, o.err = m.openAtAgent(ctx, k, f, cwd)
			o.gaveUp = ctx.Err() != nil
			m.mu.Lock()
			delete(m.opening, k)
			m.mu.Unlock()
			close(o.done)
			return o.view, o.err
		}
		m.mu.Unlock()
		select {
		case <-ctx.Done():
			return nil, callEnded(ctx)
		case <-o.done:
			if o.err != nil && !o.gaveUp {
				return nil, o.err
			}
			// It is open, or whoever was opening it went away: look again.
		}
	}
}

// openAtAgent opens an existing session by the history ladder: the agent's session/load, captured, else session/resume,
// else it cannot be had.
func (m *Manager) openAtAgent(ctx context.Context, k viewKey, f *wire.Frame, cwd string) (*View, error) {
	if err := m.room(k.principal); err != nil {
		return nil, err
	}
	proc, err := m.cfg.Agents.Acquire(ctx, k.principal, k.agent, cwd)
	if err != nil {
		return nil, err
	}
	info := proc.Info()
	v := m.newView(k.principal, k.agent, cwd)
	v.bindTo(k.handle)
	v.proc, v.prompted = proc, true
	method := reopenMethod(info)
	if method == "" {
		proc.Release()
		return nil, errCannotReopen(k.handle, k.agent)
	}
	agentFrame := withServers(withMethod(f, method), info.MCPServers)
	v.openParams = paramsOf(agentFrame)
	if err := proc.Bind(k.handle, v.session); err != nil {
		proc.Release()
		return nil, err
	}
	res := call(ctx, proc, agentFrame, nil, nil)
	if res.err != nil {
		m.giveBack(proc, res, k.handle)
		return nil, res.err
	}
	if method == "session/load" && !m.believable(ctx, proc, v) {
		// An agent that "loads" an id which neither it nor we know made something up.
		m.closeAtAgent(ctx, proc, k.handle, false)
		return nil, errNotFound(k.handle)
	}
	v.mu.Lock()
	v.setOpened(res.raw)
	if method == "session/resume" {
		v.notice("The agent cannot give the history of this session; what was said before is not shown here.")
	}
	v.mu.Unlock()
	if err := m.add(v); err != nil {
		m.closeAtAgent(ctx, proc, k.handle, false)
		return nil, err
	}
	return v, nil
}

// believable reports whether a session that loaded without any history exists: we know it, or the agent lists it.
func (m *Manager) believable(ctx context.Context, proc Agent, v *View) bool {
	if v.journal.Head().Seq > 0 && v.hasMessages() {
		return true
	}
	if m.known.has(v.session) {
		return true
	}
	if !proc.Info().List {
		return false
	}
	found := false
	err := walkList(ctx, proc, v.cwd, func(r listRow) bool {
		found = r.SessionID == v.handle
		return !found
	})
	return err == nil && found
}

func (v *View) hasMessages() bool {
	has := false
	v.eachUpdate(func(f *wire.Frame) bool {
		has = isMessage(f)
		return !has
	})
	return has
}

func reopenMethod(i *AgentInfo) string {
	switch {
	case i.LoadSession:
		return "session/load"
	case i.Resume:
		return "session/resume"
	}
	return ""
}

func errCannotReopen(id, agent string) *Error {
	e := errNotFound(id)
	e.Reason = "cannot_reopen"
	e.Hint = "agent " + agent + " can neither load nor resume sessions: start a new one with session/new"
	return e
}
