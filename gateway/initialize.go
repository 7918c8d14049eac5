package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/acpgate/acpgate/agentpool/wire"
	"github.com/acpgate/acpgate/sessions"
)

// initialize serves the first request of a connection. While the agent is asked, which may mean starting it, everything
// else waits behind the answer; pings do not. After a failure the client may try again.
func (c *conn) initialize(in *inbound) {
	features, err := parseFeatures(in.f)
	c.mu.Lock()
	switch {
	case c.phase != fresh:
		c.mu.Unlock()
		c.fail(in.call, errInvalid("already_initialized", "The connection is initialized already", "open another connection"))
		return
	case err != nil:
		c.mu.Unlock()
		c.fail(in.call, errParams("bad params of initialize: "+err.Error(), "see the ACP schema of initialize"))
		return
	case c.end != nil:
		c.mu.Unlock()
		return
	}
	c.phase = initializing
	c.features = features
	c.gate = &lane{}
	c.mu.Unlock()
	ctx, done, ok := c.begin(in.call)
	if !ok {
		return // never: nobody can have cancelled it yet
	}
	c.wg.Go(func() {
		defer done()
		c.introduce(ctx, in)
	})
}

// introduce answers initialize and then lets through what has waited for it.
func (c *conn) introduce(ctx context.Context, in *inbound) {
	info, err := c.srv.cfg.Sessions.Describe(ctx, c)
	if err != nil {
		c.notInitialized(in, c.errorOf(ctx, in, err))
		return
	}
	result, err := initializeResult(info, c.welcome())
	if err != nil {
		c.notInitialized(in, c.errorOf(ctx, in, fmt.Errorf("initialize result of agent %s: %w", info.Name, err)))
		return
	}
	c.mu.Lock()
	c.phase = ready
	c.mu.Unlock()
	c.answer(in.call, result)
	c.openGate()
}

// notInitialized takes the connection back to its beginning.
func (c *conn) notInitialized(in *inbound, e *sessions.Error) {
	c.mu.Lock()
	waited := c.shiftAll(c.gate)
	c.gate = nil
	c.phase = fresh
	c.mu.Unlock()
	c.fail(in.call, e)
	for _, in := range waited {
		if in.call != nil {
			c.fail(in.call, errNotInitialized())
		}
	}
}

// parseFeatures reads what a client can do out of initialize.
func parseFeatures(f *wire.Frame) (sessions.Features, error) {
	var p struct {
		ClientCapabilities struct {
			Elicitation struct {
				Form json.RawMessage `json:"form"`
				URL  json.RawMessage `json:"url"`
			} `json:"elicitation"`
			Meta struct {
				Gate struct {
					V json.Number `json:"v"`
				} `json:"acpgate"`
			} `json:"_meta"`
		} `json:"clientCapabilities"`
	}
	params := f.Params.Of(f.Raw)
	if len(params) == 0 || params[0] != '{' {
		return sessions.Features{}, fmt.Errorf("params must be an object")
	}
	if err := json.Unmarshal(params, &p); err != nil {
		return sessions.Features{}, err
	}
	is := func(raw json.RawMessage) bool { return len(raw) > 0 && raw[0] == '{' }
	caps := &p.ClientCapabilities
	return sessions.Features{
		OptedIn:    caps.Meta.Gate.V == "1",
		ElicitForm: is(caps.Elicitation.Form),
		ElicitURL:  is(caps.Elicitation.URL),
	}, nil
}

// welcome is _meta.acpgate of the initialize result; README.md documents it.
type welcome struct {
	V         int           `json:"v"`
	Version   string        `json:"version"`
	Agent     string        `json:"agent"`
	Agents    []Agent       `json:"agents"`
	Roots     []string      `json:"roots"`
	Principal string        `json:"principal"`
	PingMs    int64         `json:"pingMs"`
	Limits    welcomeLimits `json:"limits"`
}

type welcomeLimits struct {
	FrameBytes int64 `json:"frameBytes"`
	LineBytes  int64 `json:"lineBytes"`
	Queue      int   `json:"queue"`
	SendBuffer int   `json:"sendBuffer"`
}

func (c *conn) welcome() welcome {
	cfg := &c.srv.cfg
	w := welcome{
		V: 1, Version: cfg.Version, Agent: c.agent, Agents: cfg.Agents(c.who.Principal), Roots: cfg.Roots, Principal: c.who.Principal,
		PingMs: cfg.Limits.Ping.Milliseconds(),
		Limits: welcomeLimits{cfg.Limits.FrameBytes, cfg.Limits.LineBytes, cfg.Limits.Queue, cfg.Limits.SendBuffer},
	}
	if w.Roots == nil {
		w.Roots = []string{}
	}
	return w
}

// initializeResult is what the agent answered to initialize, as this gateway offers it: protocol version 1, the session
// methods that the gateway has a fallback for (rule W8), and our part of _meta. Everything else stays as the agent wrote it.
func initializeResult(info *sessions.AgentInfo, w welcome) ([]byte, error) {
	result, err := members(info.Result)
	if err != nil {
		return nil, err
	}
	caps, err := members(result["agentCapabilities"])
	if err != nil {
		return nil, fmt.Errorf("agentCapabilities: %w", err)
	}
	session, err := members(caps["sessionCapabilities"])
	if err != nil {
		return nil, fmt.Errorf("sessionCapabilities: %w", err)
	}
	meta, err := members(result["_meta"])
	if err != nil {
		meta = map[string]json.RawMessage{} // of the agent's own making: not worth a failed connection
	}
	for _, name := range []string{"list", "resume", "close", "delete", "fork"} {
		if b := session[name]; len(b) == 0 || b[0] != '{' {
			session[name] = json.RawMessage("{}")
		}
	}
	caps["loadSession"] = json.RawMessage("true")
	result["protocolVersion"] = json.RawMessage("1")
	if result["authMethods"] == nil {
		result["authMethods"] = json.RawMessage("[]")
	}
	for _, put := range []struct {
		in    map[string]json.RawMessage
		name  string
		value any
	}{
		{caps, "sessionCapabilities", session}, {result, "agentCapabilities", caps}, {meta, "acpgate", w}, {result, "_meta", meta},
	} {
		if put.in[put.name], err = marshal(put.value); err != nil {
			return nil, err
		}
	}
	return marshal(result)
}

// members returns the members of a raw object; none for null or nothing.
func members(raw json.RawMessage) (map[string]json.RawMessage, error) {
	m := map[string]json.RawMessage{}
	if len(raw) == 0 || string(raw) == "null" {
		return m, nil
	}
	err := json.Unmarshal(raw, &m)
	return m, err
}

// marshal is json.Marshal that leaves <, > and & as they are.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
