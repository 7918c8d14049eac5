package sessions_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/acpgate/acpgate/agentpool/agenttest"
	"github.com/acpgate/acpgate/agentpool/wire"
	"github.com/acpgate/acpgate/sessions"
	"github.com/acpgate/acpgate/sessions/journal"
)

func after(session string, epoch, seq uint64) string {
	return fmt.Sprintf(`{"view":true,"after":{"session":%q,"epoch":%d,"seq":%d}}`, session, epoch, seq)
}

func mustParse(t testing.TB, s string) *wire.Frame {
	t.Helper()
	f, err := wire.ParseClient([]byte(s), wire.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return &f
}

func TestV19_OthersSeeThePrompt(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		c, d, e := b.plain(), b.plain(), b.optedIn()
		a := c.newSession()
		d.load(a.Handle())
		e.resume(a.Handle(), `{}`)
		d.take()
		e.take()
		c.send(a, "session/prompt", `"prompt":[{"type":"text","text":"hi"},{"type":"text","text":"there"}],"_meta":{"acpgate":{"key":"k"}}`)
		c.expect("agent:ECHO[hi\nthere] stop:end_turn")
		d.expect("user:hi user:there agent:ECHO[hi\nthere]")
		frames := e.take()
		if got := brief(t, frames); got != "user:hi user:there agent:ECHO[hi\nthere]" {
			t.Errorf("the opted-in client saw %s", got)
		}
		seen := map[uint64]bool{}
		for _, f := range frames {
			m := decode(t, f)
			if m.Method == "session/update" && m.Params.Update.SessionUpdate == "user_message_chunk" {
				if g := m.Params.Meta.Acpgate; g.Kind != "prompt" || g.Key != "k" || g.Turn == "" {
					t.Errorf("meta %+v of the prompt", g)
				}
			}
			if s := m.Params.Meta.Acpgate.Seq; s != 0 {
				if seen[s] {
					t.Errorf("two frames of seq %d: a client that resumes between them would lose one", s)
				}
				seen[s] = true
			}
		}
	})
}

func TestV20_ConnectionLossIsNotCancel(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		c := b.plain()
		a := c.newSession()
		p := b.agents.Started(b, 1)
		manual(p)
		c.prompt(a, "go")
		call := p.Await("session/prompt")
		call.Chunk("1")
		c.expect("agent:1")
		a.Detach()
		call.Chunk("2")
		call.Result(`{"stopReason":"end_turn"}`)
		p.Settle()
		if count(p, "session/cancel") != 0 {
			t.Error("the turn was cancelled")
		}
		d := b.plain()
		d.load(a.Handle())
		d.expect("user:go agent:12 result")
	})
}

func TestV20_IdleViewSleepsAndThePromptWakesIt(t *testing.T) {
	for name, init := range map[string]string{
		"resume": agenttest.AllCapabilities,
		"load":   strings.Replace(agenttest.AllCapabilities, `"resume":{},`, "", 1),
	} {
		t.Run(name, func(t *testing.T) {
			scenario(t, agenttest.Profile{Initialize: init}, sessions.Config{}, func(b *bench) {
				c := b.optedIn()
				a := c.newSession()
				p := b.agents.Started(b, 1)
				c.prompt(a, "one")
				c.send(a, "session/set_mode", `"modeId":"code"`)
				c.take()
				time.Sleep(31 * time.Minute)
				frames := c.take()
				if got := brief(t, frames); got != "" {
					t.Errorf("going to sleep showed %s: it must be quiet (CASE 66)", got)
				}
				if st := states(t, frames); len(st) == 0 || st[len(st)-1].Params.State != "asleep" {
					t.Errorf("states %+v, want asleep", st)
				}
				if count(p, "session/close") != 1 || p.Open(a.Handle()) {
					t.Error("the session was not closed at the agent")
				}
				c.prompt(a, "two")
				// Nothing of the history comes again, and the mode is set again because the agent forgot it.
				if got := brief(t, c.take()); got != "agent:ECHO[two] stop:end_turn" {
					t.Errorf("after waking saw %s", got)
				}
				if count(p, "session/"+name) != 1 || count(p, "session/set_mode") != 2 {
					t.Errorf("the agent got %v", p.Methods())
				}
			})
		})
	}
}

func TestV20_RunningTurnAndOpenRequestKeepAwake(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		c := b.plain()
		a := c.newSession()
		p := b.agents.Started(b, 1)
		manual(p)
		c.prompt(a, "go")
		call := p.Await("session/prompt")
		time.Sleep(3 * time.Hour) // CASE 57: a silent turn is alive
		call.Result(`{"stopReason":"end_turn"}`)
		c.expect("stop:end_turn")
		if count(p, "session/close") != 0 {
			t.Error("the session was closed during its turn")
		}
	})
}

func TestV21_LateJoinerGetsASnapshot(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		c := b.plain()
		a := c.newSession()
		p := b.agents.Started(b, 1)
		for _, u := range []string{
			`{"sessionUpdate":"available_commands_update","availableCommands":[{"name":"old","description":""}]}`,
			`{"sessionUpdate":"available_commands_update","availableCommands":[{"name":"web","description":""}]}`, // CASE 24: while idle
			`{"sessionUpdate":"plan","entries":[]}`,
			`{"sessionUpdate":"usage_update","used":1,"size":2}`,
			`{"sessionUpdate":"session_info_update","title":"Parser"}`,
			`{"sessionUpdate":"session_info_update","updatedAt":"2026-01-01T00:00:00Z"}`,
			`{"sessionUpdate":"current_mode_update","currentModeId":"code"}`,
			`{"sessionUpdate":"config_option_update","configOptions":[{"id":"m","currentValue":"x"}]}`,
		} {
			p.Emit(a.Handle(), u)
		}
		manual(p)
		c.prompt(a, "go")
		c.prompt(a, "next")
		c.take()
		d := b.optedIn()
		d.resume(a.Handle(), `{}`)
		frames := d.take()
		got := briefAll(t, frames)
		want := "result session_info_update available_commands_update current_mode_update config_option_update plan usage_update"
		if got != want {
			t.Errorf("saw %s\nwant %s", got, want)
		}
		all := strings.Join(frames, "\n")
		if strings.Contains(all, `"old"`) || !strings.Contains(all, `"web"`) || !strings.Contains(all, `"Parser"`) {
			t.Errorf("not the latest values: %s", all)
		}
		r := decode(t, frames[0]).Result
		if r.Modes.CurrentModeID != "code" || r.Meta.Acpgate.View != a.Handle() || r.Meta.Acpgate.Binding != a.Handle() || r.Meta.Acpgate.Cursor.Epoch == 0 {
			t.Errorf("result %s", frames[0])
		}
		st := states(t, frames)
		if len(st) != 1 || st[0].Params.State != "running" || len(st[0].Params.Queue) != 1 {
			t.Errorf("states %+v", st)
		}
	})
}

func TestCase28_SecondTabSeesPromptAndStream(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		c, d := b.plain(), b.plain()
		a := c.newSession()
		d.load(a.Handle())
		d.take()
		c.prompt(a, "hi")
		c.settle()
		d.expect("user:hi agent:ECHO[hi]")
	})
}

func TestV2_LoadOfALiveSessionIsServedFromTheJournal(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		c := b.plain()
		a := c.newSession()
		c.prompt(a, "hi")
		c.settle()
		for range 3 {
			b.plain().load(a.Handle())
		}
		if n := count(b.agents.Started(b, 1), "session/load"); n != 0 {
			t.Errorf("the agent was asked %d times to load a session that is open", n)
		}
	})
}

// CASE 30: two that load one stored session at once get one view; the agent is asked once.
func TestCase30_ConcurrentLoadsOpenOnce(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		b.agents.Store("s1", b.dir, "hello", "world")
		b.agents.DelayStart(time.Second)
		var clients []*client
		done := make(chan error, 5)
		for range 5 {
			c := b.plain()
			clients = append(clients, c)
			go func() {
				_, err := c.tryOpen("session/load", fmt.Sprintf(`{"sessionId":"s1","cwd":%q,"mcpServers":[]}`, b.dir))
				done <- err
			}()
		}
		for range clients {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		for _, c := range clients {
			c.expect("user:hello agent:world result")
		}
		if n := count(b.agents.Started(b, 1), "session/load"); n != 1 {
			t.Errorf("the agent was asked to load %d times", n)
		}
	})
}

func TestV11_UnknownEpochAndTrimmedCursorAreSaid(t *testing.T) {
	cfg := sessions.Config{Journal: journal.Limits{MaxEvents: 50}}
	scenario(t, agenttest.Profile{}, cfg, func(b *bench) {
		c := b.optedIn()
		a := c.newSession()
		c.prompt(a, "hi")
		c.take()
		for why, meta := range map[string]string{"epoch": after(a.Handle(), 7, 1)} {
			d := b.optedIn()
			d.resume(a.Handle(), meta)
			frames := d.take()
			if r := decode(t, frames[0]).Result.Meta.Acpgate.Resync; r != why {
				t.Errorf("resync %q, want %q", r, why)
			}
			if got := brief(t, frames); !strings.Contains(got, "user:hi agent:ECHO[hi]") {
				t.Errorf("not everything retained was sent: %s", got)
			}
		}
		m := decode(t, b.firstFrame(t, a.Handle()))
		future := after(a.Handle(), m.Result.Meta.Acpgate.Cursor.Epoch, 1<<40)
		d := b.optedIn()
		d.resume(a.Handle(), future)
		if r := decode(t, d.take()[0]).Result.Meta.Acpgate.Resync; r != "epoch" {
			t.Errorf("a cursor of the future: resync %q", r)
		}
		p := b.agents.Started(b, 1)
		big := strings.Repeat("x", 40<<10)
		for range 60 {
			p.Chunk(a.Handle(), big)
		}
		p.Settle()
		c.take()
		d = b.optedIn()
		d.resume(a.Handle(), after(a.Handle(), m.Result.Meta.Acpgate.Cursor.Epoch, 1))
		if r := decode(t, d.take()[0]).Result.Meta.Acpgate.Resync; r != "trimmed" {
			t.Errorf("a trimmed cursor: resync %q", r)
		}
	})
}

func chunkLine(session, text string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":%q,"update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":%q}}}}`, session, text)
}

// firstFrame is the reply to a resume of the session.
func (b *bench) firstFrame(t *testing.T, session string) string {
	d := b.optedIn()
	a := d.resume(session, `{}`)
	defer a.Detach()
	return d.take()[0]
}

// The property behind every reload and reconnect: drop the connection after any number of frames, any number of times; what
// the client has in the end equals what an undisturbed one has.
func TestV11_DroppingTheConnectionAnywhereLosesAndDoublesNothing(t *testing.T) {
	for seed := range uint64(40) {
		scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
			rnd := rand.New(rand.NewPCG(seed, 1))
			quiet := b.optedIn()
			a := quiet.newSession()
			p := b.agents.Started(b, 1)
			manual(p)
			shaky := b.optedIn()
			x := shaky.resume(a.Handle(), `{}`)
			shaky.take()
			var want, got []string
			var cur meta
			collect := func(frames []string) {
				for _, f := range frames {
					m := decode(t, f)
					if g := m.Params.Meta.Acpgate; g.Seq != 0 {
						if g.Epoch == cur.Epoch && g.Seq <= cur.Seq {
							t.Fatalf("seed %d: seq %d came again after %d", seed, g.Seq, cur.Seq)
						}
						cur = g
					}
					if m.Method == "session/update" && m.Params.Meta.Acpgate.Kind != "snapshot" {
						got = append(got, m.Params.Update.Content.Text)
					}
				}
			}
			cur = meta{Epoch: decode(t, b.firstFrame(t, a.Handle())).Result.Meta.Acpgate.Cursor.Epoch}
			cur.Seq = decode(t, b.firstFrame(t, a.Handle())).Result.Meta.Acpgate.Cursor.Seq
			for turn := range 4 {
				quiet.prompt(a, fmt.Sprintf("prompt %d", turn))
				want = append(want, fmt.Sprintf("prompt %d", turn))
				call := p.Await("session/prompt")
				for i := range 20 {
					s := fmt.Sprintf("%d.%d ", turn, i)
					call.Chunk(s)
					want = append(want, s)
					if rnd.IntN(6) == 0 {
						// Take a few frames, lose the socket with the rest on the way, come back with the cursor.
						p.Settle()
						shaky.budget = 1 + rnd.IntN(5)
						for x.Pull(shaky) && shaky.budget > 0 {
						}
						shaky.mu.Lock()
						collect(shaky.frames)
						shaky.mu.Unlock()
						x.Detach()
						shaky = b.optedIn()
						x = shaky.resume(a.Handle(), after(a.Handle(), cur.Epoch, cur.Seq))
					}
				}
				call.Result(`{"stopReason":"end_turn"}`)
			}
			collect(shaky.take())
			if strings.Join(got, "|") != strings.Join(want, "|") {
				t.Errorf("seed %d: got\n%v\nwant\n%v", seed, got, want)
			}
			quiet.take()
		})
	}
}

func TestW6_SlowClientLagsAndIsDroppedAloneWhenTheJournalMovesOn(t *testing.T) {
	cfg := sessions.Config{Journal: journal.Limits{MaxBytes: 1 << 20}}
	scenario(t, agenttest.Profile{}, cfg, func(b *bench) {
		c, slow := b.plain(), b.plain()
		a := c.newSession()
		x := slow.load(a.Handle())
		slow.take()
		p := b.agents.Started(b, 1)
		line := chunkLine(a.Handle(), strings.Repeat("y", 10_000))
		n := 0
		for range 300 { // 3 MB: three times what the journal retains
			p.EmitLine(line)
			if n++; n%10 == 0 {
				p.Settle()
				c.settle()
			}
		}
		got := c.take()
		if len(got) != 300 {
			t.Errorf("the quick client got %d of 300 updates", len(got))
		}
		if err := slow.dropped[x]; !errors.Is(err, sessions.ErrLagging) {
			t.Errorf("the slow client was dropped with %v, want ErrLagging", err)
		}
		if len(c.dropped) != 0 {
			t.Error("the quick client was dropped")
		}
		if s := b.m.Stats(); s.JournalBytes > 2<<20 {
			t.Errorf("the journal holds %d bytes", s.JournalBytes)
		}
	})
}

func TestW6_FullOutStopsThePullAndLosesNothing(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		c := b.plain()
		a := c.newSession()
		p := b.agents.Started(b, 1)
		for i := range 10 {
			p.Chunk(a.Handle(), fmt.Sprint(i))
		}
		p.Settle()
		pulls := 0
		for more := true; more; pulls++ {
			c.budget = 1
			more = a.Pull(c)
		}
		if pulls != 11 {
			t.Errorf("%d pulls of one frame", pulls)
		}
		c.budget = 0
		c.expect("agent:0 agent:1 agent:2 agent:3 agent:4 agent:5 agent:6 agent:7 agent:8 agent:9")
	})
}

// CASE 91 and W10: what we do not know passes byte for byte.
func TestCase91_UnknownUpdatesPassByteForByte(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		c := b.plain()
		a := c.newSession()
		p := b.agents.Started(b, 1)
		lines := []string{
			`{"jsonrpc":"2.0","method":"session/update","params":{"update":{"sessionUpdate":"notice","n":12345678901234567890,"x":1.0e3},"sessionId":"` + a.Handle() + `","later":[ 1 ]}}`,
			`{"method":"_x/y" , "jsonrpc":"2.0","params":{"sessionId":"` + a.Handle() + `","é":"\u00e9"}}`,
		}
		for _, l := range lines {
			p.EmitLine(l)
		}
		if got := c.take(); strings.Join(got, "\n") != strings.Join(lines, "\n") {
			t.Errorf("got %q\nwant %q", got, lines)
		}
		d := b.optedIn()
		d.load(a.Handle())
		if f := d.take()[0]; !strings.Contains(f, `12345678901234567890,"x":1.0e3`) || !strings.Contains(f, `"later":[ 1 ]`) {
			t.Errorf("the replay lost something: %s", f)
		}
	})
}

func TestCase24_UpdatesBetweenTurnsAreForwarded(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		c := b.plain()
		a := c.newSession()
		c.prompt(a, "hi")
		c.take()
		b.agents.Started(b, 1).Emit(a.Handle(), `{"sessionUpdate":"available_commands_update","availableCommands":[]}`)
		if got := briefAll(t, c.take()); got != "available_commands_update" {
			t.Errorf("saw %s", got)
		}
	})
}

func TestV3_HandleOfALiveViewIsUsableWithoutOpening(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		c, d := b.plain(), b.plain()
		a := c.newSession()
		x, err := b.m.Attach(d, a.Handle())
		if err != nil {
			t.Fatal(err)
		}
		for x.Pull(d) {
		}
		d.prompt(x, "hi")
		d.expect("agent:ECHO[hi] stop:end_turn")
		if _, err := b.m.Attach(d, "nope"); err == nil {
			t.Error("attached to nothing")
		}
	})
}
