package sessions

import (
	"context"
	"time"

	"github.com/acpgate/acpgate/agentpool/wire"
	"github.com/acpgate/acpgate/sessions/journal"
)

// closedMark says that a session was closed on purpose and when: for a day it is not adopted (rule V14).
type closedMark struct {
	at time.Time
}

const (
	closedFor = 24 * time.Hour
	maxClosed = 10_000
)

// markClosed puts every handle of a view and its binding into the closed-set (rule V12). Nothing under a lock.
func (m *Manager) markClosed(v *View) {
	v.mu.Lock()
	ids := []string{v.handle, v.home, v.bound.Load().id}
	v.mu.Unlock()
	m.mu.Lock()
	for k, x := range m.aliases {
		if x == v {
			ids = append(ids, k.handle)
		}
	}
	m.mu.Unlock()
	for _, id := range ids {
		m.markID(viewKey{v.principal, v.agentName, id})
	}
}

func (m *Manager) markID(k viewKey) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	if len(m.ended) >= maxClosed {
		for x, mark := range m.ended {
			if now.Sub(mark.at) > closedFor {
				delete(m.ended, x)
			}
		}
	}
	if len(m.ended) < maxClosed {
		m.ended[k] = closedMark{now}
	}
	m.keeper.put(k.principal, []Write{{Key: recordKey("closed", k.agent, k.handle), Value: []byte("{}"), TTL: closedFor}})
}

// reopenClosed takes a session out of the closed-set: somebody asked for it.
func (m *Manager) reopenClosed(s *session) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := s.key()
	if _, ok := m.ended[k]; ok || m.keeper != nil {
		delete(m.ended, k)
		m.keeper.put(k.principal, []Write{{Key: recordKey("closed", k.agent, k.handle), Delete: true}})
	}
}

func (m *Manager) wasClosed(ctx context.Context, k viewKey) bool {
	m.mu.Lock()
	mark, ok := m.ended[k]
	m.mu.Unlock()
	if ok || m.keeper == nil {
		return ok && time.Since(mark.at) <= closedFor
	}
	recs, err := m.keeper.read(ctx, k.principal, recordKey("closed", k.agent, k.handle))
	return err != nil || recs[0].Version > 0 // in doubt a fresh session is made
}

// adoptLatest serves a session/new that asks to go on where the directory was left (rule V14): the session of cwd with the
// latest activity, if no view that is attached or running shows that directory. Nil means: make a fresh one.
func (m *Manager) adoptLatest(ctx context.Context, c Client, f *wire.Frame, cwd string) *Attachment {
	row, ok := m.adoptable(ctx, c, cwd)
	k := sessKey(c, row.SessionID)
	if !ok {
		return nil
	}
	if stored, err := m.restoreView(ctx, c, k.handle); err != nil {
		m.log.Info("latest session could not be adopted", "session", k.handle, "agent", k.agent, "err", err)
		return nil
	} else if stored != nil && stored.current().key() != k {
		return nil // its view shows another session by now
	}
	s, err := m.acquire(ctx, k, mustFrame(wire.AppendRequest(nil, f.ID.Of(f.Raw), "session/load", paramsFor(paramsOf(f), k.handle))), cwd)
	if err != nil {
		m.log.Info("latest session could not be adopted", "session", k.handle, "agent", k.agent, "err", err)
		return nil
	}
	v, err := m.viewOn(s)
	if err != nil {
		// Two at once: one adopts, the other gets a fresh one. A sleeping view of it is nobody's: join that.
		if v = m.sleepingView(s); v == nil {
			return nil
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	s.listed = row.Title
	if len(v.atts) > 0 || v.closed {
		return nil
	}
	head, cut := v.journal.Head(), v.turnStart()
	a, err := v.newAttachment(c, v.handle, journal.Cursor{Epoch: head.Epoch, Seq: cut - 1})
	if err != nil {
		return nil
	}
	result := v.joinResult()
	a.anchorAt(cut-1, waiter{a, f.ID.Of(f.Raw)}, reply{result: withSessionID(result, v.handle), meta: v.openedMeta(head, "")})
	frames, n := v.newReplayer(a, true, cut).frames()
	for _, b := range frames {
		a.anchor(anchoredFrame{seq: cut - 1, frame: b})
	}
	a.snapshotFrames(head.Seq, true)
	v.notice("Resumed " + v.describe(n) + ".")
	v.noteHistory()
	v.noteOpened(c, f.Method)
	return a
}

func (m *Manager) sleepingView(s *session) *View {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v := s.view; v != nil && len(v.atts) == 0 && v.turn == nil {
		return v
	}
	return nil
}

// adoptable names the latest session of cwd. The closed-set gives a fresh session and not the second newest; so does a
// list that cannot be had.
func (m *Manager) adoptable(ctx context.Context, c Client, cwd string) (Row, bool) {
	if m.shows(c, cwd) {
		return Row{}, false
	}
	rows, err := m.rows(ctx, c, cwd)
	if err != nil {
		m.log.Info("sessions could not be listed for adoption", "agent", c.Agent(), "err", err)
		return Row{}, false
	}
	for _, r := range rows {
		k := sessKey(c, r.SessionID)
		if s := m.session(k); s != nil {
			s.mu.Lock()
			prompted := s.prompted
			s.mu.Unlock()
			if !prompted {
				continue
			}
		}
		return r, !m.wasClosed(ctx, k)
	}
	return Row{}, false
}

// shows reports whether a view that is attached or running shows the directory.
func (m *Manager) shows(c Client, cwd string) bool {
	for _, v := range m.viewsOf(c.Principal(), c.Agent()) {
		v.mu.Lock()
		busy := v.cwd == cwd && (len(v.atts) > 0 || v.turn != nil)
		v.mu.Unlock()
		if busy {
			return true
		}
	}
	return false
}

// viewsOf lists the live views of a principal's agent.
func (m *Manager) viewsOf(principal, agent string) []*View {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []*View
	for k, v := range m.views {
		if k.principal == principal && k.agent == agent {
			out = append(out, v)
		}
	}
	return out
}

// withSessionID puts the handle into the result of a session/new.
func withSessionID(result []byte, handle string) []byte {
	m := openMembers(result)
	m["sessionId"] = wire.AppendQuote(nil, handle)
	return mustJSON(m)
}
