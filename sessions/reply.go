package sessions

import (
	"encoding/json"

	"github.com/acpgate/acpgate/agentpool/wire"
	"github.com/acpgate/acpgate/sessions/journal"
)

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
	f, err := wire.Parse(b, journal.LineLimits())
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
	binding, title, lineage := v.bound.Load().id, v.snap.title, v.lineage
	return func(a *Attachment) []byte {
		meta := map[string]any{
			"view": v.handle, "binding": binding, "agent": v.agentName, "cwd": v.cwd, "title": title, "resync": resync,
			"cursor": cursorData{binding, c.Epoch, c.Seq},
		}
		lineage.add(meta)
		return metaMember(meta)
	}
}

type cursorData struct {
	Session string `json:"session"`
	Epoch   uint64 `json:"epoch"`
	Seq     uint64 `json:"seq"`
}
