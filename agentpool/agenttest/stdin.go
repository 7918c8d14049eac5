package agenttest

import (
	"bytes"
	"encoding/json"

	"github.com/acpgate/acpgate/agentpool/wire"
	"github.com/acpgate/acpgate/sessions"
)

// write puts a line into the process's stdin; a process that cannot take it is gone or stalled, which its caller need not know.
func (p *Process) write(line []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.writeLocked(line)
}

// writeLocked puts a line into the process's stdin.
func (p *Process) writeLocked(line []byte) error {
	if p.gone != nil {
		return p.gone
	}
	if p.stalled && p.inBytes+len(line) > p.profile.StdinBytes {
		return &sessions.AgentError{Reason: "agent_stalled", Agent: p.info.Name, Hint: "the agent does not read its input"}
	}
	c := &Call{p: p, Line: Line{Raw: string(line)}}
	if f, err := wire.Parse([]byte(c.Raw), wire.Limits{}); err == nil {
		c.Kind, c.Method, c.ID = f.Kind, f.Method, string(f.ID.Of(f.Raw))
		c.params = json.RawMessage(f.Params.Of(f.Raw))
		if f.Params.Present() && f.SessionID.Present() {
			c.Session = unquote(f.SessionID.Of(f.Raw))
		}
	}
	p.lines = append(p.lines, c.Line)
	p.in = append(p.in, c)
	p.inBytes += len(line)
	p.cond.Broadcast()
	return nil
}

// serve is the server goroutine: the agent's side of the process.
func (p *Process) serve() {
	defer p.wg.Done()
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		for p.gone == nil && (p.stalled || len(p.in) == 0) {
			p.cond.Wait()
		}
		if p.gone != nil {
			return
		}
		c := p.in[0]
		p.in = p.in[1:]
		p.inBytes -= len(c.Raw)
		p.serving = true
		p.mu.Unlock()
		p.take(c)
		p.mu.Lock()
		p.serving = false
		p.cond.Broadcast()
	}
}

// take handles one line.
func (p *Process) take(c *Call) {
	switch {
	case c.Kind == wire.Invalid || bytes.ContainsAny([]byte(c.Raw), "\r\n"):
		p.agents.violation("not one JSON-RPC message on one line: %q", c.Raw)
		return
	case c.Kind == wire.Result || c.Kind == wire.Failure:
		p.resolve(c.Line)
		return
	}
	p.check(c)
	p.mu.Lock()
	h := p.handlers[c.Method]
	p.mu.Unlock()
	if h == nil {
		h = ordinary(c.Method)
	}
	h(c)
	p.mu.Lock()
	p.received = append(p.received, c)
	p.cond.Broadcast()
	p.mu.Unlock()
}

// check reports what a gateway must not do, and starts the bookkeeping of a turn.
func (p *Process) check(c *Call) {
	switch c.Method {
	case "session/prompt":
		p.mu.Lock()
		running := p.turns[c.Session]
		open := p.sessions[c.Session]
		if running == nil {
			p.turns[c.Session] = c
		}
		p.mu.Unlock()
		if running != nil {
			p.agents.violation("prompt for session %s while a turn runs: %s", c.Session, c.Raw)
		}
		if !open {
			p.agents.violation("prompt for session %s, which is not open in process %d", c.Session, p.number)
		}
		p.agents.disk.append(c.Session, "user", c.Text())
	case "session/load", "session/resume":
		if p.Open(c.Session) {
			p.agents.violation("%s of session %s, which is open in process %d", c.Method, c.Session, p.number)
		}
	}
}

// Await returns the next request or notification with the method that no Await returned before, once its handler ran. It
// must run on the test's goroutine: it fails the test when none comes.
func (p *Process) Await(method string) *Call {
	p.agents.tb.Helper()
	var got *Call
	if !p.agents.await(p.cond, func() bool {
		n := 0
		for _, c := range p.received {
			if c.Method != method {
				continue
			}
			if n == p.taken[method] {
				got = c
				p.taken[method]++
				return true
			}
			n++
		}
		return false
	}) {
		p.agents.tb.Fatalf("agenttest: %s did not reach process %d; its stdin got:\n%s", method, p.number, p.transcript())
	}
	return got
}

// Lines returns every line that reached stdin, in order.
func (p *Process) Lines() []Line {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]Line(nil), p.lines...)
}

// LinesOf returns the lines that named the session, in order.
func (p *Process) LinesOf(session string) []Line {
	var out []Line
	for _, l := range p.Lines() {
		if l.Session == session {
			out = append(out, l)
		}
	}
	return out
}

// Methods returns the methods of the requests and notifications that reached stdin, in order.
func (p *Process) Methods() []string {
	var out []string
	for _, l := range p.Lines() {
		if l.Method != "" {
			out = append(out, l.Method)
		}
	}
	return out
}

func (p *Process) transcript() string {
	var b bytes.Buffer
	for _, l := range p.Lines() {
		raw := l.Raw
		if len(raw) > 300 {
			raw = raw[:300] + "..."
		}
		b.WriteString("  " + raw + "\n")
	}
	return b.String()
}

// Settle waits until the process has handled every line of its stdin and the reader has delivered everything on its stdout.
// It must run on the test's goroutine, not in a callback.
func (p *Process) Settle() {
	p.agents.tb.Helper()
	if !p.agents.await(p.cond, func() bool {
		idle := len(p.out) == 0 && !p.reading
		return idle && (p.gone != nil || p.stalled || len(p.in) == 0 && !p.serving)
	}) {
		p.agents.tb.Fatalf("agenttest: process %d did not settle", p.number)
	}
}
