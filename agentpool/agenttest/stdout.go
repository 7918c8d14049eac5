package agenttest

import (
	"github.com/acpgate/acpgate/agentpool/wire"
)

// emitLocked puts an event on the process's stdout. After its end nothing comes any more.
func (p *Process) emitLocked(ev event) {
	switch {
	case p.gone != nil:
		return
	case p.stdoutOn:
		p.out = append(p.out, ev)
		p.cond.Broadcast()
	default:
		p.pipe = append(p.pipe, ev)
	}
}

func (p *Process) emit(ev event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.emitLocked(ev)
}

// Emit writes a session/update notification; update is the raw update object.
func (p *Process) Emit(session, update string) {
	p.emit(event{line: wire.AppendNotification(nil, "session/update", withSession(session, `{"update":`+update+`}`))})
}

// EmitLine writes a line as it is: noise, broken frames, unknown methods.
func (p *Process) EmitLine(line string) { p.emit(event{line: []byte(line)}) }

// EmitSkipped stands for a line of the session that was over the line limit and dropped.
func (p *Process) EmitSkipped(session string, bytes int64) {
	p.emit(event{session: session, skipped: bytes})
}

// Chunk writes an agent_message_chunk and adds it to the stored history of the session.
func (p *Process) Chunk(session, text string) {
	p.agents.disk.append(session, "agent", text)
	p.Emit(session, chunk("agent_message_chunk", text))
}

// chunk is a raw update of a kind that carries content.
func chunk(kind, text string) string {
	b := append([]byte(`{"sessionUpdate":"`), kind...)
	b = append(b, `","content":{"type":"text","text":`...)
	return string(append(wire.AppendQuote(b, text), "}}"...))
}

// withSession puts sessionId in front of the members of the raw object params.
func withSession(session, params string) []byte {
	if session == "" {
		return []byte(params)
	}
	b := wire.AppendQuote([]byte(`{"sessionId":`), session)
	if params != "{}" {
		b = append(b, ',')
	}
	return append(b, params[1:]...)
}

// Noise lists the stdout lines that were no JSON-RPC messages.
func (p *Process) Noise() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.noise...)
}

// Unrouted lists the stdout lines that belonged to no session and no open call.
func (p *Process) Unrouted() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.unrouted...)
}

// FS lists the frames that ServeFS got.
func (p *Process) FS() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.fs...)
}
