package agenttest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/acpgate/acpgate/agentpool/agenttest"
	"github.com/acpgate/acpgate/agentpool/wire"
	"github.com/acpgate/acpgate/sessions"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// gateway records what a handle's callbacks say, in order.
type gateway struct {
	t  *testing.T
	a  sessions.Agent
	mu sync.Mutex
	ev []string
}

func (g *gateway) add(format string, args ...any) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ev = append(g.ev, fmt.Sprintf(format, args...))
}

func (g *gateway) events() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]string(nil), g.ev...)
}

func (g *gateway) AgentLine(f *wire.Frame)            { g.add("line %s", text(f)) }
func (g *gateway) AgentPause()                        {}
func (g *gateway) AgentSkipped(bytes int64)           { g.add("skipped %d", bytes) }
func (g *gateway) AgentGone(err *sessions.AgentError) { g.add("gone %s", err.Reason) }

// text is the text of a chunk, else the method.
func text(f *wire.Frame) string {
	at := wire.Lookup(f.Params.Of(f.Raw), "update", "content", "text")
	if s, err := wire.Unquote(at.Of(f.Params.Of(f.Raw))); err == nil {
		return s
	}
	return f.Method
}

func (g *gateway) request(line string, done func(sessions.Reply)) {
	g.t.Helper()
	if _, err := g.a.Request(frame(g.t, line), nil, done); err != nil {
		g.t.Fatalf("request: %v", err)
	}
}

func (g *gateway) notify(line string) {
	g.t.Helper()
	if err := g.a.Notify(frame(g.t, line), nil); err != nil {
		g.t.Fatalf("notify: %v", err)
	}
}

// reply is a done function that records.
func (g *gateway) reply(r sessions.Reply) {
	if r.Err != nil {
		g.add("failed %v", r.Err)
		return
	}
	g.add("%s %s%s", r.Frame.Kind, r.Frame.Result.Of(r.Frame.Raw), r.Frame.Error.Of(r.Frame.Raw))
}

func frame(t *testing.T, line string) *wire.Frame {
	t.Helper()
	f, err := wire.Parse([]byte(line), wire.Limits{})
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return &f
}

func open(t *testing.T, agents *agenttest.Agents) *gateway {
	t.Helper()
	a, err := agents.Acquire(context.Background(), "ann", agents.Names()[0], "/w")
	if err != nil {
		t.Fatal(err)
	}
	return &gateway{t: t, a: a}
}

const (
	newLine    = `{"jsonrpc":"2.0","id":"x","method":"session/new","params":{"cwd":"/w","mcpServers":[]}}`
	promptLine = `{"jsonrpc":"2.0","id":7,"method":"session/prompt","params":{"sessionId":"s1","prompt":[{"type":"text","text":"hi"}]}}`
	cancelLine = `{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s1"}}`
)

func want(t *testing.T, got []string, want ...string) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("events (-want +got):\n%s", d)
	}
}

func TestW5_WhatTheAgentWroteIsDeliveredInOrder(t *testing.T) {
	agents := agenttest.New(t, agenttest.Config{})
	g := open(t, agents)
	p := agents.Started(t, 1)
	g.request(newLine, g.reply)
	p.Settle()
	if err := g.a.Bind("s1", g); err != nil {
		t.Fatal(err)
	}
	g.request(promptLine, g.reply)
	p.Settle()
	p.Chunk("s1", "late")
	p.EmitSkipped("s1", 70)
	p.EmitLine("Loaded cached credentials.")
	p.Settle()
	want(t, g.events()[1:], "line ECHO[hi]", `result {"stopReason":"end_turn"}`, "line late", "skipped 70")
	if d := cmp.Diff([]string{"Loaded cached credentials."}, p.Noise()); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"hi", "ECHO[hi]late"}, agents.Stored("s1")); d != "" {
		t.Error(d)
	}
}

func TestW5_UpdatesBeforeTheNewResponseAreHeld(t *testing.T) {
	agents := agenttest.New(t, agenttest.Config{Profiles: []agenttest.Profile{{
		BeforeNew: []string{`{"sessionUpdate":"a","content":{"type":"text","text":"before"}}`},
		AfterNew:  []string{`{"sessionUpdate":"a","content":{"type":"text","text":"after"}}`},
	}}})
	g := open(t, agents)
	g.request(newLine, func(r sessions.Reply) {
		g.reply(r)
		if err := g.a.Bind("s1", g); err != nil { // on the reader goroutine
			t.Error(err)
		}
	})
	agents.Started(t, 1).Settle()
	want(t, g.events(), `result {"sessionId":"s1","modes":`+agenttest.Modes+`}`, "line before", "line after")
}

func TestW4_IdsAreThoseOfTheProcess(t *testing.T) {
	agents := agenttest.New(t, agenttest.Config{})
	g := open(t, agents)
	p := agents.Started(t, 1)
	g.request(newLine, g.reply)
	g.request(newLine, g.reply)
	p.Settle()
	lines := p.Lines()
	if lines[0].ID != "1" || lines[1].ID != "2" {
		t.Errorf("ids %s, %s", lines[0].ID, lines[1].ID)
	}
	if got := strings.Replace(lines[0].Raw, `"id":1`, `"id":"x"`, 1); got != newLine {
		t.Errorf("changed more than the id: %s", got)
	}
}

func TestBind_OnceOnly(t *testing.T) {
	agents := agenttest.New(t, agenttest.Config{})
	g := open(t, agents)
	other := open(t, agents)
	if err := g.a.Bind("s1", g); err != nil {
		t.Fatal(err)
	}
	if err := other.a.Bind("s1", other); err == nil {
		t.Error("bound twice")
	}
	g.a.Release()
	if err := other.a.Bind("s1", other); err != nil {
		t.Error(err)
	}
	g.a.Release() // again: must not take away the other's binding
	if p := agents.Started(t, 1); !p.Bound("s1") || p.Handles() != 1 {
		t.Errorf("bound %v, handles %d", p.Bound("s1"), p.Handles())
	}
}

// slow is a sink whose callback takes until it is let go.
type slow struct {
	*gateway
	in, out chan struct{}
}

func (s slow) AgentLine(*wire.Frame) {
	close(s.in)
	<-s.out
	s.add("left")
}

func TestUnbind_WaitsForARunningCallback(t *testing.T) {
	agents := agenttest.New(t, agenttest.Config{})
	g := open(t, agents)
	s := slow{gateway: g, in: make(chan struct{}), out: make(chan struct{})}
	if err := g.a.Bind("s1", s); err != nil {
		t.Fatal(err)
	}
	agents.Started(t, 1).Chunk("s1", "x")
	<-s.in
	done := make(chan struct{})
	go func() {
		defer close(done)
		g.a.Unbind("s1")
		g.add("unbound")
	}()
	time.Sleep(10 * time.Millisecond)
	close(s.out)
	<-done
	want(t, g.events(), "left", "unbound")
}

func TestUnbind_OnTheReaderDoesNotWait(t *testing.T) {
	agents := agenttest.New(t, agenttest.Config{})
	g := open(t, agents)
	g.request(newLine, func(sessions.Reply) {
		if err := g.a.Bind("s1", g); err != nil {
			t.Error(err)
		}
		g.a.Unbind("s1")
	})
	p := agents.Started(t, 1)
	p.Settle()
	p.Chunk("s1", "x")
	p.Settle()
	want(t, g.events())
}

func TestCrash_FailsOpenCallsAfterTheLastLineAndThenTellsTheSinks(t *testing.T) {
	agents := agenttest.New(t, agenttest.Config{})
	g := open(t, agents)
	p := agents.Started(t, 1)
	g.request(newLine, g.reply)
	p.Settle()
	if err := g.a.Bind("s1", g); err != nil {
		t.Fatal(err)
	}
	p.Handle("session/prompt", agenttest.Manual)
	g.request(promptLine, g.reply)
	c := p.Await("session/prompt")
	p.HoldStdout()
	c.Chunk("partial")
	p.Crash(3, "boom")
	p.Settle()
	agents.Close()
	want(t, g.events()[1:], "line partial", "failed agent fake: agent_exited (exit code 3)", "gone agent_exited")
	var ae *sessions.AgentError
	if _, err := g.a.Request(frame(t, newLine), nil, g.reply); !errors.As(err, &ae) || ae.Stderr != "boom" {
		t.Errorf("request after the end: %v", err)
	}
}

func TestCancel_Modes(t *testing.T) {
	for mode, end := range map[agenttest.CancelMode]string{
		agenttest.CancelAnswers:  `result {"stopReason":"cancelled"}`,
		agenttest.CancelEndsTurn: `result {"stopReason":"end_turn"}`,
		agenttest.CancelFails:    `failure {"code":-32603,"message":"Internal error"}`,
		agenttest.CancelIgnored:  "",
	} {
		agents := agenttest.New(t, agenttest.Config{})
		g := open(t, agents)
		p := agents.Started(t, 1)
		p.OnCancel(mode)
		p.Handle("session/prompt", agenttest.Manual)
		g.request(newLine, func(sessions.Reply) {})
		g.request(promptLine, g.reply)
		g.notify(cancelLine)
		p.Await("session/cancel")
		p.Settle()
		if got := strings.Join(g.events(), "|"); got != end {
			t.Errorf("mode %d: %s", mode, got)
		}
	}
}

func TestAsk_AnswerAndWithdrawal(t *testing.T) {
	agents := agenttest.New(t, agenttest.Config{Lenient: true})
	g := open(t, agents)
	p := agents.Started(t, 1)
	if err := g.a.Bind("s1", g); err != nil {
		t.Fatal(err)
	}
	q := p.Permission("s1", "t1", "rm x", "execute")
	if err := g.a.Respond([]byte(q.ID), []byte(`{"outcome":{"outcome":"selected","optionId":"ok"}}`), nil); err != nil {
		t.Fatal(err)
	}
	if l := q.Wait(); l.Kind != wire.Result {
		t.Errorf("answer %s", l.Raw)
	}
	q2 := p.Permission("s1", "t2", "rm y", "execute")
	q2.Withdraw()
	p.Settle()
	want(t, g.events(), "line session/request_permission", "line session/request_permission", "line $/cancel_request")
	if err := g.a.Respond([]byte("99"), nil, []byte(`{"code":-32601,"message":"no"}`)); err != nil {
		t.Fatal(err)
	}
	p.Settle()
	if v := agents.Violations(); len(v) != 1 || !strings.Contains(v[0], "not open") {
		t.Errorf("violations %q", v)
	}
}

func TestW8_RequestsWithoutASessionAreAnsweredAtOnce(t *testing.T) {
	agents := agenttest.New(t, agenttest.Config{})
	open(t, agents)
	p := agents.Started(t, 1)
	if l := p.Ask("", "craft/drainMidTurnQueue", `{}`).Wait(); l.Kind != wire.Failure || !strings.Contains(l.Raw, "-32601") {
		t.Errorf("answer %s", l.Raw)
	}
}

func TestStall_BuffersAndThenRefuses(t *testing.T) {
	agents := agenttest.New(t, agenttest.Config{Profiles: []agenttest.Profile{{StdinBytes: len(newLine) + 10}}})
	g := open(t, agents)
	p := agents.Started(t, 1)
	p.Stall()
	g.request(newLine, g.reply)
	var ae *sessions.AgentError
	if _, err := g.a.Request(frame(t, newLine), nil, g.reply); !errors.As(err, &ae) || ae.Reason != "agent_stalled" {
		t.Errorf("got %v", err)
	}
	p.Settle()
	want(t, g.events())
	p.Unstall()
	p.Settle()
	if len(g.events()) != 1 {
		t.Errorf("events %q", g.events())
	}
}

func TestContract_ViolationsAreSeen(t *testing.T) {
	agents := agenttest.New(t, agenttest.Config{Lenient: true})
	agents.Store("s1", "/w", "hi", "there")
	g := open(t, agents)
	p := agents.Started(t, 1)
	p.Handle("session/prompt", agenttest.Manual)
	load := `{"jsonrpc":"2.0","id":1,"method":"session/load","params":{"sessionId":"s1","cwd":"/w","mcpServers":[]}}`
	if err := g.a.Bind("s1", g); err != nil {
		t.Fatal(err)
	}
	g.request(load, g.reply)
	p.Settle()
	want(t, g.events(), "line hi", "line there", `result {"modes":`+agenttest.Modes+`}`)
	if v := agents.Violations(); len(v) != 0 {
		t.Fatalf("violations %q", v)
	}
	g.request(load, g.reply)
	g.request(promptLine, g.reply)
	g.request(promptLine, g.reply)
	g.request(strings.Replace(promptLine, "s1", "nope", 1), g.reply)
	g.notify("{\"jsonrpc\":\"2.0\",\n\"method\":\"session/cancel\"}")
	p.Settle()
	if v := agents.Violations(); len(v) != 4 {
		t.Errorf("violations %q", v)
	}
}

func TestHandlers_ForkListDelete(t *testing.T) {
	agents := agenttest.New(t, agenttest.Config{})
	agents.Store("old", "/w", "hi", "there")
	agents.Store("other", "/v", "ho")
	g := open(t, agents)
	p := agents.Started(t, 1)
	for _, m := range []string{
		`"session/fork","params":{"sessionId":"old","cwd":"/w"}`, `"session/delete","params":{"sessionId":"old"}`,
		`"session/list","params":{"cwd":"/w"}`, `"session/resume","params":{"sessionId":"old","cwd":"/w"}`,
	} {
		g.request(`{"jsonrpc":"2.0","id":1,"method":`+m+`}`, g.reply)
	}
	p.Settle()
	want(t, g.events(),
		`result {"sessionId":"s1","modes":`+agenttest.Modes+`}`, `result {}`,
		`result {"sessions":[{"sessionId":"s1","cwd":"/w","title":"hi"}]}`,
		`failure {"code":-32002,"message":"Resource not found: old"}`)
	if d := cmp.Diff([]string{"hi", "there"}, agents.Stored("s1")); d != "" {
		t.Error(d)
	}
}

func TestPool_PlacesPrincipalsAndDirectories(t *testing.T) {
	agents := agenttest.New(t, agenttest.Config{Profiles: []agenttest.Profile{
		{Name: "one", SessionsPerProcess: 1, EndWhenUnused: true}, {Name: "dir", PerDirectory: true},
	}})
	ctx := context.Background()
	get := func(principal, agent, cwd string) sessions.Agent {
		t.Helper()
		a, err := agents.Acquire(ctx, principal, agent, cwd)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	a, b := get("ann", "one", "/w"), get("ann", "one", "/w")
	c, err := agents.Control(ctx, "ann", "one")
	if err != nil {
		t.Fatal(err)
	}
	if a.Process() == b.Process() || c.Process() != a.Process() {
		t.Errorf("processes %d %d %d", a.Process(), b.Process(), c.Process())
	}
	if x, y, z := get("ann", "dir", "/w"), get("bob", "dir", "/w"), get("ann", "dir", "/v"); x.Process() == y.Process() || x.Process() == z.Process() {
		t.Error("a process is shared")
	}
	a.Release()
	if agents.Processes()[0].Gone() != nil {
		t.Error("ended while a control handle uses it")
	}
	c.Release()
	if agents.Processes()[0].Gone() == nil {
		t.Error("not ended")
	}
}

func TestStart_FailsAndDelays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		agents := agenttest.New(t, agenttest.Config{})
		agents.FailStart("fake", &sessions.AgentError{Reason: "agent_start_failed", Agent: "fake"})
		agents.DelayStart(2 * time.Second)
		began := time.Now()
		var ae *sessions.AgentError
		if _, err := agents.Acquire(t.Context(), "ann", "fake", "/w"); !errors.As(err, &ae) || time.Since(began) != 2*time.Second {
			t.Errorf("got %v after %v", err, time.Since(began))
		}
		agents.FailStart("fake", nil)
		agents.DelayStart(0)
		if _, err := agents.Acquire(t.Context(), "ann", "nope", "/w"); !errors.As(err, &ae) || ae.Reason != "agent_unknown" {
			t.Errorf("got %v", err)
		}
		g := open(t, agents)
		p := agents.Started(t, 1)
		g.request(newLine, g.reply)
		synctest.Wait() // both goroutines of the process are durably blocked
		if len(g.events()) != 1 || p.Await("session/new").Session != "" {
			t.Errorf("events %q", g.events())
		}
	})
}
