package sessions_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/acpgate/acpgate/agentpool/agenttest"
	"github.com/acpgate/acpgate/sessions"
)

// A setting that wakes the session a view is just leaving must not send the command that moves it.
func TestV15_CommandDoesNotReachAnAgentThatWakes(t *testing.T) {
	for _, command := range []string{"/new", "/drop", "/resume other"} {
		scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
			b.agents.Store("other", b.dir, "x", "y")
			c := b.plain()
			a := c.newSession()
			c.prompt(a, "one")
			c.take()
			time.Sleep(31 * time.Minute) // it sleeps
			b.agents.DelayStart(time.Second)
			c.prompt(a, command)
			c.send(a, "session/set_mode", `"modeId":"code"`)
			time.Sleep(time.Minute)
			c.take()
			c.prompt(a, "two")
			time.Sleep(time.Minute)
			if got := brief(t, c.take()); !strings.HasSuffix(got, "agent:ECHO[two] stop:end_turn") {
				t.Errorf("%s: then came %s", command, got)
			}
			for _, p := range b.agents.Processes() {
				for _, l := range p.Lines() {
					line := l.Raw
					if strings.Contains(line, "session/prompt") && strings.Contains(line, command) {
						t.Errorf("the agent got %s", line)
					}
				}
			}
		})
	}
}

// A session that never had a prompt is made anew when it wakes; from then on it is stored and listed under its new id.
func TestV20_SessionMadeAnewIsKept(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		c := b.optedIn()
		a := c.newSession()
		time.Sleep(31 * time.Minute)
		c.prompt(a, "said")
		if got := brief(t, c.take()); !strings.HasSuffix(got, "agent:ECHO[said] stop:end_turn") {
			t.Fatalf("saw %s", got)
		}
		id := c.binding(a)
		if id == a.Handle() {
			t.Fatal("it was not made anew")
		}
		c.prompt(a, "/sessions")
		got := brief(t, c.take())
		if !strings.Contains(got, "`"+id+"` said (here)") || strings.Contains(got, "`"+a.Handle()+"`") {
			t.Errorf("the list is %s", got)
		}
		c.prompt(a, "more")
		session, epoch, seq := cursor(t, c.take())
		b.restart()
		d := b.optedIn()
		x := d.resume(a.Handle(), after(session, epoch, seq))
		if r := decode(t, d.take()[0]).Result.Meta.Acpgate; r.Resync != "" || r.Binding != id || r.View != a.Handle() {
			t.Errorf("after a restart: %+v", r)
		}
		e := b.plain()
		e.load(a.Handle())
		e.expect("user:said agent:ECHO[said] user:more agent:ECHO[more] result")
		d.prompt(x, "on")
		d.expect("agent:ECHO[on] stop:end_turn")
		if b.store == nil {
			return
		}
		if record, events := b.store.has("fake/" + a.Handle()); record || events {
			t.Error("the journal of the id before is still there")
		}
	})
}

// An alias of before a restart ends like any other when its view leaves the session.
func TestV5_AliasOfBeforeARestartIsDropped(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		b.agents.Store("x", b.dir, "in x", "ok")
		c := b.plain()
		a := c.newSession()
		c.prompt(a, "home")
		c.take()
		c.prompt(a, "/resume x")
		c.take()
		d := b.plain()
		d.load("x") // an alias
		d.take()
		b.restart()
		c = b.plain()
		a = c.resume(a.Handle(), `{"view":true}`)
		c.prompt(a, "/resume "+a.Handle())
		c.take()
		time.Sleep(time.Second)
		e := b.plain()
		e.load("x")
		e.expect("user:in x agent:ok result")
		if n := b.m.Stats().Views; n != 2 {
			t.Errorf("%d views", n)
		}
	})
}

// A view that sleeps in the store has its session as one in memory has: nobody else takes it.
func TestV2_SessionOfAStoredViewIsInUse(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		b.agents.Store("x", b.dir, "in x", "ok")
		c := b.plain()
		a := c.newSession()
		c.prompt(a, "home")
		c.take()
		c.prompt(a, "/resume x")
		c.take()
		b.restart()
		d := b.plain()
		w := d.newSession()
		d.prompt(w, "/resume x")
		d.expect("error:-32603:session_in_use")
		d.prompt(w, "/drop x")
		d.expect("error:-32603:session_in_use")
		// It is not adopted under another handle either.
		w.Detach()
		y := d.open("session/new", fmt.Sprintf(`{"cwd":%q,"mcpServers":[],"_meta":{"acpgate":{"adopt":true}}}`, b.dir))
		d.take()
		y.Detach()
		e := b.optedIn()
		e.resume(a.Handle(), `{"view":true}`)
		if r := decode(t, e.take()[0]).Result.Meta.Acpgate; r.Binding != "x" || r.View != a.Handle() {
			t.Errorf("the view came back as %+v", r)
		}
	})
}

// What was closed or left a moment ago is so for the next request, stored or not.
func TestV12_ClosedIsClosedAtOnce(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		c := b.optedIn()
		a := c.newSession()
		c.prompt(a, "home")
		c.take()
		c.prompt(a, "/new")
		c.prompt(a, "away")
		c.take()
		away := c.binding(a)
		time.Sleep(time.Second)
		if err := c.closeSession(a.Handle()); err != nil {
			t.Fatal(err)
		}
		d := b.optedIn()
		d.resume(a.Handle(), `{"view":true}`)
		if r := decode(t, d.take()[0]).Result.Meta.Acpgate; r.Binding != a.Handle() {
			t.Errorf("the closed view came back, bound to %s", r.Binding)
		}
		// The same for a session that is left: its record must not make a view of what is there.
		x := d.newSession()
		d.prompt(x, "/resume "+away)
		d.take()
		time.Sleep(time.Second)
		d.prompt(x, "/new")
		d.take()
		e := b.plain()
		e.load(away)
		e.expect("user:away agent:ECHO[away] result")
	})
}

// A view in the store ends with a close and a delete as one in memory does.
func TestV13_StoredViewsEndToo(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		b.agents.Store("x", b.dir, "in x", "ok")
		b.agents.Store("y", b.dir, "in y", "ok")
		c := b.plain()
		a, w := c.newSession(), c.newSession()
		c.prompt(a, "home of a")
		c.prompt(w, "home of w")
		c.take()
		c.prompt(a, "/resume x")
		c.prompt(w, "/resume y")
		c.take()
		b.restart()
		d := b.optedIn()
		if err := d.deleteSession(a.Handle()); err != nil { // its home goes, x stays
			t.Fatal(err)
		}
		_, err := d.tryOpen("session/resume", fmt.Sprintf(`{"sessionId":%q,"cwd":%q,"mcpServers":[],"_meta":{"acpgate":{"view":true}}}`, a.Handle(), b.dir))
		wantError(t, err, -32002, "session_not_found")
		if b.agents.Stored(a.Handle()) != nil || b.agents.Stored("x") == nil {
			t.Errorf("the agent has %v and %v", b.agents.Stored(a.Handle()), b.agents.Stored("x"))
		}
		if err := d.deleteSession("y"); err != nil { // w is bound to it and moves on
			t.Fatal(err)
		}
		v := d.resume(w.Handle(), `{"view":true}`)
		frames := d.take()
		if r := decode(t, frames[0]).Result.Meta.Acpgate; r.Binding == "y" || r.Binding == w.Handle() {
			t.Errorf("w looks at %s", r.Binding)
		}
		d.prompt(v, "hi")
		d.expect("agent:ECHO[hi] stop:end_turn")
		if err := d.closeSession("x"); err != nil {
			t.Fatal(err)
		}
	})
}

// What was deleted leaves nothing in the store, however late something of it is said.
func TestV13_DeletedLeavesNothingInTheStore(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		c := b.plain()
		a := c.newSession()
		p := b.agents.Started(b, 1)
		manual(p)
		c.prompt(a, "secret") // a turn runs, and not everything is stored
		call := p.Await("session/prompt")
		call.Chunk("secret")
		p.OnCancel(agenttest.CancelIgnored)
		if err := c.deleteSession(a.Handle()); err != nil {
			t.Fatal(err)
		}
		call.Chunk("late")
		call.Result(`{"stopReason":"end_turn"}`)
		time.Sleep(time.Hour)
		for _, name := range []string{"fake/", "session/fake/", "view/fake/", "bound/fake/"} {
			if record, events := b.store.has(name + a.Handle()); record || events {
				t.Errorf("%s is still there", name+a.Handle())
			}
		}
		if got := b.store.members("rows/fake"); len(got) != 0 {
			t.Errorf("rows %v", got)
		}
		b.crash()
		d := b.plain()
		_, err := d.tryOpen("session/load", fmt.Sprintf(`{"sessionId":%q,"cwd":%q,"mcpServers":[]}`, a.Handle(), b.dir))
		wantError(t, err, -32002, "session_not_found")
	})
}

// A session without a prompt is deleted when it is closed.
func TestL3_ClosedEmptySessionIsDeleted(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		c := b.plain()
		a := c.newSession()
		if err := c.closeSession(a.Handle()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if p := b.agents.Started(b, 1); count(p, "session/delete") != 1 {
			t.Errorf("the agent got %v", p.Methods())
		}
		if record, events := b.store.has("session/fake/" + a.Handle()); record || events {
			t.Error("its record is still there")
		}
		if s := b.m.Stats(); s.Views != 0 || s.JournalBytes != 0 {
			t.Errorf("left in memory: %+v", s)
		}
	})
}
