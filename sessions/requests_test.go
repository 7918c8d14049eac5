package sessions_test

import (
	"strings"
	"testing"
	"time"

	"github.com/acpgate/acpgate/agentpool/agenttest"
	"github.com/acpgate/acpgate/sessions"
)

const allow = `{"outcome":{"outcome":"selected","optionId":"ok"}}`

func TestV18_FirstValidAnswerWins(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		c, d, e := b.plain(), b.optedIn(), b.plain()
		a := c.newSession()
		d.resume(a.Handle(), `{}`)
		e.load(a.Handle())
		d.take()
		e.take()
		p := b.agents.Started(b, 1)
		ask := p.Permission(a.Handle(), "t1", "rm x", "execute")
		id := asked(t, c.take())
		if other := asked(t, d.take()); other != id {
			t.Errorf("ids %s and %s: one request has one id", id, other)
		}
		asked(t, e.take())
		if d.answer(id, `{"outcome":{"outcome":"selected","optionId":"nope"}}`) {
			t.Error("an option that was not offered was taken")
		}
		if !d.answer(id, allow) {
			t.Fatal("a valid answer was not taken")
		}
		if c.answer(id, `{"outcome":{"outcome":"cancelled"}}`) {
			t.Error("a late answer was taken")
		}
		if l := ask.Wait(); !strings.Contains(l.Raw, `"optionId":"ok"`) {
			t.Errorf("the agent got %s", l.Raw)
		}
		c.expect("$/cancel_request")
		e.expect("$/cancel_request")
		frames := d.take()
		if got := brief(t, frames); got != "" {
			t.Errorf("the one that answered saw %s", got)
		}
		st := states(t, frames)
		if len(st) != 1 || st[0].Params.Answered == nil || st[0].Params.Answered.By != d.id || st[0].Params.Answered.Outcome != "ok" {
			t.Errorf("states %+v do not say who answered what", st)
		}
	})
}

func TestV18_OpenRequestsAreSentAgainOnAttach(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		c := b.plain()
		a := c.newSession()
		p := b.agents.Started(b, 1)
		ask := p.Permission(a.Handle(), "t1", "rm x", "execute")
		id := asked(t, c.take())
		a.Detach() // CASE 39: the page is reloaded
		for name, join := range map[string]func(*client){
			"resume": func(d *client) { d.resume(a.Handle(), `{}`) },
			"load":   func(d *client) { d.load(a.Handle()) },
			"attach": func(d *client) {
				x, err := b.m.Attach(d, a.Handle())
				if err != nil {
					t.Fatal(err)
				}
				for x.Pull(d) {
				}
			},
		} {
			d := b.plain()
			join(d)
			frames := d.take()
			if again := asked(t, frames); again != id {
				t.Errorf("%s: request came under id %s, want %s", name, again, id)
			}
			if n := strings.Count(strings.Join(frames, "\n"), "session/request_permission"); n != 1 {
				t.Errorf("%s: the request was sent %d times", name, n)
			}
		}
		d := b.plain()
		x := d.load(a.Handle())
		d.take()
		if !d.answer(id, allow) {
			t.Error("the answer was not taken")
		}
		ask.Wait()
		x.Detach()
		e := b.plain()
		e.load(a.Handle())
		if got := brief(t, e.take()); strings.Contains(got, "ask") {
			t.Errorf("an answered request was sent again: %s", got)
		}
	})
}

func TestCase39_PermissionSurvivesReload(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		c := b.optedIn()
		a := c.newSession()
		p := b.agents.Started(b, 1)
		manual(p)
		c.prompt(a, "go")
		call := p.Await("session/prompt")
		ask := p.Permission(a.Handle(), "t", "x", "edit")
		frames := c.take()
		var seq, epoch uint64
		for _, f := range frames {
			if m := decode(t, f).Params.Meta.Acpgate; m.Seq > seq {
				seq, epoch = m.Seq, m.Epoch
			}
		}
		a.Detach()
		time.Sleep(time.Hour) // CASES 20 and 57: nobody times it out
		d := b.optedIn()
		d.resume(a.Handle(), after(a.Handle(), epoch, seq))
		id := asked(t, d.take())
		if !d.answer(id, allow) {
			t.Fatal("the answer was not taken")
		}
		ask.Wait()
		call.Result(`{"stopReason":"end_turn"}`)
		d.settle()
	})
}

func TestCase38_AgentWithdrawsItsRequest(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		c := b.plain()
		a := c.newSession()
		p := b.agents.Started(b, 1)
		ask := p.Permission(a.Handle(), "t", "x", "edit")
		id := asked(t, c.take())
		ask.Withdraw()
		c.expect("$/cancel_request")
		if c.answer(id, allow) {
			t.Error("a withdrawn request was answered")
		}
	})
}

func TestCase41_AnswerToAnUnknownRequestIsDropped(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		c := b.plain()
		a := c.newSession()
		p := b.agents.Started(b, 1)
		n := len(p.Lines())
		if c.answer("4711", allow) || c.answer(`"x"`, allow) {
			t.Error("an answer to nothing was taken")
		}
		p.Settle()
		if len(p.Lines()) != n {
			t.Error("something reached the agent")
		}
		c.prompt(a, "on")
		c.expect("agent:ECHO[on] stop:end_turn")
	})
}

// A request belongs to the principal's view: another user's client, or one that is not attached, answers nothing.
func TestT3_OnlyAttachedClientsOfThePrincipalAnswer(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		c := b.plain()
		a := c.newSession()
		b.agents.Started(b, 1).Permission(a.Handle(), "t", "x", "edit")
		id := asked(t, c.take())
		mallory := b.plain()
		mallory.user = "mallory"
		if mallory.answer(id, allow) || b.plain().answer(id, allow) {
			t.Error("a stranger's answer was taken")
		}
		if _, err := b.m.Attach(mallory, a.Handle()); err == nil {
			t.Error("a stranger attached")
		} else {
			wantError(t, err, -32002, "session_not_found")
		}
	})
}

const elicit = `{"mode":"form","message":"which?","requestedSchema":{"type":"object","properties":{}}}`

func TestCase45_ElicitationGoesToClientsThatCanShowIt(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		c, d := b.plain(), b.optedIn()
		a := c.newSession()
		x := d.resume(a.Handle(), `{}`)
		d.take()
		p := b.agents.Started(b, 1)
		ask := p.Ask(a.Handle(), "elicitation/create", elicit)
		c.expect("")
		id := asked(t, d.take())
		for _, bad := range []string{`{}`, `{"action":"maybe"}`, `7`} {
			if d.answer(id, bad) {
				t.Errorf("answer %s was taken", bad)
			}
		}
		if !d.answer(id, `{"action":"accept","content":{"a":1}}`) {
			t.Error("a valid answer was not taken")
		}
		if l := ask.Wait(); !strings.Contains(l.Raw, `"content":{"a":1}`) {
			t.Errorf("the agent got %s", l.Raw)
		}
		// Once the only client that can show it leaves, the agent is answered instead of waiting for ever.
		ask = p.Ask(a.Handle(), "elicitation/create", elicit)
		d.take()
		x.Detach()
		if l := ask.Wait(); !strings.Contains(l.Raw, `"action":"cancel"`) {
			t.Errorf("the agent got %s", l.Raw)
		}
		if got := brief(t, c.take()); !strings.HasPrefix(got, "agent:The agent asked a question") {
			t.Errorf("the other client saw %q, want a notice", got)
		}
	})
}

func TestV18_ClientThatAnswersWithAnErrorIsNotWaitedFor(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		c := b.plain()
		a := c.newSession()
		ask := b.agents.Started(b, 1).Permission(a.Handle(), "t", "x", "edit")
		id := asked(t, c.take())
		f, _ := c.frame("x", "{}")
		g := *f
		g.Raw = []byte(`{"jsonrpc":"2.0","id":` + id + `,"error":{"code":-32601,"message":"no"}}`)
		parsed := mustParse(t, string(g.Raw))
		if !b.m.Answer(c, parsed) {
			t.Error("the refusal was not taken")
		}
		if l := ask.Wait(); !strings.Contains(l.Raw, `"outcome":"cancelled"`) {
			t.Errorf("the agent got %s", l.Raw)
		}
	})
}

func TestCase43_PolicyRejectsByKindAndOnlyWhenAlone(t *testing.T) {
	cfg := sessions.Config{RequestPolicy: sessions.PolicyReject, PolicyAfter: 2 * time.Second}
	scenario(t, agenttest.Profile{}, cfg, func(b *bench) {
		c := b.plain()
		a := c.newSession()
		p := b.agents.Started(b, 1)
		ask := p.Permission(a.Handle(), "t", "x", "edit")
		time.Sleep(time.Minute)
		if ask.Answered() {
			t.Fatal("the policy answered while a client was attached")
		}
		a.Detach()
		time.Sleep(1900 * time.Millisecond)
		if ask.Answered() {
			t.Fatal("the policy answered too soon")
		}
		if l := ask.Wait(); !strings.Contains(l.Raw, `"optionId":"no"`) {
			t.Errorf("the policy answered %s, want the reject_once option", l.Raw)
		}
		only := p.AskAs("77", a.Handle(), "session/request_permission", `{"options":[{"optionId":"y","name":"Y","kind":"allow_always"}]}`)
		if l := only.Wait(); !strings.Contains(l.Raw, `"outcome":"cancelled"`) {
			t.Errorf("without a reject option: %s, want cancelled and never an approval", l.Raw)
		}
	})
}

func TestV18_WaitsForEverByDefault(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		c := b.plain()
		a := c.newSession()
		ask := b.agents.Started(b, 1).Permission(a.Handle(), "t", "x", "edit")
		a.Detach()
		time.Sleep(24 * time.Hour)
		if ask.Answered() {
			t.Error("nobody answered, yet the agent got an answer")
		}
	})
}

// CASE 19: a session that waits for a person holds up nobody.
func TestCase19_OpenPermissionBlocksNoOtherSession(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		c := b.plain()
		a := c.newSession()
		b.agents.Started(b, 1).Permission(a.Handle(), "t", "x", "edit")
		c.take()
		before := time.Now()
		other := c.newSession()
		c.prompt(other, "hi")
		c.expect("agent:ECHO[hi] stop:end_turn")
		if d := time.Since(before); d != 0 {
			t.Errorf("took %v", d)
		}
	})
}

func TestW8_OtherRequestsOfTheAgentAreAnsweredByTheGateway(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		c := b.plain()
		a := c.newSession()
		p := b.agents.Started(b, 1)
		for _, method := range []string{"terminal/create", "fs/read_text_file", "craft/drainMidTurnQueue"} {
			if l := p.Ask(a.Handle(), method, `{"path":"/etc/passwd"}`).Wait(); !strings.Contains(l.Raw, "-32601") {
				t.Errorf("%s was answered %s", method, l.Raw)
			}
		}
		c.expect("")
		if l := p.Ask(a.Handle(), "session/request_permission", `{"options":[]}`).Wait(); !strings.Contains(l.Raw, "-32602") {
			t.Errorf("a permission request without options was answered %s", l.Raw)
		}
	})
}

func TestW8_FilesAreServedOnlyIfConfigured(t *testing.T) {
	scenario(t, agenttest.Profile{GatewayFS: true}, sessions.Config{}, func(b *bench) {
		c := b.plain()
		a := c.newSession()
		p := b.agents.Started(b, 1)
		p.Ask(a.Handle(), "fs/read_text_file", `{"path":"/x"}`)
		p.Settle()
		c.settle()
		if n := len(p.FS()); n != 1 {
			t.Errorf("%d fs requests were passed on, want 1", n)
		}
	})
}
