package demo

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// answering is an onAsk that selects an option, "" for the outcome cancelled, and counts.
func answering(option string, count *int) func(got) string {
	return func(m got) string {
		*count++
		if option == "" {
			return `{"outcome":{"outcome":"cancelled"}}`
		}
		return fmt.Sprintf(`{"outcome":{"outcome":"selected","optionId":%q}}`, option)
	}
}

// lastState is the state that the last tool call ended with.
func (c *client) lastState(session string) string {
	c.t.Helper()
	u := c.updates(session, "tool_call_update")
	if len(u) == 0 {
		return ""
	}
	return u[len(u)-1].Status
}

func TestAsk_AnAllowedEditWritesTheFile(t *testing.T) {
	c, _, s, cwd := ready(t)
	asked := 0
	c.onAsk = answering("allow-once", &asked)
	c.prompt(s, "ASK first line")
	var p struct {
		SessionID string
		Options   []struct{ OptionID, Kind string }
		ToolCall  struct {
			ToolCallID, Title, Kind string
			Content                 []struct{ Type, Path, NewText string }
		}
	}
	for _, m := range c.seen {
		if m.Method != "session/request_permission" {
			continue
		}
		if err := json.Unmarshal(m.Params, &p); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(cwd, "demo.txt")
	if fmt.Sprint(p.Options) != "[{allow-once allow_once} {allow-always allow_always} {reject-once reject_once} {reject-always reject_always}]" ||
		p.SessionID != s || p.ToolCall.Kind != "edit" || len(p.ToolCall.Content) != 1 || p.ToolCall.Content[0].Type != "diff" ||
		p.ToolCall.Content[0].Path != file || p.ToolCall.Content[0].NewText != "first line\n" {
		t.Errorf("%+v", p)
	}
	if c.lastState(s) != "completed" {
		t.Error(c.lastState(s))
	}
	c.prompt(s, "ASK second line")
	if b, err := os.ReadFile(file); err != nil || string(b) != "first line\nsecond line\n" {
		t.Errorf("%q %v", b, err)
	}
	if _, said := c.prompt(s, "READ"); said == "" || !strings.Contains(fmt.Sprint(c.seen), `first line\nsecond line\n`) {
		t.Error("not read")
	}
	c.prompt(s, "ASK:delete")
	if _, err := os.Stat(file); err == nil || asked != 3 {
		t.Errorf("%v, asked %d times", err, asked)
	}
}

func TestAsk_AnswersAndModes(t *testing.T) {
	for _, tc := range []struct {
		name, mode, option, prompt string
		asked                      int // for two prompts
		state                      string
	}{
		{"reject", "ask", "reject-once", "ASK x", 2, "failed"},
		{"outcome cancelled", "ask", "", "ASK x", 2, "failed"},
		{"unknown option", "ask", "whatever", "ASK x", 2, "failed"},
		{"always", "ask", "allow-always", "ASK x", 1, "completed"},
		{"never", "ask", "reject-always", "ASK x", 1, "failed"},
		{"code edits", "code", "", "ASK x", 0, "completed"},
		{"code runs", "code", "allow-once", "ASK:execute", 2, "completed"},
		{"read only edits", "read-only", "", "ASK x", 0, "failed"},
		{"read only runs", "read-only", "", "ASK:execute", 0, "failed"},
		{"read only searches", "read-only", "allow-once", "ASK:search", 2, "completed"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, _, s, cwd := ready(t)
			if m := c.call("session/set_mode", obj{"sessionId": s, "modeId": tc.mode}); m.Error != nil {
				t.Fatal(m.line)
			}
			asked := 0
			c.onAsk = answering(tc.option, &asked)
			for range 2 {
				if stop, said := c.prompt(s, tc.prompt); stop != "end_turn" || !strings.HasPrefix(said, "ECHO[") || c.lastState(s) != tc.state {
					t.Errorf("%s %q %s", stop, said, c.lastState(s))
				}
			}
			if asked != tc.asked {
				t.Errorf("asked %d times", asked)
			}
			_, err := os.Stat(filepath.Join(cwd, "demo.txt"))
			if wrote := err == nil; wrote != (tc.state == "completed" && tc.prompt == "ASK x") {
				t.Errorf("wrote: %v", wrote)
			}
		})
	}
}

func TestCase37_CancelWithAnOpenPermissionEndsTheTurnAtOnce(t *testing.T) {
	c, _, s, _ := ready(t)
	var open got
	c.onAsk = func(m got) string { open = m; return "" }
	id := c.send("session/prompt", promptOf(s, "ASK x"))
	for open.ID == nil {
		c.next()
	}
	if string(open.ID) != "0" {
		t.Errorf("first id %s", open.ID)
	}
	c.notify("session/cancel", obj{"sessionId": s})
	if stop := c.stopOf(c.await(id)); stop != "cancelled" || c.lastState(s) != "failed" {
		t.Errorf("%s %s", stop, c.lastState(s))
	}
	if !strings.Contains(fmt.Sprint(c.seen), `"method":"$/cancel_request","params":{"requestId":0}`) {
		t.Error("not withdrawn")
	}
	c.write(`{"jsonrpc":"2.0","id":0,"result":{"outcome":{"outcome":"selected","optionId":"allow-once"}}}`) // too late
	if stop, _ := c.prompt(s, "go on"); stop != "end_turn" {
		t.Error(stop)
	}
}

func TestCase45_Elicitation(t *testing.T) {
	c, _, s, _ := ready(t)
	for answer, said := range map[string]string{
		`{"action":"accept","content":{"strategy":"bold","tests":false}}`: `Answer: {"strategy":"bold","tests":false}`,
		`{"action":"decline"}`: "Answer: declined.",
		`{"action":"cancel"}`:  "Answer: cancelled.",
	} {
		c.onAsk = func(m got) string {
			has(t, string(m.Params), `"sessionId":"`+s+`"`, `"mode":"form"`, `"oneOf"`, `"requestedSchema"`)
			return answer
		}
		if _, got := c.prompt(s, "ELICIT"); !strings.HasPrefix(got, said) {
			t.Errorf("%q", got)
		}
	}
	c.onAsk = func(m got) string {
		has(t, string(m.Params), `"mode":"url"`, `"url":"https://`, `"elicitationId"`)
		return `{"action":"accept"}`
	}
	c.prompt(s, "ELICIT:url")
	plain := start(t, "--dir", t.TempDir(), "--delay", "0s")
	plain.call("initialize", obj{"protocolVersion": 1})
	if _, said := plain.prompt(plain.open(t.TempDir()), "ELICIT"); !strings.HasPrefix(said, "This client cannot") {
		t.Errorf("%q", said)
	}
}

func TestRead_StaysInsideTheDirectory(t *testing.T) {
	c, _, s, cwd := ready(t)
	outside := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(outside, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(cwd, "link")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"../secret", outside, "link", ".", "missing"} {
		c.prompt(s, "READ:"+name)
		if c.lastState(s) != "failed" || strings.Contains(fmt.Sprint(c.seen), `"text":"secret"`) {
			t.Errorf("%s: %s", name, c.lastState(s))
		}
	}
}

func TestConfigOptions_ChangeWhatIsSaid(t *testing.T) {
	c, _, s, _ := ready(t)
	set := func(id, value string) got {
		return c.call("session/set_config_option", obj{"sessionId": s, "configId": id, "value": value})
	}
	has(t, string(set("verbosity", "thoughtful").Result), `"currentValue":"thoughtful"`)
	c.prompt(s, "hm")
	if len(c.updates(s, "agent_thought_chunk")) == 0 {
		t.Error("no thoughts")
	}
	wantError(t, set("verbosity", "nope"), -32602)
	wantError(t, set("nope", "normal"), -32602)
	wantError(t, c.call("session/set_config_option", obj{"sessionId": s, "configId": "model", "type": "boolean", "value": true}), -32602)
	c.call("session/set_mode", obj{"sessionId": s, "modeId": "code"})
	if m := c.updates(s, "current_mode_update"); len(m) != 1 || m[0].CurrentModeID != "code" {
		t.Errorf("mode %+v", m)
	}
}

func TestDisk_AStoreThatCannotBeWrittenIsSaid(t *testing.T) {
	blocker := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(blocker, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c := start(t, "--dir", filepath.Join(blocker, "store"), "--delay", "0s")
	c.initialize()
	m := c.call("session/prompt", promptOf(c.open(t.TempDir()), "x"))
	wantError(t, m, -32603)
	has(t, string(m.Error.Data), "cannot be saved")
}
