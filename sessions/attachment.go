package sessions

import (
	"math"
	"sync"
	"sync/atomic"

	"github.com/acpgate/acpgate/agentpool/wire"
	"github.com/acpgate/acpgate/sessions/journal"
)

// Attachment is one connection's use of a view under one handle: a cursor into the journal of the session that the view
// looks at, and the replies that wait for the cursor to reach their place. When the view moves to another session the
// attachment first reads the old journal to the switch, then the new one. It is private to the connection.
type Attachment struct {
	v       *View
	c       Client
	handle  string
	tok     []byte // handle, quoted
	optedIn bool

	// nextAnchor is the place of the first anchored frame of the first stage, so that Pull need not take mu for every event.
	nextAnchor atomic.Uint64

	mu       sync.Mutex
	stages   []*stage       // never empty; Pull reads the first, frames are anchored in the last
	sent     map[int64]bool // agent requests that the client got and that are open: true, or false once it refused
	detached bool

	scratch []byte // Pull only
}

// stage is a stretch of one session's journal that an attachment reads.
type stage struct {
	sess     *session
	form     *form
	reader   *journal.Reader
	replay   uint64          // events up to this seq were there before the attach
	until    atomic.Uint64   // the view left the session behind this seq; MaxUint64 while it is there
	anchored []anchoredFrame // by place, then in order of arrival; under Attachment.mu
}

// anchoredFrame leaves when everything up to seq has left: a response keeps its place among the updates (rule W5).
type anchoredFrame struct {
	seq   uint64
	id    []byte // client's request id; nil for a notification or an agent's request
	frame []byte
	req   int64 // agent request that the frame carries, or 0
}

// newAttachment adds an attachment at cursor c of the view's session. Under v.mu.
func (v *View) newAttachment(cl Client, handle string, c journal.Cursor) (*Attachment, error) {
	return v.attachTo(cl, handle, v.session, c)
}

// attachTo is newAttachment at a cursor of any session; unless it is the view's, the caller moves the attachment on.
func (v *View) attachTo(cl Client, handle string, sess *session, c journal.Cursor) (*Attachment, error) {
	a := &Attachment{v: v, c: cl, handle: handle, tok: wire.AppendQuote(nil, handle), optedIn: cl.Features().OptedIn}
	a.nextAnchor.Store(math.MaxUint64)
	if err := a.enterStage(sess, c); err != nil {
		return nil, err
	}
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

// enterStage makes the attachment read sess from c once it has read what came before. Under v.mu.
func (a *Attachment) enterStage(sess *session, c journal.Cursor) error {
	r, err := sess.journal.NewReader(c, func() { a.c.Wake(a) }, func() { a.c.Drop(a, ErrLagging) })
	if err != nil {
		return err
	}
	st := &stage{sess: sess, reader: r, replay: sess.journal.Head().Seq, form: sess.formOf(a.handle, a.optedIn)}
	st.until.Store(math.MaxUint64)
	a.mu.Lock()
	defer a.mu.Unlock()
	if n := len(a.stages); n > 0 {
		last := a.stages[n-1]
		last.until.Store(min(last.until.Load(), last.sess.journal.Head().Seq))
	}
	a.stages = append(a.stages, st)
	a.stages[0].reader.Poke()
	return nil
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
	a.mu.Lock()
	for _, st := range a.stages {
		st.close()
		st.anchored = nil
	}
	a.detached, a.sent = true, nil
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

func (st *stage) close() {
	st.reader.Close()
	st.sess.dropForm(st.form)
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

// anchorAt queues the reply to w for the time when the cursor has passed seq of the view's session.
func (a *Attachment) anchorAt(seq uint64, w waiter, r reply) {
	a.anchor(anchoredFrame{seq: seq, id: w.id, frame: r.encode(w.id, a)})
}

func (a *Attachment) anchor(f anchoredFrame) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.detached {
		return
	}
	st := a.stages[len(a.stages)-1]
	i := len(st.anchored)
	for i > 0 && st.anchored[i-1].seq > f.seq {
		i--
	}
	st.anchored = append(st.anchored, anchoredFrame{})
	copy(st.anchored[i+1:], st.anchored[i:])
	st.anchored[i] = f
	a.noteAnchor()
	a.stages[0].reader.Poke()
}

// noteAnchor is under a.mu.
func (a *Attachment) noteAnchor() {
	next := uint64(math.MaxUint64)
	if first := a.stages[0].anchored; len(first) > 0 {
		next = first[0].seq
	}
	a.nextAnchor.Store(next)
}

// due takes the anchored frames of st whose place has come.
func (a *Attachment) due(st *stage) []anchoredFrame {
	seq := st.reader.Cursor().Seq
	if a.nextAnchor.Load() > seq {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	n := 0
	for n < len(st.anchored) && st.anchored[n].seq <= seq {
		n++
	}
	due := st.anchored[:n:n]
	st.anchored = st.anchored[n:]
	if len(st.anchored) == 0 {
		st.anchored = nil
	}
	if !a.detached {
		a.noteAnchor()
	}
	return due
}

// Pull hands out what is ready for the client, in order. One goroutine at a time may call it. When it returns false it has
// run dry and Client.Wake will be called once there is more; true means that out was full.
func (a *Attachment) Pull(out Out) (more bool) {
	for {
		st := a.stage()
		if st == nil {
			return false
		}
		if full := a.emitDue(out, st); full {
			return true
		}
		if st.reader.Cursor().Seq >= st.until.Load() && a.nextStage(st) {
			continue
		}
		chunk, ok, err := st.reader.Next()
		if err != nil {
			a.c.Drop(a, ErrLagging)
			return false
		}
		if !ok {
			if a.arm(st) {
				return false
			}
			continue
		}
		for i := range chunk.Len() {
			ev := chunk.At(i)
			if ev.Seq > st.until.Load() {
				break
			}
			if a.nextAnchor.Load() < ev.Seq {
				if full := a.emitDue(out, st); full {
					return true
				}
			}
			room := a.emit(out, st, ev)
			st.reader.Advance(ev)
			if !room {
				return true
			}
		}
	}
}

// stage is the one that Pull reads; nil once the attachment has ended.
func (a *Attachment) stage() *stage {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.detached {
		return nil
	}
	return a.stages[0]
}

// nextStage leaves st, which was read to its end, for the next one. False when there is something to do in st yet.
func (a *Attachment) nextStage(st *stage) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(st.anchored) > 0 && st.anchored[0].seq <= st.reader.Cursor().Seq {
		return true // came in this moment: look again
	}
	if a.detached || len(a.stages) < 2 {
		return false
	}
	a.stages = a.stages[1:]
	if n := len(a.stages[0].anchored); n > 0 || len(st.anchored) > 0 {
		// Whatever was anchored behind the end of the old stage goes first.
		a.stages[0].anchored = append(atStart(st.anchored, a.stages[0]), a.stages[0].anchored...)
	}
	a.noteAnchor()
	st.close()
	return true
}

func atStart(frames []anchoredFrame, st *stage) []anchoredFrame {
	out := make([]anchoredFrame, len(frames))
	for i, f := range frames {
		f.seq = st.reader.Cursor().Seq
		out[i] = f
	}
	return out
}

// arm asks for a wake-up; false when there is something to do already.
func (a *Attachment) arm(st *stage) bool {
	if !st.reader.Arm() {
		return false
	}
	if a.nextAnchor.Load() <= st.reader.Cursor().Seq || st.until.Load() <= st.reader.Cursor().Seq {
		// Something came between the last look and Arm. Whoever disarms owns the wake-up; one too many does no harm.
		st.reader.Poke()
	}
	return true
}

func (a *Attachment) emitDue(out Out, st *stage) (full bool) {
	due := a.due(st)
	for i, d := range due {
		room := true
		switch {
		case d.id != nil:
			room = out.Reply(d.id, d.frame)
		case d.req == 0 || a.offer(d.req):
			room = out.Frame(d.frame)
		}
		if !room {
			a.putBack(st, due[i+1:])
			return true
		}
	}
	return false
}

func (a *Attachment) putBack(st *stage, rest []anchoredFrame) {
	if len(rest) == 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.detached {
		return
	}
	st.anchored = append(append([]anchoredFrame(nil), rest...), st.anchored...)
	a.noteAnchor()
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
