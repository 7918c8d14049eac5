package sessions

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/acpgate/acpgate/agentpool/wire"
	"github.com/acpgate/acpgate/sessions/journal"
)

// What the store keeps beside journals, by principal. Keys and names carry the agent, because session ids are its own.
//
//	session/<agent>/<id>   sessionRecord
//	view/<agent>/<handle>  viewRecord
//	bound/<agent>/<id>     handle of the view that is bound to the session (rule V2)
//	alias/<agent>/<id>     handle of the view that has id as a further handle (rule V5)
//	closed/<agent>/<id>    closed on purpose, for a day (rule V14)
//	index rows/<agent>     Row by last activity
//	index gone/<agent>     sessions that were deleted (rule V13)
//	index keys/<agent>/<handle>  keyRecord by time (rule V16)

type sessionRecord struct {
	Cwd       string                     `json:"cwd"`
	Open      json.RawMessage            `json:"open"`
	Opened    map[string]json.RawMessage `json:"opened,omitempty"`
	Prompted  bool                       `json:"prompted"`
	NoHistory bool                       `json:"noHistory,omitempty"`
	Title     string                     `json:"title,omitempty"`
	Mode      string                     `json:"mode,omitempty"`
	Values    map[string]string          `json:"values,omitempty"` // snapshot lines by kind
	Prefix    []prefixBlock              `json:"prefix,omitempty"`
	Lineage   *lineage                   `json:"lineage,omitempty"`
	Seed      uint64                     `json:"seed,omitempty"`
	Compacted bool                       `json:"compacted,omitempty"`
	Fence     uint64                     `json:"fence"`
}

type viewRecord struct {
	Handle  string       `json:"handle"`
	Home    string       `json:"home"`
	Binding string       `json:"binding"`
	Created int64        `json:"created"`
	Trail   []cursorData `json:"trail,omitempty"`
	Owner   string       `json:"owner"`
	Fence   uint64       `json:"fence"`
}

type keyRecord struct {
	Hash    []byte          `json:"hash"`
	Turn    string          `json:"turn"`
	Session string          `json:"session,omitempty"` // in whose journal the turn is
	Result  json.RawMessage `json:"result,omitempty"`
	Error   json.RawMessage `json:"error,omitempty"`
}

// maxOpenedMember bounds what is stored of a member of the agent's answer, and of a title or a mode, in bytes. What is longer is missing
// after a restart until the agent opens the session again.
const maxOpenedMember = 64 << 10

// maxValueLine bounds a snapshot line that is stored. Longer ones, lists of commands, come again from the agent.
const maxValueLine = 16 << 10

func (s *session) journalName() string { return s.agentName + "/" + s.bound.Load().id }

func recordKey(kind, agent, id string) string { return kind + "/" + agent + "/" + id }

// save stores the session's record. Under mu.
func (s *session) save() {
	k := s.m.keeper
	if k == nil {
		return
	}
	r := sessionRecord{
		Cwd: s.cwd, Open: s.openParams, Opened: map[string]json.RawMessage{}, Prompted: s.prompted, NoHistory: s.noHistory,
		Title: s.snap.title, Mode: s.snap.mode, Prefix: s.prefix, Fence: s.fence,
		Lineage: s.lineage, Seed: s.seed, Compacted: s.compacted,
	}
	for name, x := range s.opened {
		if len(x) <= maxOpenedMember {
			r.Opened[name] = x
		}
	}
	for kind, line := range s.snap.lines {
		if len(line) <= maxValueLine {
			if r.Values == nil {
				r.Values = map[string]string{}
			}
			r.Values[kind] = string(line)
		}
	}
	value := mustJSON(r)
	if len(value) > MaxValueBytes {
		r.Opened = nil // the agent says it again when the session is opened next
		value = mustJSON(r)
	}
	k.put(s.principal, []Write{{Key: recordKey("session", s.agentName, s.bound.Load().id), Value: value}})
}

// save stores the view's record and its binding. Under mu.
func (v *View) save() {
	k := v.m.keeper
	if k == nil {
		return
	}
	id := v.bound.Load().id
	r := viewRecord{Handle: v.handle, Home: v.home, Binding: id, Created: v.created.UnixMilli(), Trail: v.trail, Owner: v.m.node, Fence: v.fence}
	k.put(v.principal, []Write{
		{Key: recordKey("view", v.agentName, v.handle), Value: mustJSON(r)},
		{Key: recordKey("bound", v.agentName, id), Value: []byte(v.handle)},
	})
}

// unbind takes back that the view is bound to a session. Under mu.
func (v *View) unbind(id string) {
	v.m.keeper.put(v.principal, []Write{{Key: recordKey("bound", v.agentName, id), Delete: true}})
}

// unsave removes the view's record and its keys. Under mu.
func (v *View) unsave() {
	for len(v.keyOrder) > 0 {
		v.forgetKey(v.keyOrder[0])
	}
	v.m.keeper.put(v.principal, []Write{
		{Key: recordKey("view", v.agentName, v.handle), Delete: true},
		{Key: recordKey("bound", v.agentName, v.bound.Load().id), Delete: true},
	})
}

// unsaveSession removes what the store has of a session that was deleted.
func (m *Manager) unsaveSession(k viewKey) {
	m.keeper.put(k.principal, []Write{
		{Key: recordKey("session", k.agent, k.handle), Delete: true},
		{Key: recordKey("bound", k.agent, k.handle), Delete: true},
	})
	m.keeper.drop(k.principal, k.agent+"/"+k.handle)
}

// saveKey stores the state of a keyed prompt. Under mu.
func (v *View) saveKey(t *turn) {
	if t.key == "" {
		return
	}
	r := keyRecord{Hash: t.hash[:], Turn: t.id, Session: v.bound.Load().id, Result: t.result, Error: t.errObj}
	switch {
	case t.slash:
		r.Session = "" // it may end in another session
	case t.sess != nil:
		r.Session = t.sess.bound.Load().id
	}
	value := mustJSON(r)
	if len(value) > MaxIndexValueBytes { // an agent's extras: how the turn ended is kept
		r.Result, r.Error = core(t.result, "stopReason"), core(t.errObj, "code", "message")
		value = mustJSON(r)
	}
	v.m.keeper.put(v.principal, nil, IndexWrite{Index: v.keysIndex(), Member: t.key, Score: time.Now().UnixMilli(), Value: value})
}

// core is obj with the named members alone, long strings of them cut; nil stays nil.
func core(obj json.RawMessage, names ...string) json.RawMessage {
	if obj == nil {
		return nil
	}
	out := map[string]any{}
	for _, name := range names {
		at := wire.Lookup(obj, name).Of(obj)
		if s, err := wire.Unquote(at); err == nil {
			out[name] = clip(s, maxCoreText)
		} else if len(at) > 0 {
			out[name] = json.RawMessage(at)
		}
	}
	return mustJSON(out)
}

// maxCoreText bounds what core keeps of a string, in bytes.
const maxCoreText = 4 << 10

// forgetKey takes a key out of what is remembered, and out of the store. Under mu.
func (v *View) forgetKey(key string) {
	delete(v.keys, key)
	v.keyOrder = slices.DeleteFunc(v.keyOrder, func(k string) bool { return k == key })
	v.m.keeper.put(v.principal, nil, IndexWrite{Index: v.keysIndex(), Member: key, Remove: true})
}

func (v *View) keysIndex() string { return recordKey("keys", v.agentName, v.handle) }

// restoreSession brings back a session that the store has, asleep, with its journal. Nil: the store has none.
func (m *Manager) restoreSession(ctx context.Context, k viewKey) (*session, error) {
	if m.keeper == nil {
		return nil, nil
	}
	store := m.keeper.store
	recs, err := m.keeper.read(ctx, k.principal, recordKey("session", k.agent, k.handle))
	if err != nil {
		return nil, err
	}
	var r sessionRecord
	if recs[0].Version == 0 || json.Unmarshal(recs[0].Value, &r) != nil {
		return nil, nil
	}
	s := m.newSession(k.principal, k.agent, r.Cwd)
	s.name(k.handle)
	s.fence = r.Fence + 1
	// The record may be of before the last opening: its owner ended in between.
	if before, err := store.JournalInfo(ctx, k.principal, s.journalName()); err == nil {
		s.fence = max(s.fence, before.Fence+1)
	} else if !errors.Is(err, ErrNoJournal) {
		return nil, err
	}
	info, err := store.OpenJournal(ctx, k.principal, s.journalName(), s.fence, s.journal.Epoch())
	if err != nil {
		return nil, err
	}
	events, err := readAll(ctx, store, k.principal, s.journalName(), info)
	if err != nil {
		return nil, err
	}
	s.journal.Close()
	s.journal = journal.Restore(info.Epoch, info.Next, events, m.cfg.Journal, m.budget)
	s.storedAs = s.journalName()
	s.openParams, s.opened, s.prompted, s.noHistory, s.prefix = r.Open, r.Opened, r.Prompted, r.NoHistory, r.Prefix
	s.lineage, s.seed, s.compacted = r.Lineage, r.Seed, r.Compacted
	s.snap.mode, s.snap.title = r.Mode, r.Title
	for kind, line := range r.Values {
		if s.snap.lines == nil {
			s.snap.lines = map[string][]byte{}
		}
		s.snap.lines[kind] = []byte(line)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := m.addSession(s); err != nil {
		return nil, err
	}
	m.keeper.follow(s)
	s.save()
	s.park()
	return s, nil
}

func readAll(ctx context.Context, store Store, principal, name string, info JournalInfo) ([]journal.Event, error) {
	var out []journal.Event
	after := info.First - 1
	for after+1 < info.Next {
		part, err := store.ReadJournal(ctx, principal, name, after, 4<<20)
		if err != nil {
			return nil, err
		}
		if len(part) == 0 {
			break
		}
		out = append(out, part...)
		after = part[len(part)-1].Seq
	}
	return out, nil
}

// restoreView brings back the view that the store has for an id, by rule V4: bound to it, or with it as a handle. Nil:
// there is none.
func (m *Manager) restoreView(ctx context.Context, c Client, id string) (*View, error) {
	for m.keeper != nil {
		v, err := m.restoreOnce(ctx, c, id)
		if err != errMoved {
			return v, err
		}
		if ctx.Err() != nil { // its session left the memory in this moment: look again
			return nil, callEnded(ctx)
		}
	}
	return nil, nil
}

func (m *Manager) restoreOnce(ctx context.Context, c Client, id string) (*View, error) {
	agent := c.Agent()
	recs, err := m.keeper.read(ctx, c.Principal(), recordKey("bound", agent, id), recordKey("view", agent, id), recordKey("alias", agent, id))
	if err != nil {
		return nil, err
	}
	handle := id
	switch {
	case recs[0].Version > 0:
		handle = string(recs[0].Value)
	case recs[1].Version > 0:
	case recs[2].Version > 0:
		handle = string(recs[2].Value)
	default:
		return nil, nil
	}
	recs, err = m.keeper.read(ctx, c.Principal(), recordKey("view", agent, handle))
	if err != nil {
		return nil, err
	}
	var r viewRecord
	if recs[0].Version == 0 || json.Unmarshal(recs[0].Value, &r) != nil || (r.Binding != id && r.Handle != id) {
		return nil, nil // the view that the id pointed to has ended, or has left the session
	}
	s, err := m.hold(ctx, viewKey{c.Principal(), agent, r.Binding})
	if err != nil || s == nil {
		return nil, err
	}
	keys, err := m.storedKeys(ctx, c.Principal(), recordKey("keys", agent, handle))
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.view != nil && (s.view.handle == id || r.Binding == id):
		return s.view, nil
	case s.view != nil: // another view has taken its session over
		return nil, nil
	case s.gone:
		return nil, errMoved
	}
	v := m.newView(s)
	v.handle, v.home, v.created, v.fence = r.Handle, r.Home, time.UnixMilli(r.Created), r.Fence+1
	v.trail = r.Trail
	v.recallKeys(keys)
	if err := m.add(v); err != nil {
		if live := m.lookup(c, v.handle); live != nil && v.handle == id {
			return live, nil // it came back in this moment
		}
		return nil, err
	}
	s.take(v)
	v.touch()
	v.save()
	v.endLostTurn()
	return v, nil
}

// endLostTurn ends the turn that was running when the gateway ended without a word, and recalls how the last one ended. Under mu.
func (v *View) endLostTurn() {
	open := ""
	v.each(func(e journal.Event) bool {
		switch e.Type {
		case journal.Prompt:
			var p journal.PromptData
			if json.Unmarshal(e.Data, &p) == nil && p.View == "" {
				open = p.Turn
			}
		case journal.TurnEnd:
			var t journal.TurnEndData
			if json.Unmarshal(e.Data, &t) != nil {
				return true
			}
			if t.Turn == open {
				open = ""
			}
			if !t.Command {
				v.last = &turn{id: t.Turn, key: t.Key, result: t.Result, errObj: t.Error, ended: time.UnixMilli(e.Time)}
			}
		}
		return true
	})
	if open == "" {
		return
	}
	lost := errOwnerLost()
	v.last = &turn{id: open, errObj: lost.Object(), ended: time.Now()}
	v.journal.Append(journal.TurnEnd, time.Now(), mustJSON(journal.TurnEndData{Turn: open, Error: lost.Object()}))
	v.notice(lost.Message + ".")
}

// storedKeys reads the prompt keys of a view, the latest first.
func (m *Manager) storedKeys(ctx context.Context, principal, index string) ([]*turn, error) {
	rows, err := m.keeper.store.Scan(ctx, principal, index, Query{Limit: min(m.cfg.KeysPerView, MaxScanRows)})
	if err != nil {
		return nil, err
	}
	var out []*turn
	for _, row := range rows {
		var r keyRecord
		if json.Unmarshal(row.Value, &r) != nil {
			continue
		}
		t := &turn{id: r.Turn, key: row.Member, result: r.Result, errObj: r.Error, ended: time.UnixMilli(row.Score)}
		copy(t.hash[:], r.Hash)
		t.storedIn = r.Session
		out = append(out, t)
	}
	return out, nil
}

// fates says how the session's turns ended, by id; nil for one that began and did not end. Under mu.
func (s *session) fates() map[string]*journal.TurnEndData {
	out := map[string]*journal.TurnEndData{}
	s.each(func(e journal.Event) bool {
		switch e.Type {
		case journal.Prompt:
			var p journal.PromptData
			if json.Unmarshal(e.Data, &p) == nil && out[p.Turn] == nil {
				out[p.Turn] = nil
			}
		case journal.TurnEnd:
			var t journal.TurnEndData
			if json.Unmarshal(e.Data, &t) == nil {
				out[t.Turn] = &t
			}
		}
		return true
	})
	return out
}

// recallKeys takes over the keys that the store has, latest first, and forgets those whose time is over. Records are stored
// before events, so what became of a turn is what the journal says. Under mu.
func (v *View) recallKeys(turns []*turn) {
	fates := v.fates()
	for _, t := range slices.Backward(turns) {
		began := true
		if t.storedIn == v.bound.Load().id {
			var end *journal.TurnEndData
			if end, began = fates[t.id]; end != nil {
				t.result, t.errObj = end.Result, end.Error
			} else if began {
				t.result, t.errObj = nil, errOwnerLost().Object()
			}
		}
		// Without a beginning and an end, no agent has got it, unless that was trimmed away.
		never := !began && !t.done() && !v.journal.Trimmed()
		if never || time.Since(t.ended) > v.m.cfg.KeyTTL {
			v.forgetKey(t.key)
			continue
		}
		if !t.done() {
			t.errObj = errOwnerLost().Object()
		}
		if v.keys == nil {
			v.keys = map[string]*turn{}
		}
		v.keys[t.key] = t
		v.keyOrder = append(v.keyOrder, t.key)
	}
}

func errOwnerLost() *Error {
	return &Error{
		Code: CodeInternal, Reason: "owner_lost", Message: "The gateway that ran this turn ended before the turn did",
		Hint: "look at what the agent did before you send the prompt again, with a new key",
	}
}
