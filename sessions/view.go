package sessions

import (
	"context"
	"crypto/rand"
	"sync"
	"time"

	"github.com/acpgate/acpgate/sessions/journal"
)

// View is one live conversation: a handle that clients use, the agent session that it looks at now, and the attachments
// that see it. Its handle never changes (rule V1); the session under it does.
//
// Everything is guarded by mu, the lock of the principal, which is held for short computations only: nothing under it waits
// for an agent, a socket or a disk. Agent callbacks come on the reader goroutine of the process and take mu; so order in
// the journal is the order in which the agent wrote (rule W5). Long operations (waking, rebinding) run in goroutines that
// Manager waits for.
type View struct {
	*session // the binding; replaced by a rebind. Under mu
	m        *Manager
	mu       *sync.Mutex

	principal string
	agentName string
	handle    string // primary; aliases are in Manager.aliases
	home      string // session that it was made with
	created   time.Time

	waking   bool
	closed   bool
	slotLost bool   // a connection was lost with a staged side conversation
	lostSlot string // its question
	stopped  bool   // closed because the gateway stops: the conversation goes on with the next one
	atts     map[*Attachment]struct{}
	turn     *turn
	last     *turn
	queue    []*turn
	keys     map[string]*turn
	keyOrder []string
	calls    map[callKey]CallID
	onWake   []func(error) // under mu, with the outcome of waking
	requests map[int64]*agentRequest
	reqOrder []int64      // ids of open requests in the order in which they came
	trail    []cursorData // sessions that it has left and where, for cursors into them
	fence    uint64       // of its ownership; grows with every restart of the owner
	replays  map[replayKey]int

	lastActive time.Time
	idle       *time.Timer
	alone      *time.Timer // runs the request policy while nobody is attached
}

const maxTrail = 16

// newView is under the principal's lock.
func (m *Manager) newView(s *session) *View {
	now := time.Now()
	id := s.bound.Load().id
	return &View{
		session: s, m: m, mu: s.mu, principal: s.principal, agentName: s.agentName,
		handle: id, home: id, created: now, lastActive: now,
	}
}

func newID() string { return rand.Text() }

// notice appends a quiet line of the gateway. Under mu.
func (v *View) notice(text string) { v.say("notice", text) }

// say appends a line of the gateway: no message of the agent and no part of the transcript (rule V11). Under mu.
func (v *View) say(kind, text string) {
	v.journal.Append(journal.Notice, time.Now(), mustJSON(noticeData{ID: kind + "-" + newID()[:12], Kind: kind, View: v.handle, Text: text}))
}

type noticeData struct {
	ID   string `json:"id"`
	Kind string `json:"kind"`
	View string `json:"view"`
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
	if len(v.atts) == 0 && !v.prompted {
		v.mu.Unlock()
		v.m.spawn(func(ctx context.Context) { v.m.end(ctx, v, true) })
		return
	}
	if len(v.atts) == 0 && v.proc == nil && v.m.keeper != nil {
		v.mu.Unlock()
		v.m.spawn(func(ctx context.Context) { v.m.evict(ctx, v) })
		return
	}
	if v.proc != nil && v.session.rest() {
		v.m.log.Info("view sleeps", "view", v.handle, "agent", v.agentName)
		v.stateChanged()
	}
	v.idle = time.AfterFunc(v.m.cfg.SleepAfter, v.idleTick)
	v.mu.Unlock()
}
