package sessions_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/acpgate/acpgate/agentpool/agenttest"
	"github.com/acpgate/acpgate/sessions"
)

// binding is the session that the client's view looks at now.
func (c *client) binding(a *sessions.Attachment) string {
	c.b.Helper()
	d := c.b.optedIn()
	x := d.resume(a.Handle(), `{"view":true}`)
	defer x.Detach()
	return decode(c.b, d.take()[0]).Result.Meta.Acpgate.Binding
}

func TestV1_HandleNeverChanges(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		c := b.plain()
		a := c.newSession()
		c.prompt(a, "first")
		c.take()
		for range 3 {
			c.prompt(a, "/new")
			c.prompt(a, "hi")
			for _, f := range c.take() {
				if id := decode(t, f).Params.SessionID; id != "" && id != a.Handle() {
					t.Fatalf("a frame came under %s, the handle is %s", id, a.Handle())
				}
			}
		}
		if got := c.binding(a); got == a.Handle() {
			t.Error("the binding did not change")
		}
	})
}

func TestV6_NewAndBackAgain(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		c := b.optedIn()
		a := c.newSession()
		c.prompt(a, "the parser is slow")
		c.send(a, "session/set_mode", `"modeId":"code"`)
		c.take()
		c.prompt(a, "/new  Lexer work ")
		frames := c.take()
		if got := brief(t, frames); got != "current_mode_update session_info_update report:A new session, “Lexer work”; nothing was said in it yet. The one before is kept. stop:end_turn" {
			t.Errorf("/new showed %s", got)
		}
		second := c.binding(a)
		c.prompt(a, "the lexer too")
		c.expect("agent:ECHO[the lexer too] stop:end_turn")
		if got := fmt.Sprint(b.agents.Stored(second)); got != "[the lexer too ECHO[the lexer too]]" {
			t.Errorf("the new session has %s", got)
		}
		p := b.agents.Started(b, 1)
		if n := count(p, "session/set_mode"); n != 2 {
			t.Errorf("the mode was set %d times: it belongs to the view and is applied again", n)
		}
		// Back, by title: what was said is replayed, then one notice, and the agent is not asked again.
		c.prompt(a, "/resume THE PARSER IS SLOW")
		frames = c.take()
		want := "user:the parser is slow agent:ECHO[the parser is slow] current_mode_update report:Switched to “the parser is slow” (s1), 2 entries; session/load shows all of them. stop:end_turn"
		if got := brief(t, frames); got != want {
			t.Errorf("/resume showed %s\nwant %s", got, want)
		}
		if count(p, "session/load")+count(p, "session/resume") != 0 {
			t.Errorf("the agent was asked to open a session that is open: %v", p.Methods())
		}
		if c.binding(a) != a.Handle() {
			t.Error("not back home")
		}
		c.prompt(a, "go on")
		c.expect("agent:ECHO[go on] stop:end_turn")
		if got := len(b.agents.Stored(a.Handle())); got != 4 {
			t.Errorf("the first session has %d messages", got)
		}
	})
}

func TestV10_ReplayIDs(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		c, plain := b.optedIn(), b.plain()
		a := c.newSession()
		plain.load(a.Handle())
		ids := func(frames []string) string {
			var out []string
			for _, f := range frames {
				if m := decode(t, f); m.Params.Update.MessageID != "" && strings.HasPrefix(m.Params.Update.MessageID, "hist") {
					out = append(out, m.Params.Update.MessageID)
				}
			}
			return strings.Join(out, " ")
		}
		c.prompt(a, "one")
		c.take()
		c.prompt(a, "/new")
		c.prompt(a, "two")
		c.take()
		second := c.binding(a)
		plain.take()
		c.prompt(a, "/resume "+a.Handle())
		if got := ids(c.take()); got != "hist-u1 hist-a2" {
			t.Errorf("at home: %s", got)
		}
		if got := ids(plain.take()); got != "hist-u1 hist-a2" {
			t.Errorf("at home, plain: %s", got)
		}
		c.prompt(a, "/resume "+second)
		got := ids(c.take())
		var q string
		if n, _ := fmt.Sscanf(got, "hist-%8s-u1", &q); n != 1 || got != fmt.Sprintf("hist-%s-u1 hist-%s-a2", q, q) {
			t.Errorf("elsewhere: %s", got)
		}
		plain.take()
		c.prompt(a, "/resume "+a.Handle())
		if got := ids(c.take()); got != "hist-u1 hist-a2" {
			t.Errorf("at home again: %s", got)
		}
		// A plain client appends chunks of one id, so the second replay comes under ids of its own.
		if got := ids(plain.take()); got != "hist-u1~2 hist-a2~2" {
			t.Errorf("at home again, plain: %s", got)
		}
	})
}

func TestV9_WindowIsFirst10GapLast200AndTextsAreCapped(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		texts := make([]string, 300)
		for i := range texts {
			texts[i] = fmt.Sprint(i)
		}
		texts[299] = "<" + strings.Repeat("é", 10_000) + ">"
		b.agents.Store("long", b.dir, texts...)
		c := b.optedIn()
		a := c.newSession()
		c.prompt(a, "/resume long")
		frames := c.take()
		var said []string
		for _, f := range frames {
			if m := decode(t, f); strings.HasPrefix(m.Params.Update.MessageID, "hist") {
				said = append(said, m.Params.Update.Content.Text)
				if !m.Params.Meta.Acpgate.Replay || m.Params.Meta.Acpgate.Session != "long" {
					t.Errorf("meta %+v", m.Params.Meta.Acpgate)
				}
			}
		}
		if len(said) != 211 || said[9] != "9" || said[10] != "… 90 earlier entries are not shown …" || said[11] != "100" {
			t.Fatalf("%d entries: %v", len(said), said[:12])
		}
		last := said[210]
		if len(last) > 8<<10 || !strings.HasPrefix(last, "<é") || !strings.HasSuffix(last, "é>") || !strings.Contains(last, "bytes left out") || strings.ContainsRune(last, '\uFFFD') {
			t.Errorf("the long text has %d bytes: %.20s…", len(last), last)
		}
		// session/load sends everything, whole.
		d := b.plain()
		d.load("long")
		all := d.take()
		if n := strings.Count(strings.Join(all, "\n"), "hist-"); n != 300 || !strings.Contains(strings.Join(all, ""), texts[299]) {
			t.Errorf("load sent %d entries", n)
		}
	})
}

func TestV9_ToolCallsComeFinished(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		c := b.plain()
		a := c.newSession()
		p := b.agents.Started(b, 1)
		p.Handle("session/prompt", func(call *agenttest.Call) {
			call.Update(`{"sessionUpdate":"agent_thought_chunk","content":{"type":"text","text":"hm"}}`)
			call.Update(`{"sessionUpdate":"tool_call","toolCallId":"x1","title":"edit","status":"pending","rawInput":{"n":12345678901234567890}}`)
			call.Update(`{"sessionUpdate":"tool_call_update","toolCallId":"x1","status":"in_progress"}`)
			call.Update(`{"sessionUpdate":"tool_call_update","toolCallId":"x1","status":"completed","content":[{"type":"diff","path":"/f","newText":"x"}]}`)
			call.Chunk("done")
			call.Result(`{"stopReason":"end_turn"}`)
		})
		c.prompt(a, "edit")
		c.take()
		d := b.plain()
		d.load(a.Handle())
		frames := d.take()
		if got := brief(t, frames); got != "user:edit agent_thought_chunk tool_call agent:done result" {
			t.Errorf("saw %s", got)
		}
		tool := frames[2]
		for _, want := range []string{`"toolCallId":"hist-t2-1"`, `"status":"completed"`, `"title":"edit"`, `12345678901234567890`, `"path":"/f"`} {
			if !strings.Contains(tool, want) {
				t.Errorf("%s is not in %s", want, tool)
			}
		}
		if !strings.Contains(frames[1], "hist-th2") || !strings.Contains(frames[3], "hist-a2") {
			t.Errorf("thought and message do not share the step's number: %s %s", frames[1], frames[3])
		}
	})
}

func TestV7_NothingRebindsWhileATurnRuns(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		c := b.plain()
		a := c.newSession()
		c.prompt(a, "one")
		c.take()
		c.prompt(a, "/new")
		c.prompt(a, "two")
		c.take()
		p := b.agents.Started(b, 1)
		manual(p)
		c.prompt(a, "go")
		p.Await("session/prompt")
		p.Await("session/prompt")
		call := p.Await("session/prompt")
		for _, s := range []string{"/new", "/clear", "/resume " + a.Handle(), "/drop", "/drop " + a.Handle()} {
			_, err := c.try(a, "session/prompt", text(s))
			wantError(t, err, -32603, "turn_running")
		}
		// JSON-RPC alike: the handle's home session is not the binding, so this would rebind.
		_, err := c.tryOpen("session/load", fmt.Sprintf(`{"sessionId":%q,"cwd":%q,"mcpServers":[]}`, a.Handle(), b.dir))
		wantError(t, err, -32603, "turn_running")
		// The view as it is can always be attached to; commands that move nothing run at once.
		d := b.plain()
		d.resume(a.Handle(), `{"view":true}`)
		c.prompt(a, "/help")
		if got := brief(t, c.take()); !strings.HasPrefix(got, "agent:Commands of the gateway") || !strings.HasSuffix(got, "stop:end_turn") {
			t.Errorf("/help showed %s", got)
		}
		call.Result(`{"stopReason":"end_turn"}`)
		c.expect("stop:end_turn")
		c.prompt(a, "/new")
		c.expect("agent:A new session; nothing was said in it yet. The one before is kept. stop:end_turn")
	})
}

// Prompts that come while a view moves wait for it and run in the new session.
func TestV7_PromptsWaitForAMove(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		c := b.plain()
		a := c.newSession()
		c.prompt(a, "one")
		c.take()
		c.prompt(a, "/new")
		c.prompt(a, "two") // before anything has settled
		c.expect("agent:A new session; nothing was said in it yet. The one before is kept. stop:end_turn agent:ECHO[two] stop:end_turn")
		if got := b.agents.Stored(a.Handle()); len(got) != 2 {
			t.Errorf("the old session has %v", got)
		}
	})
}

func TestV4_BindingBeforeHandle(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		c := b.plain()
		v := c.newSession()
		c.prompt(v, "v one")
		w := c.newSession()
		c.prompt(w, "w one")
		c.take()
		// V moves to a third session, then W moves to V's home.
		c.prompt(v, "/new")
		c.prompt(v, "v two")
		c.take()
		third := c.binding(v)
		c.prompt(w, "/resume "+v.Handle())
		c.take()
		if got := c.binding(w); got != v.Handle() {
			t.Fatalf("W looks at %s", got)
		}
		// (1) a resume of V's home finds the view that is bound to it, W; updates come under the id that was asked for.
		d := b.plain()
		x := d.load(v.Handle())
		d.take()
		c.prompt(w, "hello")
		d.expect("user:hello agent:ECHO[hello]")
		d.prompt(x, "via alias")
		frames := d.take()
		if got := brief(t, frames); got != "agent:ECHO[via alias] stop:end_turn" {
			t.Errorf("saw %s", got)
		}
		if id := decode(t, frames[0]).Params.SessionID; id != v.Handle() {
			t.Errorf("the update came under %s", id) // rule V3
		}
		// V5: in the map the primary handle stays V's.
		e := b.plain()
		y, err := b.m.Attach(e, v.Handle())
		if err != nil {
			t.Fatal(err)
		}
		for y.Pull(e) {
		}
		e.take()
		c.prompt(v, "to v")
		e.expect("user:to v agent:ECHO[to v]")
		if got := c.binding(v); got != v.Handle() && got != third {
			t.Errorf("V looks at %s", got)
		}
		// Both are reachable and closable.
		for _, h := range []*sessions.Attachment{w, v} {
			f, _ := c.frame("session/close", fmt.Sprintf(`{"sessionId":%q}`, h.Handle()))
			if _, err := b.m.CloseSession(context.Background(), c, f); err != nil {
				t.Error(err)
			}
		}
		if n := b.m.Stats().Views; n != 0 {
			t.Errorf("%d views are left", n)
		}
	})
}

func TestV4_DriftedViewComesHomeUnlessAskedAsItIs(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		c := b.optedIn()
		a := c.newSession()
		c.prompt(a, "home")
		c.take()
		c.prompt(a, "/new")
		c.prompt(a, "away")
		c.take()
		away := c.binding(a)
		if away == a.Handle() {
			t.Fatal("did not move") // the queue ran /new after home
		}
		d := b.optedIn()
		d.resume(a.Handle(), `{"view":true}`)
		if got := decode(t, d.take()[0]).Result.Meta.Acpgate.Binding; got != away {
			t.Errorf("view: true moved it to %s", got)
		}
		e := b.plain()
		e.open("session/resume", fmt.Sprintf(`{"sessionId":%q,"cwd":%q,"mcpServers":[]}`, a.Handle(), b.dir))
		if got := brief(t, e.take()); got != "user:home agent:ECHO[home] result" { // V9: replays after drift
			t.Errorf("coming home showed %s", got)
		}
		if got := c.binding(a); got != a.Handle() {
			t.Errorf("the view looks at %s", got)
		}
		// V8: the others are shown where they are now.
		if got := brief(t, c.take()); !strings.Contains(got, "user:home agent:ECHO[home] report:Back in") {
			t.Errorf("the other client saw %s", got)
		}
	})
}

func TestV5_AliasOfASessionThatWasLeftIsDropped(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		c := b.plain()
		a := c.newSession()
		c.prompt(a, "one")
		c.take()
		c.prompt(a, "/new")
		c.prompt(a, "two")
		c.take()
		second := c.binding(a)
		d := b.plain()
		d.load(second) // an alias of A's view
		d.take()
		if b.m.Stats().Views != 1 {
			t.Fatal("the alias made a second view")
		}
		c.prompt(a, "/resume "+a.Handle())
		c.take()
		e := b.plain()
		if _, err := b.m.Attach(e, second); err == nil {
			t.Error("the alias outlived the binding")
		}
		x := e.load(second) // a view of its own now
		e.expect("user:two agent:ECHO[two] result")
		if b.m.Stats().Views != 2 {
			t.Errorf("%d views", b.m.Stats().Views)
		}
		e.prompt(x, "three")
		c.expect("")
	})
}

func TestV11_CursorIntoASessionThatTheViewHasLeft(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		c := b.optedIn()
		a := c.newSession()
		c.prompt(a, "one")
		var cur meta
		for _, f := range c.take() {
			if m := decode(t, f).Params.Meta.Acpgate; m.Seq > cur.Seq {
				cur = m
			}
		}
		d := b.optedIn()
		e := d.resume(a.Handle(), after(a.Handle(), cur.Epoch, cur.Seq))
		d.take()
		e.Detach()
		c.prompt(a, "missed")
		c.take()
		c.prompt(a, "/new")
		c.prompt(a, "three")
		c.take()
		d = b.optedIn()
		d.resume(a.Handle(), after(a.Handle(), cur.Epoch, cur.Seq))
		want := "result user:missed agent:ECHO[missed] user:/new user:three agent:ECHO[three]"
		if got := brief(t, d.take()); !strings.HasPrefix(got, "result user:missed agent:ECHO[missed] user:/new") || !strings.HasSuffix(got, "user:three agent:ECHO[three]") {
			t.Errorf("saw %s\nwant %s", got, want)
		}
	})
}

// Two views that race for one session: one gets it, the other is told, and it is opened once.
func TestV2_FiveViewsRaceForOneSession(t *testing.T) {
	for range 20 {
		scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
			b.agents.Store("prize", b.dir, "x", "y")
			var cs []*client
			for range 5 {
				c := b.optedIn()
				a := c.newSession()
				c.prompt(a, "mine")
				c.take()
				cs = append(cs, c)
				c.prompt(a, "/resume prize")
			}
			won, told := 0, 0
			for _, c := range cs {
				got := brief(t, c.take())
				won += strings.Count(got, "report:Switched")
				told += strings.Count(got, "session_in_use")
			}
			if won != 1 || told != 4 {
				t.Errorf("%d won, %d were told", won, told)
			}
			n := 0
			for _, p := range b.agents.Processes() {
				n += count(p, "session/load")
			}
			if n != 1 {
				t.Errorf("opened %d times", n)
			}
		})
	}
}

func TestV6_FailedRebindKeepsTheOldBinding(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		b.agents.Store("bad", b.dir, "x", "y")
		c := b.plain()
		a := c.newSession()
		c.prompt(a, "one")
		c.take()
		p := b.agents.Started(b, 1)
		p.Handle("session/load", agenttest.Failing(-32603, "the disk is on fire", ""))
		p.Handle("session/new", agenttest.Failing(-32000, "login first", ""))
		c.prompt(a, "/resume bad")
		c.expect("error:-32603:<nil>")
		c.prompt(a, "/new")
		c.expect("error:-32000:<nil>")
		c.prompt(a, "two")
		c.expect("agent:ECHO[two] stop:end_turn")
		if got := len(b.agents.Stored(a.Handle())); got != 4 {
			t.Errorf("the session has %d messages", got)
		}
	})
}

// L3: a session that was left without a prompt is not kept.
func TestL3_EmptySessionIsDeletedWhenItIsLeft(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		c := b.plain()
		a := c.newSession()
		c.prompt(a, "/new")
		c.take()
		time.Sleep(time.Second)
		c.settle()
		p := b.agents.Started(b, 1)
		if count(p, "session/delete") != 1 || p.Open(a.Handle()) {
			t.Errorf("the agent got %v", p.Methods())
		}
	})
}

func TestV8_LateUpdatesOfTheSessionLeftBehindStayThere(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		c := b.plain()
		a := c.newSession()
		c.prompt(a, "one")
		c.take()
		c.prompt(a, "/new")
		c.prompt(a, "two")
		c.take()
		b.agents.Started(b, 1).Chunk(a.Handle(), "late")
		c.expect("")
		c.prompt(a, "/resume "+a.Handle())
		if got := brief(t, c.take()); !strings.Contains(got, "late") {
			t.Errorf("the late update is lost: %s", got)
		}
	})
}

func TestV20_ParkedSessionSleeps(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		c := b.plain()
		a := c.newSession()
		c.prompt(a, "one")
		c.take()
		c.prompt(a, "/new")
		c.take()
		p := b.agents.Started(b, 1)
		time.Sleep(31 * time.Minute)
		c.settle()
		if p.Open(a.Handle()) {
			t.Error("the session that was left is still open")
		}
		c.prompt(a, "/resume "+a.Handle())
		if got := brief(t, c.take()); !strings.HasPrefix(got, "user:one agent:ECHO[one] agent:Switched") {
			t.Errorf("saw %s", got)
		}
		c.prompt(a, "two")
		c.expect("agent:ECHO[two] stop:end_turn")
		if got := len(b.agents.Stored(a.Handle())); got != 4 {
			t.Errorf("the session has %d messages", got)
		}
	})
}

// An agent that cannot close sessions keeps them open: none of them is loaded again in the process where it is.
func TestV2_AgentWithoutCloseIsNeverAskedToLoadAgain(t *testing.T) {
	init := strings.Replace(agenttest.AllCapabilities, `"close":{},`, "", 1)
	scenario(t, agenttest.Profile{Initialize: init}, sessions.Config{}, func(b *bench) {
		c := b.plain()
		a := c.newSession()
		c.prompt(a, "one")
		c.take()
		time.Sleep(2 * time.Hour)
		c.prompt(a, "two")
		c.expect("agent:ECHO[two] stop:end_turn")
		f, _ := c.frame("session/close", fmt.Sprintf(`{"sessionId":%q}`, a.Handle()))
		if _, err := b.m.CloseSession(context.Background(), c, f); err != nil {
			t.Fatal(err)
		}
		c.take()
		d := b.plain()
		x := d.load(a.Handle())
		d.expect("user:one agent:ECHO[one] user:two agent:ECHO[two] result")
		d.prompt(x, "three")
		d.expect("agent:ECHO[three] stop:end_turn")
		if p := b.agents.Started(b, 1); count(p, "session/load")+count(p, "session/resume") != 0 {
			t.Errorf("the agent got %v", p.Methods())
		}
	})
}
