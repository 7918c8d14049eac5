package demo

import (
	"encoding/json"

	acp "github.com/coder/acp-go-sdk"
)

// loginMethod is the auth method of --login. There is nothing to type: it stands for a login.
const loginMethod = "demo-login"

// table is the methods that are offered.
func (a *agent) table() map[string]method {
	t := map[string]method{
		acp.AgentMethodInitialize:             a.initialize,
		acp.AgentMethodAuthenticate:           a.authenticate,
		acp.AgentMethodLogout:                 a.logout,
		acp.AgentMethodSessionNew:             a.newSession,
		acp.AgentMethodSessionPrompt:          a.prompt,
		acp.AgentMethodSessionSetMode:         a.setMode,
		acp.AgentMethodSessionSetConfigOption: a.setConfigOption,
	}
	off := a.cfg.Off
	offer := func(off bool, name string, m method) {
		if !off {
			t[name] = m
		}
	}
	offer(off.List, acp.AgentMethodSessionList, a.listSessions)
	offer(off.Load, acp.AgentMethodSessionLoad, a.loadSession)
	offer(off.Resume, acp.AgentMethodSessionResume, a.resumeSession)
	offer(off.Fork, acp.AgentMethodSessionFork, a.forkSession)
	offer(off.Close, acp.AgentMethodSessionClose, a.closeSession)
	offer(off.Delete, acp.AgentMethodSessionDelete, a.deleteSession)
	return t
}

func (a *agent) initialize(m message) (any, *session, error) {
	p, err := decode[acp.InitializeRequest](m.Params)
	if err != nil {
		return nil, nil, err
	}
	// The SDK's types do not know the compaction capability yet.
	var more struct {
		ClientCapabilities struct {
			Session struct{ Compaction *struct{} }
		}
	}
	if err := json.Unmarshal(m.Params, &more); err != nil {
		return nil, nil, acp.NewInvalidParams(reason(err.Error()))
	}
	c := clientInfo{
		compaction: more.ClientCapabilities.Session.Compaction != nil,
		terminal:   p.ClientCapabilities.Auth.Terminal,
	}
	if e := p.ClientCapabilities.Elicitation; e != nil {
		c.form, c.url = e.Form != nil, e.Url != nil
	}
	a.mu.Lock()
	a.client = c
	a.mu.Unlock()
	return acp.InitializeResponse{
		ProtocolVersion:   acp.ProtocolVersionNumber,
		AgentInfo:         &acp.Implementation{Name: a.cfg.Name, Title: acp.Ptr("Demo agent"), Version: "1.0.0"},
		AgentCapabilities: a.capabilities(),
		AuthMethods:       a.authMethods(c),
	}, nil, nil
}

func (a *agent) capabilities() acp.AgentCapabilities {
	off := a.cfg.Off
	caps := acp.AgentCapabilities{
		// What session/new takes in _meta: a chosen id, and a system prompt.
		Meta:               map[string]any{"sessionId": true, "session.systemPrompt": true},
		LoadSession:        !off.Load,
		McpCapabilities:    acp.McpCapabilities{Http: true, Sse: true},
		PromptCapabilities: acp.PromptCapabilities{Image: true, Audio: true, EmbeddedContext: !off.Embedded},
	}
	if a.cfg.Login {
		caps.Auth.Logout = &acp.LogoutCapabilities{}
	}
	s := &caps.SessionCapabilities
	if !off.List {
		s.List = &acp.SessionListCapabilities{}
	}
	if !off.Resume {
		s.Resume = &acp.SessionResumeCapabilities{}
	}
	if !off.Fork {
		s.Fork = &acp.SessionForkCapabilities{}
	}
	if !off.Close {
		s.Close = &acp.SessionCloseCapabilities{}
	}
	if !off.Delete {
		s.Delete = &acp.SessionDeleteCapabilities{}
	}
	return caps
}

func (a *agent) authMethods(c clientInfo) []acp.AuthMethod {
	methods := []acp.AuthMethod{}
	if !a.cfg.Login {
		return methods
	}
	methods = append(methods, acp.AuthMethod{Agent: &acp.AuthMethodAgent{
		Id: loginMethod, Name: "Demo login", Description: acp.Ptr("Signs in at once; nothing to type."),
	}})
	if c.terminal {
		methods = append(methods, acp.AuthMethod{Terminal: &acp.AuthMethodTerminalInline{
			Id: "demo-terminal", Name: "Sign in on the server", Args: []string{"--help"}, Type: "terminal",
			Description: acp.Ptr("Shows how a login that needs a terminal looks like."),
		}})
	}
	return methods
}

func (a *agent) authenticate(m message) (any, *session, error) {
	p, err := decode[acp.AuthenticateRequest](m.Params)
	if err != nil {
		return nil, nil, err
	}
	if !a.cfg.Login || p.MethodId != loginMethod {
		return nil, nil, acp.NewInvalidParams(reason("no such auth method"))
	}
	a.setLoggedIn(true)
	return acp.AuthenticateResponse{}, nil, nil
}

func (a *agent) logout(message) (any, *session, error) {
	a.setLoggedIn(!a.cfg.Login)
	return acp.LogoutResponse{}, nil, nil
}

func (a *agent) setLoggedIn(in bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.loggedIn = in
}

// mustLogin is the error of a session method while nobody is logged in, else nil.
func (a *agent) mustLogin() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.loggedIn {
		return nil
	}
	return acp.NewAuthRequired(map[string]any{"authMethods": a.authMethods(a.client)})
}
