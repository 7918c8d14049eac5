package sessions

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/acpgate/acpgate/agentpool/wire"
	"github.com/acpgate/acpgate/sessions/journal"
)

// maxOpenParams bounds the params of session/new, load, resume and fork, in bytes. They are kept with the session, which is
// opened with them again.
const maxOpenParams = 4 << 20

type openParams struct {
	SessionID             string            `json:"sessionId"`
	Cwd                   string            `json:"cwd"`
	AdditionalDirectories []string          `json:"additionalDirectories"`
	MCPServers            []json.RawMessage `json:"mcpServers"`
	Meta                  struct {
		Gate gateMeta `json:"acpgate"`
	} `json:"_meta"`

	moved bool // the view was brought home for this call: its history is sent, though a resume sends none (rule V9)
}

// gateMeta is _meta.acpgate of the session methods.
type gateMeta struct {
	View  bool            `json:"view"`
	After *cursorData     `json:"after"`
	Adopt bool            `json:"adopt"`
	Claim json.RawMessage `json:"claim"` // false, or the token of a slot
}

func (g gateMeta) refusesClaim() bool { return string(g.Claim) == "false" }

func (g gateMeta) claimToken() string {
	token, err := wire.Unquote(g.Claim)
	if err != nil {
		return "" // absent, true or false
	}
	return token
}

// Open serves session/new, session/load, session/resume and session/fork. The reply to f leaves through the attachment:
// first for new, resume and fork, behind the replay for load. ctx is the lifetime of the request; when it ends first, a
// session that the agent still makes is closed again.
func (m *Manager) Open(ctx context.Context, c Client, f *wire.Frame) (*Attachment, error) {
	var p openParams
	if err := json.Unmarshal(f.Params.Of(f.Raw), &p); err != nil {
		return nil, errParams("bad params of "+f.Method+": "+err.Error(), "see the ACP schema of the method")
	}
	if m.draining.Load() {
		return nil, &Error{Code: CodeInternal, Reason: "draining", Message: "The gateway is shutting down", Hint: "reconnect and try again"}
	}
	cwd, err := m.checkDir("cwd", p.Cwd)
	if err != nil {
		return nil, err
	}
	for _, d := range p.AdditionalDirectories {
		if _, err := m.checkDir("additionalDirectories", d); err != nil {
			return nil, err
		}
	}
	if f.Method != "session/new" {
		if p.SessionID == "" {
			return nil, errParams(f.Method+" needs params.sessionId", "list the sessions with session/list")
		}
		if !possibleID(p.SessionID) {
			return nil, errNotFound(p.SessionID)
		}
	}
	if n := f.Params.End - f.Params.Start; n > maxOpenParams {
		return nil, errParams(fmt.Sprintf("the params of %s have %d bytes (at most %d)", f.Method, n, maxOpenParams), "send fewer servers, or less _meta")
	}
	ctx, cancel := context.WithTimeout(ctx, m.cfg.CallTimeout)
	defer cancel()
	switch f.Method {
	case "session/new":
		return m.openNew(ctx, c, f, p, cwd)
	case "session/load":
		return m.openExisting(ctx, c, f, p, cwd, true)
	case "session/resume":
		return m.openExisting(ctx, c, f, p, cwd, false)
	case "session/fork":
		return m.fork(ctx, c, f, p, cwd)
	}
	return nil, &Error{Code: CodeMethodNotFound, Reason: "method_not_found", Message: "Method not found: " + clip(f.Method, 100)}
}

func (m *Manager) openNew(ctx context.Context, c Client, f *wire.Frame, p openParams, cwd string) (*Attachment, error) {
	s, err := m.claim(c, p.Meta.Gate.claimToken(), p.Meta.Gate.refusesClaim(), cwd)
	if err != nil {
		return nil, err
	}
	if s != nil {
		return m.openSide(ctx, c, f, s)
	}
	if p.Meta.Gate.Adopt || m.cfg.Adopt {
		if a := m.adoptLatest(ctx, c, f, cwd); a != nil {
			return a, nil
		}
	}
	made, raw, err := m.makeSession(ctx, c.Principal(), c.Agent(), cwd, f)
	if err != nil {
		return nil, err
	}
	v, err := m.viewOn(made)
	if err != nil {
		m.retire(ctx, made, true)
		return nil, err
	}
	return v.enter(c, f, raw, journal.Cursor{Epoch: made.journal.Epoch()})
}

// enter attaches the client to a view that was just made for it, with the reply in front of everything after from.
func (v *View) enter(c Client, f *wire.Frame, raw []byte, from journal.Cursor) (*Attachment, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	a, err := v.newAttachment(c, v.handle, from)
	if err != nil {
		return nil, err
	}
	a.stages[0].replay = from.Seq // nothing of it was there before
	a.anchorAt(from.Seq, waiter{a, f.ID.Of(f.Raw)}, reply{result: raw, meta: v.openedMeta(from, "")})
	a.snapshotFrames(from.Seq, from.Seq > 0)
	v.noteOpened(c, f.Method)
	return a, nil
}

// noteOpened writes the audit line of an attach. Under mu.
func (v *View) noteOpened(c Client, method string) {
	v.m.audit.Info("session opened", "principal", v.principal, "conn", c.ID(), "view", v.handle, "session", v.bound.Load().id,
		"agent", v.agentName, "method", method, "cwd", v.cwd)
}

// viewOn makes a view on a session that no view is bound to; its handle is the session's id.
func (m *Manager) viewOn(s *session) (*View, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.view != nil:
		return nil, errInUse(s.view)
	case s.gone:
		return nil, errMoved
	}
	v := m.newView(s)
	if err := m.add(v); err != nil {
		return nil, err
	}
	s.take(v)
	v.touch()
	v.save()
	return v, nil
}

func errInUse(v *View) *Error {
	return &Error{
		Code: CodeInternal, Reason: "session_in_use", Message: "The session is open in another conversation: " + clip(v.handle, 128),
		Hint: "go to that conversation, or close it first", Data: mustJSON(map[string]string{"view": v.handle}),
	}
}

// openExisting serves session/load and session/resume by rule V4: the live view whose binding the session is; else the
// live view that has it as a handle, moved back to its home session; else a new view on it.
func (m *Manager) openExisting(ctx context.Context, c Client, f *wire.Frame, p openParams, cwd string, load bool) (*Attachment, error) {
	if err := m.known.recall(ctx, c.Principal(), c.Agent()); err != nil {
		return nil, err
	}
	for {
		if ctx.Err() != nil {
			return nil, callEnded(ctx)
		}
		v, drifted := m.resolve(c, p.SessionID)
		if v == nil {
			stored, err := m.restoreView(ctx, c, p.SessionID)
			if err != nil {
				return nil, err
			}
			if stored != nil {
				continue
			}
		}
		if after := p.Meta.Gate.After; after != nil && v != nil && v.left(after.Session) {
			// A cursor into a session that the view has left: its journal must be at hand.
			if _, err := m.hold(ctx, sessKey(c, after.Session)); err != nil {
				return nil, err
			}
		}
		switch {
		case v == nil && m.known.hidden(c.Principal(), c.Agent(), p.SessionID):
			return nil, errNotFound(p.SessionID) // it was deleted (rule V13)
		case v == nil:
			s, err := m.acquire(ctx, sessKey(c, p.SessionID), f, cwd)
			if err != nil {
				return nil, err
			}
			m.reopenClosed(s)
			if _, err := m.viewOn(s); err != nil && err != errMoved && sessionsReason(err) != "session_in_use" {
				return nil, err
			}
			continue // two that came at once meet in the winner's view
		case drifted && !p.Meta.Gate.View:
			p.moved = true
			if m.homeless(v) {
				break
			}
			switch err := m.rebindHome(ctx, v); {
			case err == errMoved:
				continue
			case err != nil:
				return nil, err
			}
		}
		a, err := v.join(c, f, p, load)
		if err == errMoved {
			time.Sleep(time.Millisecond) // it is being closed or evicted
			continue
		}
		return a, err
	}
}

func sessionsReason(err error) string {
	var e *Error
	if errors.As(err, &e) {
		return e.Reason
	}
	return ""
}

// homeless reports whether the view's home session was deleted; then where it is becomes its home.
func (m *Manager) homeless(v *View) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !m.known.hidden(v.principal, v.agentName, v.home) {
		return false
	}
	v.home = v.bound.Load().id
	v.save()
	return true
}

// left reports whether the view has left the session.
func (v *View) left(session string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, t := range v.trail {
		if t.Session == session {
			return true
		}
	}
	return false
}

// resolve finds the live view for an id: by binding before by handle (rule V4). drifted says that it has the id as a
// handle but looks at another session than its home.
func (m *Manager) resolve(c Client, id string) (v *View, drifted bool) {
	mu := m.lockOf(c.Principal())
	mu.Lock()
	defer mu.Unlock()
	if s := m.session(sessKey(c, id)); s != nil && s.view != nil {
		return s.view, false
	}
	v = m.lookup(c, id)
	if v == nil {
		return nil, false
	}
	return v, v.bound.Load().id != v.home
}

var errMoved = errors.New("sessions: the view was closed or moved meanwhile")

// join attaches a client to a live view and answers its load or resume.
func (v *View) join(c Client, f *wire.Frame, p openParams, load bool) (a *Attachment, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed {
		return nil, errMoved
	}
	handle := p.SessionID
	v.m.alias(v, handle)
	head := v.journal.Head()
	w := func(a *Attachment) waiter { return waiter{a, f.ID.Of(f.Raw)} }
	after := p.Meta.Gate.After
	defer func() {
		v.checkAnswerable()
		if a != nil {
			v.noteLostSlot(a, v.journal.Head().Seq)
		}
		v.noteHistory()
		v.noteOpened(c, f.Method)
	}()
	switch {
	case after != nil && c.Features().OptedIn:
		return v.catchUp(c, f, handle, *after)
	case load || p.moved:
		// What was said, then what the turn that runs has sent so far as it came, then the answer.
		cut := v.turnStart()
		a, err = v.newAttachment(c, handle, journal.Cursor{Epoch: head.Epoch, Seq: cut - 1})
		if err != nil {
			return nil, err
		}
		frames, _ := v.newReplayer(a, !load, cut).frames()
		for _, b := range frames {
			a.anchor(anchoredFrame{seq: cut - 1, frame: b})
		}
		a.anchorAt(head.Seq, w(a), reply{result: v.joinResult(), meta: v.openedMeta(head, "")})
		a.snapshotFrames(head.Seq, true)
		return a, nil
	default:
		a, err = v.newAttachment(c, handle, head)
		if err != nil {
			return nil, err
		}
		a.anchorAt(head.Seq, w(a), reply{result: v.joinResult(), meta: v.openedMeta(head, "")})
		a.snapshotFrames(head.Seq, true)
		return a, nil
	}
}

// turnStart is the seq of the running turn's first event, or that of the event to come. Under mu.
func (v *View) turnStart() uint64 {
	next := v.journal.Head().Seq + 1
	if v.turn == nil || v.turn.first == 0 || v.turn.sess != v.session {
		return next
	}
	return max(v.turn.first, v.journal.Start().Seq+1)
}

// catchUp serves a resume with a cursor (rule V11): exactly the events after it, then live ones. When the view has moved on
// since, the rest of the old session up to the switch comes first, then the bounded replay of the new one. Under mu.
func (v *View) catchUp(c Client, f *wire.Frame, handle string, after cursorData) (*Attachment, error) {
	from := journal.Cursor{Epoch: after.Epoch, Seq: after.Seq}
	id := f.ID.Of(f.Raw)
	if after.Session != v.bound.Load().id {
		if a := v.catchUpFrom(c, handle, after, from, id); a != nil {
			return a, nil
		}
		return v.resync(c, handle, "moved", id)
	}
	a, err := v.newAttachment(c, handle, from)
	switch {
	case err == journal.ErrEpoch:
		return v.resync(c, handle, "epoch", id)
	case err == journal.ErrTrimmed:
		return v.resync(c, handle, "trimmed", id)
	case err != nil:
		return nil, err
	}
	a.anchorAt(from.Seq, waiter{a, id}, reply{result: v.joinResult(), meta: v.openedMeta(from, "")})
	a.snapshotFrames(from.Seq, false)
	return a, nil
}

// catchUpFrom goes on in a session that the view has left, if that is still known. Under mu.
func (v *View) catchUpFrom(c Client, handle string, after cursorData, from journal.Cursor, id []byte) *Attachment {
	for i := len(v.trail) - 1; i >= 0; i-- {
		t := v.trail[i]
		if t.Session != after.Session || t.Epoch != from.Epoch || from.Seq > t.Seq {
			continue
		}
		s := v.m.session(viewKey{v.principal, v.agentName, t.Session})
		if s == nil {
			return nil
		}
		a, err := v.attachTo(c, handle, s, from)
		if err != nil {
			return nil
		}
		a.stages[0].until.Store(t.Seq)
		a.anchorAt(from.Seq, waiter{a, id}, reply{result: v.joinResult(), meta: v.openedMeta(from, "")})
		v.follow(a)
		return a
	}
	return nil
}

// resync answers a cursor that cannot be served: it says why, then sends the bounded replay and what the running turn has
// sent so far. Under mu.
func (v *View) resync(c Client, handle, why string, id []byte) (*Attachment, error) {
	head, cut := v.journal.Head(), v.turnStart()
	a, err := v.newAttachment(c, handle, journal.Cursor{Epoch: head.Epoch, Seq: cut - 1})
	if err != nil {
		return nil, err
	}
	a.anchorAt(cut-1, waiter{a, id}, reply{result: v.joinResult(), meta: v.openedMeta(journal.Cursor{Epoch: head.Epoch, Seq: cut - 1}, why)})
	frames, _ := v.newReplayer(a, true, cut).frames()
	for _, b := range frames {
		a.anchor(anchoredFrame{seq: cut - 1, frame: b})
	}
	a.snapshotFrames(cut-1, true)
	return a, nil
}
