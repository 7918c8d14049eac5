package sessions_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/acpgate/acpgate/agentpool/agenttest"
	"github.com/acpgate/acpgate/sessions"
)

func TestV15_References(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		other := filepath.Join(b.dir, "other")
		if err := os.Mkdir(other, 0o700); err != nil {
			t.Fatal(err)
		}
		for _, s := range [][3]string{
			{"aaaa-1", b.dir, "Fix it"}, {"aaaa-2", b.dir, "Twice"}, {"bbbb-1", b.dir, "Twice"}, {"cccc-1", other, "Elsewhere"},
		} {
			b.agents.Store(s[0], s[1], s[2], "ok")
		}
		c := b.optedIn()
		a := c.newSession()
		taken := c.load("bbbb-1")
		c.take()
		for _, x := range []struct {
			ref    string
			code   int
			reason string
		}{
			{"", -32602, "bad_params"},
			{"nothing such", -32002, "session_not_found"},
			{"aaa", -32002, "session_not_found"},  // prefixes have four characters or more
			{"aaaa", -32602, "ambiguous"},         // of two
			{"twice", -32602, "ambiguous"},        // a title of two
			{"cccc-1", -32602, "other_directory"}, // an exact id is found anywhere, and refused with its directory
			{"Elsewhere", -32602, "other_directory"},
			{"bbbb-1", -32603, "session_in_use"}, // bound by another live view
		} {
			id, err := c.try(a, "session/prompt", text("/resume "+x.ref))
			if err != nil {
				wantError(t, err, x.code, x.reason)
				continue
			}
			got := ""
			for _, f := range c.take() {
				if m := decode(t, f); string(m.ID) == id && m.Error != nil {
					got = fmt.Sprintf("%d %v", m.Error.Code, m.Error.Data["reason"])
					if x.reason == "ambiguous" && fmt.Sprint(m.Error.Data["candidates"]) == "<nil>" {
						t.Error("no candidates")
					}
				}
			}
			if want := fmt.Sprintf("%d %s", x.code, x.reason); got != want {
				t.Errorf("/resume %s: %s, want %s", x.ref, got, want)
			}
		}
		for _, ref := range []string{"aaaa-1", "  fix IT ", "aaaa-2", "bbbb"} {
			if ref == "bbbb" {
				f, _ := c.frame("session/close", fmt.Sprintf(`{"sessionId":%q}`, taken.Handle()))
				if _, err := b.m.CloseSession(context.Background(), c, f); err != nil {
					t.Fatal(err)
				}
			}
			c.prompt(a, "/resume "+ref)
			if got := brief(t, c.take()); !strings.Contains(got, "report:Switched to") {
				t.Errorf("/resume %s showed %s", ref, got)
			}
		}
	})
}

func TestV15_CommandsNeverReachTheAgent(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		c, d := b.plain(), b.plain()
		a := c.newSession()
		d.load(a.Handle())
		d.take()
		p := b.agents.Started(b, 1)
		for _, s := range []string{"/help", "/sessions", "/sessions all"} {
			c.prompt(a, s)
			frames := c.take()
			if got := brief(t, frames); !strings.HasPrefix(got, "agent:") || !strings.HasSuffix(got, " stop:end_turn") || len(frames) != 2 {
				t.Errorf("%s showed %s", s, got)
			}
			if got := brief(t, d.take()); !strings.HasPrefix(got, "user:"+s+" agent:") {
				t.Errorf("the other client saw %s", got)
			}
		}
		if n := count(p, "session/prompt"); n != 0 {
			t.Errorf("%d prompts reached the agent", n)
		}
		// The agent's own command of that name, and what we do not know.
		for in, want := range map[string]string{"//help me": "/help me", "/unknown x": "/unknown x", "//nope": "//nope", "help": "help", "/": "/"} {
			c.prompt(a, in)
			c.expect("agent:ECHO[" + want + "] stop:end_turn")
		}
		c.send(a, "session/prompt", `"prompt":[{"type":"text","text":"/help"},{"type":"text","text":"x"}]`)
		c.expect("agent:ECHO[/help\nx] stop:end_turn")
		// They are no part of the transcript.
		e := b.plain()
		e.load(a.Handle())
		if got := brief(t, e.take()); strings.Contains(got, "Commands of the gateway") || strings.Contains(got, "user:/sessions") {
			t.Errorf("the transcript has %s", got)
		}
	})
}

func TestV15_CommandsAreOffered(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		c := b.plain()
		a := c.open("session/new", fmt.Sprintf(`{"cwd":%q,"mcpServers":[]}`, b.dir))
		if all := strings.Join(c.take(), "\n"); !strings.Contains(all, `"name":"resume"`) {
			t.Errorf("an agent without commands: ours are not offered: %s", all)
		}
		b.agents.Started(b, 1).Emit(a.Handle(), `{"sessionUpdate":"available_commands_update","availableCommands":[{"name":"help","description":"theirs"},{"name":"web","description":"theirs","x":1}],"y":2}`)
		all := strings.Join(c.take(), "\n")
		if strings.Count(all, `"name":"help"`) != 1 || strings.Count(all, "theirs") != 1 || !strings.Contains(all, `{"name":"web","description":"theirs","x":1}`) || !strings.Contains(all, `"y":2`) {
			t.Errorf("merged list: %s", all)
		}
	})
}

func TestV13_DropAndDelete(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		c := b.plain()
		a := c.newSession()
		c.prompt(a, "one")
		c.take()
		c.prompt(a, "/drop")
		c.expect("agent:The session was deleted. A new one; nothing was said in it yet. stop:end_turn")
		c.settle()
		if b.agents.Stored(a.Handle()) != nil {
			t.Error("the dropped session is still at the agent")
		}
		c.prompt(a, "two")
		c.expect("agent:ECHO[two] stop:end_turn")
		second := c.binding(a)
		b.agents.Store("other", b.dir, "x", "y")
		c.prompt(a, "/drop other")
		if got := brief(t, c.take()); !strings.HasPrefix(got, "agent:Deleted") {
			t.Errorf("saw %s", got)
		}
		if b.agents.Stored("other") != nil {
			t.Error("the named session is still at the agent")
		}
		id := c.prompt(a, "/drop nothing")
		if m := decode(t, c.take()[0]); string(m.ID) != id || m.Error == nil || m.Error.Code != -32002 {
			t.Errorf("/drop of the unknown: %+v", m)
		}
		// A delete of a session that a view drifted to moves that view on; its home is not touched.
		d := b.plain()
		f, _ := d.frame("session/delete", fmt.Sprintf(`{"sessionId":%q}`, second))
		if _, err := b.m.DeleteSession(context.Background(), d, f); err != nil {
			t.Fatal(err)
		}
		if got := brief(t, c.take()); got != "agent:The session was deleted elsewhere. A new one; nothing was said in it yet." {
			t.Errorf("saw %s", got)
		}
		if b.agents.Stored(second) != nil || c.binding(a) == second {
			t.Error("the session is still there")
		}
	})
}

func TestV14_Adoption(t *testing.T) {
	open := func(c *client) string {
		return fmt.Sprintf(`{"cwd":%q,"mcpServers":[],"_meta":{"acpgate":{"adopt":true}}}`, c.b.dir)
	}
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		b.agents.Store("old", b.dir, "long ago", "yes")
		c := b.optedIn()
		a := c.open("session/new", open(c))
		if got := brief(t, c.take()); got != "result user:long ago agent:yes notice:Resumed “long ago” (old), 2 entries; session/load shows all of them." {
			t.Errorf("adoption showed %s", got)
		}
		if a.Handle() != "old" {
			t.Errorf("adopted %s", a.Handle())
		}
		// The directory is shown by an attached view now: fresh.
		d := b.plain()
		x := d.open("session/new", open(d))
		d.expect("result")
		if x.Handle() == "old" {
			t.Error("adopted a session that is shown")
		}
		// An empty session is never adopted; after everybody left, the prompted one is.
		a.Detach()
		x.Detach()
		e := b.plain()
		if y := e.open("session/new", open(e)); y.Handle() != "old" {
			t.Errorf("adopted %s", y.Handle())
		} else {
			y.Detach()
		}
		// A closed one is not, and then not the second newest either.
		b.agents.Store("older", b.dir, "x", "y")
		f, _ := c.frame("session/close", `{"sessionId":"old"}`)
		if _, err := b.m.CloseSession(context.Background(), c, f); err != nil {
			t.Fatal(err)
		}
		latest := b.latest()
		if latest == "old" {
			if y := e.open("session/new", open(e)); y.Handle() == "old" || y.Handle() == "older" {
				t.Errorf("adopted %s after the latest was closed", y.Handle())
			} else {
				y.Detach()
			}
			// Asking for it by name works and takes it out of the closed-set.
			g := b.plain()
			g.load("old").Detach()
			if y := e.open("session/new", open(e)); y.Handle() != "old" {
				t.Errorf("adopted %s after an explicit load", y.Handle())
			}
		}
	})
	scenario(t, agenttest.Profile{Handlers: map[string]agenttest.Handler{"session/list": agenttest.Failing(-32603, "no", "")}}, sessions.Config{}, func(b *bench) {
		b.agents.Store("old", b.dir, "long ago", "yes")
		c := b.plain()
		if a := c.open("session/new", open(c)); a.Handle() == "old" {
			t.Error("adopted though the list failed")
		}
	})
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		b.agents.Store("old", b.dir, "long ago", "yes")
		var got [2]string
		var wg sync.WaitGroup
		for i := range got {
			c := b.plain()
			wg.Go(func() {
				if a, err := c.tryOpen("session/new", open(c)); err == nil {
					got[i] = a.Handle()
				}
			})
		}
		wg.Wait()
		if got[0] == got[1] || (got[0] != "old" && got[1] != "old") || got[0] == "" || got[1] == "" {
			t.Errorf("two at once got %v: one adopts, the other is fresh", got)
		}
	})
}

// latest is what the agent's list gives first once our own activity is counted in.
func (b *bench) latest() string {
	c := b.plain()
	f, _ := c.frame("session/list", fmt.Sprintf(`{"cwd":%q}`, b.dir))
	raw, err := b.m.ListSessions(context.Background(), c, f)
	if err != nil {
		b.Fatal(err)
	}
	if i, j := strings.Index(string(raw), `"old"`), strings.Index(string(raw), `"older"`); i >= 0 && (j < 0 || i < j) {
		return "old"
	}
	return "older"
}
