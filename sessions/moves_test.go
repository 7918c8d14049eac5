package sessions_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/acpgate/acpgate/agentpool/agenttest"
	"github.com/acpgate/acpgate/sessions"
)

// Two clients that bring a view home at once both get it: one move serves both.
func TestV4_TwoBringAViewHomeAtOnce(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		b.agents.Store("home", b.dir, "at home", "ok")
		c := b.plain()
		a := c.load("home")
		c.prompt(a, "/new")
		c.take()
		c.send(a, "session/set_mode", `"modeId":"code"`)
		c.prompt(a, "away")
		c.take()
		// Both ask before the view has arrived: its mode is being set.
		p := b.agents.Started(b, 1)
		p.Handle("session/set_mode", agenttest.Manual)
		var wg sync.WaitGroup
		clients := map[string]*client{"session/load": b.plain(), "session/resume": b.plain()}
		for method, d := range clients {
			wg.Go(func() {
				if _, err := d.tryOpen(method, fmt.Sprintf(`{"sessionId":"home","cwd":%q,"mcpServers":[]}`, b.dir)); err != nil {
					t.Errorf("%s: %v", method, err)
				}
			})
		}
		p.Await("session/set_mode")
		call := p.Await("session/set_mode")
		time.Sleep(time.Second)
		call.Result(`{}`)
		wg.Wait()
		for method, d := range clients {
			if got := brief(t, d.take()); !strings.Contains(got, "user:at home agent:ok result") {
				t.Errorf("%s saw %s", method, got)
			}
		}
	})
}

// A home that was left without a prompt is deleted: the handle stands for where the view is from then on.
func TestV4_EmptyHomeIsNoHome(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		c := b.plain()
		a := c.newSession()
		c.prompt(a, "/new")
		c.prompt(a, "said")
		c.take()
		time.Sleep(time.Second)
		d := b.plain()
		d.load(a.Handle())
		d.expect("user:said agent:ECHO[said] result")
		b.restart()
		d = b.plain()
		d.load(a.Handle())
		d.expect("user:said agent:ECHO[said] result")
	})
}

// The same for a home that was deleted while the view was elsewhere.
func TestV4_DeletedHomeIsNoHome(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		c := b.plain()
		a, w := c.newSession(), c.newSession()
		c.prompt(a, "home")
		c.prompt(w, "other")
		c.take()
		c.prompt(a, "/new")
		c.prompt(a, "away")
		c.take()
		c.prompt(w, "/drop "+a.Handle())
		c.expect("agent:Deleted “home” (s1). stop:end_turn")
		d := b.plain()
		d.load(a.Handle())
		d.expect("user:away agent:ECHO[away] result")
	})
}

// A view that is closed while it moves leaves no session open behind it.
func TestV12_ClosedWhileItMoves(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{CloseWait: time.Second}, func(b *bench) {
		c := b.plain()
		a := c.newSession()
		c.prompt(a, "one")
		c.take()
		p := b.agents.Started(b, 1)
		p.Handle("session/new", agenttest.Manual)
		c.prompt(a, "/new")
		p.Await("session/new") // that of a
		call := p.Await("session/new")
		if err := c.closeSession(a.Handle()); err != nil {
			t.Fatal(err)
		}
		id := call.NewSession()
		call.Result(fmt.Sprintf(`{"sessionId":%q}`, id))
		time.Sleep(time.Second)
		c.take()
		if p.Open(id) || b.agents.Stored(id) != nil {
			t.Errorf("the session that was made for the move is still there: %v", p.Methods())
		}
		d := b.plain()
		d.load(a.Handle())
		d.expect("user:one agent:ECHO[one] result")
	})
}

// What an agent has replayed before it failed, and what a failed fork has copied, is given back.
func TestW6_FailedOpensGiveTheirMemoryBack(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		c := b.plain()
		a := c.newSession()
		c.prompt(a, strings.Repeat("x", 10_000))
		c.take()
		p := b.agents.Started(b, 1)
		p.Handle("session/load", func(call *agenttest.Call) {
			call.Chunk(strings.Repeat("y", 100_000))
			call.Error(-32603, "no", "")
		})
		p.Handle("session/fork", agenttest.Failing(-32603, "no", ""))
		p.Handle("session/new", agenttest.Failing(-32603, "no", ""))
		b.agents.Store("x", b.dir, "a", "b")
		before := b.m.Stats().JournalBytes
		for range 3 {
			for _, call := range [][2]string{{"session/load", "x"}, {"session/fork", a.Handle()}, {"session/new", a.Handle()}} {
				if _, err := c.tryOpen(call[0], fmt.Sprintf(`{"sessionId":%q,"cwd":%q,"mcpServers":[]}`, call[1], b.dir)); err == nil {
					t.Fatalf("%s succeeded", call[0])
				}
			}
		}
		if got := b.m.Stats().JournalBytes; got != before {
			t.Errorf("%d bytes, %d before", got, before)
		}
	})
}

// A cursor into a session that the view never saw brings nothing into memory.
func TestV11_CursorIntoAForeignSession(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		c := b.plain()
		other := c.newSession()
		c.prompt(other, strings.Repeat("x", 10_000))
		a := c.newSession()
		c.prompt(a, "one")
		c.take()
		b.restart()
		d := b.optedIn()
		d.resume(a.Handle(), after(other.Handle(), 1, 1)).Detach()
		if r := decode(t, d.take()[0]).Result.Meta.Acpgate; r.Resync != "moved" {
			t.Errorf("resync %q", r.Resync)
		}
		if n := b.m.Stats().JournalBytes; n > 5000 {
			t.Errorf("%d bytes are in memory", n)
		}
		for _, bad := range []string{
			`"x"`, `7`, `[]`, `{"session":7}`, `{"session":"x","epoch":"1","seq":1}`, `{"session":"x","epoch":1,"seq":-1}`,
			`{"session":"x","epoch":1.5,"seq":1}`, `{"session":"x","epoch":1,"seq":99999999999999999999}`,
		} {
			_, err := d.tryOpen("session/resume", fmt.Sprintf(`{"sessionId":%q,"cwd":%q,"mcpServers":[],"_meta":{"acpgate":{"after":%s}}}`, a.Handle(), b.dir, bad))
			wantError(t, err, -32602, "bad_params")
		}
		for _, odd := range []string{`{}`, `null`, `{"session":"","epoch":0,"seq":0}`} {
			d.resume(a.Handle(), `{"after":`+odd+`}`).Detach()
		}
		d.take()
		for _, future := range []uint64{1 << 20, 1 << 62, 1<<64 - 1} {
			_, epoch, _ := cursor(t, func() []string {
				x := d.resume(a.Handle(), `{"view":true}`)
				defer x.Detach()
				return d.take()
			}())
			d.resume(a.Handle(), after(a.Handle(), epoch, future)).Detach()
			if r := decode(t, d.take()[0]).Result.Meta.Acpgate; r.Resync != "epoch" {
				t.Errorf("seq %d: resync %q", future, r.Resync)
			}
		}
	})
}

// A gateway on which something is always said evicts all the same.
func TestV20_BusyGatewayEvictsToo(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		const large = 4 << 20
		c := b.plain()
		idle, busy := c.newSession(), c.newSession()
		c.prompt(idle, strings.Repeat("x", large))
		c.take()
		idle.Detach()
		time.Sleep(59*time.Minute + 50*time.Second)
		for range 10_000 { // it sleeps for half an hour and leaves the memory meanwhile
			b.agents.Started(b, 1).Chunk(busy.Handle(), "x")
			time.Sleep(2 * time.Millisecond)
		}
		if s := b.m.Stats(); s.Views != 1 || s.JournalBytes > large {
			t.Errorf("in memory are %d views and %d bytes", s.Views, s.JournalBytes)
		}
		c.settle()
	})
}

// Nobody who moves, loads, closes, deletes, drops and prompts at the same time leaves a view that is bound to nothing, a
// session that is open twice, or a request without an answer.
func TestV2_StormOfMoves(t *testing.T) {
	seeds := uint64(20)
	if strings.HasPrefix(t.Name(), "TestRules_") {
		seeds = 4 // a store that syncs takes its time
	}
	for seed := range seeds {
		scenario(t, agenttest.Profile{}, sessions.Config{SleepAfter: time.Minute, EmptyAfter: time.Minute, CloseWait: time.Second}, func(b *bench) {
			for i := range 4 {
				b.agents.Store(fmt.Sprintf("store-%d", i), b.dir, fmt.Sprintf("title %d", i), "ok")
			}
			var wg sync.WaitGroup
			var mu sync.Mutex
			ids := []string{"store-0", "store-1", "store-2", "store-3", "nope"}
			for n := range 5 {
				c := b.optedIn()
				rnd := rand.New(rand.NewPCG(seed, uint64(n)))
				wg.Go(func() {
					pick := func() string {
						mu.Lock()
						defer mu.Unlock()
						return ids[rnd.IntN(len(ids))]
					}
					var a *sessions.Attachment
					asked := map[string]bool{}
					check := func() {
						c.mu.Lock()
						defer c.mu.Unlock()
						for _, f := range c.frames {
							delete(asked, string(decode(t, f).ID))
						}
						c.frames = nil
					}
					pull := func() {
						c.mu.Lock()
						woken := c.woken
						c.woken = nil
						c.mu.Unlock()
						for _, a := range woken {
							for a.Pull(c) {
							}
						}
						check()
					}
					for range 40 {
						time.Sleep(time.Duration(rnd.IntN(3)*rnd.IntN(3)) * 13 * time.Second)
						pull()
						switch rnd.IntN(9) {
						case 0:
							if x, err := c.tryOpen("session/new", fmt.Sprintf(`{"cwd":%q,"mcpServers":[],"_meta":{"acpgate":{"adopt":%v}}}`, b.dir, rnd.IntN(2) == 0)); err == nil {
								a = x
								mu.Lock()
								ids = append(ids, a.Handle())
								mu.Unlock()
							}
						case 1, 2:
							method := []string{"session/load", "session/resume"}[rnd.IntN(2)]
							if x, err := c.tryOpen(method, fmt.Sprintf(`{"sessionId":%q,"cwd":%q,"mcpServers":[],"_meta":{"acpgate":{"view":%v}}}`, pick(), b.dir, rnd.IntN(2) == 0)); err == nil {
								if a != nil {
									a.Detach()
									asked = map[string]bool{}
								}
								a = x
							}
						case 3:
							_ = c.closeSession(pick())
						case 4:
							if rnd.IntN(3) == 0 {
								_ = c.deleteSession(pick())
							}
						default:
							if a == nil {
								continue
							}
							s := []string{"hello", "/new", "/resume " + pick(), "/drop", "/drop " + pick(), "/sessions", "hi"}[rnd.IntN(7)]
							if id, err := c.try(a, "session/prompt", text(s)); err == nil {
								asked[id] = true
							}
						}
						check()
					}
					time.Sleep(10 * time.Minute)
					pull()
					if len(asked) > 0 {
						t.Errorf("seed %d: %s has no answer to %v", seed, c.id, asked)
					}
				})
			}
			wg.Wait()
			// Whatever is left can be loaded and talked to, or is not there.
			d := b.plain()
			for _, id := range ids {
				x, err := d.tryOpen("session/load", fmt.Sprintf(`{"sessionId":%q,"cwd":%q,"mcpServers":[],"_meta":{"acpgate":{"view":true}}}`, id, b.dir))
				if err != nil {
					if e := sessions.AsError(err); e.Code != sessions.CodeNotFound && !strings.Contains(e.Error(), "-32002") {
						t.Errorf("seed %d: load %s: %v", seed, id, err)
					}
					continue
				}
				d.take()
				d.prompt(x, "there?")
				if got := brief(t, d.take()); !strings.HasSuffix(got, "agent:ECHO[there?] stop:end_turn") {
					t.Errorf("seed %d: %s answers %s", seed, id, got)
				}
				x.Detach()
			}
		})
	}
}

// A connection that pulls at the moment in which its attachment ends comes back, wherever the view has gone meanwhile.
func TestW6_PullOfADetachedAttachmentEnds(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		c, d := b.plain(), b.optedIn()
		a := c.newSession()
		c.prompt(a, "one")
		c.take()
		x := d.load(a.Handle())
		c.prompt(a, "/new")
		c.take()
		b.agents.Started(b, 1).Chunk(a.Handle(), "late") // behind the place at which x leaves the session
		x.Detach()
		d.frames = nil
		if x.Pull(d) || len(d.frames) != 0 {
			t.Errorf("it still gave %v", d.frames)
		}
		d.settle()
	})
}
