package sessions

import (
	"encoding/json"
	"math"
	"sync"
	"sync/atomic"

	"github.com/acpgate/acpgate/agentpool/wire"
	"github.com/acpgate/acpgate/sessions/journal"
)

// Attachment is one connection's use of a view under one handle: a cursor into the journal, and the replies that wait for
// the cursor to reach their place. It is private to the connection.
type Attachment struct {
	v       *View
	sess    *session // what the cursor reads
	c       Client
	handle  string
	tok     []byte // handle, quoted
	optedIn bool
	form    *form
	reader  *journal.Reader
	replay  uint64 // events up to this seq were there before the attach

	// nextAnchor is the place of the first anchored frame, so that Pull need not take mu for every event.
	nextAnchor atomic.Uint64

	mu       sync.Mutex
	anchored []anchoredFrame // by place, then in order of arrival
	sent     map[int64]bool  // agent requests that the client got and that are open: true, or false once it refused
	detached bool

	scratch []byte // Pull only
}

// anchoredFrame leaves when everything up to seq has left: a response keeps its place among the updates (rule W5).
type anchoredFrame struct {
	seq   uint64
	id    []byte // client's request id; nil for a notification or an agent's request
	frame []byte
	req   int64 // agent request that the frame carries, or 0
}

// newAttachment adds an attachment at cursor c. Under v.mu.
func (v *View) newAttachment(cl Client, handle string, c journal.Cursor) (*Attachment, error) {
	a := &Attachment{v: v, sess: v.session, c: cl, handle: handle, tok: wire.AppendQuote(nil, handle), optedIn: cl.Features().OptedIn}
	a.nextAnchor.Store(math.MaxUint64)
	r, err := v.journal.NewReader(c, func() { cl.Wake(a) }, func() { cl.Drop(a, ErrLagging) })
	if err != nil {
		return nil, err
	}
	a.reader = r
	a.replay = v.journal.Head().Seq
	a.form = v.formOf(handle, a.optedIn)
	if v.atts == nil {
		v.atts = map[*Attachment]struct{}{}
	}
	v.atts[a] = struct{}{}
	if v.alone != nil {
		v.alone.Stop()
		v.alone = nil
	}
	v.touch()
	return a, nil
}

// Handle is the id under which this connection uses the view.
func (a *Attachment) Handle() string { return a.handle }

// Detach ends the attachment; the view and its turn go on (rule V20). It is safe to call twice.
func (a *Attachment) Detach() {
	v := a.v
	v.mu.Lock()
	defer v.mu.Unlock()
	if _, ok := v.atts[a]; !ok {
		return
	}
	delete(v.atts, a)
	a.reader.Close()
	v.dropForm(a.form)
	a.mu.Lock()
	a.detached, a.anchored, a.sent = true, nil, nil
	a.mu.Unlock()
	for _, t := range append(v.queue[:len(v.queue):len(v.queue)], v.turn) {
		if t != nil {
			t.leave(a)
		}
	}
	v.touch()
	if len(v.atts) > 0 {
		v.checkAnswerable()
	} else {
		v.watchAlone()
		if !v.prompted && v.idle != nil {
			v.idle.Reset(v.idleIn()) // an empty view ends sooner now that nobody is attached
		}
	}
}

func (t *turn) leave(a *Attachment) {
	keep := t.waiters[:0]
	for _, w := range t.waiters {
		if w.att != a {
			keep = append(keep, w)
		}
	}
	t.waiters = keep
}

// anchorAt queues the reply to w for the time when the cursor has passed seq.
func (a *Attachment) anchorAt(seq uint64, w waiter, r reply) {
	a.anchor(anchoredFrame{seq: seq, id: w.id, frame: r.encode(w.id, a)})
}

func (a *Attachment) anchor(f anchoredFrame) {
	a.mu.Lock()
	if a.detached {
		a.mu.Unlock()
		return
	}
	i := len(a.anchored)
	for i > 0 && a.anchored[i-1].seq > f.seq {
		i--
	}
	a.anchored = append(a.anchored, anchoredFrame{})
	copy(a.anchored[i+1:], a.anchored[i:])
	a.anchored[i] = f
	a.nextAnchor.Store(a.anchored[0].seq)
	a.mu.Unlock()
	a.reader.Poke()
}

// due takes the anchored frames whose place has come.
func (a *Attachment) due(seq uint64) []anchoredFrame {
	if a.nextAnchor.Load() > seq {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	n := 0
	for n < len(a.anchored) && a.anchored[n].seq <= seq {
		n++
	}
	due := a.anchored[:n:n]
	a.anchored = a.anchored[n:]
	if len(a.anchored) == 0 {
		a.anchored = nil
		a.nextAnchor.Store(math.MaxUint64)
	} else {
		a.nextAnchor.Store(a.anchored[0].seq)
	}
	return due
}

// Pull hands out what is ready for the client, in order. One goroutine at a time may call it. When it returns false it has
// run dry and Client.Wake will be called once there is more; true means that out was full.
func (a *Attachment) Pull(out Out) (more bool) {
	for {
		if full := a.emitDue(out); full {
			return true
		}
		chunk, ok, err := a.reader.Next()
		if err != nil {
			a.c.Drop(a, ErrLagging)
			return false
		}
		if !ok {
			if a.arm() {
				return false
			}
			continue
		}
		for i := range chunk.Len() {
			ev := chunk.At(i)
			if a.nextAnchor.Load() < ev.Seq {
				if full := a.emitDue(out); full {
					return true
				}
			}
			room := a.emit(out, ev)
			a.reader.Advance(ev)
			if !room {
				return true
			}
		}
	}
}

// arm asks for a wake-up; false when there is something to do already.
func (a *Attachment) arm() bool {
	if !a.reader.Arm() {
		return false
	}
	if a.nextAnchor.Load() <= a.reader.Cursor().Seq {
		// An anchor came between the last look and Arm. Whoever disarms owns the wake-up; one too many does no harm.
		a.reader.Poke()
	}
	return true
}

func (a *Attachment) emitDue(out Out) (full bool) {
	due := a.due(a.reader.Cursor().Seq)
	for i, d := range due {
		room := true
		switch {
		case d.id != nil:
			room = out.Reply(d.id, d.frame)
		case d.req == 0 || a.offer(d.req):
			room = out.Frame(d.frame)
		}
		if !room {
			a.putBack(due[i+1:])
			return true
		}
	}
	return false
}

func (a *Attachment) putBack(rest []anchoredFrame) {
	if len(rest) == 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.detached {
		return
	}
	a.anchored = append(append([]anchoredFrame(nil), rest...), a.anchored...)
	a.nextAnchor.Store(a.anchored[0].seq)
}

// offer notes that the client gets agent request id now. False when it has it already or the request is no longer open.
func (a *Attachment) offer(id int64) bool {
	if _, open := a.v.m.requests.Load(id); !open {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, had := a.sent[id]; had || a.detached {
		return false
	}
	if a.sent == nil {
		a.sent = map[int64]bool{}
	}
	a.sent[id] = true
	return true
}

// retract reports whether the client has the request on its screen, and forgets it.
func (a *Attachment) retract(id int64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	shown := a.sent[id]
	delete(a.sent, id)
	return shown
}

func (a *Attachment) forget(id int64) { a.retract(id) }

// refused notes that the client answered the request with an error.
func (a *Attachment) refused(id int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.sent == nil {
		a.sent = map[int64]bool{}
	}
	a.sent[id] = false
}

// canAnswer reports whether the client can show r.
func (a *Attachment) canAnswer(r *agentRequest) bool {
	f := a.c.Features()
	if (r.form && !f.ElicitForm) || (r.url && !f.ElicitURL) {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	shown, had := a.sent[r.id]
	return !had || shown
}

// reply is a response before it has an id.
type reply struct {
	result []byte
	errObj []byte
	meta   func(*Attachment) []byte // the acpgate member for opted-in clients, or nil
}

func (r reply) encode(id []byte, a *Attachment) []byte {
	if r.errObj != nil {
		return appendErrorObject(nil, id, r.errObj)
	}
	b := wire.AppendResult(nil, id, r.result)
	if r.meta == nil || !a.optedIn {
		return b
	}
	return withMeta(b, r.meta(a))
}

// appendErrorObject appends a response with a raw error object.
func appendErrorObject(dst, id, obj []byte) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = append(dst, id...)
	dst = append(dst, `,"error":`...)
	dst = append(dst, obj...)
	return append(dst, '}')
}

// withMeta puts an acpgate member into the frame's _meta.
func withMeta(b, member []byte) []byte {
	f := mustFrame(b)
	e, ok := f.EditMeta(member)
	if !ok {
		return b
	}
	return wire.Splice(nil, b, e)
}

func (v *View) turnReply(t *turn) reply {
	cur := v.journal.Head()
	return reply{result: t.result, errObj: t.errObj, meta: func(*Attachment) []byte {
		return metaMember(map[string]any{
			"session": v.bound.Load().id, "epoch": cur.Epoch, "seq": cur.Seq, "turn": t.id, "key": t.key,
		})
	}}
}

// metaMember returns `"acpgate":{...}` without members that are empty strings.
func metaMember(m map[string]any) []byte {
	for k, x := range m {
		if x == "" {
			delete(m, k)
		}
	}
	return append([]byte(`"acpgate":`), mustJSON(m)...)
}

// mustFrame parses a frame that this package has built.
func mustFrame(b []byte) *wire.Frame {
	f, err := wire.Parse(b, wire.Limits{})
	if err != nil {
		panic("sessions: built a bad frame: " + err.Error())
	}
	return &f
}

// snapshotFrames queues the session's current values and open requests behind seq (rules V18, V21). Under v.mu.
func (a *Attachment) snapshotFrames(seq uint64, values bool) {
	v := a.v
	if values {
		for _, k := range snapshotKinds {
			if line := v.snap.lines[k]; line != nil {
				a.anchor(anchoredFrame{seq: seq, frame: a.snapshotLine(line)})
			}
		}
	}
	if a.optedIn {
		a.anchor(anchoredFrame{seq: seq, frame: a.stateFrame(mustJSON(v.state()), []byte(`"acpgate":{"kind":"snapshot"}`))})
	}
	for _, id := range v.reqOrder {
		r := v.requests[id]
		if r.seq <= seq && a.canAnswer(r) {
			a.anchor(anchoredFrame{seq: seq, frame: a.requestFrame(r.raw), req: r.id})
		}
	}
}

func (a *Attachment) snapshotLine(line []byte) []byte {
	f := mustFrame(line)
	edits := []wire.Edit{f.EditSession(a.tok)}
	if a.optedIn {
		if e, ok := f.EditMeta([]byte(`"acpgate":{"kind":"snapshot"}`)); ok {
			edits = append(edits, e)
		}
	}
	return wire.Splice(nil, line, edits...)
}

func (a *Attachment) requestFrame(raw []byte) []byte {
	f := mustFrame(raw)
	if string(f.SessionID.Of(raw)) == string(a.tok) || !f.SessionID.Present() {
		return raw
	}
	return wire.Splice(nil, raw, f.EditSession(a.tok))
}

// opened is the result of a session method for a client that joins a live view: what the agent said when the session was
// opened, with the values of now (rule V21).
func (v *View) joinResult() []byte {
	out := map[string]json.RawMessage{}
	for k, x := range v.opened {
		if k != "sessionId" && k != "_meta" {
			out[k] = x
		}
	}
	if v.snap.mode != "" && out["modes"] != nil {
		var modes map[string]json.RawMessage
		if json.Unmarshal(out["modes"], &modes) == nil && modes != nil {
			modes["currentModeId"] = mustJSON(v.snap.mode)
			out["modes"] = mustJSON(modes)
		}
	}
	if line := v.snap.lines["config_option_update"]; line != nil {
		f := mustFrame(line)
		if opts := wire.Lookup(f.Update.Of(line), "configOptions").Of(f.Update.Of(line)); opts != nil {
			out["configOptions"] = append(json.RawMessage(nil), opts...)
		}
	}
	return mustJSON(out)
}

// openedMeta is the acpgate member of the results of session methods.
func (v *View) openedMeta(c journal.Cursor, resync string) func(*Attachment) []byte {
	binding, title := v.bound.Load().id, v.snap.title
	return func(a *Attachment) []byte {
		return metaMember(map[string]any{
			"view": v.handle, "binding": binding, "agent": v.agentName, "cwd": v.cwd, "title": title, "resync": resync,
			"cursor": cursorData{binding, c.Epoch, c.Seq},
		})
	}
}

type cursorData struct {
	Session string `json:"session"`
	Epoch   uint64 `json:"epoch"`
	Seq     uint64 `json:"seq"`
}
