package sessions

import (
	"context"
	"fmt"
	"time"

	"github.com/acpgate/acpgate/agentpool/wire"
	"github.com/acpgate/acpgate/sessions/journal"
)

// slot is a side conversation that a connection has asked for and not yet opened: the one staged fork of the connection
// (rule S1). Guarded by the principal's lock.
type slot struct {
	token    string
	conn     string
	source   viewKey // session
	handle   string  // of the view in which it was staged
	cwd      string
	cut      uint64 // last event of the last completed turn
	question string
	until    time.Time
	voided   string // why it can no longer be claimed
	claiming bool
	child    *View // once it was claimed
}

// sideTitle is what a side conversation is called in lists.
func sideTitle(question string) string {
	if question = oneLine(question); question == "" {
		return "Side conversation"
	}
	return "Side: " + clip(question, 72)
}

// cmdSide stages a side conversation. Nothing reaches the agent and nothing joins the journal: the command and its report
// are this connection's alone, like the slot.
func (v *View) cmdSide(t *turn, a *Attachment, question string) {
	s := &slot{
		token: newID(), conn: a.c.ID(), source: v.session.key(), handle: v.handle, cwd: v.cwd, cut: v.lastCompleted(),
		question: question, until: time.Now().Add(v.m.cfg.SlotTTL),
	}
	replaced := v.m.stage(s)
	text := "Side conversation staged. It opens with the next new session of this client in " + v.cwd + "."
	if question != "" {
		text = "Side conversation “" + oneLine(question) + "” staged. It opens with the next new session of this client in " + v.cwd + ", and asks."
	}
	if s.cut == 0 {
		text += " No turn is completed here yet, so it will know nothing of this conversation."
	}
	if replaced != nil {
		text += " It replaces the one staged before"
		if replaced.question != "" {
			text += ", “" + oneLine(replaced.question) + "”"
		}
		text += "."
	}
	seq := v.journal.Head().Seq
	a.anchor(anchoredFrame{seq: seq, frame: a.privateReport(text)})
	t.result, t.ended = []byte(`{"stopReason":"end_turn"}`), time.Now()
	a.anchorAt(seq, t.waiters[0], reply{result: t.result, meta: func(*Attachment) []byte {
		return metaMember(map[string]any{"slot": map[string]any{
			"token": s.token, "cwd": s.cwd, "source": s.source.handle, "question": s.question, "expiresAt": s.until.UnixMilli(),
		}})
	}})
}

// privateReport is a report that only this client gets.
func (a *Attachment) privateReport(text string) []byte {
	b := append([]byte(`{"sessionId":`), a.tok...)
	b = append(b, `,"update":`...)
	b = append(b, mustJSON(map[string]any{"sessionUpdate": "agent_message_chunk", "messageId": "report-" + newID()[:12], "content": textBlock(text)})...)
	if a.optedIn {
		b = append(b, `,"_meta":{"acpgate":{"kind":"report"}}`...)
	}
	return wire.AppendNotification(nil, "session/update", append(b, '}'))
}

// lastCompleted is the seq of the end of the last turn that ended, 0 if none did. Under mu.
func (s *session) lastCompleted() uint64 {
	var cut uint64
	s.each(func(e journal.Event) bool {
		if e.Type == journal.TurnEnd && !isCommandEnd(e.Data) {
			cut = e.Seq
		}
		return true
	})
	if cut == 0 && s.view == nil || cut == 0 && s.view.turn == nil {
		if s.hasMessages() {
			return s.journal.Head().Seq // loaded from the agent: all of it was completed
		}
	}
	return cut
}

func isCommandEnd(data []byte) bool { return string(wire.Lookup(data, "command").Of(data)) == "true" }

// stage puts s into its connection's slot and returns what it replaced. Under the principal's lock.
func (m *Manager) stage(s *slot) *slot {
	m.mu.Lock()
	defer m.mu.Unlock()
	old := m.slots[s.conn]
	m.slots[s.conn] = s
	m.tokens[s.token] = s
	if old != nil {
		if old.child != nil || old.over() {
			return nil
		}
		delete(m.tokens, old.token)
	}
	return old
}

func (s *slot) over() bool { return s.voided != "" || time.Now().After(s.until) }

// Gone says that a client's connection has ended: its slot dies with it. The next client of the view is told.
func (m *Manager) Gone(c Client) {
	mu := m.lockOf(c.Principal())
	mu.Lock()
	defer mu.Unlock()
	m.mu.Lock()
	s := m.slots[c.ID()]
	delete(m.slots, c.ID())
	var v *View
	if s != nil && s.child == nil && !s.claiming {
		delete(m.tokens, s.token)
		if !s.over() {
			v = m.views[viewKey{c.Principal(), s.source.agent, s.handle}]
		}
	}
	m.mu.Unlock()
	if v != nil {
		v.lostSlot = s.question
		v.slotLost = true
	}
}

// noteLostSlot tells a client that came back of a side conversation that was staged on its lost connection. Under mu.
func (v *View) noteLostSlot(a *Attachment, seq uint64) {
	if !v.slotLost {
		return
	}
	v.slotLost = false
	text := "The connection was lost before the staged side conversation was opened; send /side again."
	if v.lostSlot != "" {
		text = "The connection was lost before the side conversation “" + oneLine(v.lostSlot) + "” was opened; send /side again."
	}
	a.anchor(anchoredFrame{seq: seq, frame: a.privateReport(text)})
}

// voidSlots voids what was staged from a session that is deleted. Nothing under a lock.
func (m *Manager) voidSlots(k viewKey) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.slots {
		if s.source == k {
			s.voided = "the conversation that it was staged from was deleted"
		}
	}
}

// claim finds the slot that a session/new opens (rule S2): the one of its token, else that of its connection if the
// directory is the same. A slot that was claimed by its token before gives the same child again.
func (m *Manager) claim(c Client, token string, refuse bool, cwd string) (*slot, error) {
	mu := m.lockOf(c.Principal())
	mu.Lock()
	defer mu.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	if token != "" {
		s := m.tokens[token]
		switch {
		case s == nil || s.source.principal != c.Principal():
			return nil, errSlot("No side conversation is staged under that token", "send /side again")
		case s.child != nil:
			return s, nil
		case s.claiming:
			return nil, errSlot("The side conversation is being opened", "wait for the other session/new")
		case s.voided != "":
			return nil, errSlot("The side conversation cannot be opened: "+s.voided, "send /side in another conversation")
		case time.Now().After(s.until):
			return nil, errSlot("The staged side conversation has expired", "send /side again")
		}
		s.claiming = true
		return s, nil
	}
	s := m.slots[c.ID()]
	if refuse || s == nil || s.child != nil || s.claiming || s.over() || s.cwd != cwd {
		return nil, nil
	}
	s.claiming = true
	return s, nil
}

func errSlot(msg, hint string) *Error {
	return &Error{Code: CodeInvalidParams, Reason: "slot", Message: msg, Hint: hint}
}

// claimed ends a claim: with a child, or claimable again.
func (m *Manager) claimed(s *slot, child *View) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s.claiming = false
	s.child = child
	if child != nil && m.slots[s.conn] == s {
		delete(m.slots, s.conn)
	}
}

// openSide serves a session/new that claims a slot: the child of rule S4, with the parent's parameters (rule S5), its lineage
// (rule S7) and the framing in front of its first prompt (rule S6).
func (m *Manager) openSide(ctx context.Context, c Client, f *wire.Frame, s *slot) (*Attachment, error) {
	if s.child != nil {
		return s.child.joinChild(c, f)
	}
	child, raw, err := m.makeSide(ctx, s)
	if err != nil {
		m.claimed(s, nil)
		return nil, err
	}
	v, err := m.viewOn(child)
	if err != nil {
		m.claimed(s, nil)
		return nil, err
	}
	m.claimed(s, v)
	from := journal.Cursor{Epoch: child.journal.Epoch(), Seq: child.seed}
	a, err := v.enter(c, f, raw, from)
	if err != nil {
		return nil, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.rename(sideTitle(s.question))
	v.notice(child.banner())
	if s.question != "" {
		v.ask(s.question)
	}
	return a, nil
}

// joinChild attaches a client that used its claim token again.
func (v *View) joinChild(c Client, f *wire.Frame) (*Attachment, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed {
		return nil, errNotFound(v.handle)
	}
	head := v.journal.Head()
	a, err := v.newAttachment(c, v.handle, head)
	if err != nil {
		return nil, err
	}
	a.anchorAt(head.Seq, waiter{a, f.ID.Of(f.Raw)}, reply{result: withSessionID(v.joinResult(), v.handle), meta: v.openedMeta(head, "")})
	a.snapshotFrames(head.Seq, true)
	v.noteOpened(c, f.Method)
	return a, nil
}

// makeSide makes the child session.
func (m *Manager) makeSide(ctx context.Context, s *slot) (*session, []byte, error) {
	if err := m.room(s.source.principal); err != nil {
		return nil, nil, err
	}
	src, err := m.hold(ctx, s.source)
	if err != nil {
		return nil, nil, err
	}
	if src == nil {
		return nil, nil, errNotFound(s.source.handle)
	}
	src.mu.Lock()
	events := src.completedUpTo(s.cut)
	params := paramsFor(src.openParams, "")
	want := src.settings()
	compacted := src.compacted
	title := src.title()
	var sibling Agent
	if s.cut > 0 && src.atRest(s.cut) && src.proc != nil && src.proc.Info().Fork {
		sibling, err = src.proc.Sibling()
	}
	src.mu.Unlock()
	if err != nil {
		return nil, nil, err
	}
	child := m.newSession(s.source.principal, s.source.agent, s.cwd)
	for _, e := range events {
		child.journal.Append(e.Type, time.UnixMilli(e.Time), e.Data)
	}
	child.seed = child.journal.Head().Seq
	child.lineage = &lineage{Parent: s.source.handle, ParentHandle: s.handle, ParentTitle: title, SeedLength: countMessages(child), Compacted: compacted, Side: true}
	child.muted = true
	raw, err := m.fillSide(ctx, child, s, sibling, params, events)
	if err != nil {
		child.journal.Close()
		return nil, nil, err
	}
	child.mu.Lock()
	child.muted = false
	block := framing()
	block.ID = "framing"
	child.addPrefix(block)
	child.appendContext(contextData{ID: "framing", Role: "framing", State: "pending"})
	child.save()
	proc, now := child.proc, child.openedSettings()
	child.mu.Unlock()
	m.reapply(ctx, child, proc, now, want)
	return child, raw, nil
}

// fillSide is the fork ladder of rule S4.
func (m *Manager) fillSide(ctx context.Context, child *session, s *slot, sibling Agent, params []byte, events []journal.Event) ([]byte, error) {
	if sibling != nil {
		child.lineage.Rung = "fork"
		child.prompted = true
		f := mustFrame(wire.AppendRequest(nil, []byte("0"), "session/fork", paramsFor(params, s.source.handle)))
		raw, err := m.makeIn(ctx, child, sibling, f)
		if err == nil {
			child.openParams = params
			return raw, nil
		}
		m.log.Info("agent could not fork, the child is seeded instead", "session", s.source.handle, "agent", child.agentName, "err", err)
		child.prompted = false
	}
	child.lineage.Rung = "seed"
	if len(events) == 0 {
		child.lineage.Rung = "fresh"
	}
	proc, err := m.cfg.Agents.Acquire(ctx, child.principal, child.agentName, child.cwd)
	if err != nil {
		return nil, err
	}
	if text := historyText(events); text != "" {
		child.addPrefix(prefixBlock{Kind: "history", Block: historyBlock(text, proc.Info().EmbeddedContext)})
	}
	return m.makeIn(ctx, child, proc, mustFrame(wire.AppendRequest(nil, []byte("0"), "session/new", params)))
}

// atRest reports whether cut is still the head of the conversation and no turn runs. Under mu.
func (s *session) atRest(cut uint64) bool {
	if v := s.view; v != nil && v.turn != nil && !v.turn.slash {
		return false
	}
	return s.prompted && s.lastCompleted() == cut
}

// lineage says where a side conversation comes from (rule S7).
type lineage struct {
	Parent       string `json:"parentSession"`
	ParentHandle string `json:"parentView"`
	ParentTitle  string `json:"parentTitle,omitempty"`
	SeedLength   int    `json:"seedLength"`
	Rung         string `json:"rung"` // fork, seed or fresh
	Compacted    bool   `json:"compacted,omitempty"`
	Side         bool   `json:"side"` // framed and gated, with a way home; else a plain fork
}

// isTitle reports whether an update names the session. A side conversation keeps the name that it got from its question,
// whatever the agent calls it (rule S7).
func isTitle(f *wire.Frame) bool {
	return wire.Equal(f.UpdateKind.Of(f.Raw), "session_info_update") && wire.Lookup(f.Update.Of(f.Raw), "title").Present()
}

// isSide reports whether the session is a side conversation. Under mu.
func (s *session) isSide() bool { return s.lineage != nil && s.lineage.Side }

// add puts the lineage into _meta of an answer or a row.
func (l *lineage) add(meta map[string]any) {
	if l == nil {
		return
	}
	meta["parentSession"], meta["parentView"], meta["seedLength"], meta["rung"] = l.Parent, l.ParentHandle, l.SeedLength, l.Rung
	if l.Side {
		meta["side"] = true
	}
}

// banner is the notice with which a side conversation begins.
func (s *session) banner() string {
	l := s.lineage
	name := "session " + clip(l.Parent, 8)
	if l.ParentTitle != "" {
		name = "“" + oneLine(l.ParentTitle) + "”"
	}
	how := map[string]string{
		"fork":  "the agent forked it",
		"seed":  "this agent cannot fork here, so it gets the conversation as text with the first prompt",
		"fresh": "nothing was completed there yet, so it knows nothing of it",
	}[l.Rung]
	text := fmt.Sprintf("Side conversation of %s, %s inherited: %s.", name, plural(l.SeedLength, "message"), how)
	if l.Compacted {
		text += " The agent had compacted that conversation, so it may remember less than what is shown."
	}
	if s.m.cfg.SideGateOff {
		return text + " Changes are only advised against: the read-only gate is off."
	}
	return text + " It is read-only: what the agent asks to change is refused. An agent that changes things without asking is only advised not to."
}

func countMessages(s *session) int {
	n := 0
	s.journal.Transcript(func(list []*journal.Entry, _, dropped int) {
		n = dropped
		for _, e := range list {
			if e.Kind == journal.User || e.Kind == journal.Agent {
				n++
			}
		}
	})
	return n
}

// ask sends a prompt that no client sent: the question of /side (rule S7). Under mu.
func (v *View) ask(text string) {
	params := append([]byte(`{"sessionId":`), v.bound.Load().tok...)
	block := mustJSON(textBlock(text))
	params = append(append(append(params, `,"prompt":[`...), block...), "]}"...)
	f := mustFrame(wire.AppendRequest(nil, []byte("0"), "session/prompt", params))
	t := &turn{id: newID()[:16], text: text, frame: f}
	if v.turn != nil {
		v.queue = append(v.queue, t)
		v.stateChanged()
		return
	}
	v.startTurn(t, []rawBlock{rawBlock(block)})
}
