package sessions_test

import (
	"strings"
	"testing"
	"time"

	"github.com/acpgate/acpgate/agentpool/agenttest"
	"github.com/acpgate/acpgate/agentpool/wire"
	"github.com/acpgate/acpgate/sessions"
)

// setModes returns the session and mode of every session/set_mode that reached the process.
func setModes(p *agenttest.Process) string {
	var out []string
	for _, l := range p.Lines() {
		if l.Method == "session/set_mode" {
			mode, _ := wire.Unquote(wire.Lookup([]byte(l.Raw), "params", "modeId").Of([]byte(l.Raw)))
			out = append(out, l.Session+":"+mode)
		}
	}
	return strings.Join(out, " ")
}

// The mode is part of the view: it is set in the session that the view moves to before any prompt can run there.
func TestV6_ModeIsThereBeforeThePrompt(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		c := b.optedIn()
		a := c.newSession()
		c.prompt(a, "one")
		c.send(a, "session/set_mode", `"modeId":"code"`)
		c.take()
		p := b.agents.Started(b, 1)
		c.prompt(a, "/new")
		c.prompt(a, "two") // waits for the move
		frames := c.take()
		var order []string
		for _, m := range p.Methods()[3:] {
			order = append(order, strings.TrimPrefix(m, "session/"))
		}
		if got := strings.Join(order, " "); got != "new set_mode prompt" {
			t.Errorf("the agent got %s", got)
		}
		if !strings.Contains(strings.Join(frames, "\n"), `"currentModeId":"code"`) {
			t.Error("nobody was told which mode the new session is in")
		}
	})
}

// On the way back the session gets the view's mode, whatever it was in when it was opened or left.
func TestV6_ModeGoesBackWithTheView(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		c := b.optedIn()
		a := c.newSession()
		c.prompt(a, "one")
		c.send(a, "session/set_mode", `"modeId":"code"`)
		c.take()
		c.prompt(a, "/new")
		c.take()
		second := c.binding(a)
		c.send(a, "session/set_mode", `"modeId":"ask"`)
		c.prompt(a, "two")
		c.take()
		c.prompt(a, "/resume "+a.Handle())
		c.take()
		p := b.agents.Started(b, 1)
		h := a.Handle()
		if got, want := setModes(p), h+":code "+second+":code "+second+":ask "+h+":ask"; got != want {
			t.Errorf("modes were set: %s\nwant %s", got, want)
		}
		// A session that sleeps gets it when it wakes.
		c.send(a, "session/set_mode", `"modeId":"code"`)
		c.take()
		time.Sleep(31 * time.Minute)
		c.prompt(a, "/resume "+second)
		c.take()
		c.prompt(a, "three")
		c.expect("agent:ECHO[three] stop:end_turn")
		if got := setModes(p); !strings.HasSuffix(got, second+":code") {
			t.Errorf("modes were set: %s", got)
		}
	})
}

// An answer that comes after the view has moved on is of the session that was asked.
func TestV6_LateSettingBelongsToTheSessionThatWasAsked(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		c := b.plain()
		a := c.newSession()
		c.prompt(a, "one")
		c.take()
		p := b.agents.Started(b, 1)
		p.Handle("session/set_mode", agenttest.Manual)
		c.send(a, "session/set_mode", `"modeId":"code"`)
		call := p.Await("session/set_mode")
		c.prompt(a, "/new")
		c.take()
		p.Handle("session/set_mode", nil)
		call.Result(`{}`)
		if got := brief(t, c.take()); got != "result" {
			t.Errorf("saw %s", got)
		}
		d := b.plain()
		d.resume(a.Handle(), `{"view":true}`)
		if got := d.take()[0]; !strings.Contains(got, `"currentModeId":"ask"`) {
			t.Errorf("the new session is said to be in another mode: %s", got)
		}
	})
}

// An agent that answers resume without modes has not lost them.
func TestV20_ModesOutliveASleep(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		c := b.plain()
		a := c.newSession()
		c.send(a, "session/set_mode", `"modeId":"code"`)
		c.prompt(a, "one")
		c.take()
		p := b.agents.Started(b, 1)
		p.Handle("session/resume", func(call *agenttest.Call) {
			call.MarkOpen()
			call.Result(`{}`)
		})
		time.Sleep(31 * time.Minute)
		c.prompt(a, "two")
		c.take()
		d := b.plain()
		d.resume(a.Handle(), `{"view":true}`)
		if got := d.take()[0]; !strings.Contains(got, `"currentModeId":"code"`) || !strings.Contains(got, "availableModes") {
			t.Errorf("a late joiner is told %s", got)
		}
	})
}
