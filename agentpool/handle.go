package agentpool

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/acpgate/acpgate/agentpool/wire"
	"github.com/acpgate/acpgate/sessions"
)

var _ sessions.Agent = (*handle)(nil)

// handle is one user of a process: a session, or with control a caller of methods that belong to none.
type handle struct {
	pool    *Pool
	m       *member
	p       *process // m's
	control bool

	// Guarded by p.mu.
	bound    []*route
	released bool
}

// Info implements sessions.Agent.
func (h *handle) Info() *sessions.AgentInfo { return h.p.info }

// Process implements sessions.Agent.
func (h *handle) Process() uint64 { return h.p.number }

// Sessions implements sessions.Agent.
func (h *handle) Sessions() int {
	h.p.mu.Lock()
	defer h.p.mu.Unlock()
	return len(h.p.routes)
}

// Request implements sessions.Agent. Errors: *sessions.AgentError with reason agent_stalled, or why the process ended.
func (h *handle) Request(f *wire.Frame, edits []wire.Edit, done func(sessions.Reply)) (sessions.CallID, error) {
	return h.p.call(f, edits, done, h)
}

// call writes a request of h, or of the pool when h is nil.
func (p *process) call(f *wire.Frame, edits []wire.Edit, done func(sessions.Reply), h *handle) (sessions.CallID, error) {
	if f.Kind != wire.Request {
		return 0, fmt.Errorf("agent %s: not a request", p.spec.Name)
	}
	p.mu.Lock()
	if p.ended != nil {
		defer p.mu.Unlock()
		return 0, p.ended
	}
	p.lastCall++
	n := p.lastCall
	p.calls[n] = call{done: done, h: h}
	p.mu.Unlock()

	var room [8]wire.Edit
	var digits [20]byte
	all := append(append(room[:0], f.EditID(strconv.AppendUint(digits[:0], n, 10))), edits...)
	err := p.in.add(f.Raw, all...)
	if err == nil {
		return sessions.CallID(n), nil
	}
	p.mu.Lock()
	_, isOpen := p.calls[n]
	delete(p.calls, n)
	p.mu.Unlock()
	if !isOpen {
		return sessions.CallID(n), nil // the process ended meanwhile: done gets the reason
	}
	return 0, p.errQueue(err)
}

// Notify implements sessions.Agent. Errors as Request.
func (h *handle) Notify(f *wire.Frame, edits []wire.Edit) error {
	if f.Kind != wire.Notification {
		return fmt.Errorf("agent %s: not a notification", h.p.spec.Name)
	}
	return h.p.write(f.Raw, edits...)
}

func (p *process) write(raw []byte, edits ...wire.Edit) error {
	p.mu.Lock()
	ended := p.ended
	p.mu.Unlock()
	if ended != nil {
		return ended
	}
	if err := p.in.add(raw, edits...); err != nil {
		return p.errQueue(err)
	}
	return nil
}

// Respond implements sessions.Agent. An answer to a request that is not open, because it was answered or its session
// unbound, is dropped and counted.
func (h *handle) Respond(id, result, errObj []byte) error { return h.p.respond(id, result, errObj) }

func (p *process) respond(id, result, errObj []byte) error {
	key := wire.CanonicalID(id)
	p.mu.Lock()
	a, isOpen := p.asks[key]
	delete(p.asks, key)
	p.mu.Unlock()
	if !isOpen {
		p.stats.lateAnswers.Add(1)
		return nil
	}
	raw := make([]byte, 0, len(a.id)+len(result)+len(errObj)+40)
	if errObj == nil {
		return p.write(wire.AppendResult(raw, []byte(a.id), result))
	}
	raw = append(append(raw, `{"jsonrpc":"2.0","id":`...), a.id...)
	raw = append(append(raw, `,"error":`...), errObj...)
	return p.write(append(raw, '}'))
}

// CancelRequest implements sessions.Agent. A call that is not open any more is left alone.
func (h *handle) CancelRequest(id sessions.CallID) {
	p := h.p
	p.mu.Lock()
	_, isOpen := p.calls[uint64(id)]
	p.mu.Unlock()
	if !isOpen {
		return
	}
	params := append(strconv.AppendUint([]byte(`{"requestId":`), uint64(id), 10), '}')
	// It is a courtesy: an agent that takes no more input will not hear it, and its caller is told elsewhere.
	_ = p.in.add(wire.AppendNotification(nil, methodCancelRequest, params))
}

// Bind implements sessions.Agent. Held lines are delivered after the callback that binds, or, elsewhere, at once on a
// goroutine of their own; later lines never overtake them.
func (h *handle) Bind(session string, sink sessions.Sink) error { return h.p.bind(h, session, sink) }

// Unbind implements sessions.Agent. It leaves alone what another handle bound. The caller must not hold a lock that the
// Sink takes.
func (h *handle) Unbind(session string) {
	h.p.unbind(h.takeBound(func(r *route) bool { return r.session == session }))
}

func (h *handle) takeBound(which func(*route) bool) (mine []*route) {
	h.p.mu.Lock()
	defer h.p.mu.Unlock()
	h.bound = slices.DeleteFunc(h.bound, func(r *route) bool {
		if !which(r) {
			return false
		}
		mine = append(mine, r)
		return true
	})
	return mine
}

// ServeFS implements sessions.Agent.
func (h *handle) ServeFS(f *wire.Frame) { h.p.files.serve(f) }

// Kill implements sessions.Agent. reason is the Reason that everybody who uses the process gets, agent_restarted when it is
// empty.
func (h *handle) Kill(reason string) {
	if reason == "" {
		reason = reasonRestarted
	}
	h.p.stop(h.p.ladder, reason)
}

// Sibling implements sessions.Agent. Errors: *sessions.AgentError with reason agent_limit when the process takes no more
// sessions, or why it ended.
func (h *handle) Sibling() (sessions.Agent, error) { return h.pool.sibling(h.m) }

// Release implements sessions.Agent. Further calls do nothing.
func (h *handle) Release() {
	h.p.mu.Lock()
	again := h.released
	h.released = true
	h.p.mu.Unlock()
	if again {
		return
	}
	h.p.unbind(h.takeBound(func(*route) bool { return true }))
	h.pool.release(h.m, h.control)
}

// asAgentError gives every failure the type that callers expect.
func asAgentError(err error, agent, reason string) *sessions.AgentError {
	var e *sessions.AgentError
	if errors.As(err, &e) {
		return e
	}
	return &sessions.AgentError{Reason: reason, Agent: agent, Err: err}
}
