package sessions

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"strings"
	"time"

	"github.com/acpgate/acpgate/agentpool/wire"
	"github.com/acpgate/acpgate/sessions/journal"
)

// turn is one prompt, from its arrival to its result.
type turn struct {
	id      string
	key     string // idempotency key of the client, or ""
	hash    [sha256.Size]byte
	by      string // connection that sent it
	text    string // what the queue shows
	frame   *wire.Frame
	waiters []waiter
	started time.Time
	ended   time.Time
	sess    *session // that it runs in
	first   uint64   // seq of its first event there

	call         CallID
	slash        bool   // a command of ours, or a move to another session: the agent knows nothing of it
	ready        bool   // it is stored: the agent may have it
	running      bool   // the agent has the prompt
	prefix       int    // blocks of the session's prefix that went with it
	hold         bool   // the answer waits for more than the turn's end
	onEnd        func() // under mu, when the turn has ended
	cancelled    bool
	answered     bool // the agent has sent something for it
	forceOffered bool
	force        *time.Timer

	storedIn string // of a turn that was recalled: the session in whose journal it is

	result []byte // raw result, or
	errObj []byte // raw error object
}

// waiter is a client request that the turn's result answers.
type waiter struct {
	att *Attachment
	id  []byte
}

func (t *turn) done() bool { return t.result != nil || t.errObj != nil }

func (t *turn) stopReason() string {
	var r struct {
		StopReason string `json:"stopReason"`
	}
	if t.result == nil || json.Unmarshal(t.result, &r) != nil {
		return ""
	}
	return r.StopReason
}

type promptParams struct {
	Prompt []json.RawMessage `json:"prompt"`
	Meta   struct {
		Gate struct {
			Key string `json:"key"`
		} `json:"acpgate"`
	} `json:"_meta"`
}

const maxKey = 128

// prompt takes a session/prompt of a client (rule V16). Under mu.
func (v *View) prompt(a *Attachment, f *wire.Frame) error {
	var p promptParams
	if err := json.Unmarshal(f.Params.Of(f.Raw), &p); err != nil || len(p.Prompt) == 0 {
		return errParams("session/prompt needs params.prompt, a non-empty array of content blocks", `send {"sessionId", "prompt": [{"type": "text", "text": "..."}]}`)
	}
	key := p.Meta.Gate.Key
	if len(key) > maxKey || strings.IndexByte(key, 0) >= 0 {
		return errParams("_meta.acpgate.key must have at most 128 bytes and no NUL", "send another key")
	}
	var hash [sha256.Size]byte
	if key != "" {
		hash = sha256.Sum256(wire.Lookup(f.Params.Of(f.Raw), "prompt").Of(f.Params.Of(f.Raw)))
		if t := v.keys[key]; t != nil && time.Since(t.ended) > v.m.cfg.KeyTTL && t.done() {
			v.forgetKey(key)
		}
		if t := v.keys[key]; t != nil {
			if t.hash != hash {
				return &Error{
					Code: CodeInvalidParams, Reason: "key_reused", Message: "The key was used for another prompt",
					Hint: "send a new key with every new prompt",
				}
			}
			if t.done() {
				a.anchorAt(v.journal.Head().Seq, waiter{a, f.ID.Of(f.Raw)}, v.turnReply(t))
				return nil
			}
			t.waiters = append(t.waiters, waiter{a, f.ID.Of(f.Raw)})
			return nil
		}
	}
	if v.lost.Load() {
		return errStore(ErrFenced)
	}
	if err := v.m.keeper.down(); err != nil {
		return err
	}
	if v.m.draining.Load() {
		return &Error{Code: CodeInternal, Reason: "draining", Message: "The gateway is shutting down", Hint: "reconnect and send the prompt again"}
	}
	cmd, rest, escaped := parseSlash(p.Prompt)
	if escaped != nil {
		params := f.Params.Of(f.Raw)
		at := wire.Lookup(params, "prompt")
		span := wire.Span{Start: f.Params.Start + at.Start, End: f.Params.Start + at.End}
		f = mustFrame(wire.Splice(nil, f.Raw, wire.Edit{Span: span, With: mustJSON([]json.RawMessage{escaped})}))
		p.Prompt = []json.RawMessage{escaped}
	}
	if cmd == nil && v.turn != nil && len(v.queue) >= v.m.cfg.Queue {
		return &Error{
			Code: CodeInternal, Reason: "queue_full", Message: "Too many prompts are waiting in this session",
			Hint: "wait for a turn to end, or cancel a waiting prompt", Data: mustJSON(map[string]int{"queue": len(v.queue), "limit": v.m.cfg.Queue}),
		}
	}
	t := &turn{
		id: newID()[:16], key: key, hash: hash, by: a.c.ID(), text: blocksText(p.Prompt), frame: f,
		waiters: []waiter{{a, f.ID.Of(f.Raw)}},
	}
	if key != "" {
		v.remember(key, t)
	}
	v.touch()
	if cmd != nil {
		if err := v.slash(t, a, cmd, rest, p.Prompt); err != nil {
			if key != "" {
				v.forgetKey(key)
			}
			return err
		}
		return nil
	}
	if v.turn != nil {
		v.queue = append(v.queue, t)
		v.stateChanged()
		return nil
	}
	v.startTurn(t, p.Prompt)
	return nil
}

func (v *View) remember(key string, t *turn) {
	if v.keys == nil {
		v.keys = map[string]*turn{}
	}
	for len(v.keyOrder) >= v.m.cfg.KeysPerView {
		v.forgetKey(v.keyOrder[0])
	}
	v.keys[key] = t
	v.keyOrder = append(v.keyOrder, key)
}

// startTurn journals the prompt and writes it to the agent, waking it first if it sleeps. Under mu.
func (v *View) startTurn(t *turn, blocks []json.RawMessage) {
	if v.lost.Load() { // while it waited in the queue
		v.endTurn(t, nil, errStore(ErrFenced).Object())
		return
	}
	now := time.Now()
	v.turn, t.started = t, now
	t.sess, t.first = v.session, v.journal.Head().Seq+1
	v.saveKey(t)       // records are stored before the events that follow them
	if blocks == nil { // of ours: it is no part of the transcript
		v.journal.Append(journal.Prompt, now, mustJSON(journal.PromptData{
			Turn: t.id, Key: t.key, By: t.by, View: v.handle, Content: mustJSON(textBlock(t.text)),
		}))
		t.first++
	}
	for i, b := range blocks {
		v.journal.Append(journal.Prompt, now, mustJSON(journal.PromptData{Turn: t.id, Key: t.key, By: t.by, Index: i, Content: b}))
	}
	last := v.journal.Head().Seq
	v.stateChanged()
	v.m.known.prompted(v.session, t.text)
	// What is asked is stored before the agent hears of it: the same key never runs twice (rule V16).
	stored := func(err error) {
		v.mu.Lock()
		defer v.mu.Unlock()
		switch {
		case v.turn != t:
		case err != nil:
			v.endTurn(t, nil, errStore(err).Object())
		default:
			v.goOn(t)
		}
	}
	if v.journal.AfterStored(last, stored) {
		return
	}
	if v.lost.Load() { // found out in this moment
		v.endTurn(t, nil, errStore(ErrFenced).Object())
		return
	}
	v.goOn(t)
}

// goOn hands the running turn's prompt to the agent, waking it first if it sleeps: while it wakes, the prompt waits for its
// settings too. Under mu.
func (v *View) goOn(t *turn) {
	t.ready = true
	if v.proc == nil || v.waking {
		v.wake()
		return
	}
	v.send(t)
}

// send writes the running turn's prompt to the agent. Under mu.
func (v *View) send(t *turn) {
	f, edits := v.rebind(t.frame)
	if t.prefix = len(v.prefix); t.prefix > 0 {
		edits = append(edits, prefixEdit(f, v.prefixBlocks()))
	}
	first := !v.prompted
	v.prompted = true
	if first {
		v.session.save()
	}
	call, err := v.proc.Request(f, edits, func(r Reply) { v.turnDone(t, r) })
	if err != nil {
		v.endTurn(t, nil, AsError(err).Object())
		return
	}
	t.call, t.running = call, true
	if t.cancelled {
		v.tellCancel()
	}
}

// rebind returns the edits that turn a client's frame into one for the agent: the binding's id, and no member of ours in
// _meta. Under mu.
func (v *View) rebind(f *wire.Frame) (*wire.Frame, []wire.Edit) {
	edits := []wire.Edit{f.EditSession(v.bound.Load().tok)}
	if e, ok := f.StripGateMeta(); ok {
		edits = append(edits, e)
	}
	return f, edits
}

// turnDone runs on the process's reader goroutine.
func (v *View) turnDone(t *turn, r Reply) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if t.done() {
		return
	}
	switch {
	case r.Err != nil:
		v.endTurn(t, nil, AsError(r.Err).Object())
	case r.Frame.Kind == wire.Failure:
		v.endTurn(t, nil, agentFailure(r.Frame.Error.Of(r.Frame.Raw), v.handle).Object())
	default:
		v.endTurn(t, t.finalResult(r.Frame), nil)
	}
}

// finalResult copies the agent's result. A turn that was cancelled counts as cancelled even when the agent says end_turn
// (rule V17, CASE 32).
func (t *turn) finalResult(f *wire.Frame) []byte {
	raw := f.Result.Of(f.Raw)
	if !t.cancelled || !wire.Equal(f.StopReason.Of(f.Raw), "end_turn") {
		return append([]byte(nil), raw...)
	}
	s := wire.Span{Start: f.StopReason.Start - f.Result.Start, End: f.StopReason.End - f.Result.Start}
	return wire.Splice(nil, raw, wire.Edit{Span: s, With: []byte(`"cancelled"`)})
}

// endTurn records the outcome, answers whoever waits for it, and starts the next prompt. Under mu.
func (v *View) endTurn(t *turn, result, errObj []byte) {
	if t.done() {
		return // the view was closed meanwhile
	}
	t.result, t.errObj, t.ended = result, errObj, time.Now()
	t.frame = nil
	if t.force != nil {
		t.force.Stop()
	}
	if t.prefix > 0 && t.running && (errObj == nil || t.answered) {
		// An agent that failed before it said anything has not got what was in front of the prompt: it goes with the next one.
		v.delivered(t.prefix)
	}
	if !t.slash {
		v.last = t
	}
	if v.turn == t {
		v.turn = nil
	}
	// The replies are anchored behind the turn's end before it can be read.
	seq := v.journal.Head().Seq + 1
	if !t.hold {
		for _, w := range t.waiters {
			w.att.anchorAt(seq, w, v.turnReply(t))
		}
		t.waiters = nil
	}
	v.saveKey(t)
	v.journal.Append(journal.TurnEnd, t.ended, mustJSON(journal.TurnEndData{Turn: t.id, Key: t.key, Result: result, Error: errObj, Command: t.slash}))
	v.touch()
	if !t.slash {
		v.m.known.touch(v.session)
		v.session.save()
	}
	if t.onEnd != nil {
		t.onEnd()
	}
	if v.turn == nil && len(v.queue) > 0 && !v.closed {
		next := v.queue[0]
		v.queue = v.queue[1:]
		var p promptParams
		_ = json.Unmarshal(next.frame.Params.Of(next.frame.Raw), &p) // was decoded when it was queued
		v.startTurn(next, p.Prompt)
		return
	}
	v.stateChanged()
}

// cancel is session/cancel (rule V17): open requests first, then the queue, then the agent. Under mu.
func (v *View) cancel() {
	for _, id := range append([]int64(nil), v.reqOrder...) {
		if r := v.requests[id]; r != nil {
			v.answerCancelled(r, "cancelled")
		}
	}
	q := v.queue
	v.queue = nil
	for _, t := range q {
		v.endTurn(t, []byte(`{"stopReason":"cancelled"}`), nil)
	}
	t := v.turn
	if t == nil || t.cancelled || (t.slash && !t.hold) {
		return
	}
	t.cancelled = true
	if !t.running { // still being woken: the agent never saw it
		v.endTurn(t, []byte(`{"stopReason":"cancelled"}`), nil)
		return
	}
	v.tellCancel()
	t.force = time.AfterFunc(v.m.cfg.ForceAfter, func() { v.offerForce(t) })
	v.stateChanged()
}

func (v *View) tellCancel() {
	if v.proc == nil {
		return
	}
	params := wire.AppendQuote([]byte(`{"sessionId":`), v.bound.Load().id)
	f := mustFrame(wire.AppendNotification(nil, "session/cancel", append(params, '}')))
	if err := v.proc.Notify(f, nil); err != nil {
		v.m.log.Warn("cancel could not be written", "view", v.handle, "err", err)
	}
}

func (v *View) offerForce(t *turn) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if t.done() || v.turn != t || v.proc == nil {
		return
	}
	t.forceOffered = true
	v.stateChanged()
}

// forceStop ends the agent's process (rule V17) and returns how many other sessions fail with it. Under mu.
func (v *View) forceStop() (others int, kill func()) {
	if v.proc == nil {
		return 0, func() {}
	}
	p := v.proc
	return max(p.Sessions()-1, 0), func() { p.Kill("agent_restarted") }
}

// dequeue takes a waiting prompt out of the queue and answers it -32800. Under mu.
func (v *View) dequeue(match func(*turn) bool) bool {
	for i, t := range v.queue {
		if match(t) {
			v.queue = append(v.queue[:i:i], v.queue[i+1:]...)
			v.endTurn(t, nil, errCancelled().Object())
			return true
		}
	}
	return false
}

func errCancelled() *Error {
	return &Error{Code: CodeCancelled, Reason: "cancelled", Message: "The request was cancelled"}
}

// blocksText is the readable text of a prompt.
func blocksText(blocks []json.RawMessage) string {
	var sb strings.Builder
	for _, b := range blocks {
		var c struct {
			Type, Text, Name, URI string
		}
		if json.Unmarshal(b, &c) != nil {
			continue
		}
		if sb.Len() > 0 {
			sb.WriteByte(' ')
		}
		if c.Type == "text" {
			sb.WriteString(c.Text)
		} else {
			sb.WriteString("[" + c.Type + "]")
		}
	}
	return sb.String()
}

// wake opens the sleeping session again, then goes on with the turn that waits. Under mu.
func (v *View) wake() {
	if v.waking || v.closed {
		return
	}
	v.waking = true
	v.stateChanged()
	v.m.spawn(func(ctx context.Context) { v.m.reopen(ctx, v) })
}
