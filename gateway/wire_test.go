package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/acpgate/acpgate/agentpool/agenttest"
)

func asCloseError(err error, ce *websocket.CloseError) bool { return errors.As(err, ce) }

func TestW1_InitializeNewPrompt(t *testing.T) {
	h := open(t)
	c := h.dial()
	if id := c.res.Header.Get("Acp-Connection-Id"); len(id) < 16 {
		t.Errorf("Acp-Connection-Id %q", id)
	}
	if p := c.ws.Subprotocol(); p != "" {
		t.Errorf("subprotocol %q was selected and none was offered", p)
	}
	if ext := c.res.Header.Get("Sec-WebSocket-Extensions"); ext != "" {
		t.Errorf("extension %q", ext)
	}
	m := c.ask("initialize", `{"protocolVersion":99,"clientCapabilities":{}}`)
	var r struct {
		ProtocolVersion int `json:"protocolVersion"`
	}
	if err := json.Unmarshal(m.Result, &r); err != nil || r.ProtocolVersion != 1 {
		t.Errorf("initialize: %s", m.raw)
	}
	s := c.newSession()
	p := h.agents.Started(t, 1)
	p.Handle("session/prompt", agenttest.Manual)
	c.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":"p","method":"session/prompt","params":%s}`, promptParams(s, "hi")))
	call := p.Await("session/prompt")
	call.Chunk("hel")
	call.Chunk("lo <&> 한글😀")
	call.Result(`{"stopReason":"end_turn"}`)
	end, before := c.until(`"p"`)
	var text strings.Builder
	for _, m := range before {
		text.WriteString(m.text())
	}
	if text.String() != "hello <&> 한글😀" || end.Error != nil {
		t.Errorf("text %q, end %s", text.String(), end.raw)
	}
}

func TestW1_InitializeFirstAndOnce(t *testing.T) {
	h := open(t)
	c := h.dial()
	for _, f := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"session/new","params":{}}`,
		`{"jsonrpc":"2.0","id":1,"method":"_acpgate/ping"}`,
		`{"jsonrpc":"2.0","id":1,"method":"foo/bar"}`,
	} {
		c.send(f)
		c.recv().wantError(t, -32600, "not_initialized")
	}
	c.send(`{"jsonrpc":"2.0","method":"$/ping"}`, `{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"x"}}`, `{"jsonrpc":"2.0","id":1,"result":{}}`)
	c.initialize()
	c.ask("initialize", plainInitialize).wantError(t, -32600, "already_initialized")
	c.newSession() // the connection lives on
}

func TestW1_BinaryAndNewlines(t *testing.T) {
	h := open(t)
	c := h.dial()
	init := `{"jsonrpc":"2.0","id":0,"method":"initialize","params":` + plainInitialize + `}`
	if err := c.ws.Write(context.Background(), websocket.MessageBinary, []byte(init+"\n")); err != nil {
		t.Fatal(err)
	}
	if m := c.recv(); m.Error != nil || string(m.ID) != "0" {
		t.Errorf("binary frame: %s", m.raw)
	}
	c.send("\r\n{\"jsonrpc\":\"2.0\",\r\n\"id\":7,\n\"method\":\"_acpgate/ping\"}\n")
	if m := c.recv(); m.Error != nil || string(m.ID) != "7" {
		t.Errorf("trailing newline: %s", m.raw)
	}
	c.send(`{"jsonrpc":"2.0","id":8,"method":"_acpgate/ping"}` + "\n" + `{"jsonrpc":"2.0","id":9,"method":"_acpgate/ping"}` + "\n")
	m := c.recv()
	m.wantError(t, -32700, "bad_json")
	if string(m.ID) != "null" {
		t.Errorf("two messages in a frame: %s", m.raw)
	}
	c.newSession()
}

func TestW3_AFrameReachesTheAgentAsOneLine(t *testing.T) {
	h := open(t)
	c := h.dial().initialize()
	s := c.newSession()
	p := h.agents.Started(t, 1)
	c.send("{\"jsonrpc\":\"2.0\",\n\"id\":70,\"method\":\"session/prompt\",\r\"params\":\n" + promptParams(s, "a\nb") + "\n}\n")
	c.until("70")
	for _, line := range p.Lines() {
		if raw := string(line.Raw); strings.ContainsAny(raw, "\r\n") {
			t.Errorf("raw line break in %q", raw)
		}
	}
}

func TestW2_Case13_Subprotocols(t *testing.T) {
	h := open(t)
	for _, tt := range []struct {
		offer []string
		want  string
	}{
		{nil, ""},
		{[]string{"acp.v1"}, "acp.v1"},
		{[]string{"foo", "acp.v1"}, "acp.v1"},
		{[]string{"acp.v1", "bearer." + h.token}, "acp.v1"},
		{[]string{"bearer." + h.token, "acp.v1"}, "acp.v1"},
		{[]string{"bearer." + h.token}, ""},
		{[]string{"unknown"}, ""},
	} {
		mods := []dialOption{offering(tt.offer...)}
		if strings.Contains(strings.Join(tt.offer, " "), "bearer.") {
			mods = append(mods, anonymous)
		}
		c := h.dial(mods...)
		if got := c.res.Header.Get("Sec-WebSocket-Protocol"); got != tt.want {
			t.Errorf("offered %v: got %q, want %q", tt.offer, got, tt.want)
		}
		c.initialize()
	}
}

func TestW3_MalformedFramesGetAnErrorAndTheConnectionLives(t *testing.T) {
	h := open(t)
	c := h.dial().initialize()
	for _, tt := range []struct {
		frame  string
		code   int
		reason string
		id     string
	}{
		{`nope`, -32700, "bad_json", "null"},
		{``, -32700, "bad_json", "null"},
		{`{"jsonrpc":"2.0","id":5,"method":"x"`, -32700, "bad_json", "null"},
		{"{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"\xff\"}", -32700, "bad_utf8", "null"},
		{`{"jsonrpc":"2.0","id":5,"id":6,"method":"x"}`, -32700, "duplicate_key", "null"},
		{strings.Repeat("[", 100_000), -32700, "too_deep", "null"},
		{`[{"jsonrpc":"2.0","id":5,"method":"x"}]`, -32600, "batch", "null"},
		{`42`, -32600, "not_jsonrpc", "null"},
		{`"initialize"`, -32600, "not_jsonrpc", "null"},
		{`null`, -32600, "not_jsonrpc", "null"},
		{`{}`, -32600, "not_jsonrpc", "null"},
		{`{"jsonrpc":"1.0","id":5,"method":"x"}`, -32600, "not_jsonrpc", "5"},
		{`{"jsonrpc":"2.0","id":5,"method":7}`, -32600, "not_jsonrpc", "5"},
		{`{"jsonrpc":"2.0","id":5,"method":"x","params":7}`, -32600, "not_jsonrpc", "5"},
		{`{"jsonrpc":"2.0","id":5,"result":1,"error":{}}`, -32600, "not_jsonrpc", "5"},
		{`{"jsonrpc":"2.0","id":null,"method":"initialize"}`, -32600, "bad_id", "null"},
		{`{"jsonrpc":"2.0","id":{},"method":"x"}`, -32600, "bad_id", "null"},
		{`{"jsonrpc":"2.0","id":5,"method":"session/cancel","params":{"sessionId":"x"}}`, -32600, "not_a_request", "5"},
		{`{"jsonrpc":"2.0","id":5,"method":"session/prompt"}`, -32602, "bad_params", "5"},
		{`{"jsonrpc":"2.0","id":5,"method":"session/prompt","params":{"sessionId":7}}`, -32602, "bad_params", "5"},
		{`{"jsonrpc":"2.0","id":5,"method":"session/load","params":{"cwd":"/"}}`, -32602, "bad_params", "5"},
		{`{"jsonrpc":"2.0","id":5,"method":"session/new"}`, -32602, "bad_params", "5"},
		{`{"jsonrpc":"2.0","id":5,"method":"session/new","params":["x"]}`, -32602, "bad_params", "5"},
		{`{"jsonrpc":"2.0","id":5,"method":"session/prompt","params":{"sessionId":"nope","prompt":[]}}`, -32002, "session_not_found", "5"},
		{`{"jsonrpc":"2.0","id":5,"method":"fs/read_text_file","params":{"path":"/etc/passwd"}}`, -32601, "method_not_found", "5"},
		{`{"jsonrpc":"2.0","id":5,"method":"terminal/create","params":{"sessionId":"x","command":"id"}}`, -32601, "method_not_found", "5"},
		{`{"jsonrpc":"2.0","id":5,"method":"session/update","params":{"sessionId":"x"}}`, -32601, "method_not_found", "5"},
		{`{"jsonrpc":"2.0","id":5,"method":"_acpgate/nope"}`, -32601, "method_not_found", "5"},
		{`{"jsonrpc":"2.0","id":5,"method":"$/ping"}`, -32601, "method_not_found", "5"},
	} {
		c.send(tt.frame)
		m := c.recv()
		m.wantError(t, tt.code, tt.reason)
		if string(m.ID) != tt.id {
			t.Errorf("%.80q: answered with id %s, want %s", tt.frame, m.ID, tt.id)
		}
	}
	// Nothing to answer: these are ignored.
	c.send(
		`{"jsonrpc":"2.0","method":"$/ping"}`, `{"jsonrpc":"2.0","method":"session/prompt","params":{"sessionId":"x"}}`,
		`{"jsonrpc":"2.0","method":"session/update","params":{}}`, `{"jsonrpc":"2.0","method":"session/cancel","params":{}}`,
		`{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"nope"}}`, `{"jsonrpc":"2.0","method":"x/unknown"}`,
		`{"jsonrpc":"2.0","id":99,"result":{}}`, `{"jsonrpc":"2.0","id":"a","error":{"code":1,"message":""}}`,
		`{"jsonrpc":"2.0","method":"$/cancel_request"}`, `{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":12345}}`,
	)
	c.newSession()
}

func TestW4_Case16_EqualIDsOfTwoClients(t *testing.T) {
	h := open(t)
	a, b := h.dial().initialize(), h.dial().initialize()
	sa, sb := a.newSession(), b.newSession()
	p := h.agents.Started(t, 1)
	p.Handle("session/prompt", agenttest.Manual)
	frame := func(id, s, text string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"session/prompt","params":%s}`, id, promptParams(s, text))
	}
	a.send(frame("7", sa, "from a"))
	first := p.Await("session/prompt")
	b.send(frame("7", sb, "from b"))
	second := p.Await("session/prompt")
	if first.Text() != "from a" || second.Text() != "from b" {
		t.Fatalf("prompts %q, %q", first.Text(), second.Text())
	}

	// On one connection the id is taken, however it is spelt; "7" is another one.
	for _, id := range []string{"7", "7.0", "70e-1"} {
		a.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"_acpgate/ping"}`, id))
		m := a.recv()
		m.wantError(t, -32600, "duplicate_id")
		if string(m.ID) != id {
			t.Errorf("error for id %s, want %s", m.ID, id)
		}
	}
	a.send(`{"jsonrpc":"2.0","id":"7","method":"_acpgate/ping"}`)
	if m := a.recv(); m.Error != nil || string(m.ID) != `"7"` {
		t.Errorf("id \"7\": %s", m.raw)
	}

	second.Result(`{"stopReason":"max_tokens"}`)
	first.Result(`{"stopReason":"end_turn"}`)
	for _, x := range []struct {
		c    *client
		want string
	}{{a, "end_turn"}, {b, "max_tokens"}} {
		if m, _ := x.c.until("7"); !strings.Contains(string(m.Result), x.want) {
			t.Errorf("got %s, want %s", m.raw, x.want)
		}
	}
	// Free again.
	a.send(`{"jsonrpc":"2.0","id":7,"method":"_acpgate/ping"}`)
	if m := a.recv(); m.Error != nil {
		t.Errorf("id 7 after its answer: %s", m.raw)
	}
}

func TestW4_CancelRequest(t *testing.T) {
	h := open(t)
	c := h.dial().initialize()
	s := c.newSession()
	p := h.agents.Started(t, 1)

	// A request that the agent works on: it is told, and its answer is passed on.
	p.Handle("x/slow", agenttest.Manual)
	c.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":"s","method":"x/slow","params":{"sessionId":%q}}`, s))
	slow := p.Await("x/slow")
	c.send(`{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":"s"}}`)
	p.Await("$/cancel_request")
	slow.Error(-32800, "stopped", "")
	if m, _ := c.until(`"s"`); m.Error == nil || m.Error.Code != -32800 {
		t.Errorf("cancelled at the agent: %s", m.raw)
	}

	// A request that the gateway works on: session/new.
	p.Handle("session/new", agenttest.Manual)
	c.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":"n","method":"session/new","params":{"cwd":%q,"mcpServers":[]}}`, h.dir))
	call := p.Await("session/new")
	c.send(`{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":"n"}}`)
	m, _ := c.until(`"n"`)
	m.wantError(t, -32800, "cancelled")
	call.NewSession()
	c.ask("_acpgate/ping", "{}")
}

func TestW9_Case12_AgentErrorsPassThrough(t *testing.T) {
	h := open(t)
	c := h.dial().initialize()
	s := c.newSession()
	p := h.agents.Started(t, 1)
	p.Handle("session/prompt", agenttest.Failing(-32603, "image too large", `{"big":12345678901234567890,"x":[1.50]}`))
	c.id++
	c.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"session/prompt","params":%s}`, c.id, promptParams(s, "x")))
	m, _ := c.until(fmt.Sprint(c.id))
	if m.Error == nil || !strings.Contains(m.raw, `{"big":12345678901234567890,"x":[1.50]}`) || m.Error.Message != "image too large" {
		t.Errorf("got %s", m.raw)
	}
	p.Handle("foo/bar", agenttest.Failing(-32601, "Method not found", ""))
	if m := c.ask("foo/bar", "{}"); m.Error == nil || m.Error.Code != -32601 {
		t.Errorf("unknown method: %s", m.raw)
	}
	p.Handle("authenticate", agenttest.Failing(-32000, "log in first", `{"authMethods":[]}`))
	if m := c.ask("authenticate", `{"methodId":"x"}`); m.Error == nil || m.Error.Code != -32000 || !strings.Contains(m.raw, `"authMethods":[]`) {
		t.Errorf("login wanted: %s", m.raw)
	}
}

func TestW3_Case11_FrameLimit(t *testing.T) {
	h := open(t, func(s *setup) { s.gateway.Limits.FrameBytes = 1 << 20 })
	c := h.dial().initialize()
	s := c.newSession()
	p := h.agents.Started(t, 1)
	big := strings.Repeat("x", 900<<10)
	if m := c.ask("session/prompt", promptParams(s, big)); m.Error != nil {
		t.Fatalf("a prompt under the limit: %.200s", m.raw)
	}
	if got := p.Await("session/prompt").Text(); got != big {
		t.Errorf("the agent got %d bytes, want %d", len(got), len(big))
	}
	exact := `{"jsonrpc":"2.0","id":"e","method":"_acpgate/ping","x":"`
	exact += strings.Repeat("y", 1<<20-len(exact)-2) + `"}`
	c.send(exact)
	if m, _ := c.until(`"e"`); m.Error != nil {
		t.Errorf("a frame of exactly the limit: %s", m.raw)
	}
	c.send(exact + " ")
	code, reason := c.closed()
	if code != codeTooBig || !strings.Contains(reason, "1048576") {
		t.Errorf("closed with %d %q, want 1009 and the limit", code, reason)
	}
	other := h.dial().initialize()
	if m := other.ask("session/prompt", promptParams(s, "still here")); m.Error != nil {
		t.Errorf("the session after its client was closed: %s", m.raw)
	}
}
