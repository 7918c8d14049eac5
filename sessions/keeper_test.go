package sessions_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/acpgate/acpgate/agentpool/agenttest"
	"github.com/acpgate/acpgate/sessions"
)

// closeSession and deleteSession are the requests of the same name.
func (c *client) closeSession(id string) error {
	f, _ := c.frame("session/close", fmt.Sprintf(`{"sessionId":%s}`, quote(id)))
	_, err := c.b.m.CloseSession(context.Background(), c, f)
	return err
}

func (c *client) deleteSession(id string) error {
	f, _ := c.frame("session/delete", fmt.Sprintf(`{"sessionId":%s}`, quote(id)))
	_, err := c.b.m.DeleteSession(context.Background(), c, f)
	return err
}

// quote is s as JSON, control characters and all.
func quote(s string) string { return string(mustJSON(s)) }

// The key of a prompt is stored before the agent gets the prompt, also when it came while the store was busy.
func TestV16_KeyIsNeverStoredBehindItsPrompt(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		c := b.plain()
		a := c.newSession()
		p := b.agents.Started(b, 1)
		p.Handle("session/prompt", func(call *agenttest.Call) {
			if got := b.store.members("keys/fake/" + a.Handle()); !slices.Contains(got, "k1") {
				t.Errorf("the agent has the prompt and the store has the keys %v", got)
			}
			call.Result(`{"stopReason":"end_turn"}`)
		})
		time.Sleep(time.Second)
		b.store.before(func() {
			c.send(a, "session/prompt", text("pay")+`,"_meta":{"acpgate":{"key":"k1"}}`)
			b.store.before(func() { time.Sleep(100 * time.Millisecond) }) // whoever does not wait for this commit is seen
		})
		if err := c.closeSession("some-other"); err != nil { // something to commit
			t.Fatal(err)
		}
		p.Chunk(a.Handle(), "news") // and an event of the session, so that this round stores some of it
		time.Sleep(time.Second)
		c.expect("agent:news stop:end_turn")
	})
}

// What no store takes must not keep what everybody else says from being stored.
func TestW9_NamesThatNoStoreTakesHarmNobody(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		c := b.optedIn()
		a := c.newSession()
		c.prompt(a, "one")
		c.take()
		for _, id := range []string{"nul\x00id", strings.Repeat("x", 1<<20), "new\nline", "a/b/../c", "…/ünï", " ", "fake/" + a.Handle()} {
			if err := c.closeSession(id); err != nil {
				t.Errorf("close %.20q: %v", id, err)
			}
			if err := c.deleteSession(id); err != nil {
				t.Errorf("delete %.20q: %v", id, err)
			}
			for _, method := range []string{"session/load", "session/resume", "session/fork"} {
				_, err := c.tryOpen(method, fmt.Sprintf(`{"sessionId":%s,"cwd":%q,"mcpServers":[]}`, quote(id), b.dir))
				if err == nil {
					t.Errorf("%s %.20q succeeds", method, id)
					continue
				}
				if e := sessions.AsError(err); e.Code != sessions.CodeNotFound && !strings.Contains(e.Error(), "-32002") {
					t.Errorf("%s %.20q: %v", method, id, err)
				}
			}
			c.resume(a.Handle(), `{"view":true,"after":{"session":`+quote(id)+`,"epoch":1,"seq":2}}`).Detach()
			_, _ = c.try(a, "session/prompt", `"prompt":[{"type":"text","text":`+quote("/resume "+id)+`}]`)
			c.take()
		}
		_, err := c.try(a, "session/prompt", text("x")+`,"_meta":{"acpgate":{"key":"a\u0000b"}}`)
		wantError(t, err, -32602, "bad_params")
		time.Sleep(time.Second)
		if err := b.m.Ready(); err != nil {
			t.Errorf("the store is said not to work: %v", err)
		}
		c.prompt(a, "two")
		c.expect("agent:ECHO[two] stop:end_turn")
		b.restart()
		d := b.plain()
		d.load(a.Handle())
		d.expect("user:one agent:ECHO[one] user:two agent:ECHO[two] result")
	})
}

// Results, modes and titles of any size leave the store usable.
func TestW9_LargeValuesOfAnAgentHarmNobody(t *testing.T) {
	huge := strings.Repeat("h", 100<<10)
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		c := b.plain()
		a := c.newSession()
		p := b.agents.Started(b, 1)
		p.Handle("session/prompt", func(call *agenttest.Call) {
			call.Update(`{"sessionUpdate":"session_info_update","title":"` + huge + `"}`)
			call.Update(`{"sessionUpdate":"current_mode_update","currentModeId":"` + huge + `"}`)
			call.Result(`{"stopReason":"end_turn","_meta":{"x":"` + huge + `"}}`)
		})
		p.Handle("session/new", func(call *agenttest.Call) {
			call.Result(`{"sessionId":"` + call.NewSession() + `","_meta":{"x":"` + huge + `"}}`)
		})
		c.send(a, "session/prompt", text("pay")+`,"_meta":{"acpgate":{"key":"k1"}}`)
		c.take()
		d := c.newSession()
		time.Sleep(time.Second)
		if err := b.m.Ready(); err != nil {
			t.Errorf("the store is said not to work: %v", err)
		}
		p.Handle("session/prompt", nil)
		c.prompt(d, "in the other")
		c.take()
		b.restart()
		e := b.plain()
		x := e.load(a.Handle())
		e.take()
		e.send(x, "session/prompt", text("pay")+`,"_meta":{"acpgate":{"key":"k1"}}`)
		if got := e.take(); brief(t, got) != "stop:end_turn" {
			t.Errorf("the key is answered with %.300s", got)
		}
		e.load(d.Handle())
		e.expect("user:in the other agent:ECHO[in the other] result")
		_, err := e.tryOpen("session/new", fmt.Sprintf(`{"cwd":%q,"mcpServers":[{"name":%q}]}`, b.dir, strings.Repeat(huge, 50)))
		wantError(t, err, -32602, "bad_params")
	})
}

// A session whose events could not all be stored begins another epoch: a cursor of a client must never mean other events.
func TestV11_NoCursorIsReusedForOtherEvents(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		c := b.optedIn()
		a := c.newSession()
		c.prompt(a, "stored")
		c.take()
		time.Sleep(time.Second)
		b.store.breakJournal("fake/" + a.Handle())
		c.prompt(a, "lost one")
		c.prompt(a, "lost two")
		time.Sleep(time.Second) // whatever the keeper could do it has done
		session, epoch, seq := cursor(t, c.take())
		b.store.breakJournal("")
		b.restart()
		d := b.optedIn()
		x := d.load(a.Handle())
		for i := range 3 {
			d.prompt(x, fmt.Sprint("after ", i))
		}
		d.take()
		e := b.optedIn()
		e.resume(a.Handle(), after(session, epoch, seq))
		if got := decode(t, e.take()[0]).Result.Meta.Acpgate.Resync; got != "epoch" {
			t.Errorf("the cursor was taken for one of this journal: resync %q", got)
		}
	})
}

// Prompts that wait in the queue of a view that another gateway has taken over do not run here.
func TestN3_QueueOfALostViewDoesNotRun(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		c := b.plain()
		a := c.newSession()
		p := b.agents.Started(b, 1)
		manual(p)
		c.prompt(a, "runs")
		call := p.Await("session/prompt")
		c.prompt(a, "waits")
		c.prompt(a, "waits too")
		time.Sleep(time.Second)
		if _, err := b.store.OpenJournal(context.Background(), "local", "fake/"+a.Handle(), 99, 1); err != nil {
			t.Fatal(err)
		}
		call.Chunk("news") // makes it write, and find out
		time.Sleep(time.Second)
		call.Result(`{"stopReason":"end_turn"}`)
		c.expect("agent:news stop:end_turn error:-32603:owner_lost error:-32603:owner_lost")
		if n := count(p, "session/prompt"); n != 1 {
			t.Errorf("%d prompts reached the agent", n)
		}
	})
}

// Keys are forgotten in the store as in memory: their number is bounded.
func TestV16_StoredKeysAreBounded(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{KeysPerView: 4}, func(b *bench) {
		c := b.plain()
		a := c.newSession()
		index := "keys/fake/" + a.Handle()
		send := func(c *client, a *sessions.Attachment, i int) {
			c.send(a, "session/prompt", text(fmt.Sprint(i))+fmt.Sprintf(`,"_meta":{"acpgate":{"key":"k%d"}}`, i))
			c.take()
		}
		for i := range 10 {
			send(c, a, i)
			time.Sleep(time.Minute)
		}
		if got := fmt.Sprint(b.store.members(index)); got != "[k6 k7 k8 k9]" {
			t.Errorf("the store has %s", got)
		}
		b.restart()
		d := b.plain()
		x := d.load(a.Handle())
		d.take()
		send(d, x, 10) // the oldest goes first, also after a restart
		time.Sleep(time.Second)
		if got := fmt.Sprint(b.store.members(index)); got != "[k10 k7 k8 k9]" {
			t.Errorf("after a restart the store has %s", got)
		}
		if err := d.closeSession(a.Handle()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if got := b.store.members(index); len(got) != 0 {
			t.Errorf("after the close the store has %v", got)
		}
	})
}

// A key that was stored when the gateway ended, and whose prompt was not, stands for nothing: no agent has seen it.
func TestV16_KeyWithoutItsPromptIsForgotten(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		c := b.optedIn()
		a := c.newSession()
		c.prompt(a, "one")
		c.take()
		time.Sleep(time.Second)
		b.store.failAppends(true) // the record goes through, the event does not
		c.send(a, "session/prompt", text("pay")+`,"_meta":{"acpgate":{"key":"k1"}}`)
		time.Sleep(20 * time.Millisecond)
		b.crash()
		b.store.failAppends(false)
		if got := b.store.members("keys/fake/" + a.Handle()); fmt.Sprint(got) != "[k1]" {
			t.Fatalf("the store has the keys %v", got)
		}
		d := b.optedIn()
		x := d.resume(a.Handle(), `{"view":true}`)
		d.take()
		d.send(x, "session/prompt", text("pay")+`,"_meta":{"acpgate":{"key":"k1"}}`)
		d.expect("agent:ECHO[pay] stop:end_turn")
	})
}

// The outcome of a key is that of its turn in the journal: a record that was stored before the turn's end is not believed.
func TestV16_OutcomeWithoutItsTurnEndIsNotBelieved(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		c := b.optedIn()
		a := c.newSession()
		p := b.agents.Started(b, 1)
		manual(p)
		c.send(a, "session/prompt", text("pay")+`,"_meta":{"acpgate":{"key":"k1"}}`)
		call := p.Await("session/prompt")
		time.Sleep(time.Second)
		b.store.failAppends(true)
		call.Chunk("the answer that is lost")
		call.Result(`{"stopReason":"end_turn"}`)
		time.Sleep(time.Second)
		b.crash()
		b.store.failAppends(false)
		d := b.optedIn()
		x := d.resume(a.Handle(), `{"view":true}`)
		d.take()
		d.send(x, "session/prompt", text("pay")+`,"_meta":{"acpgate":{"key":"k1"}}`)
		d.expect("error:-32603:owner_lost")
	})
}
