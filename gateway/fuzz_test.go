package gateway

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// FuzzDispatch sends raw frames to a gateway with an ordinary agent. Whatever they are, the connection lives on and
// answers, a session of another connection goes on, and the agent gets nothing but whole messages.
func FuzzDispatch(f *testing.F) {
	for _, seed := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`,
		`{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"DIR","mcpServers":[]}}`,
		`{"jsonrpc":"2.0","id":"a","method":"session/prompt","params":{"sessionId":"SID","prompt":[{"type":"text","text":"x"}]}}`,
		`{"jsonrpc":"2.0","id":2,"method":"session/load","params":{"sessionId":"SID","cwd":"DIR","mcpServers":[]}}`,
		`{"jsonrpc":"2.0","id":2,"method":"session/fork","params":{"sessionId":"SID","cwd":"DIR","mcpServers":[]}}`,
		`{"jsonrpc":"2.0","id":3,"method":"session/close","params":{"sessionId":"SID"}}`,
		`{"jsonrpc":"2.0","id":3,"method":"session/list","params":{"cursor":"x"}}`,
		`{"jsonrpc":"2.0","id":3,"method":"session/set_mode","params":{"sessionId":"SID","modeId":"code"}}`,
		`{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"SID"}}`,
		`{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":3}}`,
		`{"jsonrpc":"2.0","id":0,"result":{"outcome":{"outcome":"selected","optionId":"ok"}}}`,
		`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"x"}}`,
		`{"jsonrpc":"2.0","id":1e2,"method":"x/\u0079","params":[1]}`,
		`{"jsonrpc":"2.0","id":4,"method":"_acpgate/force_stop","params":{"sessionId":"SID"}}`,
		`{"jsonrpc":"2.0","id":5,"method":"_acpgate/queue_cancel","params":{"sessionId":"SID","turn":"t"}}`,
		`[]`, `42`, `{"a":1,"a":2}`, "{\n}\n", "\xff", "",
	} {
		f.Add(seed)
	}
	h := open(f, func(s *setup) {
		s.agents.Lenient = true
		s.gateway.Limits = Limits{Attachments: 1 << 20, ConnectRate: -1, FrameRate: -1}
		s.sessions.ViewsPerUser = 1 << 20
	})
	// As another user, so that nothing the input names can reach the session.
	other := h.dial().initialize()
	quiet := other.newSession()
	c := h.dial().initialize()
	s := c.newSession()
	n := 0
	f.Fuzz(func(t *testing.T, text string) {
		text = strings.NewReplacer("SID", s, "DIR", h.dir).Replace(text)
		if strings.Contains(text, quiet) || strings.Contains(text, "authenticate") {
			return
		}
		n++
		ping := fmt.Sprintf("%q", fmt.Sprintf("ping-%d", n))
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		for _, frame := range []string{text, `{"jsonrpc":"2.0","id":` + ping + `,"method":"_acpgate/ping"}`} {
			if err := c.ws.Write(ctx, websocket.MessageText, []byte(frame)); err != nil {
				t.Fatalf("%q ended the connection: %v", text, err)
			}
		}
		for {
			_, b, err := c.ws.Read(ctx)
			if err != nil {
				t.Fatalf("%q ended the connection: %v", text, err)
			}
			m := parse(b)
			if strings.HasPrefix(m.raw, "not JSON") {
				t.Fatalf("%q was answered with %q", text, b)
			}
			if string(m.ID) == ping {
				break
			}
		}
		for _, v := range h.agents.Violations() {
			if !strings.Contains(v, "not open") {
				t.Fatalf("%q: %s", text, v)
			}
		}
		if n%1000 == 0 {
			other.t = t
			if m := other.ask("session/prompt", promptParams(quiet, "still here")); m.Error != nil && m.Error.Data.Reason != "agent_restarted" {
				t.Fatalf("another connection: %s", m.raw)
			}
		}
	})
}
