package sessions_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/acpgate/acpgate/agentpool/agenttest"
	"github.com/acpgate/acpgate/sessions"
)

func manual(p *agenttest.Process) { p.Handle("session/prompt", agenttest.Manual) }

func TestV16_PromptsQueueAndRunInOrder(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{Queue: 2}, func(b *bench) {
		c := b.optedIn()
		a := c.newSession()
		p := b.agents.Started(b, 1)
		manual(p)
		for _, s := range []string{"one", "two", "three"} {
			c.prompt(a, s)
		}
		_, err := c.try(a, "session/prompt", text("four"))
		wantError(t, err, -32603, "queue_full")
		st := states(t, c.take())
		last := st[len(st)-1].Params
		if last.State != "running" || len(last.Queue) != 2 || last.Queue[0].Text != "two" || last.Queue[1].Text != "three" {
			t.Errorf("state %+v", last)
		}
		for _, s := range []string{"one", "two", "three"} {
			call := p.Await("session/prompt")
			if call.Text() != s {
				t.Fatalf("agent got %q, want %q", call.Text(), s)
			}
			call.Chunk("re " + s)
			call.Result(`{"stopReason":"end_turn"}`)
			c.expect("agent:re " + s + " stop:end_turn")
		}
	})
}

// The agent must not see the second prompt before the first has ended, whatever its size and however close they come.
func TestCase21_OneTurnAtATime(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		c := b.plain()
		a := c.newSession()
		p := b.agents.Started(b, 1)
		manual(p)
		c.prompt(a, "one")
		c.prompt(a, "two")
		c.settle()
		call := p.Await("session/prompt")
		for _, l := range p.Lines() {
			if l.Method == "session/prompt" && strings.Contains(l.Raw, "two") {
				t.Fatal("the second prompt reached the agent during the first turn")
			}
		}
		call.Result(`{"stopReason":"end_turn"}`)
		p.Await("session/prompt").Result(`{"stopReason":"max_tokens"}`)
		c.expect("stop:end_turn stop:max_tokens")
	})
}

func TestCase22_SecondPromptWaitsForTheFirst(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		c := b.plain()
		a := c.newSession()
		p := b.agents.Started(b, 1)
		manual(p)
		first, second := c.prompt(a, "2"), c.prompt(a, "3")
		p.Await("session/prompt").Result(`{"stopReason":"end_turn"}`)
		p.Await("session/prompt").Result(`{"stopReason":"end_turn"}`)
		var ids []string
		for _, f := range c.take() {
			ids = append(ids, string(decode(t, f).ID))
		}
		if fmt.Sprint(ids) != fmt.Sprint([]string{first, second}) {
			t.Errorf("answered %v, want %v", ids, []string{first, second})
		}
	})
}

func TestV16_KeyMakesAPromptIdempotent(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		c := b.optedIn()
		a := c.newSession()
		p := b.agents.Started(b, 1)
		manual(p)
		key := text("pay") + `,"_meta":{"acpgate":{"key":"k1"}}`
		c.send(a, "session/prompt", key)
		call := p.Await("session/prompt")
		if strings.Contains(call.Raw, "acpgate") {
			t.Errorf("our _meta reached the agent: %s", call.Raw)
		}
		// The socket is lost; the client comes back and sends the prompt again, twice.
		a.Detach()
		d := b.optedIn()
		e := d.resume(a.Handle(), `{"view":true}`)
		d.take()
		d.send(e, "session/prompt", key)
		call.Chunk("paid")
		call.Result(`{"stopReason":"end_turn"}`)
		d.expect("agent:paid stop:end_turn")
		d.send(e, "session/prompt", key)
		d.expect("stop:end_turn")
		_, err := d.try(e, "session/prompt", text("pay twice")+`,"_meta":{"acpgate":{"key":"k1"}}`)
		wantError(t, err, -32602, "key_reused")
		if n := count(p, "session/prompt"); n != 1 {
			t.Errorf("the agent got %d prompts, want 1", n)
		}
	})
}

func TestV17_CancelAnswersRequestsThenQueueThenAgent(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		c := b.plain()
		a := c.newSession()
		p := b.agents.Started(b, 1)
		manual(p)
		p.OnCancel(agenttest.CancelEndsTurn)
		c.prompt(a, "one")
		c.prompt(a, "two")
		p.Await("session/prompt")
		ask := p.Permission(a.Handle(), "t1", "rm x", "execute")
		c.settle()
		c.cancel(a)
		if l := ask.Wait(); !strings.Contains(l.Raw, `"outcome":"cancelled"`) {
			t.Errorf("the agent's request was answered %s", l.Raw)
		}
		p.Await("session/cancel")
		// CASE 32: end_turn after a cancel counts as cancelled. The waiting prompt never reaches the agent.
		c.expect("ask:session/request_permission $/cancel_request stop:cancelled stop:cancelled")
		answer, cancel := -1, -1
		for i, l := range p.Lines() {
			switch {
			case l.Method == "session/cancel":
				cancel = i
			case strings.Contains(l.Raw, `"outcome":"cancelled"`):
				answer = i
			case l.Method == "session/prompt" && strings.Contains(l.Raw, "two"):
				t.Error("the waiting prompt reached the agent")
			}
		}
		if answer < 0 || cancel < answer {
			t.Errorf("answer at line %d, cancel at %d: the open request must be answered first", answer, cancel)
		}
	})
}

func TestCase37_CancelAnswersAnOpenPermissionAtOnce(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		c := b.plain()
		a := c.newSession()
		p := b.agents.Started(b, 1)
		manual(p)
		c.prompt(a, "go")
		p.Await("session/prompt")
		ask := p.AskAs("99", a.Handle(), "session/request_permission", `{"toolCall":{"toolCallId":"t"},"options":[{"optionId":"ok","name":"A","kind":"allow_once"}]}`)
		c.settle()
		before := time.Now()
		c.cancel(a)
		if l := ask.Wait(); l.Raw != `{"jsonrpc":"2.0","id":99,"result":{"outcome":{"outcome":"cancelled"}}}` {
			t.Errorf("answer %s", l.Raw)
		}
		if d := time.Since(before); d != 0 {
			t.Errorf("answered after %v", d)
		}
		c.take()
	})
}

func TestV17_ForceStopIsOfferedAndEndsTheProcess(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		c := b.optedIn()
		a := c.newSession()
		other := c.newSession()
		p := b.agents.Started(b, 1)
		manual(p)
		p.OnCancel(agenttest.CancelIgnored)
		c.prompt(a, "go")
		c.prompt(other, "go too")
		p.Await("session/prompt")
		p.Await("session/prompt")
		c.cancel(a)
		time.Sleep(9 * time.Second)
		for _, m := range states(t, c.take()) {
			if m.Params.ForceStop != nil {
				t.Error("force stop offered before 10 s")
			}
		}
		time.Sleep(2 * time.Second)
		st := states(t, c.take())
		if len(st) == 0 || st[len(st)-1].Params.ForceStop == nil || st[len(st)-1].Params.ForceStop.OtherSessions != 1 {
			t.Fatalf("states %+v: no force stop with one other session", st)
		}
		c.send(a, "_acpgate/force_stop", "")
		got := brief(t, c.take())
		want := "result error:-32603:agent_restarted"
		if !strings.Contains(got, want) || strings.Count(got, "agent_restarted") != 2 {
			t.Errorf("saw %s, want %s and the same for the other session", got, want)
		}
		// Both sessions are usable again.
		c.prompt(a, "again")
		c.expect("agent:ECHO[again] stop:end_turn")
	})
}

func TestCase34_LateEventsOfACancelledTurnStayBeforeTheNext(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		c := b.plain()
		a := c.newSession()
		p := b.agents.Started(b, 1)
		manual(p)
		p.OnCancel(agenttest.CancelIgnored)
		c.prompt(a, "one")
		call := p.Await("session/prompt")
		c.cancel(a)
		c.prompt(a, "two")
		for range 5 {
			time.Sleep(time.Second)
			call.Chunk("late")
		}
		c.expect("agent:late agent:late agent:late agent:late agent:late")
		if n := count(p, "session/prompt"); n != 1 {
			t.Fatalf("the next prompt reached the agent before the cancelled turn had ended")
		}
		call.Result(`{"stopReason":"cancelled"}`)
		p.Await("session/prompt").Result(`{"stopReason":"end_turn"}`)
		c.expect("stop:cancelled stop:end_turn")
	})
}

func TestCase35_AgentThatAnswersCancelWithAnError(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		c := b.plain()
		a := c.newSession()
		p := b.agents.Started(b, 1)
		manual(p)
		p.OnCancel(agenttest.CancelFails)
		c.prompt(a, "one")
		p.Await("session/prompt").Chunk("x")
		c.settle()
		c.cancel(a)
		c.expect("agent:x error:-32603:<nil>")
	})
}

func TestCase25_UpdatesAfterTheResponseAreForwarded(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		c := b.plain()
		a := c.newSession()
		p := b.agents.Started(b, 1)
		manual(p)
		c.prompt(a, "one")
		call := p.Await("session/prompt")
		call.Chunk("body")
		call.Result(`{"stopReason":"end_turn"}`)
		call.Chunk("tail")
		c.expect("agent:body stop:end_turn agent:tail")
	})
}

func TestCase27_OutputWithoutAPrompt(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		c := b.optedIn()
		a := c.newSession()
		b.agents.Started(b, 1).Chunk(a.Handle(), "cron")
		frames := c.take()
		if got := brief(t, frames); got != "agent:cron" {
			t.Errorf("saw %s", got)
		}
		for _, s := range states(t, frames) {
			if s.Params.State != "idle" {
				t.Errorf("state %s without a prompt", s.Params.State)
			}
		}
	})
}

func TestW5_FramesLeaveInTheOrderTheAgentWroteThem(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		c := b.plain()
		a := c.newSession()
		p := b.agents.Started(b, 1)
		manual(p)
		p.Handle("session/set_mode", agenttest.Manual)
		c.prompt(a, "go")
		c.send(a, "session/set_mode", `"modeId":"code"`)
		call, mode := p.Await("session/prompt"), p.Await("session/set_mode")
		call.Chunk("1")
		p.Permission(a.Handle(), "t", "x", "edit")
		call.Chunk("2")
		mode.Result("{}")
		call.Chunk("3")
		call.Result(`{"stopReason":"end_turn"}`)
		call.Chunk("4")
		c.expect("agent:1 ask:session/request_permission agent:2 result current_mode_update agent:3 stop:end_turn agent:4")
	})
}

func TestW5_UpdatesBeforeTheNewResponseComeRightAfterIt(t *testing.T) {
	early := `{"sessionUpdate":"available_commands_update","availableCommands":[]}`
	scenario(t, agenttest.Profile{BeforeNew: []string{early}}, sessions.Config{}, func(b *bench) {
		c := b.plain()
		c.open("session/new", fmt.Sprintf(`{"cwd":%q,"mcpServers":[]}`, b.dir))
		if got := briefAll(t, c.take()); got != "result available_commands_update available_commands_update" {
			t.Errorf("saw %s, want the answer, our commands, and the agent's with ours", got)
		}
	})
}

func TestW4_ClientCancelsARequestOfItsOwn(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		c := b.plain()
		a := c.newSession()
		p := b.agents.Started(b, 1)
		manual(p)
		c.prompt(a, "one")
		waiting := c.prompt(a, "two")
		call := p.Await("session/prompt")
		a.CancelRequest([]byte(waiting))
		c.expect("error:-32800:cancelled")
		p.Handle("session/set_mode", agenttest.Manual)
		id := c.send(a, "session/set_mode", `"modeId":"code"`)
		mode := p.Await("session/set_mode")
		a.CancelRequest([]byte(id))
		if got := p.Await("$/cancel_request"); !strings.Contains(got.Raw, `"requestId":`+mode.ID) {
			t.Errorf("the agent was told %s, want its own id %s", got.Raw, mode.ID)
		}
		mode.Error(-32800, "cancelled", "")
		call.Result(`{"stopReason":"end_turn"}`)
		c.expect("error:-32800:<nil> stop:end_turn")
	})
}
