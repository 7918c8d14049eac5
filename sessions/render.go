package sessions

import (
	"encoding/json"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/acpgate/acpgate/agentpool/wire"
	"github.com/acpgate/acpgate/sessions/journal"
)

// form is how a group of attachments sees the events: those with the same handle that opted in alike. While it has more
// than one user it keeps the latest encoded frames, so that an event is encoded once for all of them (rule W10).
type form struct {
	key   formKey
	users atomic.Int32 // changed under session.formMu

	mu   sync.Mutex
	ring map[uint64][]byte
	low  uint64 // seqs below are not in ring
	size int
}

type formKey struct {
	handle  string
	optedIn bool
}

const (
	formBytes = 256 << 10 // encoded bytes that a form keeps
	formFrame = 32 << 10  // a larger frame is encoded by each user
)

func (s *session) formOf(handle string, optedIn bool) *form {
	s.formMu.Lock()
	defer s.formMu.Unlock()
	k := formKey{handle, optedIn}
	f := s.forms[k]
	if f == nil {
		f = &form{key: k}
		if s.forms == nil {
			s.forms = map[formKey]*form{}
		}
		s.forms[k] = f
	}
	f.users.Add(1)
	return f
}

func (s *session) dropForm(f *form) {
	s.formMu.Lock()
	defer s.formMu.Unlock()
	if f.users.Add(-1) == 0 {
		delete(s.forms, f.key)
	}
}

// get returns the frame of seq, encoding it if no user has before.
func (f *form) get(seq uint64, encode func() []byte) []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	if b, ok := f.ring[seq]; ok {
		return b
	}
	b := append([]byte(nil), encode()...)
	if len(b) > formFrame || seq < f.low {
		return b
	}
	if f.ring == nil {
		f.ring, f.low = map[uint64][]byte{}, seq
	}
	f.ring[seq] = b
	f.size += len(b)
	for f.size > formBytes {
		f.size -= len(f.ring[f.low])
		delete(f.ring, f.low)
		f.low++
	}
	return b
}

// emit hands ev to out in this attachment's form. Events that the client does not get are skipped. The result is false
// when out is full.
func (a *Attachment) emit(out Out, st *stage, ev journal.Event) bool {
	switch ev.Type {
	case journal.Update:
		if !a.optedIn && string(a.tok) == string(st.sess.bound.Load().tok) {
			return out.Frame(ev.Data)
		}
		return out.Frame(a.encoded(st, ev, func() []byte { return a.update(st, ev) }))
	case journal.Prompt:
		return a.emitPrompt(out, st, ev)
	case journal.Notice:
		return a.emitNotice(out, st, ev)
	case journal.Request:
		return a.emitRequest(out, st, ev)
	case journal.RequestDone:
		return a.emitRequestDone(out, st, ev)
	case journal.Context:
		return a.emitContext(out, st, ev)
	case journal.State:
		if a.optedIn && ev.Seq > st.replay && !a.foreign(stateView(ev.Data)) {
			return out.Frame(a.encoded(st, ev, func() []byte { return a.stateFrame(ev.Data, a.place(st, ev, "")) }))
		}
	}
	return true
}

// encoded returns the frame of ev, shared with the other users of the form where there are any. Replayed events are
// marked for this attachment alone and not shared.
func (a *Attachment) encoded(st *stage, ev journal.Event, encode func() []byte) []byte {
	if st.form.users.Load() < 2 || ev.Seq <= st.replay {
		return encode()
	}
	return st.form.get(ev.Seq, encode)
}

// place is the acpgate member of an event's frame.
func (a *Attachment) place(st *stage, ev journal.Event, extra string) []byte {
	b := append(a.scratch[:0], `"acpgate":{"session":`...)
	b = append(b, st.sess.bound.Load().tok...)
	b = append(b, `,"epoch":`...)
	b = strconv.AppendUint(b, st.sess.journal.Epoch(), 10)
	b = append(b, `,"seq":`...)
	b = strconv.AppendUint(b, ev.Seq, 10)
	b = append(b, `,"ts":`...)
	b = strconv.AppendInt(b, ev.Time, 10)
	if ev.Seq <= st.replay {
		b = append(b, `,"replay":true`...)
	}
	b = append(b, extra...)
	a.scratch = append(b, '}')
	return a.scratch
}

func (a *Attachment) update(st *stage, ev journal.Event) []byte {
	f, err := wire.Parse(ev.Data, journal.LineLimits())
	if err != nil {
		return ev.Data // it was accepted when it came in
	}
	session := f.EditSession(a.tok)
	if !a.optedIn {
		return wire.Splice(nil, ev.Data, session)
	}
	meta, ok := f.EditMeta(a.place(st, ev, ""))
	if !ok {
		return wire.Splice(nil, ev.Data, session)
	}
	return wire.Splice(nil, ev.Data, session, meta)
}

// emitPrompt shows a prompt to everybody but the client that sent it, which has it on its screen (rule V19). In a replay
// that client gets it too.
func (a *Attachment) emitPrompt(out Out, st *stage, ev journal.Event) bool {
	var p journal.PromptData
	if json.Unmarshal(ev.Data, &p) != nil || (p.By == a.c.ID() && ev.Seq > st.replay) || a.foreign(p.View) {
		return true
	}
	b := append([]byte(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":`), a.tok...)
	b = append(b, `,"update":{"sessionUpdate":"user_message_chunk","messageId":`...)
	b = wire.AppendQuote(b, "turn-"+p.Turn)
	b = append(b, `,"content":`...)
	b = append(b, p.Content...)
	b = append(b, '}')
	if a.optedIn {
		extra := append([]byte(`,"kind":"prompt","turn":`), mustJSON(p.Turn)...)
		if p.Key != "" {
			extra = append(append(extra, `,"key":`...), mustJSON(p.Key)...)
		}
		b = append(append(append(b, `,"_meta":{`...), a.place(st, ev, string(extra))...), '}')
	}
	return out.Frame(append(b, "}}"...))
}

// foreign reports whether a view-scoped event belongs to another view (rule V11).
func (a *Attachment) foreign(view string) bool { return view != "" && view != a.v.handle }

// emitNotice sends a quiet line. It is no part of the history, so a replay from the start leaves it out for plain clients
// (CASE 66).
func (a *Attachment) emitNotice(out Out, st *stage, ev journal.Event) bool {
	var n noticeData
	if json.Unmarshal(ev.Data, &n) != nil || a.foreign(n.View) || (ev.Seq <= st.replay && !a.optedIn) {
		return true
	}
	b := append([]byte(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":`), a.tok...)
	b = append(b, `,"update":{"sessionUpdate":"agent_message_chunk","messageId":`...)
	b = wire.AppendQuote(b, n.ID)
	b = append(b, `,"content":{"type":"text","text":`...)
	b = wire.AppendQuote(b, n.Text)
	b = append(b, "}}"...)
	if a.optedIn {
		b = append(append(append(b, `,"_meta":{`...), a.place(st, ev, `,"kind":"`+n.Kind+`"`)...), '}')
	}
	return out.Frame(append(b, "}}"...))
}

func (a *Attachment) emitRequest(out Out, st *stage, ev journal.Event) bool {
	f, err := wire.Parse(ev.Data, journal.LineLimits())
	if err != nil {
		return true
	}
	id, err := strconv.ParseInt(string(f.ID.Of(f.Raw)), 10, 64)
	if err != nil || !a.understands(&f) || !a.offer(id) {
		return true
	}
	edits := [2]wire.Edit{f.EditSession(a.tok)}
	if a.optedIn {
		if e, ok := f.EditMeta(a.place(st, ev, "")); ok {
			edits[1] = e
		}
	}
	return out.Frame(wire.Splice(nil, ev.Data, edits[:]...))
}

// understands reports whether the client said that it can show this kind of request.
func (a *Attachment) understands(f *wire.Frame) bool {
	if f.Method != methodElicit {
		return true
	}
	params := f.Params.Of(f.Raw)
	if wire.Equal(wire.Lookup(params, "mode").Of(params), "url") {
		return a.c.Features().ElicitURL
	}
	return a.c.Features().ElicitForm
}

// emitRequestDone takes the card off the other clients' screens and says who answered.
func (a *Attachment) emitRequestDone(out Out, st *stage, ev journal.Event) bool {
	var s struct {
		Answered answeredData `json:"answered"`
	}
	if json.Unmarshal(ev.Data, &s) != nil {
		return true
	}
	room := true
	if a.retract(s.Answered.ID) && s.Answered.By != a.c.ID() {
		room = out.Frame(wire.AppendNotification(nil, "$/cancel_request", append(appendInt([]byte(`{"requestId":`), s.Answered.ID), '}')))
	}
	if a.optedIn && ev.Seq > st.replay {
		room = out.Frame(a.encoded(st, ev, func() []byte { return a.stateFrame(ev.Data, a.place(st, ev, "")) })) && room
	}
	return room
}

// stateFrame wraps a stateData object.
func (a *Attachment) stateFrame(state, member []byte) []byte {
	b := make([]byte, 0, len(state)+len(member)+128)
	b = append(b, `{"jsonrpc":"2.0","method":"_acpgate/state","params":{"sessionId":`...)
	b = append(b, a.tok...)
	b = append(b, `,"_meta":{`...)
	b = append(b, member...)
	b = append(b, "},"...)
	b = append(b, state[1:]...)
	return append(b, '}')
}

// emitContext shows a note that came home as a message of its own, the same live and in a replay (rule S9). That the agent
// has got an entry, and the framing of a side conversation, are told to opted-in clients alone.
func (a *Attachment) emitContext(out Out, st *stage, ev journal.Event) bool {
	var c contextData
	if json.Unmarshal(ev.Data, &c) != nil {
		return true
	}
	if c.Role != "note" {
		if !a.optedIn {
			return true
		}
		return out.Frame(a.encoded(st, ev, func() []byte {
			b := append([]byte(`{"sessionId":`), a.tok...)
			b = append(append(append(b, `,"_meta":{`...), a.place(st, ev, "")...), `},"id":`...)
			b = wire.AppendQuote(b, c.ID)
			b = append(wire.AppendQuote(append(b, `,"state":`...), c.State), '}')
			return wire.AppendNotification(nil, "_acpgate/context", b)
		}))
	}
	b := append([]byte(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":`), a.tok...)
	b = append(b, `,"update":`...)
	b = append(b, mustJSON(map[string]any{"sessionUpdate": "agent_message_chunk", "messageId": "note-" + c.ID, "content": textBlock(noteCard(c))})...)
	if a.optedIn {
		extra := append([]byte(`,"kind":"context","context":`), mustJSON(c)...)
		b = append(append(append(b, `,"_meta":{`...), a.place(st, ev, string(extra))...), '}')
	}
	return out.Frame(append(b, "}}"...))
}

// noteCard is the text of a note for clients that know nothing of notes.
func noteCard(c contextData) string {
	from := "a side conversation"
	if c.Source.Title != "" {
		from = "“" + oneLine(c.Source.Title) + "”"
	}
	return "Note from " + from + ":\n\n" + c.Text
}
