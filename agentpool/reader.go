package agentpool

import (
	"strconv"

	"github.com/acpgate/acpgate/agentpool/wire"
	"github.com/acpgate/acpgate/sessions"
)

// Methods that the mux itself has to know.
const (
	methodCancelRequest = "$/cancel_request"
	methodPermission    = "session/request_permission"
	methodElicit        = "elicitation/create"
	methodElicited      = "elicitation/complete"
	methodUpdate        = "session/update"
	methodReadFile      = "fs/read_text_file"
	methodWriteFile     = "fs/write_text_file"
)

// Answers to requests that reach nobody who could decide.
const (
	resultNotPermitted = `{"outcome":{"outcome":"cancelled"}}`
	resultNotElicited  = `{"action":"cancel"}`
)

const (
	codeInvalidRequest = -32600
	codeUnknownMethod  = -32601
	codeBadParams      = -32602
	codeInternal       = -32603
	codeNotFound       = -32002
)

// read is the reader goroutine: it takes the lines of stdout in order and runs every callback.
func (p *process) read(stderrDone <-chan struct{}) {
	p.reader = goroutineID()
	lines := wire.NewLineReader(p.child.stdout, int(p.spec.LineLimit))
	var (
		gathered int // bytes of lines since the last pause
		pace     pacer
	)
	for {
		line, skipped, err := lines.Next()
		switch {
		case err != nil: // the end of the pipe, however it is said
			p.pause()
			p.finish(stderrDone)
			return
		case skipped > 0:
			p.skipped(line, skipped)
		case len(line) > 0:
			p.line(line)
		}
		gathered += len(line)
		if lines.Buffered() || gathered < maxGathered && lines.Filled() && isReadable(p.child.stdout) {
			continue // the next line is at hand, or nearly so
		}
		p.pause()
		pace.rest(gathered, p.urgent)
		gathered, p.urgent = 0, false
	}
}

// line routes one line.
func (p *process) line(raw []byte) {
	f, err := wire.Parse(raw, p.limits)
	if err != nil {
		p.addNoise(raw)
		return
	}
	// One frame for all lines: callbacks must not keep it, and a variable of its own would be allocated for every line.
	p.frame = f
	switch f.Kind {
	case wire.Notification:
		p.notification(&p.frame)
	case wire.Request:
		p.urgent = true
		p.request(&p.frame)
	case wire.Result, wire.Failure:
		p.urgent = true
		p.response(&p.frame)
	default:
		p.addNoise(raw)
	}
}

// addNoise keeps a line that is no message for the agent's log (rule W7).
func (p *process) addNoise(raw []byte) {
	p.stats.noiseLines.Add(1)
	_, _ = p.noise.Write(raw)
	_, _ = p.noise.Write([]byte{'\n'})
}

func (p *process) notification(f *wire.Frame) {
	if f.SessionID.Present() {
		session := sessionKey(f.SessionID.Of(f.Raw))
		if !p.deliver(session, f) {
			p.hold(session, f.Raw)
		}
		return
	}
	switch f.Method {
	case methodCancelRequest:
		// Only the session that got the request knows it; a request that is not open is none of ours.
		if a, ok := p.askOf(requestIDOf(f)); ok {
			p.deliver([]byte(a.session), f)
		}
	case methodElicited:
		if session, ok := p.elicitedBy(f); ok && p.deliver([]byte(session), f) {
			return
		}
		p.notify(p.principal, p.spec.Name, f.Raw)
	case methodUpdate:
		p.addNoise(f.Raw) // of no session: clients of others have no use for it, and might trip over it
	default:
		p.notify(p.principal, p.spec.Name, f.Raw)
	}
}

// deliver hands f to the Sink of a session, false when it is not bound.
func (p *process) deliver(session []byte, f *wire.Frame) bool {
	p.mu.Lock()
	r := p.enterRoute(session, p.reader)
	p.mu.Unlock()
	if r == nil {
		return false
	}
	r.sink.AgentLine(f)
	p.leaveTo(p.reader)
	p.note(r)
	return true
}

// note remembers that a session got a line, for pause.
func (p *process) note(r *route) {
	if !r.noted {
		r.noted = true
		p.noted = append(p.noted, r)
	}
}

// pause tells the sessions that got lines since the last call that no further one is at hand.
func (p *process) pause() {
	for i, r := range p.noted {
		p.noted[i], r.noted = nil, false
		p.mu.Lock()
		bound := p.enterRoute([]byte(r.session), p.reader)
		p.mu.Unlock()
		if bound == nil {
			continue
		}
		if bound == r { // not bound anew
			r.sink.AgentPause()
		}
		p.leaveTo(p.reader)
	}
	p.noted = p.noted[:0]
}

// hold keeps an update of a session that is not bound, until it is (rule W5).
func (p *process) hold(session, raw []byte) {
	p.mu.Lock()
	dropped := p.held.add(session, raw)
	p.mu.Unlock()
	p.stats.heldLines.Add(1)
	p.stats.heldDropped.Add(uint64(dropped))
}

// request routes a request of the agent, or answers it at once: nothing of an agent may wait for nobody (rule W8).
func (p *process) request(f *wire.Frame) {
	var session []byte
	switch {
	case f.SessionID.Present():
		session = sessionKey(f.SessionID.Of(f.Raw))
	case f.Method == methodElicit:
		session = p.sessionOfCall(requestIDOf(f))
	}
	id := f.ID.Of(f.Raw)
	p.mu.Lock()
	r := p.enterRoute(session, p.reader)
	if r == nil {
		p.refuse(id, f.Method, "no session is open that it names")
		p.mu.Unlock()
		return
	}
	if len(p.asks) >= maxAsks {
		p.refuse(id, "", "too many open requests")
		p.leave()
		p.mu.Unlock()
		return
	}
	p.asks[wire.CanonicalID(id)] = ask{id: string(id), session: r.session, method: f.Method}
	p.noteElicitation(f, r.session)
	p.mu.Unlock()
	r.sink.AgentLine(f)
	p.leaveTo(p.reader)
	p.note(r)
}

// refuse answers a request that nobody decides. mu is held.
func (p *process) refuse(id []byte, method, why string) {
	p.stats.refusedRequests.Add(1)
	var line []byte
	switch method {
	case methodPermission:
		line = wire.AppendResult(nil, id, []byte(resultNotPermitted))
	case methodElicit:
		line = wire.AppendResult(nil, id, []byte(resultNotElicited))
	case "":
		line = wire.AppendError(nil, id, codeInternal, why, nil)
	default:
		line = wire.AppendError(nil, id, codeUnknownMethod, "Method not found: "+method, quoteData("reason", why))
	}
	// An agent that has stopped reading gets no answer; whoever writes to it next is told.
	_ = p.in.add(line)
}

// response ends an open call.
func (p *process) response(f *wire.Frame) {
	c, ok := p.endCall(f.ID.Of(f.Raw))
	if !ok {
		p.stats.unknownResponses.Add(1)
		return
	}
	c.done(sessions.Reply{Frame: f})
	p.leaveTo(p.reader)
}

// endCall takes an open call out and, if there is one, the turn.
func (p *process) endCall(id []byte) (call, bool) {
	n, ok := callNumber(id)
	if !ok {
		return call{}, false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	c, ok := p.calls[n]
	if ok {
		delete(p.calls, n)
		p.enter(p.reader)
	}
	return c, ok
}

// skipped handles a line over the limit, of which only the beginning was kept (rule W7). Whoever waits for it is told;
// where the beginning does not say who that is, nobody can be.
func (p *process) skipped(prefix []byte, n int64) {
	p.stats.skippedLines.Add(1)
	p.stats.skippedBytes.Add(uint64(n))
	p.log.Warn("agent line over the limit skipped", "bytes", n, "limit", p.spec.LineLimit)
	if id := requestOfPrefix(prefix); id != nil {
		answer := wire.AppendError(nil, id, codeInvalidRequest, p.overLimit(), quoteData("reason", "line_limit"))
		if _, err := wire.Parse(answer, p.limits); err == nil { // what was skipped was not checked
			p.stats.refusedRequests.Add(1)
			_ = p.in.add(answer)
		}
	}
	if id, ok := wire.ResponseOfPrefix(prefix); ok {
		c, ok := p.endCall(id)
		if !ok {
			p.stats.unknownResponses.Add(1)
			return
		}
		raw := wire.AppendError(nil, id, codeInternal, p.overLimit(), quoteData("reason", "line_limit"))
		f, err := wire.Parse(raw, p.limits)
		if err != nil {
			c.done(sessions.Reply{Err: err})
		} else {
			c.done(sessions.Reply{Frame: &f})
		}
		p.leaveTo(p.reader)
		return
	}
	session, ok := wire.SessionOfPrefix(prefix)
	if !ok {
		return
	}
	p.mu.Lock()
	r := p.enterRoute(sessionKey(session), p.reader)
	p.mu.Unlock()
	if r != nil {
		r.sink.AgentSkipped(n)
		p.leaveTo(p.reader)
	}
}

func (p *process) overLimit() string {
	return "the message was over the line limit of " + strconv.FormatInt(p.spec.LineLimit, 10) + " bytes and is lost"
}

// requestOfPrefix finds the id of a request in the first bytes of a line, nil unless the whole of it is there.
func requestOfPrefix(prefix []byte) []byte {
	id := wire.Lookup(prefix, "id")
	if !wire.Lookup(prefix, "method").Present() || id.End >= len(prefix) {
		return nil
	}
	return id.Of(prefix)
}

// sessionKey decodes a raw session id. It does not allocate unless the id has escapes.
func sessionKey(tok []byte) []byte {
	for _, c := range tok {
		if c == '\\' {
			text, err := wire.Unquote(tok)
			if err != nil {
				break
			}
			return []byte(text)
		}
	}
	return tok[1 : len(tok)-1]
}

// callNumber reads an id that this package gave.
func callNumber(id []byte) (uint64, bool) {
	if len(id) == 0 || len(id) > 19 || id[0] == '0' {
		return 0, false
	}
	var n uint64
	for _, c := range id {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + uint64(c-'0')
	}
	return n, true
}

// requestIDOf returns params.requestId, the raw id of the request that f is about; some agents write params.id.
func requestIDOf(f *wire.Frame) []byte {
	params := f.Params.Of(f.Raw)
	if id := wire.Lookup(params, "requestId").Of(params); id != nil {
		return id
	}
	return wire.Lookup(params, "id").Of(params)
}

func (p *process) askOf(id []byte) (ask, bool) {
	if len(id) == 0 {
		return ask{}, false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	a, ok := p.asks[wire.CanonicalID(id)]
	return a, ok
}

// sessionOfCall returns the session on whose handle the call is open that an agent asks about, nil if there is none.
func (p *process) sessionOfCall(id []byte) []byte {
	n, ok := callNumber(id)
	if !ok {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if c, ok := p.calls[n]; ok && c.h != nil && len(c.h.bound) > 0 {
		return []byte(c.h.bound[len(c.h.bound)-1].session)
	}
	return nil
}

// noteElicitation remembers whose elicitation f begins. mu is held.
func (p *process) noteElicitation(f *wire.Frame, session string) {
	if f.Method != methodElicit {
		return
	}
	params := f.Params.Of(f.Raw)
	id := wire.Lookup(params, "elicitationId").Of(params)
	if id == nil || len(id) > 1024 {
		return
	}
	if len(p.elicited) >= maxElicited {
		p.elicited = p.elicited[1:]
	}
	p.elicited = append(p.elicited, elicitation{wire.CanonicalID(id), session})
}

// elicitedBy returns the session whose elicitation is complete.
func (p *process) elicitedBy(f *wire.Frame) (string, bool) {
	params := f.Params.Of(f.Raw)
	id := wire.CanonicalID(wire.Lookup(params, "elicitationId").Of(params))
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := len(p.elicited) - 1; i >= 0; i-- {
		if p.elicited[i].id == id {
			return p.elicited[i].session, true
		}
	}
	return "", false
}

// quoteData is an error's data object of one member.
func quoteData(name, value string) []byte {
	b := wire.AppendQuote([]byte{'{'}, name)
	return append(wire.AppendQuote(append(b, ':'), value), '}')
}
