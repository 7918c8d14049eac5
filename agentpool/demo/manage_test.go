package demo

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// replayed is what a load replays, without ids: kind and text, or state of a tool call.
func (c *client) replayed(session string) []string {
	c.t.Helper()
	var out []string
	for _, u := range c.updates(session) {
		switch u.SessionUpdate {
		case "tool_call", "tool_call_update", "compaction_update":
			out = append(out, u.SessionUpdate+" "+u.Status)
		default:
			out = append(out, strings.TrimSpace(u.SessionUpdate+" "+u.text()))
		}
	}
	return out
}

func (c *client) load(session, cwd string) got {
	c.t.Helper()
	c.seen = nil
	return c.call("session/load", obj{"sessionId": session, "cwd": cwd, "mcpServers": []any{}})
}

func TestStore_FileComesWithTheFirstMessageAndOutlivesTheProcess(t *testing.T) {
	c, store, s, cwd := ready(t)
	if files, err := os.ReadDir(store); err == nil || len(files) > 0 {
		t.Errorf("an empty session left %v", files)
	}
	c.prompt(s, "one")
	_, said := c.prompt(s, "THINK TOOL PLAN two")
	live := c.updates(s, "agent_message_chunk")[0].MessageID
	info, err := os.Stat(filepath.Join(store, s+".jsonl"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v %v", info, err)
	}

	c2 := start(t, "--dir", store, "--delay", "0s")
	c2.initialize()
	if m := c2.load(s, cwd); m.Error != nil {
		t.Fatal(m.line)
	}
	want := []string{
		"user_message_chunk one", "agent_message_chunk ECHO[one] (1 messages in context, 1 user texts)",
		"user_message_chunk THINK TOOL PLAN two", `agent_thought_chunk The user wrote "two". An echo will do, but it should be a careful one.`,
		"tool_call pending", "tool_call_update completed", "plan", "agent_message_chunk " + said,
	}
	if got := c2.replayed(s); !slices.Equal(got, want) {
		t.Errorf("replayed %q", got)
	}
	if u := c2.updates(s, "agent_message_chunk"); u[1].MessageID != live {
		t.Errorf("message id %s, live %s", u[1].MessageID, live)
	}
	_, said = c2.prompt(s, "RECALL")
	has(t, said, "3 user texts", "1) one\n", "2) THINK TOOL PLAN two\n", "3) RECALL\n", "(5 messages in context, 3 user texts)")
}

func TestResume_ReplaysNothing(t *testing.T) {
	c, store, s, cwd := ready(t)
	c.prompt(s, "one")
	c2 := start(t, "--dir", store, "--delay", "0s")
	c2.initialize()
	if m := c2.call("session/resume", obj{"sessionId": s, "cwd": cwd}); m.Error != nil || len(c2.seen) != 0 {
		t.Errorf("%s %v", m.line, c2.seen)
	}
	if _, said := c2.prompt(s, "two"); said != "ECHO[two] (3 messages in context, 2 user texts)" {
		t.Errorf("%q", said)
	}
}

func TestCase51_UnknownSessionsAreNotFound(t *testing.T) {
	c, _, _, cwd := ready(t)
	for _, id := range []string{"nope", "../../etc/passwd", "", newUUID(), strings.ToUpper(newUUID())} {
		wantError(t, c.load(id, cwd), -32002)
		wantError(t, c.call("session/resume", obj{"sessionId": id, "cwd": cwd}), -32002)
		wantError(t, c.call("session/fork", obj{"sessionId": id, "cwd": cwd}), -32002)
		wantError(t, c.call("session/prompt", promptOf(id, "x")), -32002)
		if m := c.call("session/close", obj{"sessionId": id}); m.Error != nil {
			t.Error(m.line)
		}
		if m := c.call("session/delete", obj{"sessionId": id}); m.Error != nil {
			t.Error(m.line)
		}
	}
}

func TestFork_CopiesTheHistoryAndGoesItsOwnWay(t *testing.T) {
	c, _, parent, cwd := ready(t)
	c.prompt(parent, "one")
	running := c.send("session/prompt", promptOf(parent, "SLOW:1000x20 unfinished"))
	for len(c.updates(parent, "agent_message_chunk")) < 8 {
		c.next()
	}
	child := sessionOf(t, c.call("session/fork", obj{"sessionId": parent, "cwd": cwd}))
	_, said := c.prompt(child, "RECALL")
	has(t, said, "1) one\n2) RECALL\n", "(3 messages in context, 2 user texts)")
	c.notify("session/cancel", obj{"sessionId": parent})
	c.await(running)
	_, said = c.prompt(parent, "RECALL")
	has(t, said, "1) one\n2) SLOW:1000x20 unfinished\n3) RECALL\n")
	c.load(child, cwd)
	if got := c.replayed(child); len(got) != 4 {
		t.Errorf("replayed %q", got)
	}
	if rows := list(t, c, obj{}); len(rows) != 2 || !slices.ContainsFunc(rows, func(r listRow) bool { return r.Title == "one (fork)" && r.SessionID == child }) {
		t.Errorf("rows %+v", rows)
	}
}

func TestFork_OfAnEmptySessionLeavesNoFile(t *testing.T) {
	c, store, s, cwd := ready(t)
	sessionOf(t, c.call("session/fork", obj{"sessionId": s, "cwd": cwd}))
	if files, err := os.ReadDir(store); err == nil {
		t.Errorf("left %v", files)
	}
}

func TestV13_ALateSaveDoesNotBringADeletedSessionBack(t *testing.T) {
	c, store, s, cwd := ready(t)
	c.prompt(s, "one")
	id := c.send("session/prompt", promptOf(s, "BACKGROUND:50 SLOW:1000x20"))
	for len(c.updates(s, "agent_message_chunk")) < 10 {
		c.next()
	}
	del := c.send("session/delete", obj{"sessionId": s})
	c.await(id)
	if m := c.await(del); m.Error != nil {
		t.Fatal(m.line)
	}
	time.Sleep(80 * time.Millisecond)
	if files, _ := os.ReadDir(store); len(files) != 0 {
		t.Errorf("files %v", files)
	}
	wantError(t, c.load(s, cwd), -32002)
	if rows := list(t, c, obj{}); len(rows) != 0 {
		t.Errorf("rows %+v", rows)
	}
}

func TestKill9_LosesTheAnswerAtMost(t *testing.T) {
	store, cwd := t.TempDir(), t.TempDir()
	c := startProcess(t, "--dir", store, "--delay", "0s")
	c.initialize()
	s := c.open(cwd)
	c.prompt(s, "one")
	c.send("session/prompt", promptOf(s, "SLOW:1000x20 two"))
	for len(c.updates(s, "agent_message_chunk")) < 12 {
		c.next()
	}
	if err := c.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	c.exit()
	f, err := os.OpenFile(filepath.Join(store, s+".jsonl"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"t":"agent","text":"to`); err != nil { // a torn line, as a full disk or a crash leaves it
		t.Fatal(err)
	}
	f.Close()
	for i := range 2 {
		c = start(t, "--dir", store, "--delay", "0s")
		c.initialize()
		if m := c.load(s, cwd); m.Error != nil {
			t.Fatal(m.line)
		}
		_, said := c.prompt(s, "RECALL")
		has(t, said, "1) one\n2) SLOW:1000x20 two\n3) RECALL\n", fmt.Sprintf("(%d messages in context, %d user texts)", 4+2*i, 3+i))
	}
}

func TestCrash_ExitsWithTheCode(t *testing.T) {
	c, _, s, _ := ready(t)
	c.send("session/prompt", promptOf(s, "CRASH:7"))
	if code := c.exit(); code != 7 {
		t.Errorf("exit %d", code)
	}
	p := startProcess(t, "--dir", t.TempDir())
	p.initialize()
	p.send("session/prompt", promptOf(p.open(t.TempDir()), "CRASH:kill"))
	p.exit()
	if ws, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || ws.Signal() != syscall.SIGKILL {
		t.Errorf("state %v", p.cmd.ProcessState)
	}
}

func TestEOF_EndsTheAgentAtOnce(t *testing.T) {
	c, _, s, _ := ready(t)
	id := c.send("session/prompt", promptOf(s, "IGNORECANCEL:1000x3600"))
	c.next()
	began := time.Now()
	c.in.Close()
	if code := c.exit(); code != 0 || time.Since(began) > 5*time.Second {
		t.Errorf("exit %d after %v", code, time.Since(began))
	}
	if stop := c.stopOf(c.await(id)); stop != "cancelled" {
		t.Error(stop)
	}
}

func TestNew_ChosenIdsAndDirectories(t *testing.T) {
	c, _, _, cwd := ready(t)
	id := newUUID()
	chosen := func(id string) got {
		return c.call("session/new", obj{"cwd": cwd, "mcpServers": []any{}, "_meta": obj{"sessionId": id, "session.systemPrompt": "Be brief."}})
	}
	if s := sessionOf(t, chosen(strings.ToUpper(id))); s != id {
		t.Errorf("got %s, chose %s", s, id)
	}
	_, said := c.prompt(id, "RECALL")
	has(t, said, "system) Be brief.\n1) RECALL")
	wantError(t, chosen(id), -32602)
	c.call("session/close", obj{"sessionId": id})
	wantError(t, chosen(id), -32602) // stored
	if s := sessionOf(t, chosen("my session")); canonicalUUID(s) == "" {
		t.Errorf("session id %s", s)
	}
	file := filepath.Join(cwd, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, cwd := range []string{"", ".", "../x", "relative", "/nope/nope", file} {
		wantError(t, c.call("session/new", obj{"cwd": cwd, "mcpServers": []any{}}), -32602)
	}
	wantError(t, c.call("session/new", obj{"cwd": cwd}), -32602)
}

func TestCapabilities_OffMeansOff(t *testing.T) {
	for flag, method := range map[string]string{
		"--no-list": "session/list", "--no-load": "session/load", "--no-resume": "session/resume",
		"--no-fork": "session/fork", "--no-close": "session/close", "--no-delete": "session/delete",
	} {
		c := start(t, "--dir", t.TempDir(), flag)
		caps := string(c.initialize().Result)
		word := strings.TrimPrefix(flag, "--no-")
		if strings.Contains(caps, `"`+word+`":{`) || strings.Contains(caps, `"`+word+`Session":true`) {
			t.Errorf("%s: still offered: %s", flag, caps)
		}
		wantError(t, c.call(method, obj{"sessionId": newUUID(), "cwd": "/"}), -32601)
	}
	c, _, s, _ := ready(t, "--no-embedded")
	wantError(t, c.call("session/prompt", obj{"sessionId": s, "prompt": []obj{
		{"type": "resource", "resource": obj{"uri": "x:y", "text": "z"}},
	}}), -32602)
}

func TestEmbeddedTexts_AreUserTextsAndNoDirectives(t *testing.T) {
	c, _, s, _ := ready(t)
	c.seen = nil
	c.call("session/prompt", obj{"sessionId": s, "prompt": []obj{
		{"type": "resource", "resource": obj{"uri": "x:y", "text": "CRASH in the\nembedded text"}},
		{"type": "text", "text": "FAIL in a text in front"},
		{"type": "text", "text": "RECALL"},
	}})
	has(t, c.said(s), "1) CRASH in the embedded text\n2) FAIL in a text in front\n3) RECALL\n", "ECHO[RECALL] (1 messages in context, 3 user texts)")
}

func TestCompact_ReplacesTheContext(t *testing.T) {
	c, _, s, cwd := ready(t)
	c.prompt(s, "secret")
	_, said := c.prompt(s, "COMPACT")
	has(t, said, "Compacted 3 messages")
	var states []string
	for _, u := range c.updates(s, "compaction_update") {
		states = append(states, u.Status)
	}
	if !slices.Equal(states, []string{"in_progress", "completed"}) {
		t.Errorf("states %v", states)
	}
	if _, said = c.prompt(s, "RECALL"); strings.Contains(said, "secret") || !strings.Contains(said, "1) RECALL") {
		t.Errorf("%q", said)
	}
	c.load(s, cwd)
	if got := c.replayed(s); got[0] != "user_message_chunk secret" || !slices.Contains(got, "compaction_update completed") {
		t.Errorf("replayed %q", got)
	}
}

func TestLogin_IsAskedFor(t *testing.T) {
	c := start(t, "--dir", t.TempDir(), "--login")
	has(t, string(c.initialize().Result), loginMethod)
	cwd := t.TempDir()
	m := c.call("session/new", obj{"cwd": cwd, "mcpServers": []any{}})
	wantError(t, m, -32000)
	has(t, string(m.Error.Data), loginMethod)
	wantError(t, c.call("authenticate", obj{"methodId": "nope"}), -32602)
	if m := c.call("authenticate", obj{"methodId": loginMethod}); m.Error != nil {
		t.Fatal(m.line)
	}
	c.open(cwd)
	c.call("logout", obj{})
	wantError(t, c.call("session/new", obj{"cwd": cwd, "mcpServers": []any{}}), -32000)
}

func TestBadInput_IsAnsweredAndTheAgentLivesOn(t *testing.T) {
	c, _, s, _ := ready(t)
	for line, code := range map[string]int{
		`{"jsonrpc":`: -32700, `hello`: -32700, `[{"jsonrpc":"2.0","id":1,"method":"initialize"}]`: -32600, `42`: -32600,
	} {
		c.write(line)
		m := c.next()
		if string(m.ID) != "null" {
			m = c.next() // the answers follow the updates of the session that was opened
		}
		wantError(t, m, code)
	}
	wantError(t, c.call("no/such", obj{}), -32601)
	wantError(t, c.call("session/prompt", obj{"sessionId": s}), -32602)
	wantError(t, c.call("session/prompt", obj{"sessionId": s, "prompt": []any{}}), -32602)
	wantError(t, c.call("session/prompt", obj{"sessionId": s, "prompt": "x"}), -32602)
	wantError(t, c.call("session/list", obj{"cursor": "nonsense"}), -32602)
	wantError(t, c.call("session/set_mode", obj{"sessionId": s, "modeId": "nope"}), -32602)
	c.notify("no/such", obj{})
	c.write("")
	c.write(`{"jsonrpc":"2.0","id":99,"result":{}}`)
	if stop, _ := c.prompt(s, "still here"); stop != "end_turn" {
		t.Error(stop)
	}
}
