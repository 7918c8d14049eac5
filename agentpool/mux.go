package agentpool

import (
	"fmt"
	"runtime"
	"strconv"
	"strings"

	"github.com/acpgate/acpgate/agentpool/wire"
	"github.com/acpgate/acpgate/sessions"
)

// mux is the routing state of a process. It is guarded by process.mu.
//
// Callbacks run with mu free, one at a time: who runs them holds the turn (busy). That is the reader goroutine, and for
// lines that were held until a Bind from elsewhere, a goroutine of deliverHeld.
type mux struct {
	routes   map[string]*route
	backlogs int // routes with lines that wait for delivery

	calls    map[uint64]call
	lastCall uint64

	asks     map[string]ask // open requests of the agent by canonical id
	elicited []elicitation  // the newest last

	held heldLines

	busy    bool
	inRoute *route // whose Sink is being called, if any
	runner  uint64 // goroutine that has the turn
	waiters int    // on process.turn
}

// route is a bound session.
type route struct {
	session string
	sink    sessions.Sink
	backlog [][]byte // lines that came before the Bind
	noted   bool     // in process.noted
}

// ask is an open request of the agent.
type ask struct{ id, session, method string } // id as the agent wrote it

// call is an open request to the agent.
type call struct {
	done func(sessions.Reply)
	h    *handle // nil for the pool's own calls
}

// elicitation remembers which session a URL elicitation belongs to: its completion names only the elicitation.
type elicitation struct{ id, session string }

// heldLines are updates of sessions that are not bound, in order, bounded in bytes and number (rule W5).
type heldLines struct {
	limit int64
	bytes int64
	lines []heldLine
}

type heldLine struct {
	session string
	raw     []byte
}

// add keeps a copy of raw and returns how many older lines had to go for it, itself included when it is too long.
func (h *heldLines) add(session, raw []byte) (dropped int) {
	if int64(len(raw)) > h.limit {
		return 1
	}
	for len(h.lines) > 0 && (h.bytes+int64(len(raw)) > h.limit || len(h.lines) >= maxPending) {
		h.bytes -= int64(len(h.lines[0].raw))
		h.lines[0] = heldLine{}
		h.lines = h.lines[1:]
		dropped++
	}
	h.lines = append(h.lines, heldLine{string(session), append([]byte(nil), raw...)})
	h.bytes += int64(len(raw))
	return dropped
}

// take removes and returns the lines of a session.
func (h *heldLines) take(session string) [][]byte {
	var mine [][]byte
	kept := h.lines[:0]
	for _, l := range h.lines {
		if l.session == session {
			mine = append(mine, l.raw)
			h.bytes -= int64(len(l.raw))
		} else {
			kept = append(kept, l)
		}
	}
	clear(h.lines[len(kept):])
	h.lines = kept
	if len(kept) == 0 {
		h.lines = nil
	}
	return mine
}

// enter takes the turn to run callbacks that are no route's. mu is held, and stays held.
func (p *process) enter(who uint64) {
	for p.busy {
		p.wait()
	}
	p.busy, p.inRoute, p.runner = true, nil, who
}

// enterRoute takes the turn for the Sink of a session, once what was held for it is delivered. It returns nil, without
// the turn, when the session is not bound. mu is held, and held again when it returns.
func (p *process) enterRoute(session []byte, who uint64) *route {
	for {
		r := p.routes[string(session)]
		switch {
		case r == nil:
			return nil
		case p.busy:
			p.wait()
		case len(r.backlog) > 0:
			p.deliverNext(r, who)
		default:
			p.busy, p.inRoute, p.runner = true, r, who
			return r
		}
	}
}

// wait waits for the turn to change hands. mu is held, and held again when it returns.
func (p *process) wait() {
	p.waiters++
	p.turn.Wait()
	p.waiters--
}

// leave gives the turn back. mu is held.
func (p *process) leave() {
	p.busy, p.inRoute = false, nil
	if p.waiters > 0 {
		p.turn.Broadcast()
	}
}

// leaveTo gives the turn back and delivers what a callback has bound. mu is free.
func (p *process) leaveTo(who uint64) {
	p.mu.Lock()
	p.leave()
	if p.backlogs > 0 {
		p.deliverBacklogs(who)
	}
	p.mu.Unlock()
}

// deliverBacklogs delivers all lines that were held for sessions that are bound now. mu is held, and held again when it
// returns.
func (p *process) deliverBacklogs(who uint64) {
	for p.backlogs > 0 {
		if p.busy {
			p.wait()
			continue
		}
		for _, r := range p.routes {
			if len(r.backlog) > 0 {
				p.deliverNext(r, who)
				break
			}
		}
	}
}

// deliverNext delivers the first held line of a route. mu is held, and held again when it returns; the turn is free.
func (p *process) deliverNext(r *route, who uint64) {
	p.busy, p.inRoute, p.runner = true, r, who
	raw := r.backlog[0]
	if r.backlog = r.backlog[1:]; len(r.backlog) == 0 {
		p.backlogs--
	}
	p.mu.Unlock()
	if f, err := wire.Parse(raw, p.limits); err == nil {
		r.sink.AgentLine(&f)
		r.sink.AgentPause()
	}
	p.mu.Lock()
	p.leave()
}

// bind routes a session to sink, held lines first.
func (p *process) bind(h *handle, session string, sink sessions.Sink) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case h.control:
		return fmt.Errorf("agent %s: a control handle has no session", p.spec.Name)
	case h.released:
		return fmt.Errorf("agent %s: the handle was released", p.spec.Name)
	case p.ended != nil:
		return p.ended
	case session == "":
		return fmt.Errorf("agent %s: a session id must not be empty", p.spec.Name)
	case p.routes[session] != nil:
		return fmt.Errorf("agent %s: session %q is bound already", p.spec.Name, session)
	}
	r := &route{session: session, sink: sink, backlog: p.held.take(session)}
	p.routes[session] = r
	h.bound = append(h.bound, r)
	if len(r.backlog) > 0 {
		p.backlogs++
		p.wg.Go(func() {
			// On the reader goroutine the lines follow the callback that binds; elsewhere nobody else may come by.
			p.mu.Lock()
			defer p.mu.Unlock()
			p.deliverBacklogs(goroutineID())
		})
	}
	return nil
}

// unbind ends routes and waits until no Sink method of theirs runs, unless the caller is such a method. Requests of the
// agent that are open in these sessions are answered: nobody else will.
func (p *process) unbind(mine []*route) {
	if len(mine) == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range mine {
		if p.routes[r.session] != r {
			continue // the process ended
		}
		delete(p.routes, r.session)
		if len(r.backlog) > 0 {
			r.backlog = nil
			p.backlogs--
		}
		for id, a := range p.asks {
			if a.session == r.session {
				delete(p.asks, id)
				p.refuse([]byte(a.id), a.method, "the session is closed")
			}
		}
	}
	for _, r := range mine {
		for p.busy && p.inRoute == r && p.runner != goroutineID() {
			p.wait()
		}
	}
}

// goroutineID is the number of the calling goroutine. It tells a callback that unbinds its own session, which must not
// wait for itself, from everybody else.
func goroutineID() uint64 {
	var room [64]byte
	text := string(room[:runtime.Stack(room[:], false)])
	text = strings.TrimPrefix(text, "goroutine ")
	text, _, _ = strings.Cut(text, " ")
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		panic("agentpool: no goroutine number in a stack trace")
	}
	return n
}
