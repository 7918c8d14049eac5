package sessions

import (
	"context"
	"strings"
	"unicode/utf8"

	"github.com/acpgate/acpgate/agentpool/wire"
	"github.com/acpgate/acpgate/sessions/journal"
)

const (
	noteAsked = 1500 // characters that the agent is asked for
	noteRunes = 2000 // a longer note is cut here (rule S9)
)

// condensePrompt asks for the note that goes home.
const condensePrompt = "Condense this side conversation into a note for the main conversation, which has not seen it: what was found out and what follows from it. " +
	"At most 1500 characters, plain text, no greeting and no heading. Answer with the note alone."

// condense runs the turn that writes the note of a side conversation. done gets the note, or why there is none. Under mu.
func (v *View) condense(t *turn, done func(note string, err *Error)) {
	params := append([]byte(`{"sessionId":`), v.bound.Load().tok...)
	block := mustJSON(textBlock(condensePrompt))
	params = append(append(append(params, `,"prompt":[`...), block...), "]}"...)
	t.frame = mustFrame(wire.AppendRequest(nil, []byte("0"), "session/prompt", params))
	t.hold = true
	t.onEnd = func() {
		note, err := v.noteOf(t)
		done(note, err)
	}
	v.startTurn(t, nil)
}

// noteOf is what the agent answered in a condense turn. Under mu.
func (v *View) noteOf(t *turn) (string, *Error) {
	none := func(why string) *Error {
		return &Error{Code: CodeInternal, Reason: "nothing_merged", Message: "Nothing was merged: " + why, Hint: "send /merge again, or write the note yourself"}
	}
	switch reason := t.stopReason(); {
	case t.errObj != nil:
		message, _ := wire.Unquote(wire.Lookup(t.errObj, "message").Of(t.errObj)) // absent: ""
		return "", none("the agent failed: " + oneLine(message))
	case t.cancelled || reason == "cancelled":
		return "", none("it was cancelled")
	case reason == "refusal":
		return "", none("the agent refused")
	}
	var sb strings.Builder
	v.each(func(e journal.Event) bool {
		if e.Type != journal.Update || e.Seq < t.first {
			return true
		}
		f, err := wire.Parse(e.Data, journal.LineLimits())
		if err != nil || !wire.Equal(f.UpdateKind.Of(f.Raw), "agent_message_chunk") {
			return true
		}
		content := wire.Lookup(f.Update.Of(f.Raw), "content", "text")
		if text, err := wire.Unquote(content.Of(f.Update.Of(f.Raw))); err == nil {
			sb.WriteString(text)
		}
		return true
	})
	note := strings.TrimSpace(sb.String())
	if note == "" {
		return "", none("the agent wrote nothing")
	}
	return cutRunes(note, noteRunes), nil
}

// cutRunes keeps at most n runes of s.
func cutRunes(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	i := 0
	for range n {
		_, size := utf8.DecodeRuneInString(s[i:])
		i += size
	}
	return s[:i]
}

// errNotSide answers /merge outside a side conversation.
func errNotSide() *Error {
	return &Error{Code: CodeInvalidParams, Reason: "not_side", Message: "This is no side conversation", Hint: "/side opens one; /merge there brings a note home"}
}

// cmdMerge condenses the side conversation and brings the note home (rule S9).
func (v *View) cmdMerge(t *turn) error {
	if !v.isSide() {
		v.answerCommand(t, "This is no side conversation, so there is nothing to merge. /side opens one.", nil)
		return nil
	}
	if v.turn != nil || v.waking {
		return errTurnRunning()
	}
	t.slash = false // the agent has a part in it
	v.condense(t, func(note string, err *Error) {
		if err != nil {
			v.report(err.Message + ".")
			t.result, t.errObj = []byte(`{"stopReason":"end_turn"}`), nil // the command itself went well
			v.release(t)
			return
		}
		v.m.spawn(func(ctx context.Context) { v.bringHome(ctx, t, note) })
	})
	return nil
}

// release sends the answer of a turn that was held back. Under mu.
func (v *View) release(t *turn) {
	t.hold = false
	seq := v.journal.Head().Seq
	for _, w := range t.waiters {
		w.att.anchorAt(seq, w, v.turnReply(t))
	}
	t.waiters = nil
	v.stateChanged()
}

// bringHome stores the note with the parent, then answers.
func (v *View) bringHome(ctx context.Context, t *turn, note string) {
	err := v.m.mergeNote(ctx, v, t.id, note)
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case err != nil:
		v.report(AsError(err).Message + ". The note was:\n\n" + note)
	default:
		v.report("The note went to " + v.parentName() + "; its agent gets it with the next message there.")
	}
	v.release(t)
}

func (v *View) parentName() string {
	if l := v.lineage; l.ParentTitle != "" {
		return "“" + oneLine(l.ParentTitle) + "”"
	}
	return "the main conversation"
}

// mergeNote makes the note a context entry of the parent: exactly one for its id, the child and its condense turn. It joins the
// parent's journal whether or not a view shows the parent, and goes to the parent's agent with the next prompt (rule S10).
func (m *Manager) mergeNote(ctx context.Context, v *View, turnID, note string) error {
	v.mu.Lock()
	child, l := v.bound.Load().id, v.lineage
	title := v.title()
	k := viewKey{v.principal, v.agentName, l.Parent}
	v.mu.Unlock()
	if m.known.hidden(k.principal, k.agent, k.handle) {
		return &Error{Code: CodeNotFound, Reason: "parent_deleted", Message: "The main conversation was deleted, so the note has nowhere to go"}
	}
	parent, err := m.hold(ctx, k)
	if err != nil {
		return err
	}
	if parent == nil {
		return &Error{Code: CodeNotFound, Reason: "parent_deleted", Message: "The main conversation is gone, so the note has nowhere to go"}
	}
	id := child + "/" + turnID
	parent.mu.Lock()
	for _, b := range parent.prefix {
		if b.ID == id {
			parent.mu.Unlock()
			return nil
		}
	}
	from := title
	if from == "" {
		from = child
	}
	parent.addPrefix(prefixBlock{ID: id, Kind: "note", Block: tagged(noteTag,
		"A note from a side conversation about this one ("+oneLine(from)+"). It is for your information; do not answer it by itself.\n\n"+note)})
	parent.save()
	parent.appendContext(contextData{
		ID: id, Role: "note", State: "pending", Text: note,
		Source: journal.ContextSource{Session: child, Title: title},
	})
	seq := parent.journal.Head().Seq
	stored := make(chan error, 1)
	wait := parent.journal.AfterStored(seq, func(err error) { stored <- err })
	parent.mu.Unlock()
	if !wait {
		return nil
	}
	select {
	case <-ctx.Done():
		return callEnded(ctx)
	case err := <-stored:
		if err != nil {
			return errStore(err)
		}
		return nil
	}
}

// preview is _acpgate/merge_preview: the condense turn alone; the note comes in the result, for the client to send with
// _acpgate/merge. Under mu.
func (v *View) preview(a *Attachment, w waiter) error {
	switch {
	case !v.isSide():
		return errNotSide()
	case v.turn != nil || v.waking:
		return errTurnRunning()
	}
	t := &turn{id: newID()[:16], by: a.c.ID(), text: "/merge"}
	v.condense(t, func(note string, err *Error) {
		t.hold = false
		r := reply{result: mustJSON(map[string]string{"note": note, "turn": t.id})}
		if err != nil {
			r = reply{errObj: err.Object()}
		}
		a.anchorAt(v.journal.Head().Seq, w, r)
	})
	return nil
}

// sendNote is _acpgate/merge: a note that the client has seen, perhaps edited. Under mu.
func (v *View) sendNote(a *Attachment, w waiter, params []byte) error {
	if !v.isSide() {
		return errNotSide()
	}
	note, err := wire.Unquote(wire.Lookup(params, "note").Of(params))
	if note = strings.TrimSpace(note); err != nil || note == "" {
		return errParams("_acpgate/merge needs params.note, a text", "send the note of _acpgate/merge_preview, or your own")
	}
	turnID, err := wire.Unquote(wire.Lookup(params, "turn").Of(params))
	if err != nil || turnID == "" {
		turnID = newID()[:16]
	}
	v.m.spawn(func(ctx context.Context) {
		err := v.m.mergeNote(ctx, v, turnID, cutRunes(note, noteRunes))
		v.mu.Lock()
		defer v.mu.Unlock()
		if err != nil {
			a.anchorAt(v.journal.Head().Seq, w, reply{errObj: AsError(err).Object()})
			return
		}
		v.report("The note went to " + v.parentName() + "; its agent gets it with the next message there.")
		a.anchorAt(v.journal.Head().Seq, w, reply{result: mustJSON(map[string]string{"note": cutRunes(note, noteRunes)})})
	})
	return nil
}
