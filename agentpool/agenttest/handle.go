package agenttest

import (
	"fmt"
	"slices"
	"strconv"
	"sync"

	"github.com/acpgate/acpgate/agentpool/wire"
	"github.com/acpgate/acpgate/sessions"
)

var _ sessions.Agent = (*handle)(nil)

type handle struct {
	p       *Process
	control bool // has no place for a session
	once    sync.Once
	mu      sync.Mutex // after Process.mu
	bound   []*route
}

// request is what a handle is wanted for.
type request struct {
	principal string
	profile   *Profile
	cwd       string
	control   bool
}

// handle returns a handle to the process, nil when the process is not for this request, has ended, or is full.
func (p *Process) handle(r request) *handle {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.principal != r.principal || p.profile != r.profile || p.gone != nil {
		return nil
	}
	if !r.control {
		full := r.profile.SessionsPerProcess > 0 && p.places >= r.profile.SessionsPerProcess
		if full || r.profile.PerDirectory && p.cwd != r.cwd {
			return nil
		}
		p.places++
	}
	p.handles++
	return &handle{p: p, control: r.control}
}

func (h *handle) Info() *sessions.AgentInfo { return h.p.info }
func (h *handle) Process() uint64           { return h.p.number }

// Request implements sessions.Agent.
func (h *handle) Request(f *wire.Frame, edits []wire.Edit, done func(sessions.Reply)) (sessions.CallID, error) {
	p := h.p
	p.mu.Lock()
	defer p.mu.Unlock()
	p.nextCall++
	id := p.nextCall
	all := append([]wire.Edit{f.EditID(strconv.AppendUint(nil, id, 10))}, edits...)
	if err := p.writeLocked(wire.Splice(nil, f.Raw, all...)); err != nil {
		return 0, err
	}
	p.calls = append(p.calls, openCall{id: id, done: done})
	return sessions.CallID(id), nil
}

// Notify implements sessions.Agent.
func (h *handle) Notify(f *wire.Frame, edits []wire.Edit) error {
	h.p.mu.Lock()
	defer h.p.mu.Unlock()
	return h.p.writeLocked(wire.Splice(nil, f.Raw, edits...))
}

// Respond implements sessions.Agent.
func (h *handle) Respond(id []byte, result, errObj []byte) error {
	line := append([]byte(`{"jsonrpc":"2.0","id":`), id...)
	if errObj != nil {
		line = append(append(line, `,"error":`...), errObj...)
	} else {
		line = append(append(line, `,"result":`...), result...)
	}
	h.p.mu.Lock()
	defer h.p.mu.Unlock()
	return h.p.writeLocked(append(line, '}'))
}

// CancelRequest implements sessions.Agent.
func (h *handle) CancelRequest(call sessions.CallID) {
	h.p.write(fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":%d}}`, call))
}

// Bind implements sessions.Agent.
func (h *handle) Bind(session string, sink sessions.Sink) error {
	p := h.p
	if h.control {
		p.agents.violation("session %s bound on a control handle", session)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gone != nil {
		return p.gone
	}
	if p.routeOf(session) != nil {
		return fmt.Errorf("session %q is bound already in process %d", session, p.number)
	}
	r := &route{session: session, sink: sink}
	p.routes = append(p.routes, r)
	held := p.held[session]
	delete(p.held, session)
	for i := range held {
		held[i].sink = r
	}
	p.out = append(held[:len(held):len(held)], p.out...)
	p.cond.Broadcast()
	h.mu.Lock()
	h.bound = append(h.bound, r)
	h.mu.Unlock()
	return nil
}

// Unbind implements sessions.Agent. It leaves alone what another handle bound.
func (h *handle) Unbind(session string) {
	h.unbind(func(r *route) bool { return r.session == session })
}

func (h *handle) unbind(which func(*route) bool) {
	h.mu.Lock()
	var mine []*route
	h.bound = slices.DeleteFunc(h.bound, func(r *route) bool {
		if which(r) {
			mine = append(mine, r)
			return true
		}
		return false
	})
	h.mu.Unlock()
	p := h.p
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range mine {
		p.removeRoute(r)
		for r.busy && goroutineID() != p.reader {
			p.cond.Wait()
		}
	}
}

// ServeFS implements sessions.Agent: reads answer with an empty text, writes with success, and FS lists them.
func (h *handle) ServeFS(f *wire.Frame) {
	p := h.p
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fs = append(p.fs, string(f.Raw))
	result := `{}`
	if f.Method == "fs/read_text_file" {
		result = `{"content":""}`
	}
	// A process that cannot take the answer is about to end, and nobody waits for it.
	_ = p.writeLocked(wire.AppendResult(nil, f.ID.Of(f.Raw), []byte(result)))
}

// Sessions implements sessions.Agent.
func (h *handle) Sessions() int {
	h.p.mu.Lock()
	defer h.p.mu.Unlock()
	return len(h.p.routes)
}

// Kill implements sessions.Agent. The reason becomes that of the AgentError.
func (h *handle) Kill(reason string) {
	if reason == "" {
		reason = "agent_restarted"
	}
	h.p.end(&sessions.AgentError{Reason: reason, Agent: h.p.info.Name, Exited: true, Signal: "killed"})
}

// Sibling implements sessions.Agent.
func (h *handle) Sibling() (sessions.Agent, error) {
	h.p.mu.Lock()
	defer h.p.mu.Unlock()
	if h.p.gone != nil {
		return nil, h.p.gone
	}
	h.p.handles++
	h.p.places++
	return &handle{p: h.p}, nil
}

// Release implements sessions.Agent.
func (h *handle) Release() {
	h.once.Do(func() {
		h.unbind(func(*route) bool { return true })
		h.p.mu.Lock()
		h.p.handles--
		if !h.control {
			h.p.places--
		}
		unused := h.p.handles == 0
		h.p.mu.Unlock()
		if unused && h.p.profile.EndWhenUnused {
			h.p.end(&sessions.AgentError{Reason: "agent_exited", Agent: h.p.info.Name, Exited: true})
		}
	})
}
