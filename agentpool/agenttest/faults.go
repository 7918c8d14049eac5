package agenttest

import (
	"strings"

	"github.com/acpgate/acpgate/sessions"
)

// CancelMode is what an agent does with session/cancel while a turn of the session runs.
type CancelMode int

const (
	CancelAnswers  CancelMode = iota // ends the turn with stop reason cancelled
	CancelEndsTurn                   // ends it with end_turn, as some agents do
	CancelFails                      // answers the prompt with an error
	CancelIgnored                    // goes on; the test answers the prompt
)

// OnCancel says what session/cancel does from now on.
func (p *Process) OnCancel(m CancelMode) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cancels = m
}

// Handle replaces the behaviour for a method from now on; nil brings the ordinary one back. See Manual, Answering, Failing.
func (p *Process) Handle(method string, h Handler) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.handlers[method] = h
}

// Crash ends the process with an exit code. What it wrote before is still read; then open calls fail and sinks are told.
func (p *Process) Crash(code int, stderr string) {
	p.end(&sessions.AgentError{Reason: "agent_exited", Agent: p.info.Name, Exited: true, ExitCode: code, Stderr: stderr})
}

// Signal ends the process by a signal, e.g. "killed".
func (p *Process) Signal(name string) {
	p.end(&sessions.AgentError{Reason: "agent_exited", Agent: p.info.Name, Exited: true, Signal: name})
}

// Stall makes the process stop reading its stdin. Lines are still recorded, up to Profile.StdinBytes; further writes fail
// with agent_stalled.
func (p *Process) Stall() { p.setStalled(true) }

// Unstall ends Stall: what was buffered is handled in order.
func (p *Process) Unstall() { p.setStalled(false) }

func (p *Process) setStalled(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stalled = on
	p.cond.Broadcast()
}

// HoldStdout keeps back everything the process writes until ReleaseStdout; a Crash releases it too.
func (p *Process) HoldStdout() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stdoutOn = false
}

// ReleaseStdout lets the reader have what HoldStdout kept back, in order.
func (p *Process) ReleaseStdout() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stdoutOn = true
	p.out = append(p.out, p.pipe...)
	p.pipe = nil
	p.cond.Broadcast()
}

// Number is what sessions.Agent.Process returns for the process's handles.
func (p *Process) Number() uint64 { return p.number }

// Principal is the user whose process it is.
func (p *Process) Principal() string { return p.principal }

// Open reports whether the session is open in the process, as the agent sees it.
func (p *Process) Open(session string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.gone == nil && p.sessions[session]
}

// Bound reports whether the gateway bound the session in the process.
func (p *Process) Bound(session string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.routeOf(session) != nil
}

// Handles is the number of handles that were not released.
func (p *Process) Handles() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.handles
}

// setOpen is the agent's own bookkeeping of the sessions that it has in memory.
func (p *Process) setOpen(session string, open bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if open {
		p.sessions[session] = true
	} else {
		delete(p.sessions, session)
	}
}

// String names the process in failures.
func (p *Process) String() string {
	return strings.Join([]string{"process", p.info.Name, p.principal}, " ")
}
