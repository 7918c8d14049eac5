package agentpool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/acpgate/acpgate/agentpool/wire"
	"github.com/acpgate/acpgate/sessions"
)

func TestCase01_LongLinesPass(t *testing.T) {
	h := acquire(t, startPool(t, testConfig(t, fakeSpec("a"))), "a")
	s, rec := open(t, h)
	prompt(t, h, s, "fill 70000", "chunk after", "fill 5000000", "chunk end")
	want := []string{strings.Repeat("x", 70_000), "after", strings.Repeat("x", 5_000_000), "end"}
	for i, got := range rec.waitFor(t, 4) {
		if got != chunkLine(s, want[i]) {
			t.Errorf("line %d: %d bytes, want %d", i, len(got), len(chunkLine(s, want[i])))
		}
	}
}

func TestCase02_LargeInitializeResult(t *testing.T) {
	pad := strings.Repeat("p", 100_000) // an argument cannot be longer than 128 KiB
	result := `{"protocolVersion":1,"_meta":{"pad":"` + pad + `","n":12345678901234567890},"agentCapabilities":{"loadSession":true}}`
	info, err := startPool(t, testConfig(t, fakeSpec("a", "-init", result))).Describe(testContext(t), user, "a")
	if err != nil {
		t.Fatal(err)
	}
	if string(info.Result) != result || !info.LoadSession || info.List {
		t.Errorf("info %+v", info)
	}
}

func TestCase04_EndlessLineIsBounded(t *testing.T) {
	spec := fakeSpec("a")
	spec.LineLimit = 1 << 20
	p := startPool(t, testConfig(t, spec))
	h := acquire(t, p, "a")
	s, rec := open(t, h)
	ch, _ := send(t, h, "session/prompt", promptParams(s, "blob 100000000", "raw ", "chunk after"))
	if got := rec.waitFor(t, 1); text(got[0]) != "after" {
		t.Errorf("got %q", got)
	}
	await(t, "the answer", ch)
	if n := p.Stats().SkippedBytes; n != 100_000_000 {
		t.Errorf("skipped %d bytes", n)
	}
}

func TestW7_SkippedLineIsReported(t *testing.T) {
	spec := fakeSpec("a")
	spec.LineLimit = minLineLimit
	p := startPool(t, testConfig(t, spec))
	h, other := acquire(t, p, "a"), acquire(t, p, "a")
	s, rec := open(t, h)
	s2, rec2 := open(t, other)
	prompt(t, h, s, "fill 100000", "chunk after", "update "+s2)
	got := rec.waitFor(t, 2)
	if want := fmt.Sprintf("skipped %d", len(chunkLine(s, strings.Repeat("x", 100_000)))); got[0] != want || text(got[1]) != "after" {
		t.Errorf("got %q, want %s", got, want)
	}
	if got := rec2.waitFor(t, 1); text(got[0]) != "for "+s2 {
		t.Errorf("the other session got %q", got)
	}

	// A response over the limit ends its call, and a request over the limit is answered: nobody waits for what is lost.
	ch, id := send(t, h, "session/prompt", promptParams(s, "open"))
	prompt(t, h, s, fmt.Sprintf(`raw {"jsonrpc":"2.0","id":%d,"result":{"x":"%s"}}`, id, strings.Repeat("y", 100_000)))
	if o := await(t, "the answer", ch); !strings.Contains(o.raw, "line_limit") || frame(t, o.raw).Kind != wire.Failure {
		t.Errorf("got %+v", o)
	}
	rec.waitFor(t, 2)
	prompt(t, h, s, fmt.Sprintf(`raw {"jsonrpc":"2.0","id":"big","method":"fs/write_text_file","params":{"x":"%s"}}`, strings.Repeat("y", 100_000)),
		"echo")
	if got := rec.waitFor(t, 3); !strings.Contains(text(got[2]), `"id":"big","error":{"code":-32600`) {
		t.Errorf("got %q", got[2])
	}
}

func TestCase05_SplitCharacters(t *testing.T) {
	h := acquire(t, startPool(t, testConfig(t, fakeSpec("a"))), "a")
	s, rec := open(t, h)
	line := chunkLine(s, "한글😀")
	prompt(t, h, s, "bytes "+line, "bytes "+chunkLine(s, "next"))
	if got := rec.waitFor(t, 2); got[0] != line || text(got[1]) != "next" {
		t.Errorf("got %q", got)
	}
}

func TestCase06_NoiseOnStdout(t *testing.T) {
	p := startPool(t, testConfig(t, fakeSpec("a", "-preamble", "Running migration 3...\n\x1b[2K\x1b[1GLoaded cached credentials.\n{\"a\":1}")))
	h := acquire(t, p, "a")
	s, rec := open(t, h)
	prompt(t, h, s, "raw {", "raw null", `raw [{"jsonrpc":"2.0","method":"x"}]`, `raw {"jsonrpc":"2.0","id":1}`, "chunk real")
	if got := rec.waitFor(t, 1); text(got[0]) != "real" {
		t.Errorf("got %q", got)
	}
	if n := p.Stats().NoiseLines; n != 7 {
		t.Errorf("%d noise lines", n)
	}
	if kept := h.(*handle).p.noise.Tail(1000); !strings.HasPrefix(kept, "Running migration 3...\n\x1b[2K\x1b[1GLoaded cached credentials.\n") {
		t.Errorf("kept %q", kept)
	}
}

func TestCase07_NoiseIsBounded(t *testing.T) {
	p := startPool(t, testConfig(t, fakeSpec("a")))
	h := acquire(t, p, "a")
	s, _ := open(t, h)
	commands := make([]string, 200)
	for i := range commands {
		commands[i] = fmt.Sprintf("raw noise %d %s", i, strings.Repeat("n", 1000))
	}
	prompt(t, h, s, commands...)
	kept := h.(*handle).p.noise.Tail(1 << 20)
	if len(kept) > noiseRing || !strings.Contains(kept, "noise 199 ") || p.Stats().NoiseLines != 200 {
		t.Errorf("kept %d bytes", len(kept))
	}
}

func TestCase09_StderrIsDrained(t *testing.T) {
	p := startPool(t, testConfig(t, fakeSpec("a")))
	h := acquire(t, p, "a")
	s, _ := open(t, h)
	prompt(t, h, s, "stderr 1000000")
	eventually(t, "all of stderr", func() bool { return p.Stats().StderrBytes == 1_000_000 })
}

func TestCase10_StderrIsBounded(t *testing.T) {
	var log syncBuffer
	cfg := testConfig(t, fakeSpec("a"))
	cfg.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	p := startPool(t, cfg)
	h := acquire(t, p, "a")
	s, _ := open(t, h)
	prompt(t, h, s, "stderr 80000000")
	eventually(t, "all of stderr", func() bool { return p.Stats().StderrBytes == 80_000_000 })
	if n := len(h.(*handle).p.stderr.Tail(1 << 20)); n > stderrRing {
		t.Errorf("kept %d bytes", n)
	}
	if n := len(log.String()); n > 100_000 {
		t.Errorf("logged %d bytes", n)
	}
}

func TestT7_StderrTextIsNotLoggedAtInfo(t *testing.T) {
	var log syncBuffer
	cfg := testConfig(t, shellSpec("a", "echo secret-token >&2; exec "+testBinary()+" agent"))
	cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	p := startPool(t, cfg)
	h := acquire(t, p, "a")
	eventually(t, "the summary", func() bool { return strings.Contains(log.String(), "agent wrote to stderr") })
	if strings.Contains(log.String(), "secret") {
		t.Error(log.String())
	}
	if tail := h.(*handle).p.stderr.Tail(100); tail != "secret-token\n" {
		t.Errorf("kept %q", tail)
	}
}

// syncBuffer is a buffer for a logger.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func TestCase16_EqualIDsOfTwoClients(t *testing.T) {
	p := startPool(t, testConfig(t, fakeSpec("a")))
	a, b := acquire(t, p, "a"), acquire(t, p, "a")
	if a.Process() != b.Process() {
		t.Fatal("two processes")
	}
	s1, _ := open(t, a)
	s2, _ := open(t, b)
	ch1, id1 := send(t, a, "test/echo", fmt.Sprintf(`{"sessionId":%q}`, s1))
	ch2, id2 := send(t, b, "test/echo", fmt.Sprintf(`{"sessionId":%q}`, s2))
	o1, o2 := await(t, "an answer", ch1), await(t, "an answer", ch2)
	if !strings.Contains(o1.raw, s1) || !strings.Contains(o2.raw, s2) || id1 == id2 {
		t.Errorf("got %v and %v", o1, o2)
	}
	if want := fmt.Sprintf(`\"id\":%d,\"method\":\"test/echo\"`, id2); !strings.Contains(o2.raw, want) {
		t.Errorf("the agent read %s, want %s", o2.raw, want)
	}
}

// The codex agents write jsonrpc, result, id, in this order.
func TestW4_ResponseKeyOrder(t *testing.T) {
	h := acquire(t, startPool(t, testConfig(t, fakeSpec("a", "-codex-order"))), "a")
	s, _ := open(t, h)
	prompt(t, h, s)
}

func TestW4_UnknownResponsesAreDropped(t *testing.T) {
	p := startPool(t, testConfig(t, fakeSpec("a")))
	h := acquire(t, p, "a")
	s, rec := open(t, h)
	prompt(t, h, s,
		`raw {"jsonrpc":"2.0","id":0,"result":{}}`, `raw {"jsonrpc":"2.0","id":99,"result":{}}`, `raw {"jsonrpc":"2.0","id":"2","result":{}}`,
		`raw {"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"again"}}`, `raw {"jsonrpc":"2.0","id":-2,"result":1}`, `raw {"jsonrpc":"2.0","id":18446744073709551616,"result":1}`,
		"chunk end")
	if got := rec.waitFor(t, 1); text(got[0]) != "end" {
		t.Errorf("got %q", got)
	}
	if n := p.Stats().UnknownResponses; n != 6 {
		t.Errorf("counted %d", n)
	}
}

// Ids of agents count from 0, or are strings; the answer has the id as the agent wrote it.
func TestW4_RequestIDsOfAgents(t *testing.T) {
	for _, id := range []string{`0`, `"0"`, `7`, `"a\u0062"`, `-1`, `1e2`} {
		t.Run(id, func(t *testing.T) {
			p := startPool(t, testConfig(t, fakeSpec("a")))
			h := acquire(t, p, "a")
			s, rec := open(t, h)
			rec.onLine = func(f *wire.Frame) {
				if f.Kind != wire.Request {
					return
				}
				if err := h.Respond(f.ID.Of(f.Raw), []byte(`{"outcome":{"outcome":"selected","optionId":"ok"}}`), nil); err != nil {
					t.Error(err)
				}
				// A second answer reaches nobody.
				if err := h.Respond(f.ID.Of(f.Raw), nil, []byte(`{"code":1,"message":"late"}`)); err != nil {
					t.Error(err)
				}
			}
			prompt(t, h, s, fmt.Sprintf(`raw {"jsonrpc":"2.0","id":%s,"method":"session/request_permission","params":{"sessionId":%q}}`, id, s), "echo")
			want := `{"jsonrpc":"2.0","id":` + id + `,"result":{"outcome":{"outcome":"selected","optionId":"ok"}}}`
			if got := rec.waitFor(t, 2); text(got[1]) != want {
				t.Errorf("the agent read %s, want %s", text(got[1]), want)
			}
			if n := p.Stats().LateAnswers; n != 1 {
				t.Errorf("%d late answers", n)
			}
		})
	}
}

func TestCase19_OpenRequestBlocksNobody(t *testing.T) {
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

func TestW8_RequestsThatNobodyDecides(t *testing.T) {
	for name, c := range map[string]struct{ request, want string }{
		"permission of an unknown session": {
			`{"jsonrpc":"2.0","id":1,"method":"session/request_permission","params":{"sessionId":"nope"}}`,
			`{"jsonrpc":"2.0","id":1,"result":{"outcome":{"outcome":"cancelled"}}}`,
		},
		"elicitation of an unknown session": {
			`{"jsonrpc":"2.0","id":2,"method":"elicitation/create","params":{"sessionId":"nope"}}`,
			`{"jsonrpc":"2.0","id":2,"result":{"action":"cancel"}}`,
		},
		"elicitation of an unknown call": {
			`{"jsonrpc":"2.0","id":3,"method":"elicitation/create","params":{"requestId":77}}`,
			`{"jsonrpc":"2.0","id":3,"result":{"action":"cancel"}}`,
		},
		"terminal of an unknown session": {
			`{"jsonrpc":"2.0","id":"t","method":"terminal/create","params":{"sessionId":"nope","command":"yes"}}`,
			`{"jsonrpc":"2.0","id":"t","error":{"code":-32601,"message":"Method not found: terminal/create","data":{"reason":"no session is open that it names"}}}`,
		},
		"method without a session": {
			`{"jsonrpc":"2.0","id":4,"method":"craft/drainMidTurnQueue"}`,
			`{"jsonrpc":"2.0","id":4,"error":{"code":-32601,"message":"Method not found: craft/drainMidTurnQueue","data":{"reason":"no session is open that it names"}}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := startPool(t, testConfig(t, fakeSpec("a")))
			h := acquire(t, p, "a")
			s, rec := open(t, h)
			prompt(t, h, s, "raw "+c.request, "echo")
			if got := text(rec.waitFor(t, 1)[0]); got != c.want {
				t.Errorf("the agent read\n%s, want\n%s", got, c.want)
			}
			if p.Stats().RefusedRequests != 1 {
				t.Error("not counted")
			}
		})
	}
}

// An elicitation may name the request that it is about instead of a session, and its completion names neither.
func TestW8_ElicitationByRequest(t *testing.T) {
	notified := make(chan string, 10)
	cfg := testConfig(t, fakeSpec("a"))
	cfg.OnNotification = func(principal, agent string, line []byte) { notified <- principal + " " + agent + " " + string(line) }
	p := startPool(t, cfg)
	h := acquire(t, p, "a")
	s, rec := open(t, h)
	id := 4 // initialize, session/new, then two prompts
	ch, _ := send(t, h, "session/prompt", promptParams(s, "open"))
	prompt(t, h, s,
		fmt.Sprintf(`raw {"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"requestId":%d,"mode":"url","elicitationId":"e\u0031"}}`, id),
		`raw {"jsonrpc":"2.0","method":"elicitation/complete","params":{"elicitationId":"e1"}}`,
		`raw {"jsonrpc":"2.0","method":"elicitation/complete","params":{"elicitationId":"e2"}}`,
		`raw {"jsonrpc":"2.0","method":"_auth/status_update","params":{"ok":true}}`)
	got := rec.waitFor(t, 2)
	if !strings.Contains(got[0], `"requestId":4`) || !strings.Contains(got[1], `"elicitationId":"e1"`) {
		t.Errorf("got %q", got)
	}
	for _, want := range []string{
		`tester a {"jsonrpc":"2.0","method":"elicitation/complete","params":{"elicitationId":"e2"}}`,
		`tester a {"jsonrpc":"2.0","method":"_auth/status_update","params":{"ok":true}}`,
	} {
		if n := await(t, "a notification", notified); n != want {
			t.Errorf("got %s, want %s", n, want)
		}
	}
	select {
	case o := <-ch:
		t.Errorf("the open call was answered: %+v", o)
	default:
	}
}

func TestCase38_AgentWithdrawsItsRequest(t *testing.T) {
	for _, member := range []string{"requestId", "id"} {
		p := startPool(t, testConfig(t, fakeSpec("a")))
		h := acquire(t, p, "a")
		s, rec := open(t, h)
		prompt(t, h, s,
			fmt.Sprintf(`raw {"jsonrpc":"2.0","id":99,"method":"session/request_permission","params":{"sessionId":%q}}`, s),
			fmt.Sprintf(`raw {"jsonrpc":"2.0","method":"$/cancel_request","params":{%q:98}}`, member),
			fmt.Sprintf(`raw {"jsonrpc":"2.0","method":"$/cancel_request","params":{%q:99}}`, member), "chunk end")
		got := rec.waitFor(t, 3)
		if f := frame(t, got[1]); f.Method != methodCancelRequest || !strings.Contains(got[1], "99") || text(got[2]) != "end" {
			t.Errorf("%s: got %q", member, got)
		}
	}
}

func TestW4_CancelRequest(t *testing.T) {
	h := acquire(t, startPool(t, testConfig(t, fakeSpec("a"))), "a")
	s, rec := open(t, h)
	ch, id := send(t, h, "session/prompt", promptParams(s, "open"))
	send(t, h, "session/prompt", promptParams(s, "echo"))
	h.CancelRequest(id)
	if got, want := text(rec.waitFor(t, 1)[0]), fmt.Sprintf(`{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":%d}}`, id); got != want {
		t.Errorf("the agent read %s, want %s", got, want)
	}
	select {
	case o := <-ch:
		t.Errorf("answered: %+v", o)
	default:
	}
	h.CancelRequest(id + 100) // not open: nothing is written
}

func TestW3_OneFrameIsOneLine(t *testing.T) {
	h := acquire(t, startPool(t, testConfig(t, fakeSpec("a"))), "a")
	got := make(chan string, 1)
	_, err := h.Request(frame(t, "{\"jsonrpc\":\"2.0\",\n\"id\" :\r\n 1,\"method\":\"test/echo\",\"params\":{\n\"s\":\"a\\nb\"}}"), nil,
		func(r sessions.Reply) { got <- string(r.Frame.Raw) })
	if err != nil {
		t.Fatal(err)
	}
	want, _ := json.Marshal("{\"jsonrpc\":\"2.0\", \"id\" :   2,\"method\":\"test/echo\",\"params\":{ \"s\":\"a\\nb\"}}\n")
	if g := await(t, "the answer", got); !strings.Contains(g, string(want)) {
		t.Errorf("the agent read %s, want %s", g, want)
	}
}

func TestUnbindAnswersOpenRequests(t *testing.T) {
	p := startPool(t, testConfig(t, fakeSpec("a")))
	a, b := acquire(t, p, "a"), acquire(t, p, "a")
	s1, rec1 := open(t, a)
	s2, rec2 := open(t, b)
	prompt(t, a, s1, fmt.Sprintf(`raw {"jsonrpc":"2.0","id":"p","method":"session/request_permission","params":{"sessionId":%q}}`, s1))
	rec1.waitFor(t, 1)
	send(t, b, "session/prompt", promptParams(s2, "echo"))
	a.Unbind(s1)
	if got, want := text(rec2.waitFor(t, 1)[0]), `{"jsonrpc":"2.0","id":"p","result":{"outcome":{"outcome":"cancelled"}}}`; got != want {
		t.Errorf("the agent read %s, want %s", got, want)
	}
	if err := a.Respond([]byte(`"p"`), []byte(`{}`), nil); err != nil || p.Stats().LateAnswers != 1 {
		t.Errorf("late answer: %v", err)
	}
}

func TestW8_OpenRequestsAreBounded(t *testing.T) {
	p := startPool(t, testConfig(t, fakeSpec("a")))
	h := acquire(t, p, "a")
	s, rec := open(t, h)
	var commands []string
	for i := range maxAsks + 1 {
		commands = append(commands, fmt.Sprintf(`raw {"jsonrpc":"2.0","id":%d,"method":"session/request_permission","params":{"sessionId":%q}}`, i, s))
	}
	prompt(t, h, s, append(commands, "echo")...)
	got := rec.waitFor(t, maxAsks+1)
	if want := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"error":{"code":-32603,"message":"too many open requests"}}`, maxAsks); text(got[maxAsks]) != want {
		t.Errorf("the agent read %s", text(got[maxAsks]))
	}
}

func TestW6_DeafAgentStallsOnlyItself(t *testing.T) {
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
	spec := fakeSpec("a")
	spec.StdinLimit = 1000
	h := acquire(t, startPool(t, testConfig(t, spec)), "a")
	if got := request(t, h, "test/echo", `{"pad":"`+strings.Repeat("x", 3_000_000)+`"}`); len(got) < 3_000_000 {
		t.Errorf("%d bytes came back", len(got))
	}
}

func TestT5_CrashFailsOpenCallsInOrder(t *testing.T) {
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
	h := acquire(t, startPool(t, testConfig(t, fakeSpec("a"))), "a")
	s, rec := open(t, h)
	ch, _ := send(t, h, "session/prompt", promptParams(s, "closeout"))
	if o := await(t, "the failure", ch); o.err == nil {
		t.Errorf("outcome %+v", o)
	}
	rec.waitFor(t, 1)
}

func TestRequestsAreChecked(t *testing.T) {
	h := acquire(t, startPool(t, testConfig(t, fakeSpec("a"))), "a")
	notification, req := frame(t, `{"jsonrpc":"2.0","method":"x"}`), frame(t, `{"jsonrpc":"2.0","id":1,"method":"x"}`)
	if _, err := h.Request(notification, nil, nil); err == nil {
		t.Error("a notification was sent as a request")
	}
	if err := h.Notify(req, nil); err == nil {
		t.Error("a request was sent as a notification")
	}
}

func TestEditsAreApplied(t *testing.T) {
	h := acquire(t, startPool(t, testConfig(t, fakeSpec("a"))), "a")
	f := frame(t, `{"jsonrpc":"2.0","method":"test/echo","params":{"sessionId":"handle","n":12345678901234567890},"id":"c-1"}`)
	got := make(chan string, 1)
	if _, err := h.Request(f, []wire.Edit{f.EditSession([]byte(`"binding"`))}, func(r sessions.Reply) { got <- string(r.Frame.Raw) }); err != nil {
		t.Fatal(err)
	}
	want := `{\"jsonrpc\":\"2.0\",\"method\":\"test/echo\",\"params\":{\"sessionId\":\"binding\",\"n\":12345678901234567890},\"id\":2}`
	if g := await(t, "the answer", got); !strings.Contains(g, want) {
		t.Errorf("the agent read %s", g)
	}
}
