package demo

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestEcho_StreamsWordsAndCountsTheContext(t *testing.T) {
	c, _, s, _ := ready(t)
	stop, said := c.stopOf(c.call("session/prompt", promptOf(s, "fix the  parser"))), c.said(s)
	if stop != "end_turn" || said != "ECHO[fix the  parser] (1 messages in context, 1 user texts)" {
		t.Errorf("%s: %q", stop, said)
	}
	chunks := c.updates(s, "agent_message_chunk")
	if len(chunks) != 10 {
		t.Errorf("%d chunks", len(chunks))
	}
	for _, u := range chunks {
		if u.MessageID != chunks[0].MessageID || canonicalUUID(u.MessageID) == "" {
			t.Errorf("message id %q", u.MessageID)
		}
	}
	all := c.updates(s)[1:]
	if cmds := c.updates(s)[0]; cmds.SessionUpdate != "available_commands_update" {
		t.Errorf("first of all %+v", cmds)
	}
	if first := all[0]; first.SessionUpdate != "session_info_update" || first.Title != "fix the parser" {
		t.Errorf("first update %+v", first)
	}
	if last := all[len(all)-1]; last.SessionUpdate != "usage_update" {
		t.Errorf("last update before the response %+v", last)
	}
	if _, said := c.prompt(s, "again"); said != "ECHO[again] (3 messages in context, 2 user texts)" {
		t.Errorf("%q", said)
	}
	if info := c.updates(s, "session_info_update"); len(info) != 1 || info[0].Title != "" {
		t.Errorf("the title was sent again: %+v", info)
	}
}

func TestGreeting_SaysWhatThereIsAndEchoes(t *testing.T) {
	c, _, s, _ := ready(t)
	for prompt, want := range map[string]string{"Hello!": "There is no model behind me", "help": "| `PLAN` |"} {
		_, said := c.prompt(s, prompt)
		has(t, said, want)
		if last := said[strings.LastIndex(said, "\n")+1:]; !strings.HasPrefix(last, "ECHO["+prompt+"] (") {
			t.Errorf("last line %q", last)
		}
	}
}

func TestDirectives_EndTheTurnAsTheySay(t *testing.T) {
	c, _, s, _ := ready(t)
	for _, tc := range []struct {
		prompt, stop, said string
	}{
		{"SLOW:3x0 go", "end_turn", "tick 1/3 tick 2/3 tick 3/3 \nECHO[SLOW:3x0 go] ("},
		{"/slow 2x0", "end_turn", "tick 1/2 tick 2/2 \nECHO[/slow 2x0] ("},
		{"SAY exactly this", "end_turn", "exactly this"},
		{"SAY TOOL", "end_turn", "TOOL"},
		{"RUNES:7", "end_turn", "äß한글😀 ä"},
		{"EMPTY", "end_turn", ""},
		{"REFUSE", "refusal", ""},
		{"MAXTOKENS", "max_tokens", "This answer is cut off in the middle of"},
		{"just SLOW:3x0", "end_turn", "ECHO[just SLOW:3x0] ("},
		{"/unknown x", "end_turn", "ECHO[/unknown x] ("},
	} {
		stop, said := c.prompt(s, tc.prompt)
		if stop != tc.stop || !strings.HasPrefix(said, tc.said) || tc.said == "" && said != "" {
			t.Errorf("%s: %s %q", tc.prompt, stop, said)
		}
	}
	for prompt, code := range map[string]int{
		"FAIL": -32603, "FAIL:-32000": -32000, "SLOW:x": -32602, "TOOL:what": -32602, "NEXT:what": -32602, "RAW {": -32602, "MODE:x": -32602,
	} {
		wantError(t, c.call("session/prompt", promptOf(s, prompt)), code)
	}
	if _, said := c.prompt(s, "CODE"); !strings.Contains(said, "```go\n") || !strings.Contains(said, "| input |") {
		t.Errorf("%q", said)
	}
}

func TestNext_IsDoneWithTheNextPromptWhateverItSays(t *testing.T) {
	c, _, s, _ := ready(t)
	c.prompt(s, "NEXT:RUNES:5")
	if _, said := c.prompt(s, "please condense"); utf8.RuneCountInString(said) != 5 {
		t.Errorf("%q", said)
	}
	if _, said := c.prompt(s, "please condense"); !strings.HasPrefix(said, "ECHO[") {
		t.Errorf("%q", said)
	}
}

func TestThoughtsPlanAndContent(t *testing.T) {
	c, _, s, _ := ready(t)
	c.prompt(s, "THINK PLAN IMAGE LINK RESOURCE MODE:code hi")
	if len(c.updates(s, "agent_thought_chunk")) < 5 {
		t.Error("no thoughts")
	}
	plans := c.updates(s, "plan")
	if len(plans) != 6 || plans[0].Entries[0].Status != "pending" || plans[1].Entries[0].Status != "in_progress" || plans[5].Entries[3].Status != "completed" {
		t.Errorf("plans %+v", plans)
	}
	var kinds []string
	for _, u := range c.updates(s, "agent_message_chunk") {
		var b struct{ Type, Data string }
		if err := json.Unmarshal(u.Content, &b); err != nil {
			t.Fatal(err)
		}
		if b.Type != "text" {
			kinds = append(kinds, b.Type)
		}
		if png, err := base64.StdEncoding.DecodeString(b.Data); b.Type == "image" && (err != nil || !strings.HasPrefix(string(png), "\x89PNG")) {
			t.Error("no picture")
		}
	}
	if !slices.Equal(kinds, []string{"image", "resource_link", "resource"}) {
		t.Errorf("kinds %v", kinds)
	}
	if m := c.updates(s, "current_mode_update"); len(m) != 1 || m[0].CurrentModeID != "code" {
		t.Errorf("mode %+v", m)
	}
}

func TestCase91_RawUpdatesLeaveAsTheyAre(t *testing.T) {
	c, _, s, _ := ready(t)
	c.prompt(s, `RAW {"sessionUpdate":"_x","n":12345678901234567890,"a":[ 1 ]}`)
	if !slices.ContainsFunc(c.seen, func(m got) bool {
		return strings.Contains(m.line, `{"sessionUpdate":"_x","n":12345678901234567890,"a":[1]}`)
	}) {
		t.Error("not sent")
	}
}

func TestTool_RunsThroughItsStates(t *testing.T) {
	c, _, s, _ := ready(t)
	c.prompt(s, "TOOL")
	var states []string
	for _, u := range c.updates(s, "tool_call", "tool_call_update") {
		states = append(states, u.SessionUpdate+" "+u.Status)
	}
	if !slices.Equal(states, []string{"tool_call pending", "tool_call_update in_progress", "tool_call_update completed"}) {
		t.Errorf("%v", states)
	}
	if !strings.Contains(fmt.Sprint(c.seen), `"type":"diff"`) {
		t.Error("no diff")
	}
}

func TestCase22_ASecondPromptInATurnIsRefused(t *testing.T) {
	c, _, s, _ := ready(t)
	first := c.send("session/prompt", promptOf(s, "SLOW:1000x20"))
	for len(c.updates(s, "agent_message_chunk")) == 0 {
		c.next()
	}
	wantError(t, c.call("session/prompt", promptOf(s, "too early")), -32600)
	c.notify("session/cancel", obj{"sessionId": s})
	if stop := c.stopOf(c.await(first)); stop != "cancelled" {
		t.Error(stop)
	}
}

func TestCancel_EndsTheTurnAtOnceAndKeepsWhatWasSaid(t *testing.T) {
	c, _, s, _ := ready(t)
	id := c.send("session/prompt", promptOf(s, "SLOW:1000x3600000"))
	for len(c.updates(s, "agent_message_chunk")) == 0 {
		c.next()
	}
	began := time.Now()
	c.notify("session/cancel", obj{"sessionId": s})
	if stop := c.stopOf(c.await(id)); stop != "cancelled" || time.Since(began) > 5*time.Second {
		t.Errorf("%s after %v", stop, time.Since(began))
	}
	if _, said := c.prompt(s, "go on"); said != "ECHO[go on] (3 messages in context, 2 user texts)" {
		t.Errorf("%q", said)
	}
	id = c.send("session/prompt", promptOf(s, "SLOW:1000x3600000"))
	c.notify("$/cancel_request", obj{"requestId": json.RawMessage(id)})
	if stop := c.stopOf(c.await(id)); stop != "cancelled" {
		t.Errorf("$/cancel_request: %s", stop)
	}
}

func TestCase32_IgnoreCancelEndsAsIfNothingWasSaid(t *testing.T) {
	c, _, s, _ := ready(t)
	id := c.send("session/prompt", promptOf(s, "IGNORECANCEL:5x30"))
	c.notify("session/cancel", obj{"sessionId": s})
	if stop := c.stopOf(c.await(id)); stop != "end_turn" {
		t.Error(stop)
	}
	has(t, c.said(s), "tick 5/5", "ECHO[")
}

func TestCase35_CloseStopsATurnThatIgnoresCancel(t *testing.T) {
	c, _, s, _ := ready(t)
	id := c.send("session/prompt", promptOf(s, "IGNORECANCEL:1000x1000"))
	closing := c.send("session/close", obj{"sessionId": s})
	if stop := c.stopOf(c.await(id)); stop != "cancelled" {
		t.Error(stop)
	}
	c.await(closing)
	wantError(t, c.call("session/prompt", promptOf(s, "x")), -32002)
}

func TestCase25_LateChunksComeAfterTheResponse(t *testing.T) {
	c, _, s, _ := ready(t)
	c.prompt(s, "LATE hi")
	last := c.updates(s, "agent_message_chunk")[0].MessageID
	c.seen = nil
	c.next()
	if u := c.updates(s); len(u) != 1 || u[0].text() != "late " || u[0].MessageID != last {
		t.Errorf("%+v, the turn's message is %s", u, last)
	}
}

func TestCase27_BackgroundMessagesNeedNoPrompt(t *testing.T) {
	c, _, s, _ := ready(t)
	c.prompt(s, "BACKGROUND:30")
	c.seen = nil
	for len(c.updates(s, "agent_message_chunk")) == 0 {
		c.next()
	}
	has(t, c.said(s), "background")
}

func TestParallel_SessionsStreamAtTheSameTimeInWholeLines(t *testing.T) {
	c, _, s1, cwd := ready(t)
	s2 := c.open(cwd)
	a := c.send("session/prompt", promptOf(s1, "SLOW:100x1 one"))
	b := c.send("session/prompt", promptOf(s2, "SLOW:100x1 two"))
	for open := 2; open > 0; { // next fails on a line that is not whole
		if m := c.next(); m.Method == "" && (string(m.ID) == a || string(m.ID) == b) {
			open--
		}
	}
	for s, word := range map[string]string{s1: "one", s2: "two"} {
		var want strings.Builder
		for i := range 100 {
			fmt.Fprintf(&want, "tick %d/100 ", i+1)
		}
		fmt.Fprintf(&want, "\nECHO[SLOW:100x1 %s] (1 messages in context, 1 user texts)", word)
		if said := c.said(s); said != want.String() {
			t.Errorf("%q", said)
		}
	}
	var order []string
	for _, m := range c.seen {
		if strings.Contains(m.line, "tick ") {
			order = append(order, m.line[:70])
		}
	}
	if len(slices.Compact(order)) < 4 {
		t.Error("one after the other")
	}
}

func TestCase11_LargePromptsPassWhole(t *testing.T) {
	c, store, s, _ := ready(t)
	text := strings.Repeat("0123456789abcdef", 2<<20/16)
	if _, said := c.prompt(s, text); !strings.HasPrefix(said, "ECHO["+text+"] (1 ") {
		t.Errorf("%d bytes of %d", len(said), len(text))
	}
	picture := base64.StdEncoding.EncodeToString(make([]byte, 300<<10))
	c.seen = nil
	m := c.call("session/prompt", obj{"sessionId": s, "prompt": []obj{
		{"type": "text", "text": "look"}, {"type": "image", "mimeType": "image/png", "data": picture},
	}})
	c.stopOf(m)
	has(t, c.said(s), "image/png, 300.0 KB, not kept", "ECHO[look] (3 messages in context, 2 user texts)")
	if info, err := os.Stat(filepath.Join(store, s+".jsonl")); err != nil || info.Size() > 5<<20 {
		t.Errorf("%v %v", info, err)
	}
}
