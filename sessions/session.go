package sessions

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"
	"time"

	"github.com/acpgate/acpgate/agentpool/wire"
	"github.com/acpgate/acpgate/sessions/journal"
)

// session is one session of an agent, as the gateway holds it: its journal, its current values, and the process in which
// it is open. At most one view is bound to it (rule V2); a session that its view has left stays as it is, parked, so that
// the way back needs no agent.
type session struct {
	m         *Manager
	mu        *sync.Mutex // the principal's
	principal string
	agentName string
	cwd       string
	journal   *journal.Journal

	// bound is the agent's name of the session. It is set under mu and read by attachments without it.
	bound atomic.Pointer[binding]

	view       *View                      // bound to it, nil while parked
	gone       bool                       // it is no longer among those we hold: no view may be bound to it
	openParams json.RawMessage            // params of the session/new, load or resume that opened it, without our _meta
	opened     map[string]json.RawMessage // result of that call: modes, configOptions, models
	proc       Agent                      // nil while asleep, or after the process ended
	openIn     uint64                     // process in which it is open, 0 when it was closed there
	asleep     chan struct{}              // closed when the agent has closed the session that went to sleep
	parked     *time.Timer                // puts it to sleep when no view comes back
	listed     string                     // title in the agent's list, when nothing better is known
	fence      uint64                     // under which its journal is written
	lost       atomic.Bool                // another owner has it: no prompt runs here any more
	sinceTrim  int                        // events stored since the stored journal was last trimmed; the keeper's
	storedAs   string                     // name under which its journal is open in the store, or ""; the keeper's
	discarded  atomic.Bool                // it was deleted: nothing of it is stored any more
	noHistory  bool                       // the agent could only resume it: what was said before is not known
	muted      bool                       // messages that the agent replays while it is woken are not events
	prompted   bool                       // a prompt was ever sent, so that the agent has something to load
	prefix     []prefixBlock              // what goes in front of the next prompt
	lineage    *lineage                   // of a side conversation, else nil
	seed       uint64                     // events up to this seq were inherited
	compacted  bool                       // the agent has compacted the conversation
	toolKinds  map[string]string          // kinds of tool calls by id, for the gate of a side conversation
	snap       snapshot

	formMu     sync.Mutex // a leaf
	forms      map[formKey]*form
	unthrottle int // bytes appended since the journal was last asked to throttle
}

// binding is the session that the agent knows. Its id is that of the session's first view, until an empty session had to
// be made anew.
type binding struct {
	id  string
	tok []byte // quoted
}

func (m *Manager) newSession(principal, agent, cwd string) *session {
	return &session{
		m: m, mu: m.lockOf(principal), principal: principal, agentName: agent, cwd: cwd, fence: 1,
		journal: journal.New(m.epoch(), m.cfg.Journal, m.budget),
	}
}

// rest closes the session at its agent and keeps everything else (rule V20). False: the agent cannot close sessions; what
// is open in its process stays open. Under mu.
func (s *session) rest() bool {
	p := s.proc
	if p == nil || !p.Info().Close {
		return false
	}
	s.proc = nil
	done := make(chan struct{})
	s.asleep = done
	id := s.bound.Load().id
	s.openIn = 0
	s.m.spawn(func(ctx context.Context) {
		defer close(done)
		s.m.closeAtAgent(ctx, p, id, false)
	})
	return true
}

// park lets go of a session that its view has left. It stays open for a while, for the way back. Under mu.
func (s *session) park() {
	s.view = nil
	if s.gone {
		return
	}
	if s.parked != nil {
		s.parked.Stop()
	}
	s.parked = time.AfterFunc(s.m.cfg.SleepAfter, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		switch {
		case s.view != nil || s.gone:
		case s.rest():
			s.parked.Reset(s.m.cfg.SleepAfter)
		case s.proc == nil && s.m.keeper != nil:
			s.m.spawn(func(ctx context.Context) { s.m.evictSession(ctx, s) })
		}
	})
}

// take binds the session to v. Under mu.
func (s *session) take(v *View) {
	s.view = v
	if s.parked != nil {
		s.parked.Stop()
		s.parked = nil
	}
}

// throttleEvery is how many bytes are appended between two looks at whether the appender runs away from its readers.
const throttleEvery = 64 << 10

// AgentLine takes what the agent wrote for this session. It implements Sink.
func (s *session) AgentLine(f *wire.Frame) {
	s.mu.Lock()
	v := s.view
	if f.Kind == wire.Request {
		if v != nil {
			v.agentRequest(f)
		} else {
			s.refuse(f)
		}
		s.mu.Unlock()
		return
	}
	throttle := false
	switch f.Method {
	case "$/cancel_request":
		if v != nil {
			v.withdraw(f)
		}
	case "session/update":
		if (s.muted && isMessage(f)) || isTagged(f) || (s.isSide() && isTitle(f)) {
			break
		}
		s.watch(f)
		if wire.Equal(f.UpdateKind.Of(f.Raw), commandsUpdate) {
			f = withOurCommands(f)
		}
		s.snap.take(s, f)
		if v != nil && v.turn != nil {
			v.turn.answered = v.turn.answered || isMessage(f)
		}
		fallthrough
	default:
		s.journal.Add(journal.Update, time.Now(), f.Raw)
		if s.unthrottle += len(f.Raw); s.unthrottle >= throttleEvery {
			s.unthrottle, throttle = 0, true
		}
	}
	s.mu.Unlock()
	if throttle {
		s.journal.Throttle()
	}
}

// AgentPause implements Sink.
func (s *session) AgentPause() { s.journal.Wake() }

const maxToolKinds = 1000

// watch notes what an update says about compaction and about kinds of tool calls. Under mu.
func (s *session) watch(f *wire.Frame) {
	kind, body := f.UpdateKind.Of(f.Raw), f.Update.Of(f.Raw)
	switch {
	case wire.Equal(kind, "compaction_update"):
		s.compacted = true
	case s.isSide() && (wire.Equal(kind, "tool_call") || wire.Equal(kind, "tool_call_update")):
		id, err := wire.Unquote(wire.Lookup(body, "toolCallId").Of(body))
		k, err2 := wire.Unquote(wire.Lookup(body, "kind").Of(body))
		if err != nil || err2 != nil {
			return
		}
		if s.toolKinds == nil || len(s.toolKinds) >= maxToolKinds {
			s.toolKinds = map[string]string{}
		}
		s.toolKinds[id] = k
	}
}

// refuse answers a request of a session that nobody looks at. Under mu.
func (s *session) refuse(f *wire.Frame) {
	if s.proc == nil {
		return
	}
	id := append([]byte(nil), f.ID.Of(f.Raw)...)
	var err error
	switch f.Method {
	case methodPermission, methodElicit:
		err = s.proc.Respond(id, (&agentRequest{method: f.Method}).cancelledResult(), nil)
	default:
		err = s.proc.Respond(id, nil, errNoMethod(f.Method).Object())
	}
	if err != nil {
		s.m.log.Warn("answer could not be written", "session", s.bound.Load().id, "err", err)
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
func (s *session) AgentSkipped(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.view != nil {
		s.view.notice("The agent sent a line of " + byteCount(n) + ", over the limit; it was left out.")
	}
}

// AgentGone implements Sink. The done callbacks of open calls came before it, so the turn has ended already.
func (s *session) AgentGone(err *AgentError) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc != nil {
		s.proc.Release()
		s.proc = nil
	}
	s.m.log.Info("agent of session ended", "session", s.bound.Load().id, "agent", s.agentName, "err", err)
	v := s.view
	if v == nil {
		return
	}
	for _, id := range append([]int64(nil), v.reqOrder...) {
		v.finishRequest(v.requests[id], "", "withdrawn")
	}
	v.stateChanged()
}
