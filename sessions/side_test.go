package sessions_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/acpgate/acpgate/agentpool/agenttest"
	"github.com/acpgate/acpgate/sessions"
)

const (
	noFork     = `"fork":{},`
	noEmbedded = `,"embeddedContext":true`
)

// without takes capabilities out of the fake agent's.
func without(caps ...string) string {
	s := agenttest.AllCapabilities
	for _, c := range caps {
		s = strings.Replace(s, c, "", 1)
	}
	return s
}

// opened is _meta.acpgate of the answer to a session method.
func opened(t testing.TB, frames []string) map[string]any {
	t.Helper()
	for _, f := range frames {
		var m struct {
			Result struct {
				Meta struct{ Acpgate map[string]any } `json:"_meta"`
			}
		}
		if json.Unmarshal([]byte(f), &m) == nil && m.Result.Meta.Acpgate != nil {
			return m.Result.Meta.Acpgate
		}
	}
	t.Fatalf("no answer in %q", frames)
	return nil
}

func (c *client) newIn(meta string) (*sessions.Attachment, []string) {
	c.b.Helper()
	a := c.open("session/new", fmt.Sprintf(`{"cwd":%q,"mcpServers":[]%s}`, c.b.dir, meta))
	return a, c.take()
}

func TestS1_SideTouchesNothing(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		c, other := b.optedIn(), b.plain()
		a := c.newSession()
		other.load(a.Handle())
		p := b.agents.Started(b, 1)
		manual(p)
		c.prompt(a, "the task")
		call := p.Await("session/prompt")
		c.take()
		other.take()
		lines := len(p.Lines())
		_, _, before := cursor(t, []string{b.firstFrame(t, a.Handle())})
		c.prompt(a, "/side why this way?") // CASE 95, and during a turn
		frames := c.take()
		if got := brief(t, frames); !strings.HasPrefix(got, "report:Side conversation “why this way?” staged") || !strings.HasSuffix(got, "stop:end_turn") {
			t.Errorf("saw %s", got)
		}
		_, _, after := cursor(t, []string{b.firstFrame(t, a.Handle())})
		if len(p.Lines()) != lines || after != before {
			t.Errorf("%d lines reached the agent, the journal went from %d to %d", len(p.Lines())-lines, before, after)
		}
		other.expect("")
		slot, _ := opened(t, frames)["slot"].(map[string]any)
		if slot["token"] == "" || slot["question"] != "why this way?" || slot["cwd"] != b.dir {
			t.Errorf("slot %v", slot)
		}
		c.prompt(a, "/side another")
		if got := brief(t, c.take()); !strings.Contains(got, "It replaces the one staged before, “why this way?”") {
			t.Errorf("saw %s", got)
		}
		call.Result(`{"stopReason":"end_turn"}`)
		c.take()
	})
}

func TestS2_SlotIsClaimedExactlyOnce(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		c, d := b.optedIn(), b.optedIn()
		a := c.newSession()
		c.prompt(a, "one")
		c.take()
		c.prompt(a, "/side")
		slot := opened(t, c.take())["slot"].(map[string]any)
		// Another connection, another directory and a client that does not want it get ordinary sessions.
		if x, frames := d.newIn(""); opened(t, frames)["parentSession"] != nil {
			t.Errorf("another connection claimed it: %s", x.Handle())
		}
		sub := c.open("session/new", fmt.Sprintf(`{"cwd":%q,"mcpServers":[]}`, mkdir(t, b.dir, "sub")))
		if opened(t, c.take())["parentSession"] != nil {
			t.Errorf("another directory claimed it: %s", sub.Handle())
		}
		if _, frames := c.newIn(`,"_meta":{"acpgate":{"claim":false}}`); opened(t, frames)["parentSession"] != nil {
			t.Error("claim: false claimed it")
		}
		child, frames := c.newIn("")
		if m := opened(t, frames); m["parentSession"] != a.Handle() || m["rung"] != "fork" || m["seedLength"] != float64(2) || m["side"] != true {
			t.Errorf("lineage %v", m)
		}
		if _, frames := c.newIn(""); opened(t, frames)["parentSession"] != nil {
			t.Error("claimed twice")
		}
		// The token gives the same child again.
		again, _ := d.newIn(fmt.Sprintf(`,"_meta":{"acpgate":{"claim":%q}}`, slot["token"]))
		if again.Handle() != child.Handle() {
			t.Errorf("the token gave %s, want %s", again.Handle(), child.Handle())
		}
		_, err := d.tryOpen("session/new", fmt.Sprintf(`{"cwd":%q,"mcpServers":[],"_meta":{"acpgate":{"claim":"made up"}}}`, b.dir))
		wantError(t, err, -32602, "slot")
	})
}

func TestS2_SlotDiesWithItsConnectionAndInTime(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		c := b.optedIn()
		a := c.newSession()
		c.prompt(a, "one")
		c.take()
		c.prompt(a, "/side lost?")
		slot := opened(t, c.take())["slot"].(map[string]any)
		a.Detach()
		b.m.Gone(c)
		d := b.optedIn()
		x := d.resume(a.Handle(), `{"view":true}`)
		if got := brief(t, d.take()); !strings.Contains(got, "The connection was lost before the side conversation “lost?” was opened") {
			t.Errorf("the client that came back saw %s", got)
		}
		_, err := d.tryOpen("session/new", fmt.Sprintf(`{"cwd":%q,"mcpServers":[],"_meta":{"acpgate":{"claim":%q}}}`, b.dir, slot["token"]))
		wantError(t, err, -32602, "slot")
		d.prompt(x, "/side slow")
		d.take()
		time.Sleep(16 * time.Minute)
		if _, frames := d.newIn(""); opened(t, frames)["parentSession"] != nil {
			t.Error("an expired slot was claimed")
		}
		d.prompt(x, "/side doomed")
		d.take()
		f, _ := d.frame("session/delete", fmt.Sprintf(`{"sessionId":%q}`, a.Handle()))
		if _, err := b.m.DeleteSession(context.Background(), d, f); err != nil {
			t.Fatal(err)
		}
		if _, frames := d.newIn(""); opened(t, frames)["parentSession"] != nil {
			t.Error("the slot of a deleted source was claimed")
		}
	})
}

func TestS2_FailedCreationLeavesTheSlotClaimable(t *testing.T) {
	scenario(t, agenttest.Profile{Initialize: without(noFork)}, sessions.Config{}, func(b *bench) {
		c := b.optedIn()
		a := c.newSession()
		c.prompt(a, "one")
		c.take()
		c.prompt(a, "/side")
		c.take()
		p := b.agents.Started(b, 1)
		p.Handle("session/new", agenttest.Failing(-32603, "busy", ""))
		if _, err := c.tryOpen("session/new", fmt.Sprintf(`{"cwd":%q,"mcpServers":[]}`, b.dir)); err == nil {
			t.Fatal("opened")
		}
		p.Handle("session/new", nil)
		if _, frames := c.newIn(""); opened(t, frames)["parentSession"] != a.Handle() {
			t.Error("the slot was lost")
		}
	})
}

func TestS3_OnlyCompletedTurnsAreInherited(t *testing.T) {
	for name, init := range map[string]string{"fork": agenttest.AllCapabilities, "seed": without(noFork)} {
		t.Run(name, func(t *testing.T) {
			scenario(t, agenttest.Profile{Initialize: init}, sessions.Config{}, func(b *bench) {
				c := b.optedIn()
				a := c.newSession()
				c.prompt(a, "/side early")
				if got := brief(t, c.take()); !strings.Contains(got, "No turn is completed here yet") {
					t.Errorf("saw %s", got)
				}
				_, frames := c.newIn("")
				if m := opened(t, frames); m["rung"] != "fresh" || m["seedLength"] != float64(0) {
					t.Errorf("lineage %v", m)
				}
				c.prompt(a, "done")
				c.take()
				p := b.agents.Started(b, 1)
				manual(p)
				c.prompt(a, "running")
				c.settle()
				p.Chunk(a.Handle(), "half")
				c.take()
				c.prompt(a, "/side now?")
				c.take()
				p.Handle("session/prompt", nil)
				child, frames := c.newIn("")
				frames = append(frames, c.take()...)
				m := opened(t, frames)
				if m["rung"] != "seed" || m["seedLength"] != float64(2) { // the head is not the cut: no fork
					t.Errorf("lineage %v", m)
				}
				got := brief(t, frames)
				if !strings.Contains(got, "User: done") || strings.Contains(got, "running") || strings.Contains(got, "half") || !strings.Contains(got, "now?") {
					t.Errorf("the child was given %s", got)
				}
				d := b.plain()
				d.load(child.Handle())
				if got := brief(t, d.take()); !strings.HasPrefix(got, "user:done agent:ECHO[done] user:now?") {
					t.Errorf("the child's transcript is %s", got)
				}
			})
		})
	}
}

func TestS4_S6_EachRungFramesFirstAndOnce(t *testing.T) {
	for name, x := range map[string]struct{ init, rung string }{
		"fork":          {agenttest.AllCapabilities, "fork"},
		"seed":          {without(noFork), "seed"},
		"seed, no blob": {without(noFork, noEmbedded), "seed"},
	} {
		t.Run(name, func(t *testing.T) {
			scenario(t, agenttest.Profile{Initialize: x.init}, sessions.Config{}, func(b *bench) {
				c := b.optedIn()
				a := c.newSession()
				c.prompt(a, "the secret is 42")
				c.send(a, "session/set_mode", `"modeId":"code"`)
				c.take()
				parent := b.agents.Owner(a.Handle())
				n := len(parent.LinesOf(a.Handle()))
				c.prompt(a, "/side what is it?")
				c.take()
				child, frames := c.newIn("")
				frames = append(frames, c.take()...)
				if m := opened(t, frames); m["rung"] != x.rung {
					t.Errorf("rung %v", m["rung"])
				}
				got := brief(t, frames)
				if !strings.Contains(got, "notice:Side conversation of “the secret is 42”, 2 messages inherited") || !strings.Contains(got, "user:what is it?") {
					t.Errorf("saw %s", got)
				}
				for _, l := range parent.LinesOf(a.Handle())[n:] {
					if l.Method != "session/fork" {
						t.Errorf("the parent's agent got %s", l.Raw)
					}
				}
				prompts := 0
				for _, l := range b.agents.Owner(child.Handle()).LinesOf(child.Handle()) {
					if l.Method != "session/prompt" {
						continue
					}
					prompts++
					blocks := promptBlocks(t, l.Raw)
					want := []string{"acpgate-side", "what is it?"}
					if x.rung == "seed" {
						want = []string{"the secret is 42", "acpgate-side", "what is it?"}
					}
					if len(blocks) != len(want) {
						t.Fatalf("the first prompt has %d blocks: %s", len(blocks), l.Raw)
					}
					for i := range want {
						if !strings.Contains(blocks[i], want[i]) {
							t.Errorf("block %d is %s, want %q in it", i, blocks[i], want[i])
						}
					}
				}
				if prompts != 1 {
					t.Errorf("%d prompts", prompts)
				}
				c.prompt(child, "and more")
				c.expect("agent:ECHO[and more] stop:end_turn")
				// S5: the parent's mode is the child's.
				if mode := b.agents.Owner(child.Handle()).LinesOf(child.Handle()); !strings.Contains(fmt.Sprint(mode), `"modeId":"code"`) {
					t.Errorf("the mode was not set: %v", mode)
				}
			})
		})
	}
}

func promptBlocks(t testing.TB, line string) []string {
	t.Helper()
	var p struct {
		Params struct{ Prompt []json.RawMessage }
	}
	if err := json.Unmarshal([]byte(line), &p); err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, b := range p.Params.Prompt {
		out = append(out, string(b))
	}
	return out
}

func TestS6_FramingIsRestoredWhenThePromptFails(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		c := b.optedIn()
		a := c.newSession()
		c.prompt(a, "one")
		c.take()
		c.prompt(a, "/side")
		c.take()
		child, _ := c.newIn("")
		p := b.agents.Owner(child.Handle())
		p.Handle("session/prompt", func(call *agenttest.Call) {
			call.Update(`{"sessionUpdate":"usage_update","used":1,"size":2}`) // no answer
			call.Error(-32603, "overloaded", "")
		})
		c.prompt(child, "first try")
		c.take()
		p.Handle("session/prompt", nil)
		c.prompt(child, "second try")
		c.take()
		c.prompt(child, "third")
		c.take()
		var framed []bool
		for _, l := range p.LinesOf(child.Handle()) {
			if l.Method == "session/prompt" {
				framed = append(framed, strings.Contains(l.Raw, "acpgate-side"))
			}
		}
		if fmt.Sprint(framed) != "[true true false]" {
			t.Errorf("framed %v", framed)
		}
	})
}

func TestS7_ChildIsAnOrdinarySession(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		c := b.optedIn()
		a := c.newSession()
		c.prompt(a, "one")
		c.take()
		c.prompt(a, "/side how?")
		c.take()
		child, _ := c.newIn("")
		c.take()
		b.agents.Owner(child.Handle()).Emit(child.Handle(), `{"sessionUpdate":"session_info_update","title":"one (fork)"}`)
		if got := brief(t, c.take()); got != "" {
			t.Errorf("the agent renamed the child: %s", got)
		}
		f, _ := c.frame("session/list", `{}`)
		raw, err := b.m.ListSessions(context.Background(), c, f)
		if err != nil || !strings.Contains(string(raw), "Side: how?") || !strings.Contains(string(raw), `"parentSession":"`+a.Handle()+`"`) {
			t.Errorf("list %s %v", raw, err)
		}
		b.restart()
		d := b.optedIn()
		d.load(child.Handle())
		frames := d.take()
		if m := opened(t, frames); m["parentSession"] != a.Handle() || m["rung"] != "fork" {
			t.Errorf("after a restart: %v", m)
		}
		inherited := 0
		for _, f := range frames {
			if strings.Contains(f, `"inherited":true`) {
				inherited++
			}
		}
		if inherited != 2 {
			t.Errorf("%d entries are marked inherited, want 2", inherited)
		}
	})
}

func TestS8_ReadOnlyGate(t *testing.T) {
	ask := func(b *bench, p *agenttest.Process, session, kind string) string {
		params := `{"toolCall":{"toolCallId":"x","title":"do it","kind":"` + kind + `"},"options":[{"optionId":"ok","name":"A","kind":"allow_once"},{"optionId":"no","name":"R","kind":"reject_once"}]}`
		if kind == "" {
			params = strings.Replace(params, `,"kind":""`, "", 1)
		}
		q := p.Ask(session, "session/request_permission", params)
		p.Settle()
		synctestWait()
		if !q.Answered() {
			return "asked"
		}
		return q.Wait().Raw
	}
	for _, off := range []bool{false, true} {
		scenario(t, agenttest.Profile{GatewayFS: true}, sessions.Config{SideGateOff: off}, func(b *bench) {
			c := b.optedIn()
			a := c.newSession()
			c.prompt(a, "one")
			c.take()
			c.prompt(a, "/side")
			c.take()
			child, _ := c.newIn("")
			p := b.agents.Owner(child.Handle())
			for _, kind := range []string{"edit", "delete", "move", "execute", "other", ""} {
				got := ask(b, p, child.Handle(), kind)
				if refused := strings.Contains(got, `"optionId":"no"`); refused == off {
					t.Errorf("gate off %v: %q was answered %s", off, kind, got)
				}
			}
			for _, kind := range []string{"read", "search", "think", "fetch"} {
				if got := ask(b, p, child.Handle(), kind); got != "asked" {
					t.Errorf("%q was answered %s", kind, got)
				}
			}
			// The kind may have come with the tool call alone.
			p.Emit(child.Handle(), `{"sessionUpdate":"tool_call","toolCallId":"x","title":"t","kind":"read"}`)
			if got := ask(b, p, child.Handle(), ""); got != "asked" {
				t.Errorf("a read that was announced before was answered %s", got)
			}
			write := p.Ask(child.Handle(), "fs/write_text_file", `{"path":"/x","content":""}`)
			p.Settle()
			synctestWait()
			if refused := write.Answered() && strings.Contains(write.Wait().Raw, "read_only"); refused == off || (len(p.FS()) == 1) != off {
				t.Errorf("gate off %v: the write was refused %v", off, refused)
			}
			if got := ask(b, p, a.Handle(), "edit"); got != "asked" {
				t.Errorf("the parent's request was answered %s", got)
			}
			c.cancel(child)
			c.cancel(a)
			c.take()
		})
	}
}

func TestS9_S10_NoteComesHomeOnce(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		c, plain := b.optedIn(), b.plain()
		a := c.newSession()
		plain.load(a.Handle())
		c.prompt(a, "one")
		c.take()
		c.prompt(a, "/side how?")
		c.take()
		child, _ := c.newIn("")
		c.take()
		plain.take()
		long := strings.Repeat("é", 2500)
		p := b.agents.Owner(child.Handle())
		p.Handle("session/prompt", func(call *agenttest.Call) {
			if call.Session == child.Handle() {
				call.Chunk("  " + long)
			}
			call.Result(`{"stopReason":"end_turn"}`)
		})
		parentLines := len(p.LinesOf(a.Handle()))
		c.prompt(child, "/merge")
		frames := c.take()
		if got := brief(t, frames); !strings.Contains(got, "report:The note went to “one”; its agent gets it with the next message there. stop:end_turn") {
			t.Errorf("saw %s", got)
		}
		if len(p.LinesOf(a.Handle())) != parentLines {
			t.Error("the handback reached the parent's agent by itself")
		}
		note := strings.Repeat("é", 2000)
		card := "agent:Note from “Side: how?”:\n\n" + note
		plain.expect(card)
		p.Handle("session/prompt", nil)
		c.prompt(a, "go on")
		got := brief(t, c.take())
		if strings.Count(got, note) != 1 || !strings.Contains(got, "go on") {
			t.Errorf("the parent's agent got %.300s", got)
		}
		plain.take()
		c.prompt(a, "and on")
		c.expect("agent:ECHO[and on] stop:end_turn")
		// Replay shows the same card, in its place, also after a restart; none of the child's chatter.
		b.restart()
		d := b.plain()
		d.load(a.Handle())
		got = brief(t, d.take())
		if !strings.HasPrefix(got, "user:one agent:ECHO[one] "+card+" user:go on") || strings.Contains(got, "how?\"") {
			t.Errorf("the replay shows %.200s", got)
		}
	})
}

func TestS9_NothingJoinsWithoutANote(t *testing.T) {
	for name, x := range map[string]struct {
		h   agenttest.Handler
		say string
	}{
		"empty":     {agenttest.Answering(`{"stopReason":"end_turn"}`), "the agent wrote nothing"},
		"refused":   {agenttest.Answering(`{"stopReason":"refusal"}`), "the agent refused"},
		"cancelled": {agenttest.Answering(`{"stopReason":"cancelled"}`), "it was cancelled"},
		"failed":    {agenttest.Failing(-32603, "overloaded", ""), "the agent failed: overloaded"},
	} {
		t.Run(name, func(t *testing.T) {
			scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
				c := b.optedIn()
				a := c.newSession()
				c.prompt(a, "one")
				c.prompt(a, "/merge")
				if got := brief(t, c.take()); !strings.Contains(got, "report:This is no side conversation") {
					t.Errorf("/merge elsewhere showed %s", got)
				}
				c.prompt(a, "/side")
				c.take()
				child, _ := c.newIn("")
				p := b.agents.Owner(child.Handle())
				p.Handle("session/prompt", x.h)
				c.prompt(child, "/merge")
				if got := brief(t, c.take()); !strings.Contains(got, "report:Nothing was merged: "+x.say) {
					t.Errorf("saw %s", got)
				}
				p.Handle("session/prompt", nil)
				c.prompt(a, "go on")
				c.expect("agent:ECHO[go on] stop:end_turn")
			})
		})
	}
}

// n merges, n notes, in order; a prompt that fails before the agent said anything gives them back.
func TestS10_NotesAreRestoredWhenThePromptFails(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		c := b.optedIn()
		a := c.newSession()
		c.prompt(a, "one")
		c.take()
		c.prompt(a, "/side")
		c.take()
		child, _ := c.newIn("")
		p := b.agents.Owner(child.Handle())
		notes := 0
		p.Handle("session/prompt", func(call *agenttest.Call) {
			notes++
			call.Chunk(fmt.Sprintf("finding %d", notes))
			call.Result(`{"stopReason":"end_turn"}`)
		})
		c.prompt(child, "/merge")
		c.take()
		c.prompt(child, "/merge")
		c.take()
		p.Handle("session/prompt", agenttest.Failing(-32603, "overloaded", ""))
		c.prompt(a, "try")
		c.take()
		p.Handle("session/prompt", nil)
		c.prompt(a, "again")
		got := brief(t, c.take())
		if i, j := strings.Index(got, "finding 1"), strings.Index(got, "finding 2"); i < 0 || j < i || strings.Count(got, "finding") != 2 {
			t.Errorf("the agent got %s", got)
		}
		c.prompt(a, "later")
		c.expect("agent:ECHO[later] stop:end_turn")
	})
}

func TestS10_ParentThatIsClosedKeepsTheNoteAndOneThatIsDeletedRefusesIt(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		c := b.optedIn()
		a := c.newSession()
		c.prompt(a, "one")
		c.take()
		c.prompt(a, "/side")
		c.take()
		child, _ := c.newIn("")
		c.take()
		f, _ := c.frame("session/close", fmt.Sprintf(`{"sessionId":%q}`, a.Handle()))
		if _, err := b.m.CloseSession(context.Background(), c, f); err != nil {
			t.Fatal(err)
		}
		c.prompt(child, "/merge")
		c.take()
		b.restart()
		d := b.optedIn()
		x := d.load(a.Handle())
		if got := brief(t, d.take()); !strings.Contains(got, "agent:Note from") {
			t.Errorf("the parent shows %s", got)
		}
		d.prompt(x, "what came?")
		if got := brief(t, d.take()); !strings.Contains(got, "acpgate-note") {
			t.Errorf("the agent got %s", got)
		}
		y := d.load(child.Handle())
		d.take()
		g, _ := d.frame("session/delete", fmt.Sprintf(`{"sessionId":%q}`, a.Handle()))
		if _, err := b.m.DeleteSession(context.Background(), d, g); err != nil {
			t.Fatal(err)
		}
		d.take()
		d.prompt(y, "/merge")
		if got := brief(t, d.take()); !strings.Contains(got, "report:The main conversation was deleted, so the note has nowhere to go. The note was:") {
			t.Errorf("saw %s", got)
		}
	})
}

func TestS9_PreviewThenSend(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		c, plain := b.optedIn(), b.plain()
		a := c.newSession()
		c.prompt(a, "one")
		c.take()
		plain.load(a.Handle())
		plain.take()
		_, err := c.try(a, "_acpgate/merge_preview", "")
		wantError(t, err, -32602, "not_side")
		c.prompt(a, "/side")
		c.take()
		child, _ := c.newIn("")
		c.take()
		b.agents.Owner(child.Handle()).Handle("session/prompt", func(call *agenttest.Call) {
			call.Chunk("draft")
			call.Result(`{"stopReason":"end_turn"}`)
		})
		id := c.send(child, "_acpgate/merge_preview", "")
		var note, turn string
		for _, f := range c.take() {
			var m struct {
				ID     json.RawMessage
				Result struct{ Note, Turn string }
			}
			if json.Unmarshal([]byte(f), &m) == nil && string(m.ID) == id {
				note, turn = m.Result.Note, m.Result.Turn
			}
		}
		if note != "draft" || turn == "" {
			t.Fatalf("preview %q of turn %q", note, turn)
		}
		plain.expect("")
		for range 2 { // sent twice: one entry
			c.send(child, "_acpgate/merge", fmt.Sprintf(`"note":"edited","turn":%q`, turn))
			c.take()
		}
		plain.expect("agent:Note from “Side conversation”:\n\nedited")
	})
}

func TestS11_ParentAndChildRunAtOnceWithoutMixing(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		c := b.optedIn()
		a := c.newSession()
		c.prompt(a, "one")
		c.take()
		c.prompt(a, "/side")
		c.take()
		child, _ := c.newIn("")
		p := b.agents.Owner(child.Handle())
		manual(p)
		c.prompt(a, "parent")
		c.prompt(child, "child")
		c.settle()
		for range 50 {
			p.Chunk(a.Handle(), "P")
			p.Chunk(child.Handle(), "C")
		}
		for _, f := range c.take() {
			m := decode(t, f)
			if s := m.Params.Update.Content.Text; (s == "P") != (m.Params.SessionID == a.Handle()) && (s == "P" || s == "C") {
				t.Fatalf("%q came under %s", s, m.Params.SessionID)
			}
		}
		c.cancel(a)
		c.cancel(child)
		c.take()
	})
}
