package agentpool

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/acpgate/acpgate/agentpool/wire"
	"github.com/acpgate/acpgate/sessions"
)

func TestCase19_OpenRequestBlocksNobody(t *testing.T) {
	t.Parallel()
	p := startPool(t, testConfig(t, fakeSpec("a")))
	a := acquire(t, p, "a")
	s1, rec := open(t, a)
	prompt(t, a, s1, fmt.Sprintf(`raw {"jsonrpc":"2.0","id":5,"method":"session/request_permission","params":{"sessionId":%q}}`, s1))
	rec.waitFor(t, 1)
	b := acquire(t, p, "a")
	s2, rec2 := open(t, b)
	prompt(t, b, s2, "chunk free")
	rec2.waitFor(t, 1)
	if err := a.Respond([]byte("5"), []byte(`{}`), nil); err != nil {
		t.Error(err)
	}
}

func TestW5_UpdatesBeforeTheAnswerOfSessionNew(t *testing.T) {
	t.Parallel()
	h := acquire(t, startPool(t, testConfig(t, fakeSpec("a", "-before-new", "one,two,three"))), "a")
	var order []string
	rec := newRecorder()
	rec.onLine = func(f *wire.Frame) { order = append(order, text(string(f.Raw))) }
	_, err := h.Request(frame(t, `{"jsonrpc":"2.0","id":1,"method":"session/new","params":{}}`), nil, func(r sessions.Reply) {
		order = append(order, "bind")
		if err := h.Bind("s1", rec); err != nil {
			t.Error(err)
		}
		order = append(order, "bound")
	})
	if err != nil {
		t.Fatal(err)
	}
	rec.waitFor(t, 3)
	prompt(t, h, "s1", "chunk four")
	rec.waitFor(t, 4)
	if got := strings.Join(order, " "); got != "bind bound one two three four" {
		t.Errorf("order %q", got)
	}
}

// A Bind from any goroutine gets the held lines too, and later lines do not overtake them.
func TestW5_BindElsewhere(t *testing.T) {
	t.Parallel()
	p := startPool(t, testConfig(t, fakeSpec("a")))
	h, late := acquire(t, p, "a"), acquire(t, p, "a")
	s, _ := open(t, h)
	commands := make([]string, 500)
	var want []string
	for i := range commands {
		commands[i] = "raw " + chunkLine("lat\u00e9 \"x\"", fmt.Sprint(i))
		want = append(want, fmt.Sprint(i))
	}
	ch, _ := send(t, h, "session/prompt", promptParams(s, commands...))
	eventually(t, "held lines", func() bool { return p.Stats().HeldLines > 10 })
	rec := newRecorder()
	if err := late.Bind("lat\u00e9 \"x\"", rec); err != nil {
		t.Fatal(err)
	}
	await(t, "the answer", ch)
	if got := texts(rec.waitFor(t, len(want))); strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("got %v", got)
	}
}

func TestW5_HeldLinesAreBounded(t *testing.T) {
	t.Parallel()
	spec := fakeSpec("a")
	spec.PendingLimit = 10_000
	p := startPool(t, testConfig(t, spec))
	h := acquire(t, p, "a")
	s, _ := open(t, h)
	commands := []string{"raw " + chunkLine("ghost", strings.Repeat("g", 20_000))}
	for i := range 100 {
		commands = append(commands, "raw "+chunkLine("ghost", fmt.Sprint(i, strings.Repeat("g", 500))))
	}
	prompt(t, h, s, commands...)
	rec := newRecorder()
	if err := h.Bind("ghost", rec); err != nil {
		t.Fatal(err)
	}
	dropped := int(p.Stats().HeldDropped)
	got := rec.waitFor(t, 101-dropped)
	if dropped < 80 || dropped > 90 || !strings.HasPrefix(text(got[len(got)-1]), "99") {
		t.Errorf("%d dropped, the last is %.20s", dropped, text(got[len(got)-1]))
	}
}

func TestV2_BindTwiceFails(t *testing.T) {
	t.Parallel()
	p := startPool(t, testConfig(t, fakeSpec("a")))
	a, b := acquire(t, p, "a"), acquire(t, p, "a")
	s, rec := open(t, a)
	if err := b.Bind(s, newRecorder()); err == nil {
		t.Error("bound twice")
	}
	b.Unbind(s) // not b's
	prompt(t, a, s, "chunk still")
	rec.waitFor(t, 1)
	if a.Sessions() != 1 {
		t.Errorf("%d sessions", a.Sessions())
	}
	if err := a.Bind("", newRecorder()); err == nil {
		t.Error("bound the empty id")
	}
	a.Release()
	if err := a.Bind("s9", newRecorder()); err == nil || b.Sessions() != 0 {
		t.Errorf("bound after Release: %v, %d sessions", err, b.Sessions())
	}
}

// Unbind returns only when no Sink method runs, from wherever it is called, the session's own callback included.
func TestUnbindWaitsForTheSink(t *testing.T) {
	t.Parallel()
	p := startPool(t, testConfig(t, fakeSpec("a")))
	h := acquire(t, p, "a")
	s, rec := open(t, h)
	entered, leave := make(chan bool), make(chan bool)
	inside := false
	rec.onLine = func(*wire.Frame) {
		inside = true
		entered <- true
		<-leave
		inside = false
	}
	send(t, h, "session/prompt", promptParams(s, "chunk one", "chunk two"))
	<-entered
	unbound := make(chan bool)
	go func() {
		h.Unbind(s)
		unbound <- inside // races with the callback if Unbind does not wait
	}()
	select {
	case <-unbound:
		t.Fatal("Unbind did not wait")
	case <-time.After(50 * time.Millisecond):
	}
	leave <- true
	if <-unbound {
		t.Error("the callback was running when Unbind returned")
	}
	if n := len(rec.all()); n != 1 {
		t.Errorf("%d lines after Unbind", n)
	}

	self := newRecorder()
	self.onLine = func(*wire.Frame) { h.Unbind("self") }
	if err := h.Bind("self", self); err != nil {
		t.Fatal(err)
	}
	prompt(t, h, s, "update self", "update self")
	if n := len(self.all()); n != 1 {
		t.Errorf("%d lines after Unbind in the callback", n)
	}
}

func TestW6_DeafAgentStallsOnlyItself(t *testing.T) {
	t.Parallel()
	spec := fakeSpec("a")
	spec.StdinLimit = 1 << 20
	spec.SessionsPerProcess = 1
	p := startPool(t, testConfig(t, spec))
	deaf, other := acquire(t, p, "a"), acquire(t, p, "a")
	s, rec := open(t, deaf)
	s2, _ := open(t, other)
	ch, _ := send(t, deaf, "session/prompt", promptParams(s, "deaf"))
	big := frame(t, fmt.Sprintf(`{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":%q,"pad":"%s"}}`, s, strings.Repeat("x", 300_000)))
	var err error
	begun := time.Now()
	for range 20 {
		if err = deaf.Notify(big, nil); err != nil {
			break
		}
	}
	var e *sessions.AgentError
	if !errors.As(err, &e) || e.Reason != "agent_stalled" || e.Hint == "" {
		t.Fatalf("error %v", err)
	}
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("a write took %v", took)
	}
	if _, err := deaf.Request(frame(t, `{"jsonrpc":"2.0","id":1,"method":"x","params":{"pad":"`+strings.Repeat("x", 300_000)+`"}}`), nil,
		func(sessions.Reply) { t.Error("done of a refused request was called") }); !errors.As(err, &e) || e.Reason != "agent_stalled" {
		t.Errorf("error %v", err)
	}
	prompt(t, other, s2, "chunk fine")
	if n := p.Stats().StdinStalled; n != 2 {
		t.Errorf("counted %d", n)
	}
	deaf.Kill("agent_restarted")
	if o := await(t, "the end of the open call", ch); !errors.As(o.err, &e) || e.Reason != "agent_restarted" {
		t.Errorf("outcome %+v", o)
	}
	rec.waitFor(t, 1)
}

// An empty queue takes any one frame, however long.
func TestW6_OneLongFrameIsAdmitted(t *testing.T) {
	t.Parallel()
	spec := fakeSpec("a")
	spec.StdinLimit = 1000
	h := acquire(t, startPool(t, testConfig(t, spec)), "a")
	if got := request(t, h, "test/echo", `{"pad":"`+strings.Repeat("x", 3_000_000)+`"}`); len(got) < 3_000_000 {
		t.Errorf("%d bytes came back", len(got))
	}
}

func TestT5_CrashFailsOpenCallsInOrder(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		command, signal string
		code            int
	}{"exit": {"exit 7", "", 7}, "signal": {"kill", "killed", -1}} {
		t.Run(name, func(t *testing.T) {
			p := startPool(t, testConfig(t, fakeSpec("a")))
			a, b := acquire(t, p, "a"), acquire(t, p, "a")
			s1, rec1 := open(t, a)
			s2, rec2 := open(t, b)
			ch1, _ := send(t, a, "session/prompt", promptParams(s1, "open"))
			ch2, _ := send(t, b, "session/prompt", promptParams(s2, "stderr 10000", "chunk last words", c.command))
			for _, ch := range []<-chan outcome{ch1, ch2} {
				o := await(t, "the failure", ch)
				var e *sessions.AgentError
				if !errors.As(o.err, &e) {
					t.Fatalf("outcome %+v", o)
				}
				if e.Reason != "agent_exited" || !e.Exited || e.ExitCode != c.code || e.Signal != c.signal || len(e.Stderr) == 0 || len(e.Stderr) > 4096 {
					t.Errorf("error %+v", e)
				}
			}
			if got := rec2.waitFor(t, 2); text(got[0]) != "last words" || got[1] != "gone agent_exited" {
				t.Errorf("events %q", got)
			}
			if got := rec1.waitFor(t, 1); got[0] != "gone agent_exited" {
				t.Errorf("events %q", got)
			}
			var e *sessions.AgentError
			if _, err := a.Request(frame(t, `{"jsonrpc":"2.0","id":1,"method":"x"}`), nil, nil); !errors.As(err, &e) || e.Reason != "agent_exited" {
				t.Errorf("request after the end: %v", err)
			}
			if err := a.Bind("s3", newRecorder()); !errors.As(err, &e) {
				t.Errorf("bind after the end: %v", err)
			}
			if err := a.Notify(frame(t, `{"jsonrpc":"2.0","method":"x"}`), nil); !errors.As(err, &e) {
				t.Errorf("notify after the end: %v", err)
			}
			if n := p.Stats().Crashes; n != 1 {
				t.Errorf("%d crashes", n)
			}
		})
	}
}

// An agent without stdout can answer nobody.
func TestT5_ClosedStdoutEndsTheAgent(t *testing.T) {
	t.Parallel()
	h := acquire(t, startPool(t, testConfig(t, fakeSpec("a"))), "a")
	s, rec := open(t, h)
	ch, _ := send(t, h, "session/prompt", promptParams(s, "closeout"))
	if o := await(t, "the failure", ch); o.err == nil {
		t.Errorf("outcome %+v", o)
	}
	rec.waitFor(t, 1)
}

// Every line is followed by a pause, and lines that are read together by one.
func TestW6_PauseFollowsTheLastLineAtHand(t *testing.T) {
	t.Parallel()
	h := acquire(t, startPool(t, testConfig(t, fakeSpec("a"))), "a")
	s, rec := open(t, h)
	other, rec2 := open(t, h)
	const lines = 5000
	prompt(t, h, s, fmt.Sprintf("burst %d", lines), "raw "+chunkLine(other, "of another session"))
	rec.waitFor(t, lines)
	rec2.waitFor(t, 1)
	for _, r := range []*recorder{rec, rec2} {
		eventually(t, "a pause behind the last line", func() bool {
			r.mu.Lock()
			defer r.mu.Unlock()
			return len(r.pauses) > 0 && r.pauses[len(r.pauses)-1] == len(r.events)
		})
	}
	rec.mu.Lock()
	defer rec.mu.Unlock()
	for i := 1; i < len(rec.pauses); i++ {
		if rec.pauses[i] <= rec.pauses[i-1] {
			t.Fatalf("a pause at %d without a line after that at %d", rec.pauses[i], rec.pauses[i-1])
		}
	}
	if n := len(rec.pauses); n > lines/4 {
		t.Errorf("%d pauses for %d lines that were written in blocks", n, lines)
	}
}
