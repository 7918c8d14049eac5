package sessions

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"sync"
	"sync/atomic"
	"time"

	"github.com/acpgate/acpgate/agentpool/wire"
	"github.com/acpgate/acpgate/sessions/journal"
)

// View is one live conversation: a handle that clients use, the agent session that it is bound to, the journal of that
// session, and the attachments that read it.
//
// Everything is guarded by mu, which is held for short computations only: nothing under it waits for an agent, a socket
// or a disk. Agent callbacks come on the reader goroutine of the process and take mu; so order in the journal is the order
// in which the agent wrote (rule W5). Long operations (waking) run in goroutines that Manager waits for.
type View struct {
	m         *Manager
	principal string
	agentName string
	handle    string
	cwd       string
	created   time.Time

	journal *journal.Journal

	// bound is the agent's session. It is set under mu and read by attachments without it.
	bound atomic.Pointer[binding]

	mu         sync.Mutex
	openParams json.RawMessage            // params of the session/new, load or resume that opened it, without our _meta
	opened     map[string]json.RawMessage // result of that call: modes, configOptions, models
	proc       Agent                      // nil while asleep, or after the process ended
	waking     bool
	asleep     chan struct{} // closed when the agent has closed the session that went to sleep
	closed     bool
	muted      bool // messages that the agent replays while it is woken are not events
	prompted   bool // a prompt was ever sent, so that the agent has something to load
	prefix     []json.RawMessage

	atts     map[*Attachment]struct{}
	forms    map[formKey]*form
	turn     *turn
	last     *turn
	queue    []*turn
	keys     map[string]*turn
	keyOrder []string
	calls    map[callKey]CallID
	onWake   []func(error) // under mu, with the outcome of waking
	requests map[int64]*agentRequest
	reqOrder []int64 // ids of open requests in the order in which they came
	snap     snapshot

	lastActive time.Time
	idle       *time.Timer
	alone      *time.Timer // runs the request policy while nobody is attached
	unthrottle int         // bytes appended since the journal was last asked to throttle
}

func (m *Manager) newView(principal, agent, cwd string) *View {
	now := time.Now()
	v := &View{
		m: m, principal: principal, agentName: agent, cwd: cwd, created: now, lastActive: now,
		journal: journal.New(m.epoch(), m.cfg.Journal, m.budget),
	}
	return v
}

// binding is the session that the agent knows. Its id is the view's handle, until an empty session had to be made anew.
type binding struct {
	id  string
	tok []byte // quoted
}

func (v *View) bindTo(id string) {
	v.bound.Store(&binding{id, wire.AppendQuote(nil, id)})
	if v.handle == "" {
		v.handle = id
	}
}

func newID() string { return rand.Text() }

// throttleEvery is how many bytes are appended between two looks at whether the appender runs away from its readers.
const throttleEvery = 64 << 10

// AgentLine takes what the agent wrote for this session. It implements Sink.
func (v *View) AgentLine(f *wire.Frame) {
	v.mu.Lock()
	if f.Kind == wire.Request {
		v.agentRequest(f)
		v.mu.Unlock()
		return
	}
	throttle := false
	switch f.Method {
	case "$/cancel_request":
		v.withdraw(f)
	case "session/update":
		if v.muted && isMessage(f) {
			break
		}
		v.snap.take(v, f)
		if v.turn != nil {
			v.turn.answered = true
		}
		fallthrough
	default:
		v.journal.Append(journal.Update, time.Now(), f.Raw)
		if v.unthrottle += len(f.Raw); v.unthrottle >= throttleEvery {
			v.unthrottle, throttle = 0, true
		}
	}
	v.mu.Unlock()
	if throttle {
		v.journal.Throttle()
	}
}

// isMessage reports whether an update belongs to the transcript, in contrast to the session's current values.
func isMessage(f *wire.Frame) bool {
	kind := f.UpdateKind.Of(f.Raw)
	for _, k := range [...]string{"agent_message_chunk", "user_message_chunk", "agent_thought_chunk", "tool_call", "tool_call_update", "plan"} {
		if wire.Equal(kind, k) {
			return true
		}
	}
	return false
}

// AgentSkipped implements Sink (rule W7).
func (v *View) AgentSkipped(n int64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.notice("The agent sent a line of " + byteCount(n) + ", over the limit; it was left out.")
}

// AgentGone implements Sink. The done callbacks of open calls came before it, so the turn has ended already.
func (v *View) AgentGone(err *AgentError) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.proc != nil {
		v.proc.Release()
		v.proc = nil
	}
	for _, id := range append([]int64(nil), v.reqOrder...) {
		v.finishRequest(v.requests[id], "", "withdrawn")
	}
	v.m.log.Info("agent of view ended", "view", v.handle, "agent", v.agentName, "err", err)
	v.stateChanged()
}

// notice appends a quiet line of the gateway. Under mu.
func (v *View) notice(text string) {
	v.journal.Append(journal.Notice, time.Now(), mustJSON(noticeData{ID: "notice-" + newID()[:12], Text: text}))
}

type noticeData struct {
	ID   string `json:"id"`
	Text string `json:"text"`
}

// stateChanged appends the view's state for opted-in clients. Under mu.
func (v *View) stateChanged() {
	v.journal.Append(journal.State, time.Now(), mustJSON(v.state()))
}

// touch notes activity and re-arms the idle timer. Under mu.
func (v *View) touch() {
	v.lastActive = time.Now()
	if v.idle == nil && !v.closed {
		v.idle = time.AfterFunc(v.idleIn(), v.idleTick)
	}
}

// quiet reports whether nothing is going on. Under mu.
func (v *View) quiet() bool {
	return v.turn == nil && len(v.queue) == 0 && len(v.requests) == 0 && len(v.calls) == 0 && !v.waking
}

func (v *View) idleIn() time.Duration {
	d := v.m.cfg.SleepAfter
	if !v.prompted && len(v.atts) == 0 {
		d = min(d, v.m.cfg.EmptyAfter)
	}
	return max(d-time.Since(v.lastActive), time.Second)
}

// idleTick runs when the view may have been idle for long enough: an empty view that nobody is attached to is closed,
// any other goes to sleep (rules L3, V20).
func (v *View) idleTick() {
	v.mu.Lock()
	v.idle = nil
	if v.closed {
		v.mu.Unlock()
		return
	}
	if wait := v.idleIn(); wait > time.Second || !v.quiet() {
		v.idle = time.AfterFunc(max(wait, time.Second), v.idleTick)
		v.mu.Unlock()
		return
	}
	if len(v.atts) == 0 && (!v.prompted || v.proc == nil) {
		v.mu.Unlock()
		v.m.spawn(func(ctx context.Context) { v.m.end(ctx, v, !v.prompted) })
		return
	}
	v.sleep()
	v.idle = time.AfterFunc(v.m.cfg.SleepAfter, v.idleTick)
	v.mu.Unlock()
}

// sleep closes the agent session and keeps everything else (rule V20). Under mu.
func (v *View) sleep() {
	p := v.proc
	if p == nil {
		return
	}
	v.proc = nil
	id := v.bound.Load().id
	v.m.log.Info("view sleeps", "view", v.handle, "agent", v.agentName)
	v.stateChanged()
	asleep := make(chan struct{})
	v.asleep = asleep
	v.m.spawn(func(ctx context.Context) {
		defer close(asleep)
		v.m.closeAtAgent(ctx, p, id, false)
	})
}
