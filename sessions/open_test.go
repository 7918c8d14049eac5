package sessions_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/acpgate/acpgate/agentpool/agenttest"
	"github.com/acpgate/acpgate/sessions"
)

func TestT4_WorkspaceDirectories(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		c := b.plain()
		file := filepath.Join(b.dir, "file.txt")
		sub := filepath.Join(b.dir, "sub")
		for _, err := range []error{
			os.WriteFile(file, nil, 0o600), os.Mkdir(sub, 0o700),
			os.Symlink("/", filepath.Join(b.dir, "out")), os.Symlink(sub, filepath.Join(b.dir, "in")),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		for _, x := range []struct{ cwd, say string }{
			{"", "missing"},
			{".", "must be absolute"},    // CASE 75
			{"../x", "must be absolute"}, // CASE 74
			{b.dir + "/nope", "does not exist"},
			{file, "not a directory"},
			{"/", "outside the allowed"},
			{"/nope", "outside the allowed"},
			{b.dir + "/../..", "outside the allowed"},
			{b.dir + "/out/etc", "outside the allowed"}, // a link out of the root
			{b.dir + "x", "outside the allowed"},
			{b.dir + "/a\x00b", "NUL"},
		} {
			q, _ := json.Marshal(x.cwd)
			_, err := c.tryOpen("session/new", fmt.Sprintf(`{"cwd":%s,"mcpServers":[]}`, q))
			if err == nil {
				t.Errorf("cwd %q was taken", x.cwd)
				continue
			}
			wantError(t, err, -32602, "bad_params")
			if !strings.Contains(err.Error(), x.say) {
				t.Errorf("cwd %q: %v, want %q in it", x.cwd, err, x.say)
			}
		}
		for _, ok := range []string{b.dir, sub, b.dir + "/in", sub + "/../sub/"} {
			if _, err := c.tryOpen("session/new", fmt.Sprintf(`{"cwd":%q,"mcpServers":[]}`, ok)); err != nil {
				t.Errorf("cwd %q: %v", ok, err)
			}
		}
		if _, err := c.tryOpen("session/new", fmt.Sprintf(`{"cwd":%q,"additionalDirectories":["rel"],"mcpServers":[]}`, b.dir)); err == nil {
			t.Error("a relative additional directory was taken")
		}
		if _, err := c.tryOpen("session/new", `{"cwd":7}`); err == nil {
			t.Error("a cwd of 7 was taken")
		} else {
			wantError(t, err, -32602, "bad_params")
		}
	})
}

func TestCase74_MissingDirectoryIsSaidBeforeTheAgentIsAsked(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		c := b.plain()
		if _, err := c.tryOpen("session/new", fmt.Sprintf(`{"cwd":%q}`, b.dir+"/nope")); err == nil {
			t.Error("opened")
		}
		if n := len(b.agents.Processes()); n != 0 {
			t.Errorf("%d processes were started for it", n)
		}
	})
}

func TestCase51_DeadSessionIsNotReplaced(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		c := b.plain()
		_, err := c.tryOpen("session/load", fmt.Sprintf(`{"sessionId":"nope","cwd":%q,"mcpServers":[]}`, b.dir))
		wantError(t, err, -32002, "")
		if _, err := b.m.Attach(c, "nope"); err == nil {
			t.Error("a view was left behind")
		}
	})
}

func TestCase52_NotFoundInOtherClothes(t *testing.T) {
	for _, x := range []struct {
		code      int
		msg, data string
	}{
		{-32603, "Query closed before response received", ""},
		{-32603, "No previous sessions found for this project.", ""},
		{-32602, "Session nope not found", ""},
		{-32603, "Internal error", `{"details":"NotFoundError: no such thing"}`},
		{-32001, "Unknown session nope", ""},
	} {
		scenario(t, agenttest.Profile{Handlers: map[string]agenttest.Handler{"session/load": agenttest.Failing(x.code, x.msg, x.data)}}, sessions.Config{}, func(b *bench) {
			c := b.plain()
			_, err := c.tryOpen("session/load", fmt.Sprintf(`{"sessionId":"nope","cwd":%q,"mcpServers":[]}`, b.dir))
			wantError(t, err, -32002, "session_not_found")
			if o := string(sessions.AsError(err).Object()); !strings.Contains(o, fmt.Sprint(x.code)) || !strings.Contains(o, "original") {
				t.Errorf("the original error is not in data: %s", o)
			}
		})
	}
	scenario(t, agenttest.Profile{Handlers: map[string]agenttest.Handler{"session/load": agenttest.Failing(-32603, "disk full", `[1]`)}}, sessions.Config{}, func(b *bench) {
		_, err := b.plain().tryOpen("session/load", fmt.Sprintf(`{"sessionId":"x","cwd":%q,"mcpServers":[]}`, b.dir))
		if got := string(sessions.AsError(err).Object()); got != `{"code":-32603,"message":"disk full","data":[1]}` {
			t.Errorf("another error did not pass through: %s", got)
		}
	})
}

// An agent that "loads" whatever it is given is believed only if it lists the session.
func TestHistoryLadder_InventedSessionIsNotBelieved(t *testing.T) {
	profile := agenttest.Profile{Handlers: map[string]agenttest.Handler{"session/load": agenttest.Answering("null")}}
	scenario(t, profile, sessions.Config{}, func(b *bench) {
		c := b.plain()
		_, err := c.tryOpen("session/load", fmt.Sprintf(`{"sessionId":"made-up","cwd":%q,"mcpServers":[]}`, b.dir))
		wantError(t, err, -32002, "session_not_found")
		b.agents.Store("real", b.dir, "hello")
		c.load("real")
		c.expect("result")
	})
}

func TestHistoryLadder_ResumeOnlyAgentSaysThatHistoryIsMissing(t *testing.T) {
	init := strings.Replace(agenttest.AllCapabilities, `"loadSession":true,`, "", 1)
	scenario(t, agenttest.Profile{Initialize: init}, sessions.Config{}, func(b *bench) {
		b.agents.Store("s1", b.dir, "hello", "world")
		c := b.optedIn()
		c.load("s1")
		if got := brief(t, c.take()); !strings.Contains(got, "notice:The agent cannot give the history") {
			t.Errorf("saw %s", got)
		}
	})
	scenario(t, agenttest.Profile{Initialize: agenttest.NoCapabilities}, sessions.Config{}, func(b *bench) {
		_, err := b.plain().tryOpen("session/load", fmt.Sprintf(`{"sessionId":"s1","cwd":%q,"mcpServers":[]}`, b.dir))
		wantError(t, err, -32002, "cannot_reopen")
	})
}

// CASE 48: the replay comes before the answer, and a prompt that follows at once comes after both.
func TestCase48_LoadReplaysThenAnswers(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		texts := make([]string, 50)
		for i := range texts {
			texts[i] = fmt.Sprint(i)
		}
		b.agents.Store("s1", b.dir, texts...)
		c := b.plain()
		a := c.load("s1")
		c.prompt(a, "now")
		frames := c.take()
		if len(frames) != 54 {
			t.Fatalf("%d frames, want 50 replayed, the answer, the commands, one chunk, the result", len(frames))
		}
		if got := brief(t, frames[49:]); got != "agent:49 result agent:ECHO[now] stop:end_turn" {
			t.Errorf("saw %s", got)
		}
	})
}

// CASE 49: a resume replays nothing to the client, even when the agent does.
func TestCase49_AgentThatReplaysOnResume(t *testing.T) {
	init := strings.Replace(agenttest.AllCapabilities, `"loadSession":true,`, "", 1)
	scenario(t, agenttest.Profile{Initialize: init}, sessions.Config{}, func(b *bench) {
		c := b.plain()
		a := c.newSession()
		c.prompt(a, "one")
		c.take()
		time.Sleep(time.Hour) // asleep
		b.agents.Started(b, 1).Handle("session/resume", func(call *agenttest.Call) {
			call.MarkOpen()
			for range 5 {
				call.Update(`{"sessionUpdate":"user_message_chunk","content":{"type":"text","text":"again"}}`)
			}
			call.Result("{}")
		})
		b.agents.Started(b, 1).Handle("session/prompt", func(call *agenttest.Call) { call.Result(`{"stopReason":"end_turn"}`) })
		c.prompt(a, "two")
		c.expect("stop:end_turn")
	})
}

func TestCrash_EndsTheTurnAndTheNextPromptRecovers(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		c := b.optedIn()
		a := c.newSession()
		c.prompt(a, "one")
		c.take()
		p := b.agents.Started(b, 1)
		manual(p)
		c.prompt(a, "two")
		p.Await("session/prompt").Chunk("half")
		p.Permission(a.Handle(), "t", "x", "edit")
		c.settle()
		p.Crash(3, "panic: boom")
		frames := c.take()
		var e map[string]any
		for _, f := range frames {
			if m := decode(t, f); m.Error != nil {
				e = m.Error.Data
			}
		}
		if e["reason"] != "agent_exited" || e["exitCode"] != float64(3) || e["stderr"] != "panic: boom" {
			t.Errorf("error data %v", e)
		}
		st := states(t, frames)
		if s := st[len(st)-1].Params; s.State != "asleep" || len(s.Requests) != 0 { // CASE 20: "running" is cleared
			t.Errorf("state %+v", s)
		}
		c.prompt(a, "three")
		c.expect("agent:ECHO[three] stop:end_turn")
		if got := fmt.Sprint(b.agents.Stored(a.Handle())); !strings.Contains(got, "one") || !strings.Contains(got, "three") {
			t.Errorf("the agent's history: %v", got)
		}
	})
}

// A session without a prompt leaves nothing at the agent: after a crash it is made anew and the handle stays.
func TestCrash_BeforeTheFirstPromptKeepsTheHandle(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		c := b.plain()
		a := c.newSession()
		b.agents.Started(b, 1).Signal("killed")
		c.take()
		c.prompt(a, "first")
		c.expect("agent:ECHO[first] stop:end_turn")
		d := b.plain()
		d.load(a.Handle())
		frames := d.take()
		if got := brief(t, frames); got != "user:first agent:ECHO[first] result" {
			t.Errorf("saw %s", got)
		}
		for _, f := range frames {
			if s := decode(t, f).Params.SessionID; s != "" && s != a.Handle() {
				t.Errorf("update came under %s, want the handle %s", s, a.Handle())
			}
		}
	})
}

func TestV12_CloseStopsTheTurnAndIsIdempotent(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		c, d := b.optedIn(), b.optedIn()
		a := c.newSession()
		d.load(a.Handle())
		d.take()
		p := b.agents.Started(b, 1)
		manual(p)
		c.prompt(a, "go")
		p.Await("session/prompt")
		f, _ := c.frame("session/close", fmt.Sprintf(`{"sessionId":%q}`, a.Handle()))
		for range 2 {
			if raw, err := b.m.CloseSession(context.Background(), c, f); err != nil || string(raw) != "{}" {
				t.Errorf("close: %s %v", raw, err)
			}
		}
		if got := brief(t, c.take()); got != "stop:cancelled" {
			t.Errorf("saw %s", got)
		}
		st := states(t, d.take())
		if len(st) == 0 || st[len(st)-1].Params.State != "closed" {
			t.Errorf("the other client saw %+v", st)
		}
		if count(p, "session/close") != 1 {
			t.Errorf("the agent got %v", p.Methods())
		}
		_, err := c.try(a, "session/prompt", text("more"))
		wantError(t, err, -32002, "session_not_found")
		// What is stored stays: it can be loaded again.
		e := b.plain()
		e.load(a.Handle())
		e.expect("user:go result")
	})
}

func TestV13_DeleteRemovesOrHides(t *testing.T) {
	noDelete := strings.Replace(agenttest.AllCapabilities, `,"delete":{}`, "", 1)
	for name, init := range map[string]string{"removes": agenttest.AllCapabilities, "hides": noDelete} {
		t.Run(name, func(t *testing.T) {
			scenario(t, agenttest.Profile{Initialize: init}, sessions.Config{}, func(b *bench) {
				c := b.plain()
				a := c.newSession()
				c.prompt(a, "hi")
				c.take()
				list := func() string {
					f, _ := c.frame("session/list", `{}`)
					raw, err := b.m.ListSessions(context.Background(), c, f)
					if err != nil {
						t.Fatal(err)
					}
					return string(raw)
				}
				if !strings.Contains(list(), a.Handle()) {
					t.Fatalf("not listed: %s", list())
				}
				f, _ := c.frame("session/delete", fmt.Sprintf(`{"sessionId":%q}`, a.Handle()))
				if _, err := b.m.DeleteSession(context.Background(), c, f); err != nil {
					t.Fatal(err)
				}
				if strings.Contains(list(), a.Handle()) {
					t.Errorf("still listed: %s", list())
				}
				if gone := b.agents.Stored(a.Handle()) == nil; gone != (name == "removes") {
					t.Errorf("gone at the agent: %v", gone)
				}
				g, _ := c.frame("session/delete", `{"sessionId":"unknown"}`)
				if _, err := b.m.DeleteSession(context.Background(), c, g); err != nil {
					t.Errorf("deleting an unknown session: %v", err)
				}
			})
		})
	}
}

func TestW8_ListOfAnAgentWithoutOne(t *testing.T) {
	scenario(t, agenttest.Profile{Initialize: agenttest.NoCapabilities}, sessions.Config{}, func(b *bench) {
		c := b.plain()
		a := c.newSession()
		c.newSession() // never prompted: not listed (rule L3)
		c.prompt(a, "fix the parser\nplease")
		c.take()
		f, _ := c.frame("session/list", fmt.Sprintf(`{"cwd":%q}`, b.dir))
		raw, err := b.m.ListSessions(context.Background(), c, f)
		if err != nil {
			t.Fatal(err)
		}
		var l struct {
			Sessions []struct{ SessionID, Cwd, Title, UpdatedAt string }
		}
		if err := json.Unmarshal(raw, &l); err != nil || len(l.Sessions) != 1 {
			t.Fatalf("list %s: %v", raw, err)
		}
		if s := l.Sessions[0]; s.SessionID != a.Handle() || s.Cwd != b.dir || s.Title != "fix the parser" || s.UpdatedAt == "" {
			t.Errorf("row %+v", s)
		}
		g, _ := c.frame("session/list", `{"cwd":"rel"}`)
		_, err = b.m.ListSessions(context.Background(), c, g)
		wantError(t, err, -32602, "bad_params")
	})
}

// W13 and CASE 64: the child shows the same history whether the agent forks or not.
func TestW13_ForkByTheLadder(t *testing.T) {
	noFork := strings.Replace(agenttest.AllCapabilities, `"fork":{},`, "", 1)
	for name, init := range map[string]string{"fork": agenttest.AllCapabilities, "seed": noFork} {
		t.Run(name, func(t *testing.T) {
			scenario(t, agenttest.Profile{Initialize: init}, sessions.Config{}, func(b *bench) {
				c := b.plain()
				a := c.newSession()
				c.prompt(a, "the secret is 42")
				c.take()
				f := c.open("session/fork", fmt.Sprintf(`{"sessionId":%q,"cwd":%q,"mcpServers":[]}`, a.Handle(), b.dir))
				if got := brief(t, c.take()); !strings.HasPrefix(got, "result") || strings.Contains(got, "This agent cannot fork") != (name == "seed") {
					t.Errorf("saw %s", got)
				}
				if f.Handle() == a.Handle() {
					t.Fatal("the child has the parent's id")
				}
				d := b.plain()
				d.load(f.Handle())
				d.expect("user:the secret is 42 agent:ECHO[the secret is 42] result")
				c.prompt(f, "what is it?")
				got := brief(t, c.take())
				if name == "fork" && got != "agent:ECHO[what is it?] stop:end_turn" {
					t.Errorf("saw %s", got)
				}
				if name == "seed" && (!strings.Contains(got, "the secret is 42") || strings.Count(got, "what is it?") != 1) {
					t.Errorf("the agent was not given the history once: %s", got)
				}
				c.prompt(f, "and now?")
				if got := brief(t, c.take()); got != "agent:ECHO[and now?] stop:end_turn" {
					t.Errorf("the history came again: %s", got)
				}
				c.prompt(a, "parent")
				c.expect("agent:ECHO[parent] stop:end_turn")
			})
		})
	}
}

func TestOpen_GivenUpIsClosedAtTheAgent(t *testing.T) {
	var late *agenttest.Call
	profile := agenttest.Profile{Handlers: map[string]agenttest.Handler{"session/new": func(c *agenttest.Call) { late = c }}}
	scenario(t, profile, sessions.Config{}, func(b *bench) {
		c := b.plain()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		f, _ := c.frame("session/new", fmt.Sprintf(`{"cwd":%q}`, b.dir))
		_, err := b.m.Open(ctx, c, f)
		wantError(t, err, -32603, "agent_timeout")
		p := b.agents.Started(b, 1)
		p.Await("$/cancel_request")
		late.Result(fmt.Sprintf(`{"sessionId":%q}`, late.NewSession()))
		p.Await("session/close")
		c.settle()
		if s := b.m.Stats(); s.Views != 0 {
			t.Errorf("%d views are left", s.Views)
		}
	})
}

func TestCase71_EmptyViewsOfVanishedClientsEnd(t *testing.T) {
	scenario(t, agenttest.Profile{EndWhenUnused: true}, sessions.Config{}, func(b *bench) {
		for range 200 {
			c := b.plain()
			c.newSession().Detach()
		}
		p := b.agents.Started(b, 1)
		time.Sleep(6 * time.Minute)
		b.plain().settle()
		if s := b.m.Stats(); s.Views != 0 {
			t.Errorf("%d views are left", s.Views)
		}
		if p.Gone() == nil {
			t.Error("the process is left")
		}
	})
}

func TestW12_AgentNotificationsWithoutASession(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		c, stranger := b.plain(), b.plain()
		stranger.user = "mallory"
		c.newSession()
		c.newSession()
		stranger.newSession()
		b.m.AgentNotification("local", "fake", []byte(`{"jsonrpc":"2.0","method":"_auth/status_update"}`))
		if len(c.notes) != 1 || len(stranger.notes) != 0 {
			t.Errorf("told %d and %d times", len(c.notes), len(stranger.notes))
		}
	})
}

func TestLimits_ViewsPerUser(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{ViewsPerUser: 2}, func(b *bench) {
		c := b.plain()
		a := c.newSession()
		c.newSession()
		_, err := c.tryOpen("session/new", fmt.Sprintf(`{"cwd":%q}`, b.dir))
		wantError(t, err, -32603, "view_limit")
		other := b.plain()
		other.user = "bob"
		other.newSession()
		f, _ := c.frame("session/close", fmt.Sprintf(`{"sessionId":%q}`, a.Handle()))
		if _, err := b.m.CloseSession(context.Background(), c, f); err != nil {
			t.Fatal(err)
		}
		c.newSession()
	})
}

func TestConfig_ServersOfTheConfigAreAddedBehindTheClients(t *testing.T) {
	for params, want := range map[string]string{
		`{"cwd":%q,"mcpServers":[{"name":"a"}],"x":1}`: `"mcpServers":[{"name":"a"},{"name":"cfg"}],"x":1`,
		`{"cwd":%q}`:                  `"mcpServers":[{"name":"cfg"}],"cwd"`,
		`{"cwd":%q,"mcpServers":[ ]}`: `"mcpServers":[{"name":"cfg"}]}`,
	} {
		scenario(t, agenttest.Profile{MCPServers: []json.RawMessage{json.RawMessage(`{"name":"cfg"}`)}}, sessions.Config{}, func(b *bench) {
			b.plain().open("session/new", fmt.Sprintf(params, b.dir))
			if got := b.agents.Started(b, 1).Await("session/new").Raw; !strings.Contains(got, want) {
				t.Errorf("the agent got %s, want %s in it", got, want)
			}
		})
	}
}
