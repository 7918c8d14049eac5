package sessions_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/acpgate/acpgate/agentpool/agenttest"
	"github.com/acpgate/acpgate/sessions"
)

// cursor is the last place among frames.
func cursor(t testing.TB, frames []string) (session string, epoch, seq uint64) {
	t.Helper()
	for _, f := range frames {
		m := decode(t, f)
		g := m.Params.Meta.Acpgate
		if m.Result != nil && m.Result.Meta.Acpgate.Cursor.Epoch != 0 {
			c := m.Result.Meta.Acpgate.Cursor
			session, epoch, seq = c.Session, c.Epoch, c.Seq
		}
		if g.Seq != 0 {
			session, epoch, seq = g.Session, g.Epoch, g.Seq
		}
	}
	return session, epoch, seq
}

func TestStore_RestartKeepsEverything(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		c := b.optedIn()
		a := c.newSession()
		c.prompt(a, "first")
		c.send(a, "session/set_mode", `"modeId":"code"`)
		c.take()
		c.prompt(a, "/new Second")
		c.prompt(a, "in the second")
		frames := c.take()
		session, epoch, seq := cursor(t, frames)
		away := c.binding(a)
		b.restart()

		// The page comes back with its cursor: nothing is missing, nothing comes twice, the view is where it was.
		d := b.optedIn()
		x := d.resume(a.Handle(), after(session, epoch, seq))
		frames = d.take()
		r := decode(t, frames[0]).Result
		if r.Meta.Acpgate.Resync != "" || r.Meta.Acpgate.Binding != away || r.Meta.Acpgate.View != a.Handle() {
			t.Errorf("result %s", frames[0])
		}
		if got := brief(t, frames[1:]); got != "" {
			t.Errorf("after the cursor came %s", got)
		}
		d.prompt(x, "on")
		d.expect("agent:ECHO[on] stop:end_turn")
		if got := fmt.Sprint(b.agents.Stored(away)); got != "[in the second ECHO[in the second] on ECHO[on]]" {
			t.Errorf("the agent's session has %s", got)
		}
		// The way back needs no load for what was said: our journal has it.
		d.prompt(x, "/resume "+a.Handle())
		if got := brief(t, d.take()); !strings.HasPrefix(got, "user:first agent:ECHO[first]") || !strings.Contains(got, "Switched to “first”") {
			t.Errorf("/resume showed %s", got)
		}
		// A plain client that loads the handle gets it too.
		e := b.plain()
		e.load(a.Handle())
		e.expect("user:first agent:ECHO[first] result current_mode_update")
	})
}

func TestV16_KeysSurviveARestart(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		c := b.optedIn()
		a := c.newSession()
		c.send(a, "session/prompt", text("pay")+`,"_meta":{"acpgate":{"key":"k1"}}`)
		c.take()
		p := b.agents.Started(b, 1)
		manual(p)
		c.send(a, "session/prompt", text("pay more")+`,"_meta":{"acpgate":{"key":"k2"}}`)
		p.Await("session/prompt")
		p.Await("session/prompt").Chunk("half")
		c.take()
		b.crash()
		d := b.optedIn()
		x := d.resume(a.Handle(), `{"view":true}`)
		d.take()
		d.send(x, "session/prompt", text("pay")+`,"_meta":{"acpgate":{"key":"k1"}}`)
		d.expect("stop:end_turn")
		d.send(x, "session/prompt", text("pay more")+`,"_meta":{"acpgate":{"key":"k2"}}`)
		d.expect("error:-32603:owner_lost")
		_, err := d.try(x, "session/prompt", text("other")+`,"_meta":{"acpgate":{"key":"k1"}}`)
		wantError(t, err, -32602, "key_reused")
		n := 0
		for _, q := range b.agents.Processes() {
			n += count(q, "session/prompt")
		}
		if n != 2 {
			t.Errorf("the agents got %d prompts, want 2", n)
		}
	})
}

// kill -9: what was streamed is there up to the last moments, the turn is said to be lost, and a new epoch tells readers.
func TestStore_CrashIsToldByANewEpoch(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		c := b.optedIn()
		a := c.newSession()
		p := b.agents.Started(b, 1)
		manual(p)
		c.prompt(a, "go")
		p.Await("session/prompt").Chunk("half an answer")
		time.Sleep(time.Second)
		session, epoch, seq := cursor(t, c.take())
		b.crash()
		d := b.optedIn()
		x := d.resume(a.Handle(), after(session, epoch, seq))
		frames := d.take()
		if r := decode(t, frames[0]).Result.Meta.Acpgate; r.Resync != "epoch" {
			t.Errorf("resync %q", r.Resync)
		}
		if got := brief(t, frames); !strings.HasPrefix(got, "result user:go agent:half an answer") {
			t.Errorf("saw %s", got)
		}
		st := states(t, frames)
		if len(st) == 0 || st[len(st)-1].Params.State != "asleep" || st[len(st)-1].Params.LastTurn == nil {
			t.Errorf("states %+v", st)
		}
		d.prompt(x, "again")
		d.expect("agent:ECHO[again] stop:end_turn")
	})
}

func TestStore_AnotherOwnerFencesTheFirstOff(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		c := b.plain()
		a := c.newSession()
		c.prompt(a, "one")
		c.take()
		lost := b.link
		b.crash()
		d := b.plain()
		x := d.load(a.Handle())
		d.prompt(x, "two")
		d.take()
		time.Sleep(time.Second) // everything is stored
		info, err := b.store.JournalInfo(context.Background(), "local", "fake/"+a.Handle())
		if err != nil {
			t.Fatal(err)
		}
		// The first one, which was only paused, wakes up and writes.
		lost.lost.Store(false)
		time.Sleep(10 * time.Second)
		_, err = c.try(a, "session/prompt", text("late"))
		wantError(t, err, -32603, "owner_lost")
		time.Sleep(time.Second)
		after, err := b.store.JournalInfo(context.Background(), "local", "fake/"+a.Handle())
		if err != nil || after.Next != info.Next {
			t.Errorf("the fenced owner wrote: next %d, then %d, %v", info.Next, after.Next, err)
		}
	})
}

func TestStore_UnavailableTurnsGoOnAndPromptsAreRefused(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		c := b.optedIn()
		a := c.newSession()
		p := b.agents.Started(b, 1)
		manual(p)
		c.prompt(a, "running")
		call := p.Await("session/prompt")
		c.take()
		b.store.setFail(fmt.Errorf("%w: /state/acpgate.db: no space left on device", sessions.ErrUnavailable))
		call.Chunk("goes on")
		time.Sleep(time.Second)
		if err := b.m.Ready(); err == nil || !strings.Contains(err.Error(), "no space left on device") {
			t.Errorf("readiness says %v", err)
		}
		_, err := c.try(a, "session/prompt", text("new"))
		wantError(t, err, -32603, "store_unavailable")
		call.Result(`{"stopReason":"end_turn"}`)
		time.Sleep(time.Second)
		c.expect("agent:goes on stop:end_turn")
		b.store.setFail(nil)
		time.Sleep(10 * time.Second)
		if err := b.m.Ready(); err != nil {
			t.Errorf("after the store is back: %v", err)
		}
		p.Handle("session/prompt", nil)
		c.prompt(a, "new")
		c.expect("agent:ECHO[new] stop:end_turn")
		b.restart()
		d := b.plain()
		d.load(a.Handle())
		d.expect("user:running agent:goes on user:new agent:ECHO[new] result")
	})
}

// A view that sleeps and that nobody looks at costs no memory; it comes back as it was.
func TestV20_SleepingViewsLeaveTheMemory(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		c := b.optedIn()
		a := c.newSession()
		c.prompt(a, "one")
		c.take()
		c.prompt(a, "/new")
		c.prompt(a, "two")
		session, epoch, seq := cursor(t, c.take())
		away := c.binding(a)
		a.Detach()
		time.Sleep(3 * time.Hour)
		synctestWait()
		if s := b.m.Stats(); s.Views != 0 || s.JournalBytes != 0 {
			t.Errorf("%d views with %d bytes are in memory", s.Views, s.JournalBytes)
		}
		d := b.optedIn()
		x := d.resume(a.Handle(), after(session, epoch, seq))
		frames := d.take()
		r := decode(t, frames[0]).Result.Meta.Acpgate
		if r.Resync != "" || r.Binding != away {
			t.Errorf("result %s", frames[0])
		}
		d.prompt(x, "three")
		d.expect("agent:ECHO[three] stop:end_turn")
		d.prompt(x, "/resume "+a.Handle())
		if got := brief(t, d.take()); !strings.HasPrefix(got, "user:one agent:ECHO[one]") {
			t.Errorf("saw %s", got)
		}
	})
}

// A prompt is not written to the agent before it is stored; one that cannot be stored never runs.
func TestV16_PromptIsStoredBeforeTheAgentSeesIt(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		c := b.plain()
		a := c.newSession()
		b.store.setFail(errors.Join(sessions.ErrUnavailable, errors.New("gone")))
		c.prompt(a, "never")
		time.Sleep(time.Second)
		c.expect("error:-32603:store_unavailable")
		if n := count(b.agents.Started(b, 1), "session/prompt"); n != 0 {
			t.Errorf("%d prompts reached the agent", n)
		}
		b.store.setFail(nil)
		time.Sleep(10 * time.Second)
	})
}

// A call wakes the view while its prompt is still being stored: the prompt waits for the store, and is sent once.
func TestV16_PromptBesideAWakingCallIsSentOnce(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		c := b.plain()
		a := c.newSession()
		p := b.agents.Started(b, 1)
		c.prompt(a, "one")
		c.take()
		time.Sleep(31 * time.Minute)
		c.take()
		b.store.beforeAppend(func() {
			time.Sleep(time.Second)
			if n := count(p, "session/prompt"); n != 1 {
				t.Errorf("the agent has %d prompts before the second is stored, want 1", n)
			}
		})
		c.prompt(a, "two")
		c.send(a, "session/set_mode", `"modeId":"code"`)
		time.Sleep(10 * time.Second)
		if got := brief(t, c.take()); strings.Count(got, "ECHO[two]") != 1 || strings.Count(got, "stop:end_turn") != 1 {
			t.Errorf("saw %s", got)
		}
		if n := count(p, "session/prompt"); n != 2 {
			t.Errorf("the agent got %d prompts, want 2", n)
		}
	})
}

func TestStore_ClosedAndDeletedSurviveARestart(t *testing.T) {
	scenario(t, agenttest.Profile{Initialize: agenttest.NoCapabilities}, sessions.Config{}, func(b *bench) {
		c := b.plain()
		a := c.newSession()
		c.prompt(a, "one")
		gone := c.newSession()
		c.prompt(gone, "two")
		c.take()
		f, _ := c.frame("session/delete", fmt.Sprintf(`{"sessionId":%q}`, gone.Handle()))
		if _, err := b.m.DeleteSession(context.Background(), c, f); err != nil {
			t.Fatal(err)
		}
		c.settle()
		b.restart()
		d := b.plain()
		g, _ := d.frame("session/list", `{}`)
		raw, err := b.m.ListSessions(context.Background(), d, g)
		if err != nil || !strings.Contains(string(raw), a.Handle()) || strings.Contains(string(raw), gone.Handle()+`"`) {
			t.Errorf("list %s %v", raw, err)
		}
	})
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		b.agents.Store("old", b.dir, "x", "y")
		c := b.plain()
		c.load("old")
		f, _ := c.frame("session/close", `{"sessionId":"old"}`)
		if _, err := b.m.CloseSession(context.Background(), c, f); err != nil {
			t.Fatal(err)
		}
		b.restart()
		d := b.plain()
		if a := d.open("session/new", fmt.Sprintf(`{"cwd":%q,"mcpServers":[],"_meta":{"acpgate":{"adopt":true}}}`, b.dir)); a.Handle() == "old" {
			t.Error("a closed session was adopted after a restart")
		}
	})
}

// The property of V11 over restarts in good order: whatever is dropped and restarted in between, the client that comes back
// with its cursor ends with what an undisturbed one has.
func TestV11_RestartsAndDropsLoseAndDoubleNothing(t *testing.T) {
	for seed := range uint64(15) {
		scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
			rnd := rand.New(rand.NewPCG(seed, 2))
			c := b.optedIn()
			a := c.open("session/new", fmt.Sprintf(`{"cwd":%q,"mcpServers":[]}`, b.dir))
			handle := a.Handle()
			session, epoch, seq := cursor(t, c.take())
			var got, want []string
			collect := func(frames []string) {
				for _, f := range frames {
					m := decode(t, f)
					if g := m.Params.Meta.Acpgate; g.Seq != 0 {
						if g.Epoch == epoch && g.Seq <= seq {
							t.Fatalf("seed %d: seq %d came again after %d", seed, g.Seq, seq)
						}
						session, epoch, seq = g.Session, g.Epoch, g.Seq
					}
					if s := m.Params.Update.Content.Text; s != "" && m.Params.Meta.Acpgate.Kind != "snapshot" {
						got = append(got, s)
					}
				}
			}
			for turn := range 8 {
				s := fmt.Sprintf("prompt %d", turn)
				c.prompt(a, s)
				want = append(want, "ECHO["+s+"]")
				switch rnd.IntN(4) {
				case 0: // take some, lose the rest on the way
					synctestWait()
					c.budget = 1 + rnd.IntN(3)
					a.Pull(c)
					c.mu.Lock()
					collect(c.frames)
					c.mu.Unlock()
				default:
					collect(c.take())
				}
				if rnd.IntN(3) == 0 {
					synctestWait()
					b.restart()
				}
				a.Detach()
				c = b.optedIn()
				a = c.resume(handle, after(session, epoch, seq))
			}
			collect(c.take())
			var agent []string
			for _, s := range got {
				if strings.HasPrefix(s, "ECHO") {
					agent = append(agent, s)
				}
			}
			if strings.Join(agent, "|") != strings.Join(want, "|") {
				t.Errorf("seed %d: got\n%v\nwant\n%v", seed, agent, want)
			}
		})
	}
}
