package gateway

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/acpgate/acpgate/agentpool/agenttest"
	"github.com/acpgate/acpgate/sessions"
)

func TestW8_CapabilitiesThatTheGatewayHasAFallbackForAreAlwaysOffered(t *testing.T) {
	for _, tt := range []struct{ name, agent, want string }{
		{
			"an agent that can nothing", agenttest.NoCapabilities,
			`{"protocolVersion":1,"agentCapabilities":{"loadSession":true,"sessionCapabilities":{"list":{},"resume":{},"close":{},"delete":{},"fork":{}}},"authMethods":[]}`,
		},
		{
			"a real one, with everything else as it wrote it",
			`{"protocolVersion":2,"agentInfo":{"name":"a<b>","version":"1"},"agentCapabilities":{"_meta":{"n":12345678901234567890},"promptCapabilities":{"image":true},` +
				`"mcpCapabilities":{"http":true},"loadSession":false,"auth":{"logout":{}},"sessionCapabilities":{"additionalDirectories":{},"fork":{"x":1},"list":null}},` +
				`"authMethods":[{"id":"x","name":"Log in"}],"future":[1.50],"_meta":{"vendor":{"k":"v"}}}`,
			`{"protocolVersion":1,"agentInfo":{"name":"a<b>","version":"1"},"agentCapabilities":{"_meta":{"n":12345678901234567890},"promptCapabilities":{"image":true},` +
				`"mcpCapabilities":{"http":true},"loadSession":true,"auth":{"logout":{}},"sessionCapabilities":{"additionalDirectories":{},"list":{},"resume":{},"close":{},"delete":{},"fork":{"x":1}}},` +
				`"authMethods":[{"id":"x","name":"Log in"}],"future":[1.50],"_meta":{"vendor":{"k":"v"}}}`,
		},
		{
			"the least that is an answer", `{}`,
			`{"protocolVersion":1,"agentCapabilities":{"loadSession":true,"sessionCapabilities":{"list":{},"resume":{},"close":{},"delete":{},"fork":{}}},"authMethods":[]}`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := open(t, func(s *setup) { s.agents.Profiles = []agenttest.Profile{{Initialize: tt.agent}} })
			m := h.dial().ask("initialize", plainInitialize)
			got := members2(t, m.Result)
			meta := members2(t, got["_meta"])
			delete(meta, "acpgate")
			if len(meta) == 0 {
				delete(got, "_meta")
			} else {
				got["_meta"] = mustMarshal(t, meta)
			}
			if diff := cmp.Diff(canonical(t, []byte(tt.want)), canonical(t, mustMarshal(t, got))); diff != "" {
				t.Errorf("initialize result (-want +got):\n%s", diff)
			}
		})
	}
}

// canonical is raw with sorted keys and every number as written.
func canonical(t *testing.T, raw []byte) string {
	t.Helper()
	var walk func(json.RawMessage) string
	walk = func(r json.RawMessage) string {
		var obj map[string]json.RawMessage
		if r[0] == '{' && json.Unmarshal(r, &obj) == nil {
			out := map[string]string{}
			for k, v := range obj {
				out[k] = walk(v)
			}
			return fmt.Sprint(out)
		}
		return string(r)
	}
	return walk(raw)
}

func members2(t *testing.T, raw json.RawMessage) map[string]json.RawMessage {
	t.Helper()
	m, err := members(raw)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func mustMarshal(t *testing.T, v any) []byte {
	t.Helper()
	b, err := marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestW10_WhatInitializeTells(t *testing.T) {
	h := open(t, func(s *setup) {
		s.agents.Profiles = []agenttest.Profile{{Name: "one"}, {Name: "two"}}
		s.gateway.Agents = func(principal string) []Agent {
			return []Agent{{Name: "one", Title: "One of " + principal}, {Name: "two"}}
		}
		s.gateway.Limits.Queue = 3
		s.sessions.Queue = 3
	})
	m := h.dial(path("/acp/two")).ask("initialize", plainInitialize)
	var got struct {
		Meta struct {
			Gate json.RawMessage `json:"acpgate"`
		} `json:"_meta"`
	}
	if err := json.Unmarshal(m.Result, &got); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf(`{"v":1,"version":"test","agent":"two","agents":[{"name":"one","title":"One of local"},{"name":"two"}],"roots":[%q],`+
		`"principal":"local","pingMs":20000,"limits":{"frameBytes":33554432,"lineBytes":67108864,"queue":3,"sendBuffer":262144}}`, h.dir)
	if string(got.Meta.Gate) != want {
		t.Errorf("_meta.acpgate:\n got %s\nwant %s", got.Meta.Gate, want)
	}
	if m := h.dial(path("/acp?agent=two")).ask("initialize", plainInitialize); m.Error != nil {
		t.Errorf("?agent=: %s", m.raw)
	}
	_, res, err := h.tryDial(path("/acp/three"))
	if err == nil {
		t.Fatal("an unknown agent was served")
	}
	if p := refusal(t, res); p.Status != 404 || p.Reason != "agent_unknown" || p.Hint != "the agents are: one, two" {
		t.Errorf("unknown agent: %+v", p)
	}
}

func TestW10_OptIn(t *testing.T) {
	for _, tt := range []struct {
		params string
		want   sessions.Features
		bad    bool
	}{
		{params: plainInitialize},
		{params: `{}`},
		{params: `{"clientCapabilities":{"_meta":{"acpgate":{"v":1}}}}`, want: sessions.Features{OptedIn: true}},
		{params: `{"clientCapabilities":{"_meta":{"acpgate":{"v":2}}}}`},
		{params: `{"clientCapabilities":{"_meta":{"acpgate":{}},"elicitation":{"form":{},"url":null}}}`, want: sessions.Features{ElicitForm: true}},
		{params: `{"clientCapabilities":{"elicitation":{"form":{},"url":{}}}}`, want: sessions.Features{ElicitForm: true, ElicitURL: true}},
		{params: `{"protocolVersion":"2025-01-01","clientCapabilities":{"fs":{"readTextFile":true},"terminal":true}}`},
		{params: `[]`, bad: true},
		{params: `{"clientCapabilities":7}`, bad: true},
		{params: `{"clientCapabilities":{"_meta":{"acpgate":true}}}`, bad: true},
	} {
		h := open(t)
		c := h.dial()
		m := c.ask("initialize", tt.params)
		if tt.bad {
			m.wantError(t, -32602, "bad_params")
			c.initialize() // another try
			continue
		}
		if m.Error != nil {
			t.Errorf("%s: %s", tt.params, m.raw)
			continue
		}
		h.srv.mu.Lock()
		for conn := range h.srv.conns {
			if got := conn.Features(); got != tt.want {
				t.Errorf("%s: got %+v, want %+v", tt.params, got, tt.want)
			}
		}
		h.srv.mu.Unlock()
	}
}

func TestW9_Case70_AnAgentThatCannotBeStarted(t *testing.T) {
	h := open(t)
	h.agents.FailStart("fake", &sessions.AgentError{
		Reason: "agent_start_failed", Agent: "fake", Exited: true, ExitCode: 127, Stderr: "sh: no-such-agent: not found", Hint: "check the command",
	})
	c := h.dial()
	// What came behind initialize is answered too.
	c.send(
		`{"jsonrpc":"2.0","id":"i","method":"initialize","params":{}}`,
		fmt.Sprintf(`{"jsonrpc":"2.0","id":"n","method":"session/new","params":{"cwd":%q,"mcpServers":[]}}`, h.dir),
		`{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"x"}}`,
	)
	m, _ := c.until(`"i"`)
	m.wantError(t, -32603, "agent_start_failed")
	if m.Error.Data.Stderr != "sh: no-such-agent: not found" || m.Error.Data.Hint != "check the command" {
		t.Errorf("data: %s", m.raw)
	}
	m, _ = c.until(`"n"`)
	m.wantError(t, -32600, "not_initialized")
	h.agents.FailStart("fake", nil)
	c.initialize()
	c.newSession()
}

func TestW1_Case73_AColdStartBlocksNoPings(t *testing.T) {
	h := open(t)
	h.agents.DelayStart(300 * time.Millisecond)
	c := h.dial()
	c.send(
		`{"jsonrpc":"2.0","id":"i","method":"initialize","params":{}}`,
		fmt.Sprintf(`{"jsonrpc":"2.0","id":"n","method":"session/new","params":{"cwd":%q,"mcpServers":[]}}`, h.dir),
		`{"jsonrpc":"2.0","id":"again","method":"initialize","params":{}}`,
		`{"jsonrpc":"2.0","id":"ping","method":"_acpgate/ping"}`,
	)
	var order []string
	for range 4 {
		m := c.recv()
		order = append(order, string(m.ID))
		if (m.Error != nil) != (string(m.ID) == `"again"`) {
			t.Errorf("answer: %s", m.raw)
		}
	}
	if diff := cmp.Diff([]string{`"again"`, `"ping"`, `"i"`, `"n"`}, order); diff != "" {
		t.Errorf("order of the answers (-want +got):\n%s", diff)
	}
}

func TestW4_InitializeCanBeCancelled(t *testing.T) {
	h := open(t)
	h.agents.DelayStart(time.Hour)
	c := h.dial()
	c.send(`{"jsonrpc":"2.0","id":"i","method":"initialize","params":{}}`, `{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":"i"}}`)
	m, _ := c.until(`"i"`)
	m.wantError(t, -32800, "cancelled")
	h.agents.DelayStart(0)
	c.initialize()
}
