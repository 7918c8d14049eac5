package sessions

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/acpgate/acpgate/agentpool/wire"
)

// Agents hands out running agent processes. The pool of package agentpool implements it.
type Agents interface {
	// Names lists the configured agents, the default one first.
	Names() []string

	// Describe returns what the agent answered to initialize. It starts a process of the principal when nothing is
	// cached for the agent (cold-start budget 90 s) and returns at once when something is. Errors: *AgentError.
	Describe(ctx context.Context, principal, agent string) (*AgentInfo, error)

	// Acquire returns a handle to a running, initialized process of (principal, agent) that has room for one more
	// session, starting one if need be. cwd is the working directory of that session: sandboxed processes are not shared
	// between workspace roots (DESIGN T3). The caller owns the handle and must Release it. Errors: *AgentError with reason
	// agent_unknown, agent_restarting, agent_start_failed, agent_limit.
	Acquire(ctx context.Context, principal, agent, cwd string) (Agent, error)

	// Control is Acquire without a place for a session: for session/list, session/delete, authenticate, logout and
	// whatever else names no open session. The handle must be released and never bound.
	Control(ctx context.Context, principal, agent string) (Agent, error)
}

// AgentInfo is the initialize result of an agent. It is immutable.
type AgentInfo struct {
	Name   string          // configured name
	Title  string          // agentInfo.title, else agentInfo.name, else Name
	Result json.RawMessage // the whole result object, as the agent wrote it

	LoadSession     bool // agentCapabilities.loadSession
	List            bool // agentCapabilities.sessionCapabilities.*
	Resume          bool
	Fork            bool
	Close           bool
	Delete          bool
	EmbeddedContext bool // agentCapabilities.promptCapabilities.embeddedContext
	Logout          bool // agentCapabilities.auth.logout

	GatewayFS  bool              // the agent's config says fs: gateway, so fs/* requests may be passed to Agent.ServeFS
	MCPServers []json.RawMessage // mcpServers of the agent's config, added to those of the client
}

// Agent is one session's handle to a running agent process, which other sessions may share. All methods are safe for
// concurrent use and none waits for the process: writes are queued (bounded in bytes) for the process's writer.
//
// Callbacks (done functions, Sink methods) run on the process's one reader goroutine, in the order in which the agent
// wrote its lines (DESIGN W5). They must not block and must not keep the frame's bytes.
type Agent interface {
	Info() *AgentInfo

	// Request writes f as a request with an id of the process's own spliced in place of f.ID, and with edits (ascending,
	// not overlapping, not touching f.ID) applied. done is called exactly once: with the response, or with an error when
	// the process ends first. A non-nil error of Request itself means that nothing was written and done is never called.
	Request(f *wire.Frame, edits []wire.Edit, done func(Reply)) (CallID, error)

	// Notify writes a notification with edits applied. f.Kind is Notification.
	Notify(f *wire.Frame, edits []wire.Edit) error

	// Respond answers the agent's request id (raw JSON) with a raw result, or with an error object when errObj is set.
	Respond(id []byte, result, errObj []byte) error

	// CancelRequest tells the agent that the client no longer wants the answer to call ($/cancel_request). done of the
	// call is still called when the agent answers.
	CancelRequest(call CallID)

	// Bind routes all lines of the session (id decoded) to sink, lines that arrived before included and first. Binding
	// an id that is bound already is an error: no session is open twice in a process (DESIGN V2).
	Bind(session string, sink Sink) error
	// Unbind ends the routing. After it returns no Sink method is running or will be called, unless Unbind is called on
	// the reader goroutine itself.
	Unbind(session string)

	// ServeFS answers an fs/read_text_file or fs/write_text_file request of the agent from the gateway's disk, inside
	// the roots. It returns at once.
	ServeFS(f *wire.Frame)

	// Process identifies the running process; two handles of one process return the same number.
	Process() uint64
	// Sessions is the number of sessions bound in the process.
	Sessions() int
	// Kill ends the whole process by the stop ladder, at once and for all of its sessions (rule V17, force stop). reason is
	// that of the AgentError which open calls and sinks get.
	Kill(reason string)

	// Sibling returns a further handle to the same process, for a session that has to be made next to this one
	// (session/fork). It must be released like any other.
	Sibling() (Agent, error)

	// Release gives the handle back, unbinding its session if it is bound. The process may end when nobody uses it.
	Release()
}

// CallID names one open request of a process.
type CallID uint64

// Reply is the outcome of Agent.Request: Frame (Kind Result or Failure, valid during the callback only), or Err when the
// process ended or was stalled before it answered.
type Reply struct {
	Frame *wire.Frame
	Err   error
}

// Sink receives what an agent writes for one session.
type Sink interface {
	// AgentLine takes a Request or Notification of the session.
	AgentLine(f *wire.Frame)
	// AgentPause comes after one or more calls of AgentLine, when the agent has written nothing further for now: what was
	// gathered should go on its way.
	AgentPause()
	// AgentSkipped says that a line of the session was over the line limit and dropped (DESIGN W7).
	AgentSkipped(bytes int64)
	// AgentGone says that the process ended; it comes after the last line and after the done calls of open requests.
	AgentGone(err *AgentError)
}

// AgentError says why an agent could not be started or why it ended.
type AgentError struct {
	// Reason is a stable word: agent_unknown, agent_restarting, agent_start_failed, agent_limit, agent_exited,
	// agent_restarted (ended on request while others used it), agent_stalled (it does not read its input).
	Reason   string
	Agent    string
	ExitCode int    // valid when Signal is empty and Exited
	Signal   string // e.g. "killed"
	Exited   bool
	Stderr   string // tail, at most 4 KiB
	Hint     string // what to do
	Err      error
}

func (e *AgentError) Error() string {
	s := "agent " + e.Agent + ": " + e.Reason
	switch {
	case e.Exited && e.Signal != "":
		s += " (signal: " + e.Signal + ")"
	case e.Exited:
		s += fmt.Sprintf(" (exit code %d)", e.ExitCode)
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

func (e *AgentError) Unwrap() error { return e.Err }
