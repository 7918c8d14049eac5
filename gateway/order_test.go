package gateway

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/acpgate/acpgate/agentpool/agenttest"
	"github.com/acpgate/acpgate/sessions/journal"
)

func TestCase48_LoadAndPromptInOneTick(t *testing.T) {
	h := open(t)
	var texts []string
	for i := range 50 {
		texts = append(texts, fmt.Sprintf("m%d", i))
	}
	h.agents.Store("old", h.dir, texts...)
	c := h.dial().initialize()
	c.send(
		fmt.Sprintf(`{"jsonrpc":"2.0","id":"load","method":"session/load","params":{"sessionId":"old","cwd":%q,"mcpServers":[]}}`, h.dir),
		fmt.Sprintf(`{"jsonrpc":"2.0","id":"prompt","method":"session/prompt","params":%s}`, promptParams("old", "next")),
		`{"jsonrpc":"2.0","id":"mode","method":"session/set_mode","params":{"sessionId":"old","modeId":"code"}}`,
	)
	load, replay := c.until(`"load"`)
	if load.Error != nil {
		t.Fatalf("load: %s", load.raw)
	}
	var got []string
	for _, m := range replay {
		got = append(got, m.text())
	}
	if strings.Join(got, " ") != strings.Join(texts, " ") {
		t.Errorf("replay %v", got)
	}
	end, live := c.until(`"prompt"`)
	if end.Error != nil || len(live) == 0 || live[len(live)-1].text() != "ECHO[next]" {
		t.Errorf("prompt: %d updates, %s", len(live), end.raw)
	}
	if m, _ := c.until(`"mode"`); m.Error != nil {
		t.Errorf("mode: %s", m.raw)
	}
	methods := strings.Join(h.agents.Started(t, 1).Methods(), " ")
	if !strings.HasSuffix(methods, "session/load session/prompt session/set_mode") {
		t.Errorf("the agent got: %s", methods)
	}
}

func TestCase48_FramesBehindAFailedLoadAreAnswered(t *testing.T) {
	h := open(t)
	c := h.dial().initialize()
	c.send(
		fmt.Sprintf(`{"jsonrpc":"2.0","id":"load","method":"session/load","params":{"sessionId":"nope","cwd":%q,"mcpServers":[]}}`, h.dir),
		fmt.Sprintf(`{"jsonrpc":"2.0","id":"prompt","method":"session/prompt","params":%s}`, promptParams("nope", "x")),
	)
	m, _ := c.until(`"load"`)
	if m.Error == nil || m.Error.Code != -32002 { // the agent's own error
		t.Errorf("load: %s", m.raw)
	}
	m, _ = c.until(`"prompt"`)
	m.wantError(t, -32002, "session_not_found")
}

// A session that is slow to open holds up nobody else on its connection, and what waits behind it is bounded: then the
// client is not read, until there is room again.
func TestW6_Case19_ALaneIsBounded(t *testing.T) {
	h := open(t, func(s *setup) { s.gateway.Limits.Waiting = 3 })
	h.agents.Store("slow", h.dir)
	c := h.dial().initialize()
	s := c.newSession()
	p := h.agents.Started(t, 1)
	p.Handle("session/load", agenttest.Manual)
	load := fmt.Sprintf(`{"jsonrpc":"2.0","id":"load","method":"session/load","params":{"sessionId":"slow","cwd":%q,"mcpServers":[]}}`, h.dir)
	c.send(load)
	call := p.Await("session/load")
	if m := c.ask("session/prompt", promptParams(s, "other session")); m.Error != nil {
		t.Errorf("another session while one loads: %s", m.raw)
	}
	for i := range 6 {
		c.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":"w%d","method":"session/set_mode","params":{"sessionId":"slow","modeId":"m%d"}}`, i, i))
	}
	c.send(`{"jsonrpc":"2.0","id":"last","method":"_acpgate/ping"}`)
	paused := h.srv.metrics.pauses.WithLabelValues("session")
	h.eventually(func() bool { return counterValue(t, paused) > 0 })
	opened(call)
	for answers := 0; answers < 8; { // load, six modes, ping
		if m := c.recv(); m.Method == "" {
			answers++
			if m.Error != nil {
				t.Errorf("answer: %s", m.raw)
			}
		}
	}
	var modes []string
	for _, l := range p.LinesOf("slow") {
		if l.Method == "session/set_mode" {
			modes = append(modes, l.Raw[strings.Index(l.Raw, `"modeId"`):])
		}
	}
	for i, m := range modes {
		if !strings.Contains(m, fmt.Sprintf(`"m%d"`, i)) {
			t.Errorf("order at the agent: %v", modes)
			break
		}
	}
	if len(modes) != 6 {
		t.Errorf("%d of 6 reached the agent", len(modes))
	}
}

// opened answers a session/load as an agent does that knows the session.
func opened(call *agenttest.Call) {
	call.MarkOpen()
	call.Chunk("history")
	call.Result(`{}`)
}

func TestW4_CancelOfARequestThatWaits(t *testing.T) {
	h := open(t)
	h.agents.Store("slow", h.dir)
	c := h.dial().initialize()
	c.newSession()
	p := h.agents.Started(t, 1)
	p.Handle("session/load", agenttest.Manual)
	c.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":"load","method":"session/load","params":{"sessionId":"slow","cwd":%q,"mcpServers":[]}}`, h.dir))
	call := p.Await("session/load")
	c.send(
		fmt.Sprintf(`{"jsonrpc":"2.0","id":"p","method":"session/prompt","params":%s}`, promptParams("slow", "never")),
		`{"jsonrpc":"2.0","id":"l","method":"session/close","params":{"sessionId":"slow"}}`,
		`{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":"p"}}`,
		`{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":"l"}}`,
	)
	for _, id := range []string{`"p"`, `"l"`} {
		m, _ := c.until(id)
		m.wantError(t, -32800, "cancelled")
	}
	opened(call)
	if m, _ := c.until(`"load"`); m.Error != nil {
		t.Errorf("load: %s", m.raw)
	}
	if m := c.ask("session/prompt", promptParams("slow", "now")); m.Error != nil {
		t.Errorf("prompt: %s", m.raw)
	}
	for _, l := range p.LinesOf("slow") {
		if strings.Contains(l.Raw, "never") || l.Method == "session/close" {
			t.Errorf("the agent got a cancelled request: %s", l.Raw)
		}
	}
}

func TestW5_UpdatesBeforeTheAnswerToNewComeBehindIt(t *testing.T) {
	update := func(text string) string {
		return fmt.Sprintf(`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":%q}}`, text)
	}
	h := open(t, func(s *setup) {
		s.agents.Profiles = []agenttest.Profile{{BeforeNew: []string{update("early 1"), update("early 2")}, AfterNew: []string{update("late")}}}
	})
	c := h.dial().initialize()
	c.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":"n","method":"session/new","params":{"cwd":%q,"mcpServers":[]}}`, h.dir))
	m, before := c.until(`"n"`)
	if m.Error != nil || len(before) != 0 {
		t.Fatalf("%d frames before the answer %s", len(before), m.raw)
	}
	for _, want := range []string{"early 1", "early 2", "late"} {
		if m := c.recv(); m.text() != want {
			t.Errorf("got %s, want %q", m.raw, want)
		}
	}
}

func TestW5_CloseIsAnsweredBehindTheTurn(t *testing.T) {
	h := open(t)
	c := h.dial().initialize()
	s := c.newSession()
	p := h.agents.Started(t, 1)
	p.Handle("session/prompt", agenttest.Manual)
	c.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":"p","method":"session/prompt","params":%s}`, promptParams(s, "x")))
	p.Await("session/prompt").Chunk("working")
	c.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":"c","method":"session/close","params":{"sessionId":%q}}`, s))
	m, before := c.until(`"c"`)
	if m.Error != nil || string(m.Result) != "{}" {
		t.Errorf("close: %s", m.raw)
	}
	ended := false
	for _, b := range before {
		if string(b.ID) == `"p"` {
			ended = strings.Contains(string(b.Result), "cancelled")
		}
	}
	if !ended {
		t.Errorf("the prompt was not answered before the close: %v", before)
	}
	c.ask("session/prompt", promptParams(s, "y")).wantError(t, -32002, "session_not_found")
	if m := c.ask("session/close", fmt.Sprintf(`{"sessionId":%q}`, s)); m.Error != nil {
		t.Errorf("closing twice: %s", m.raw)
	}
	h.eventually(func() bool { return gaugeValue(t, h.srv.metrics.attachments) == 0 })
}

func TestV3_AHandleThatThisConnectionHasNotOpened(t *testing.T) {
	h := open(t)
	a, b := h.dial().initialize(), h.dial().initialize()
	s := a.newSession()
	if m := b.ask("session/prompt", promptParams(s, "from b")); m.Error != nil {
		t.Fatalf("prompt of another connection: %s", m.raw)
	}
	seen := ""
	for !strings.Contains(seen, "ECHO[from b]") {
		seen += a.recv().text() + "|"
	}
	// Closed by b and loaded again by b: a's handle works on the new view.
	b.ask("session/close", fmt.Sprintf(`{"sessionId":%q}`, s))
	if m := b.ask("session/load", fmt.Sprintf(`{"sessionId":%q,"cwd":%q,"mcpServers":[]}`, s, h.dir)); m.Error != nil {
		t.Fatalf("load: %s", m.raw)
	}
	if m := a.ask("session/prompt", promptParams(s, "from a")); m.Error != nil {
		t.Errorf("prompt under a handle that was reopened by another connection: %s", m.raw)
	}
}

func TestW5_LoadingAgainReplacesTheAttachment(t *testing.T) {
	h := open(t)
	c := h.dial().initialize()
	s := c.newSession()
	for range 3 {
		if m := c.ask("session/load", fmt.Sprintf(`{"sessionId":%q,"cwd":%q,"mcpServers":[]}`, s, h.dir)); m.Error != nil {
			t.Fatalf("load: %s", m.raw)
		}
	}
	c.id++
	c.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"session/prompt","params":%s}`, c.id, promptParams(s, "once")))
	_, updates := c.until(fmt.Sprint(c.id))
	n := 0
	for _, m := range updates {
		if strings.Contains(m.text(), "ECHO[once]") {
			n++
		}
	}
	if n != 1 {
		t.Errorf("the update came %d times", n)
	}
	h.eventually(func() bool { return gaugeValue(t, h.srv.metrics.attachments) == 1 })
}

// withSmallBuffers makes the kernel keep little of what a client does not read.
func withSmallBuffers(d *dialing) {
	d.opts.HTTPClient = oneShot(func(ctx context.Context, network, addr string) (net.Conn, error) {
		nc, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		if err == nil {
			err = nc.(*net.TCPConn).SetReadBuffer(128 << 10)
		}
		return nc, err
	})
}

func TestW6_Case29_ASlowClientHurtsNobodyAndIsClosed(t *testing.T) {
	const chunks = 60
	for _, reads := range []bool{true, false} {
		t.Run(fmt.Sprintf("reads in the end %v", reads), func(t *testing.T) {
			h := open(t, func(s *setup) { s.sessions.Journal = journal.Limits{MaxBytes: 1 << 20} })
			fast, slow := h.dial().initialize(), h.dial(withSmallBuffers).initialize()
			s := fast.newSession()
			if m := slow.ask("session/load", fmt.Sprintf(`{"sessionId":%q,"cwd":%q,"mcpServers":[]}`, s, h.dir)); m.Error != nil {
				t.Fatal(m.raw)
			}
			p := h.agents.Started(t, 1)
			ended := make(chan string, 1)
			go func() {
				h.eventually(func() bool { return counterValue(t, h.srv.metrics.lagging) == 1 })
				if reads {
					code, reason := slow.closed()
					ended <- fmt.Sprint(code, " ", reason)
					return
				}
				ended <- "1013 resync"
			}()
			text := strings.Repeat("z", 64<<10)
			for i := range chunks {
				p.Chunk(s, fmt.Sprintf("%06d%s", i, text))
				if m := fast.recv(); !strings.HasPrefix(m.text(), fmt.Sprintf("%06d", i)) {
					t.Fatalf("chunk %d: got %.200s", i, m.raw)
				}
			}
			if how := <-ended; how != "1013 resync" {
				t.Errorf("closed with %s, want 1013 resync", how)
			}
			h.eventually(func() bool { return gaugeValue(t, h.srv.metrics.connections) == 1 })
			if m := fast.ask("_acpgate/ping", "{}"); m.Error != nil {
				t.Error(m.raw)
			}
		})
	}
}

func TestW6_AClientThatDoesNotReadItsAnswersIsHeldBack(t *testing.T) {
	h := open(t, func(s *setup) { s.gateway.Limits.ControlQueue = 64 << 10 })
	c := h.dial(withSmallBuffers).initialize()
	const n = 4_000
	sent := make(chan error, 1)
	go func() {
		var err error
		for i := 0; i < n && err == nil; i++ {
			err = c.ws.Write(context.Background(), websocket.MessageText, fmt.Appendf(nil, `{"jsonrpc":"2.0","id":"%01000d","method":"_acpgate/ping"}`, i))
		}
		sent <- err
	}()
	last := 0.0
	h.eventually(func() bool {
		time.Sleep(100 * time.Millisecond)
		now := counterValue(t, h.srv.metrics.framesIn)
		still := now == last && now > 1
		last = now
		return still
	})
	if last >= n || counterValue(t, h.srv.metrics.pauses.WithLabelValues("queue")) == 0 {
		t.Fatalf("%v of %d frames were taken while the answers had nowhere to go", last, n)
	}
	for i := range n {
		if m := c.recv(); string(m.ID) != fmt.Sprintf(`"%01000d"`, i) {
			t.Fatalf("answer %d: %s", i, m.raw)
		}
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
}
