package demo

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	acp "github.com/coder/acp-go-sdk"
)

// opened is the result of session/new and session/fork.
type opened struct {
	SessionID     acp.SessionId             `json:"sessionId"`
	Modes         *acp.SessionModeState     `json:"modes"`
	ConfigOptions []acp.SessionConfigOption `json:"configOptions"`
}

func (s *session) opened() opened {
	return opened{SessionID: acp.SessionId(s.id), Modes: s.modes(), ConfigOptions: s.configOptions()}
}

func (a *agent) newSession(m message) (any, *session, error) {
	p, err := decode[acp.NewSessionRequest](m.Params)
	if err != nil {
		return nil, nil, err
	}
	if err := a.mustLogin(); err != nil {
		return nil, nil, err
	}
	if err := checkCwd(p.Cwd); err != nil {
		return nil, nil, err
	}
	if info, err := os.Stat(p.Cwd); err != nil || !info.IsDir() {
		return nil, nil, acp.NewInvalidParams(reason(fmt.Sprintf("cwd is no directory: %q", p.Cwd)))
	}
	id := newUUID()
	chosen, _ := p.Meta["sessionId"].(string)
	if chosen = canonicalUUID(chosen); chosen != "" {
		id = chosen
	}
	s := a.openSession(id, p.Cwd)
	s.system, _ = p.Meta["session.systemPrompt"].(string)
	if a.store.taken(id) || !a.register(s) {
		s.end(errClosed)
		return nil, nil, acp.NewInvalidParams(reason("session id is in use: " + id))
	}
	return s.opened(), s, nil
}

func (a *agent) loadSession(m message) (any, *session, error) {
	p, err := decode[acp.LoadSessionRequest](m.Params)
	if err != nil {
		return nil, nil, err
	}
	s, err := a.reopen(string(p.SessionId), p.Cwd, p.Meta)
	if err != nil {
		return nil, nil, err
	}
	s.replay()
	return acp.LoadSessionResponse{Modes: s.modes(), ConfigOptions: s.configOptions()}, s, nil
}

func (a *agent) resumeSession(m message) (any, *session, error) {
	p, err := decode[acp.ResumeSessionRequest](m.Params)
	if err != nil {
		return nil, nil, err
	}
	s, err := a.reopen(string(p.SessionId), p.Cwd, p.Meta)
	if err != nil {
		return nil, nil, err
	}
	return acp.ResumeSessionResponse{Modes: s.modes(), ConfigOptions: s.configOptions()}, s, nil
}

// reopen opens a stored session, or takes the one that is open already, unless a turn of it runs.
func (a *agent) reopen(id, cwd string, meta map[string]any) (*session, error) {
	if err := a.mustLogin(); err != nil {
		return nil, err
	}
	if err := checkCwd(cwd); err != nil {
		return nil, err
	}
	s := a.session(id)
	if s == nil {
		var err error
		if s, err = a.fromStore(id, cwd); err != nil {
			return nil, err
		}
		if !a.register(s) {
			s.end(errClosed)
			return nil, acp.NewInvalidParams(reason("session id is in use: " + id)) // session/new just chose it
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.turn != nil {
		return nil, acp.NewInvalidParams(reason("a turn of the session is running"))
	}
	s.cwd = cwd
	if system, ok := meta["session.systemPrompt"].(string); ok {
		s.system = system
	}
	return s, nil
}

// fromStore reads a session that is not open.
func (a *agent) fromStore(id, cwd string) (*session, error) {
	if canonicalUUID(id) != id || id == "" {
		return nil, notFound(id)
	}
	entries, torn, err := a.store.load(id)
	if errors.Is(err, errNoSession) {
		return nil, notFound(id)
	}
	if err != nil {
		return nil, err
	}
	s := a.openSession(id, cwd)
	s.title, s.system, s.parent = entries[0].Title, entries[0].System, entries[0].Parent
	s.entries, s.saved, s.torn = entries[1:], true, torn
	return s, nil
}

func (a *agent) forkSession(m message) (any, *session, error) {
	p, err := decode[acp.UnstableForkSessionRequest](m.Params)
	if err != nil {
		return nil, nil, err
	}
	if err := a.mustLogin(); err != nil {
		return nil, nil, err
	}
	if err := checkCwd(p.Cwd); err != nil {
		return nil, nil, err
	}
	from := a.session(string(p.SessionId))
	if from == nil {
		if from, err = a.fromStore(string(p.SessionId), p.Cwd); err != nil {
			return nil, nil, err
		}
		defer from.end(errClosed)
	}
	s := a.openSession(newUUID(), p.Cwd)
	entries := from.history()
	from.mu.Lock()
	s.system, s.parent, s.mode = from.system, from.id, from.mode
	for k, v := range from.options {
		s.options[k] = v
	}
	if from.title != "" {
		s.title = from.title + " (fork)"
	}
	from.mu.Unlock()
	if len(entries) > 0 {
		if err := s.add(entries...); err != nil {
			s.end(errClosed)
			return nil, nil, err
		}
	}
	a.register(s) // a fresh id is not taken
	return s.opened(), s, nil
}

func (a *agent) closeSession(m message) (any, *session, error) {
	p, err := decode[acp.CloseSessionRequest](m.Params)
	if err != nil {
		return nil, nil, err
	}
	if s := a.session(string(p.SessionId)); s != nil {
		s.close()
	}
	return acp.CloseSessionResponse{}, nil, nil
}

func (a *agent) deleteSession(m message) (any, *session, error) {
	p, err := decode[acp.UnstableDeleteSessionRequest](m.Params)
	if err != nil {
		return nil, nil, err
	}
	id := string(p.SessionId)
	if s := a.session(id); s != nil {
		s.close()
	}
	if id != "" && canonicalUUID(id) == id {
		if err := a.store.remove(id); err != nil {
			return nil, nil, err
		}
		a.list.forget(id)
	}
	return acp.UnstableDeleteSessionResponse{}, nil, nil
}

func (a *agent) listSessions(m message) (any, *session, error) {
	p, err := decode[acp.ListSessionsRequest](m.Params)
	if err != nil {
		return nil, nil, err
	}
	var cwd, from string
	if p.Cwd != nil {
		if cwd = *p.Cwd; cwd != "" {
			if err := checkCwd(cwd); err != nil {
				return nil, nil, err
			}
		}
	}
	if p.Cursor != nil {
		from = *p.Cursor
	}
	rows, next, err := a.list.page(cwd, from)
	switch {
	case errors.Is(err, errBadCursor):
		return nil, nil, acp.NewInvalidParams(reason(err.Error()))
	case errors.Is(err, fs.ErrPermission):
		return nil, nil, acp.NewInternalError(reason("session store cannot be read"))
	case err != nil:
		return nil, nil, err
	}
	r := acp.ListSessionsResponse{Sessions: rows}
	if next != "" {
		r.NextCursor = &next
	}
	return r, nil, nil
}

func checkCwd(cwd string) error {
	if !filepath.IsAbs(cwd) {
		return acp.NewInvalidParams(reason(fmt.Sprintf("cwd must be absolute: %q", cwd)))
	}
	return nil
}
