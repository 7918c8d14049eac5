package sessions

import (
	"context"
	"encoding/json"

	"github.com/acpgate/acpgate/agentpool/wire"
)

func sessKey(c Client, id string) viewKey { return viewKey{c.Principal(), c.Agent(), id} }

// makeSession makes a session at the agent with the params of f, a session/new, in a process with room for it. It returns
// the agent's raw result.
func (m *Manager) makeSession(ctx context.Context, principal, agent, cwd string, f *wire.Frame) (*session, []byte, error) {
	if err := m.room(principal); err != nil {
		return nil, nil, err
	}
	proc, err := m.cfg.Agents.Acquire(ctx, principal, agent, cwd)
	if err != nil {
		return nil, nil, err
	}
	s := m.newSession(principal, agent, cwd)
	raw, err := m.makeIn(ctx, s, proc, f)
	if err != nil {
		s.journal.Close()
	}
	return s, raw, err
}

// makeIn is makeSession in a process that was acquired, also for session/fork; it owns proc.
func (m *Manager) makeIn(ctx context.Context, s *session, proc Agent, f *wire.Frame) ([]byte, error) {
	agentFrame := withServers(f, proc.Info().MCPServers)
	s.openParams = paramsOf(agentFrame)
	res := call(ctx, proc, agentFrame, nil, func(r Reply) error {
		// On the reader goroutine: lines of the session that came before the response are delivered by Bind, behind it.
		return m.made(s, proc, r)
	})
	if res.err != nil {
		if res.late != nil {
			// The agent may still make the session. Whoever asked is gone: close it again.
			m.spawn(func(ctx context.Context) { m.discardLate(ctx, proc, s, res.late) })
		} else {
			proc.Release()
		}
		return nil, res.err
	}
	return res.raw, nil
}

// made binds the session that the agent has just made.
func (m *Manager) made(s *session, proc Agent, r Reply) error {
	id, err := newSessionID(r.Frame)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.name(id)
	s.proc = proc
	s.openIn = proc.Process()
	s.setOpened(r.Frame.Result.Of(r.Frame.Raw))
	s.offerCommands()
	s.mu.Unlock()
	if err := m.addSession(s); err != nil {
		return err
	}
	m.known.back(s) // an id that was used before names another session now
	m.keep(s)
	if err := proc.Bind(id, s); err != nil {
		m.removeSession(s)
		return err
	}
	return nil
}

func newSessionID(f *wire.Frame) (string, error) {
	id, err := wire.Unquote(f.SessionID.Of(f.Raw))
	if err != nil || id == "" {
		return "", &Error{Code: CodeInternal, Reason: "agent_error", Message: "The agent made a session without an id", Hint: "check the agent's version"}
	}
	if !possibleID(id) {
		return "", &Error{
			Code: CodeInternal, Reason: "agent_error", Message: "The agent made a session whose id is too long or has a NUL: " + clip(id, 128),
			Hint: "check the agent's version", Data: mustJSON(map[string]int{"limit": maxSessionID}),
		}
	}
	return id, nil
}

// name sets the session's id. Under mu.
func (s *session) name(id string) { s.bound.Store(&binding{id, wire.AppendQuote(nil, id)}) }

// key names the session among those of its principal.
func (s *session) key() viewKey { return viewKey{s.principal, s.agentName, s.bound.Load().id} }

// setOpened keeps what the agent said when it opened the session. Under mu.
func (s *session) setOpened(result []byte) {
	s.opened = map[string]json.RawMessage{}
	// A null result, which some agents give, leaves the map as it is.
	if json.Unmarshal(result, &s.opened) != nil || s.opened == nil {
		s.opened = map[string]json.RawMessage{}
	}
	var modes struct {
		Current string `json:"currentModeId"`
	}
	if json.Unmarshal(s.opened["modes"], &modes) == nil && s.snap.mode == "" {
		s.snap.mode = modes.Current
	}
}

func (m *Manager) discardLate(ctx context.Context, proc Agent, s *session, late <-chan callResult) {
	select {
	case <-ctx.Done():
		proc.Release()
	case r := <-late:
		if r.err != nil {
			proc.Release()
			return
		}
		m.retire(ctx, s, true)
	}
}

// hold returns the session of k if we hold it or the store has it, else nil.
func (m *Manager) hold(ctx context.Context, k viewKey) (*session, error) {
	return m.acquire(ctx, k, nil, "")
}

// acquire returns the session of k: the one we hold, or the one the store has, or else opened at the agent, once, however many ask at the same time
// (rule V2).
func (m *Manager) acquire(ctx context.Context, k viewKey, f *wire.Frame, cwd string) (*session, error) {
	for {
		m.mu.Lock()
		if ch := m.closing[k]; ch != nil {
			m.mu.Unlock()
			select {
			case <-ctx.Done():
				return nil, callEnded(ctx)
			case <-ch:
			}
			continue
		}
		if s := m.sessions[k]; s != nil {
			m.mu.Unlock()
			return s, nil
		}
		o := m.opening[k]
		if o == nil {
			o = &opening{done: make(chan struct{})}
			m.opening[k] = o
			m.mu.Unlock()
			o.session, o.err = m.restoreSession(ctx, k)
			if o.session == nil && o.err == nil && f != nil {
				o.session, o.err = m.openAtAgent(ctx, k, f, cwd)
			}
			if o.session != nil && m.known.hidden(k.principal, k.agent, k.handle) { // it was deleted meanwhile (rule V13)
				m.retire(ctx, o.session, true)
				o.session, o.err = nil, errNotFound(k.handle)
			}
			o.gaveUp = ctx.Err() != nil
			m.mu.Lock()
			delete(m.opening, k)
			m.mu.Unlock()
			close(o.done)
			return o.session, o.err
		}
		m.mu.Unlock()
		select {
		case <-ctx.Done():
			return nil, callEnded(ctx)
		case <-o.done:
			if (o.err != nil && !o.gaveUp) || (f == nil && o.session == nil) {
				return nil, o.err
			}
			// It is open, or whoever was opening it went away: look again.
		}
	}
}

// openAtAgent opens an existing session by the history ladder: the agent's session/load, captured, else session/resume,
// else it cannot be had.
func (m *Manager) openAtAgent(ctx context.Context, k viewKey, f *wire.Frame, cwd string) (*session, error) {
	if err := m.room(k.principal); err != nil {
		return nil, err
	}
	proc, err := m.cfg.Agents.Acquire(ctx, k.principal, k.agent, cwd)
	if err != nil {
		return nil, err
	}
	info := proc.Info()
	s := m.newSession(k.principal, k.agent, cwd)
	s.name(k.handle)
	s.proc, s.prompted = proc, true
	method := reopenMethod(info)
	if method == "" {
		proc.Release()
		return nil, errCannotReopen(k.handle, k.agent)
	}
	agentFrame := withServers(withMethod(f, method), info.MCPServers)
	s.openParams = paramsOf(agentFrame)
	if err := proc.Bind(k.handle, s); err != nil {
		proc.Release()
		return nil, err
	}
	opened := false
	defer func() {
		if !opened {
			s.journal.Close()
		}
	}()
	res := call(ctx, proc, agentFrame, nil, nil)
	if res.err != nil {
		m.giveBack(proc, res, k.handle)
		return nil, res.err
	}
	if method == "session/load" && !m.believable(ctx, proc, s) {
		// An agent that "loads" an id which neither it nor we know made something up.
		m.closeAtAgent(ctx, proc, k.handle, false)
		return nil, errNotFound(k.handle)
	}
	s.mu.Lock()
	s.setOpened(res.raw)
	s.openIn = proc.Process()
	s.noHistory = method == "session/resume"
	s.offerCommands()
	s.mu.Unlock()
	if err := m.addSession(s); err != nil {
		m.closeAtAgent(ctx, proc, k.handle, false)
		return nil, err
	}
	opened = true
	m.keep(s)
	return s, nil
}

// keep stores a new session and what happens in it from now on. It is parked until a view takes it.
func (m *Manager) keep(s *session) {
	m.keeper.follow(s)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.save()
	if s.view == nil {
		s.park()
	}
}

// believable reports whether a session that loaded without any history exists: we know it, or the agent lists it.
func (m *Manager) believable(ctx context.Context, proc Agent, s *session) bool {
	if s.hasMessages() || m.known.has(s) {
		return true
	}
	if !proc.Info().List {
		return false
	}
	found := false
	err := walkList(ctx, proc, s.cwd, func(r Row) bool {
		found = r.SessionID == s.bound.Load().id
		return !found
	})
	return err == nil && found
}

func (s *session) hasMessages() bool {
	has := false
	s.eachUpdate(func(f *wire.Frame) bool {
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
