package agenttest

import (
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"

	"github.com/acpgate/acpgate/agentpool/wire"
	"github.com/acpgate/acpgate/sessions"
)

// Process is one running copy of an agent.
type Process struct {
	agents    *Agents
	profile   *Profile
	info      *sessions.AgentInfo
	principal string
	cwd       string // of the request that started it
	number    uint64
	wg        sync.WaitGroup

	// mu guards everything below. Lock order: Agents.mu before mu (Acquire); nothing takes Agents.mu while it holds mu.
	mu   sync.Mutex
	cond *sync.Cond

	// the gateway's side
	out      []event // what the reader has not taken yet
	reading  bool    // the reader is inside an event
	reader   uint64  // goroutine id of the reader
	routes   []*route
	held     map[string][]event
	calls    []openCall
	nextCall uint64
	handles  int                  // not released
	places   int                  // handles with a place for a session
	gone     *sessions.AgentError // set when the process ended; events queued before are still delivered
	noise    []string
	unrouted []string
	fs       []string

	// the agent's side
	in       []*Call
	inBytes  int
	serving  bool // the server is inside a handler
	stalled  bool
	stdoutOn bool // false while Hold keeps stdout back
	pipe     []event
	lines    []Line
	received []*Call
	taken    map[string]int
	handlers map[string]Handler
	asked    []*Asked
	nextAsk  int
	sessions map[string]bool  // that were created, loaded, resumed or forked here and not closed
	turns    map[string]*Call // running prompt by session
	cancels  CancelMode
}

// event is one step of the reader: a line, a skipped line, or a reply that failed.
type event struct {
	line    []byte
	skipped int64
	session string // of skipped
	sink    *route // set when the route is known already (held lines)
}

type route struct {
	session string
	sink    sessions.Sink
	busy    bool // a method of sink is running
}

type openCall struct {
	id   uint64
	done func(sessions.Reply)
}

func newProcess(a *Agents, r request, info *sessions.AgentInfo, number uint64) *Process {
	p := &Process{
		agents: a, profile: r.profile, info: info, principal: r.principal, cwd: r.cwd, number: number, stdoutOn: true,
		held: map[string][]event{}, taken: map[string]int{}, handlers: map[string]Handler{},
		sessions: map[string]bool{}, turns: map[string]*Call{},
	}
	p.cond = sync.NewCond(&p.mu)
	for m, h := range r.profile.Handlers {
		p.handlers[m] = h
	}
	p.wg.Add(2)
	go p.read()
	go p.serve()
	return p
}

// read is the reader goroutine: all callbacks run here.
func (p *Process) read() {
	defer p.wg.Done()
	p.mu.Lock()
	p.reader = goroutineID()
	for {
		for len(p.out) == 0 && p.gone == nil {
			p.cond.Wait()
		}
		if len(p.out) == 0 {
			break
		}
		ev := p.out[0]
		p.out = p.out[1:]
		p.reading = true
		p.mu.Unlock()
		p.deliver(ev)
		p.mu.Lock()
		p.reading = false
		p.cond.Broadcast()
	}
	calls, gone := p.calls, p.gone
	p.calls, p.reading = nil, true
	p.mu.Unlock()
	for _, c := range calls {
		c.done(sessions.Reply{Err: gone})
	}
	for {
		p.mu.Lock()
		if len(p.routes) == 0 {
			p.reading = false
			p.cond.Broadcast()
			p.mu.Unlock()
			return
		}
		r := p.routes[0]
		p.mu.Unlock()
		p.call(r, func(s sessions.Sink) { s.AgentGone(gone) })
		p.mu.Lock()
		p.removeRoute(r)
		p.mu.Unlock()
	}
}

func (p *Process) deliver(ev event) {
	if ev.line == nil {
		p.toSession(ev.session, ev, func(s sessions.Sink) { s.AgentSkipped(ev.skipped) })
		return
	}
	f, err := wire.Parse(ev.line, wire.Limits{})
	if err != nil {
		p.mu.Lock()
		p.noise = append(p.noise, string(ev.line))
		p.mu.Unlock()
		return
	}
	switch f.Kind {
	case wire.Result, wire.Failure:
		p.reply(&f)
	case wire.Request, wire.Notification:
		session := p.sessionOf(&f)
		if session == "" {
			p.sessionless(&f)
			return
		}
		p.toSession(session, ev, func(s sessions.Sink) { s.AgentLine(&f); s.AgentPause() })
	case wire.Invalid:
		panic("agenttest: wire.Parse returned an invalid frame without an error")
	}
}

// sessionOf is the session that a request or notification of the agent belongs to. The agent's $/cancel_request belongs to the
// session of the request that it withdraws.
func (p *Process) sessionOf(f *wire.Frame) string {
	if f.SessionID.Present() {
		return unquote(f.SessionID.Of(f.Raw))
	}
	if f.Method != "$/cancel_request" {
		return ""
	}
	id := cancelledID(f)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, q := range p.asked {
		if q.ID == id {
			return q.Session
		}
	}
	return ""
}

func (p *Process) sessionless(f *wire.Frame) {
	p.mu.Lock()
	p.unrouted = append(p.unrouted, string(f.Raw))
	p.mu.Unlock()
	if f.Kind == wire.Request {
		p.write(wire.AppendError(nil, f.ID.Of(f.Raw), -32601, "Method not found", nil))
	}
}

func (p *Process) reply(f *wire.Frame) {
	id, err := strconv.ParseUint(string(f.ID.Of(f.Raw)), 10, 64)
	p.mu.Lock()
	var done func(sessions.Reply)
	for i, c := range p.calls {
		if err == nil && c.id == id {
			done = c.done
			p.calls = append(p.calls[:i:i], p.calls[i+1:]...)
			break
		}
	}
	if done == nil {
		p.unrouted = append(p.unrouted, string(f.Raw))
	}
	p.mu.Unlock()
	if done != nil {
		done(sessions.Reply{Frame: f})
	}
}

// toSession runs fn for the session's sink, or holds the event until the session is bound.
func (p *Process) toSession(session string, ev event, fn func(sessions.Sink)) {
	p.mu.Lock()
	r := ev.sink
	if r == nil {
		r = p.routeOf(session)
	}
	if r == nil {
		p.held[session] = append(p.held[session], ev)
		p.mu.Unlock()
		return
	}
	p.mu.Unlock()
	p.call(r, fn)
}

// call runs one method of a sink, unless it was unbound in the meantime.
func (p *Process) call(r *route, fn func(sessions.Sink)) {
	p.mu.Lock()
	if p.routeOf(r.session) != r {
		p.mu.Unlock()
		return
	}
	r.busy = true
	p.mu.Unlock()
	fn(r.sink)
	p.mu.Lock()
	r.busy = false
	p.cond.Broadcast()
	p.mu.Unlock()
}

func (p *Process) routeOf(session string) *route {
	for _, r := range p.routes {
		if r.session == session {
			return r
		}
	}
	return nil
}

func (p *Process) removeRoute(r *route) {
	for i, x := range p.routes {
		if x == r {
			p.routes = append(p.routes[:i:i], p.routes[i+1:]...)
			return
		}
	}
}

// end ends the process: what is in its stdout pipe is still read, open calls fail, sinks are told, in this order.
func (p *Process) end(err *sessions.AgentError) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gone != nil {
		return
	}
	p.gone = err
	p.out = append(p.out, p.pipe...)
	p.pipe = nil
	p.cond.Broadcast()
}

// goroutineID tells whether a caller is the reader. Go has no other way to notice re-entrance, and only Unbind asks.
func goroutineID() uint64 {
	var buf [64]byte
	s := string(buf[:runtime.Stack(buf[:], false)])
	s, _, _ = strings.Cut(strings.TrimPrefix(s, "goroutine "), " ")
	id, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		panic(fmt.Sprintf("agenttest: no goroutine id in %q", s))
	}
	return id
}
