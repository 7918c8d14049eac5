package agentpool

import (
	"bytes"
	"strings"
	"testing"

	"github.com/acpgate/acpgate/agentpool/wire"
	"github.com/acpgate/acpgate/sessions"
)

// FuzzLine feeds a process with whatever an agent may write, whole and as the beginning of a line that was too long. What it
// answers must be whole messages, and every request that reached no session must be answered.
func FuzzLine(f *testing.F) {
	for _, seed := range []string{
		chunkLine("s", "text"), chunkLine("t", "held"), "noise", "{", "null", `{"jsonrpc":"2.0","id":1,"result":{}}`,
		`{"jsonrpc":"2.0","result":null,"id":1}`, `{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"x"}}`,
		`{"jsonrpc":"2.0","id":0,"method":"session/request_permission","params":{"sessionId":"s"}}`,
		`{"jsonrpc":"2.0","id":"a","method":"session/request_permission","params":{"sessionId":"nope"}}`,
		`{"jsonrpc":"2.0","id":1e400,"method":"elicitation/create","params":{"requestId":1,"elicitationId":7}}`,
		`{"jsonrpc":"2.0","method":"elicitation/complete","params":{"elicitationId":7}}`,
		`{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":0}}`, `{"jsonrpc":"2.0","method":"$/cancel_request","params":[0]}`,
		`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"\u0073"}}`, `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":""}}`,
		`{"jsonrpc":"2.0","id":-0,"method":"craft/x"}`,
	} {
		f.Add([]byte(seed), uint8(0))
		f.Add([]byte(seed), uint8(len(seed)/2))
	}
	f.Fuzz(func(t *testing.T, line []byte, cut uint8) {
		if bytes.IndexByte(line, '\n') >= 0 {
			return // that is two lines
		}
		sink := &countingSink{}
		p, h := bareProcess(sink, "s")
		p.limits = wire.Limits{LoneSurrogates: true}
		p.noise = newRing(100)
		p.held.limit = 1000
		p.notify = func(string, string, []byte) {}
		ended := 0
		if _, err := h.Request(frame(t, `{"jsonrpc":"2.0","id":9,"method":"session/prompt"}`), nil, func(sessions.Reply) { ended++ }); err != nil {
			t.Fatal(err)
		}
		p.in.pending = nil
		p.line(line)
		parsed, err := wire.Parse(line, p.limits)
		if err == nil && parsed.Kind == wire.Request && sink.lines == 0 && len(p.in.pending) == 0 {
			t.Error("a request got no answer and reached nobody")
		}
		p.skipped(line[:min(len(line), int(cut))], int64(len(line)))
		if ended > 1 {
			t.Errorf("the call ended %d times", ended)
		}
		for _, answer := range strings.Split(strings.TrimSuffix(string(p.in.pending), "\n"), "\n") {
			if answer == "" {
				continue
			}
			if _, err := wire.Parse([]byte(answer), wire.Limits{LoneSurrogates: true}); err != nil {
				t.Errorf("answered %q: %v", answer, err)
			}
		}
		if p.busy {
			t.Error("the turn was not given back")
		}
	})
}

func FuzzParseFlag(f *testing.F) {
	for _, seed := range []string{`a=b`, `a=X=1 b "c d" 'e' \f`, `a="`, `=`, `a=b\`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		spec, err := ParseFlag(s)
		if err == nil && (spec.Command == "" || spec.Validate() != nil) {
			t.Errorf("%q: %+v", s, spec)
		}
	})
}

func FuzzParseFile(f *testing.F) {
	for _, seed := range []string{
		"agents: {a: {command: x}}", `{"agents":{"a":{"command":"x","mcpServers":[{"name":"n","command":"c"}]}}}`,
		"agents:\n  a: &x {command: x}\n  b: *x\n", "agents:\n  a:\n    limits: {line: 1MiB}\n", "- a", "a: b\n---\n", "? [a]\n: b\n", "<<: *x",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		specs, err := ParseFile("f", data)
		if err != nil {
			return
		}
		for _, s := range specs {
			if err := s.Validate(); err != nil {
				t.Errorf("%q: accepted, but %v", data, err)
			}
		}
	})
}
