package sessions

import (
	"context"
	"fmt"
	"time"

	"github.com/acpgate/acpgate/agentpool/wire"
)

// errTurnRunning is rule V7.
func errTurnRunning() *Error {
	return &Error{
		Code: CodeInternal, Reason: "turn_running", Message: "A turn is running in this conversation",
		Hint: "wait for its end, or stop it with session/cancel",
	}
}

// move is a rebind that is under way: a turn of its own, so that prompts wait for it and nothing else rebinds (rule V7).
type move struct {
	turn *turn
	// open returns the session to go to. It runs without locks.
	open func(ctx context.Context) (*session, error)
	// report is what the command answers, once the view is there. Under mu.
	report func(v *View, entries int) string
	// finished is called with the outcome. Under mu.
	finished func(error)
	// discard deletes the session that is left.
	discard bool
	// lost says that whoever moves the view deletes the session that is left.
	lost bool
}

// begin takes the view for a rebind. Under mu.
func (v *View) begin(mv *move) error {
	if v.turn != nil || v.waking {
		return errTurnRunning()
	}
	if mv.turn == nil {
		mv.turn = &turn{id: newID()[:16], slash: true}
	}
	v.turn, mv.turn.started, mv.turn.sess = mv.turn, time.Now(), v.session
	v.touch()
	v.stateChanged()
	v.m.spawn(func(ctx context.Context) { v.m.carryOut(ctx, v, mv) })
	return nil
}

// carryOut opens the target and moves the view (rule V6). If the target cannot be had the old binding stays.
func (m *Manager) carryOut(ctx context.Context, v *View, mv *move) {
	ctx, cancel := context.WithTimeout(ctx, m.cfg.CallTimeout)
	defer cancel()
	s, err := mv.open(ctx)
	if err == nil {
		m.carrySettings(ctx, v, s)
	}
	v.mu.Lock()
	for err == nil && s.gone { // evicted in this moment
		v.mu.Unlock()
		s, err = mv.open(ctx)
		v.mu.Lock()
	}
	var unused *session // was made for this move, which fails
	switch {
	case err != nil:
	case v.closed:
		err = errNotFound(v.handle)
		if !s.prompted {
			unused = s
		}
	case s.view != nil && s.view != v:
		err = errInUse(s.view)
	}
	var old *session
	if err == nil && s != v.session {
		old = v.session
		v.moveTo(s, mv)
	} else if err == nil && mv.report != nil {
		v.report(mv.report(v, 0))
	}
	discard := old != nil && (mv.discard || !old.prompted)
	v.finish(mv, err)
	v.mu.Unlock()
	if unused != nil {
		m.retire(ctx, unused, true)
	}
	if discard {
		if mv.discard {
			if err := m.deleteID(ctx, old.key()); err != nil {
				m.log.Info("session could not be deleted at its agent", "session", old.bound.Load().id, "err", err)
			}
		} else {
			m.retire(ctx, old, true) // rule L3
		}
	}
}

// moveTo binds the view to s. Under mu.
func (v *View) moveTo(s *session, mv *move) {
	old := v.session
	for _, id := range append([]int64(nil), v.reqOrder...) {
		v.answerCancelled(v.requests[id], "")
	}
	s.take(v)
	old.park()
	v.m.dropAlias(v, old.bound.Load().id)
	at := old.journal.Head()
	if v.trail = append(v.trail, cursorData{old.bound.Load().id, at.Epoch, at.Seq}); len(v.trail) > maxTrail {
		v.trail = append([]cursorData(nil), v.trail[1:]...)
	}
	v.unbind(old.bound.Load().id)
	v.session = s
	if (mv.discard || mv.lost || !old.prompted) && v.home == old.bound.Load().id {
		v.home = s.bound.Load().id // there is no other home to go back to
	}
	v.save()
	entries := 0
	for a := range v.atts {
		entries = v.follow(a)
	}
	if len(v.atts) == 0 {
		entries = v.countEntries()
	}
	v.noteHistory()
	v.report(mv.report(v, entries))
	v.m.log.Info("view was rebound", "view", v.handle, "session", s.bound.Load().id)
}

// carrySettings gives the session that a view moves to the view's mode and config options, before any prompt can run there.
func (m *Manager) carrySettings(ctx context.Context, v *View, s *session) {
	v.mu.Lock()
	want, now, proc := v.settings(), s.settings(), s.proc
	skip := s.view != nil || s.gone || v.closed
	if !skip && proc == nil && want.mode != "" && s.offersMode(want.mode) {
		s.settingChanged("session/set_mode", mustJSON(map[string]string{"modeId": want.mode}), nil) // applied when it wakes
	}
	v.mu.Unlock()
	if !skip && proc != nil {
		m.reapply(ctx, s, proc, now, want)
	}
}

// follow lets an attachment go on in the view's session: its bounded replay, then what comes (rule V8). It returns how many
// entries the session has. Under mu.
func (v *View) follow(a *Attachment) int {
	head := v.journal.Head()
	if err := a.enterStage(v.session, head); err != nil {
		a.c.Drop(a, err) // only if head were not retained, which it is
		return 0
	}
	frames, n := v.newReplayer(a, true, head.Seq+1).frames()
	for _, b := range frames {
		a.anchor(anchoredFrame{seq: head.Seq, frame: b})
	}
	a.snapshotFrames(head.Seq, true)
	return n
}

// noteHistory says once that the agent could not give a session's history. Under mu.
func (v *View) noteHistory() {
	if v.noHistory {
		v.noHistory = false
		v.notice("The agent cannot give the history of this session; what was said before is not shown here.")
	}
}

func (v *View) countEntries() int {
	r := &replayer{sess: v.session, a: &Attachment{}, window: true, before: v.journal.Head().Seq + 1}
	_, n := r.frames()
	return n
}

// finish ends the move's turn. Under mu.
func (v *View) finish(mv *move, err error) {
	if mv.finished != nil {
		mv.finished(err)
	}
	if err != nil {
		v.endTurn(mv.turn, nil, AsError(err).Object())
		return
	}
	v.endTurn(mv.turn, []byte(`{"stopReason":"end_turn"}`), nil)
}

// describe names the view's session for a notice. Under mu.
func (v *View) describe(entries int) string {
	id := v.bound.Load().id
	name := v.title()
	if name == "" {
		name = "session " + clip(id, 8)
	} else {
		name = fmt.Sprintf("“%s” (%s)", clip(name, 80), clip(id, 8))
	}
	switch entries {
	case 0:
		return name + ", which is empty"
	case 1:
		return name + ", 1 entry; session/load shows all of it"
	}
	return fmt.Sprintf("%s, %d entries; session/load shows all of them", name, entries)
}

// title is what the session is called. Under mu.
func (s *session) title() string {
	if s.snap.title != "" {
		return s.snap.title
	}
	if t := s.m.known.titleOf(s); t != "" {
		return t
	}
	return s.listed
}

// rebindHome moves a view that has drifted back to its home session (rule V4.2) and waits until it is there.
func (m *Manager) rebindHome(ctx context.Context, v *View) error {
	done := make(chan error, 1)
	v.mu.Lock()
	if v.turn != nil && v.turn.slash { // it is moving: what the id means is decided when it has arrived
		t := v.turn
		v.mu.Unlock()
		return v.awaitMove(ctx, t)
	}
	home := viewKey{v.principal, v.agentName, v.home}
	params := paramsFor(v.openParams, v.home)
	cwd := v.cwd
	err := v.begin(&move{
		open: func(ctx context.Context) (*session, error) {
			return m.acquire(ctx, home, mustFrame(wire.AppendRequest(nil, []byte("0"), "session/load", params)), cwd)
		},
		report:   func(v *View, n int) string { return "Back in " + v.describe(n) + "." },
		finished: func(err error) { done <- err },
	})
	v.mu.Unlock()
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return callEnded(ctx)
	case err := <-done:
		return err
	}
}

// awaitMove waits for the end of a move and returns errMoved then.
func (v *View) awaitMove(ctx context.Context, t *turn) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		v.mu.Lock()
		over := v.turn != t
		v.mu.Unlock()
		if over {
			return errMoved
		}
		select {
		case <-ctx.Done():
			return callEnded(ctx)
		case <-tick.C:
		}
	}
}

// fresh makes a session like the view's own: same directory and servers.
func (m *Manager) fresh(ctx context.Context, v *View) (*session, error) {
	v.mu.Lock()
	params, cwd := paramsFor(v.openParams, ""), v.cwd
	v.mu.Unlock()
	f := mustFrame(wire.AppendRequest(nil, []byte("0"), "session/new", params))
	s, _, err := m.makeSession(ctx, v.principal, v.agentName, cwd, f)
	return s, err
}
