package wire

import "slices"

// Edit replaces a span of a frame. An empty span is an insertion. The zero Edit changes nothing.
type Edit struct {
	Span Span
	With []byte

	// Written around With, so that an edit that needs commas and braces does not allocate.
	before, after string
}

func (e *Edit) size() int { return len(e.before) + len(e.With) + len(e.after) }

// Splice appends raw to dst with edits applied and returns the extended slice. Edits may come in any order; those at the
// same place apply in the order given. It panics when edits overlap or lie outside raw, which is a mistake of the caller,
// never of the input. dst must not share memory with raw. It allocates nothing but what dst lacks (and beyond eight edits
// out of order).
func Splice(dst, raw []byte, edits ...Edit) []byte {
	n := len(raw)
	sorted := true
	for i := range edits {
		n += edits[i].size()
		sorted = sorted && (i == 0 || edits[i-1].Span.Start <= edits[i].Span.Start)
	}
	if !sorted {
		var room [8]Edit
		edits = sortEdits(append(room[:0], edits...))
	}
	dst = slices.Grow(dst, n)
	at := 0
	for i := range edits {
		e := &edits[i]
		if e.Span.Start < at || e.Span.End < e.Span.Start || e.Span.End > len(raw) {
			panic("wire: edits overlap or lie outside the frame")
		}
		dst = append(dst, raw[at:e.Span.Start]...)
		dst = append(dst, e.before...)
		dst = append(dst, e.With...)
		dst = append(dst, e.after...)
		at = e.Span.End
	}
	return append(dst, raw[at:]...)
}

// sortEdits is a stable insertion sort: there are two or three, and it keeps them on the stack.
func sortEdits(edits []Edit) []Edit {
	for i := 1; i < len(edits); i++ {
		for j := i; j > 0 && edits[j].Span.Start < edits[j-1].Span.Start; j-- {
			edits[j], edits[j-1] = edits[j-1], edits[j]
		}
	}
	return edits
}

// EditID replaces the id by a raw one. For a frame without id it is the zero Edit.
func (f *Frame) EditID(id []byte) Edit { return replace(f.ID, id) }

// EditSession replaces the session id by a raw string (with quotes). For a frame without one it is the zero Edit.
func (f *Frame) EditSession(quoted []byte) Edit { return replace(f.SessionID, quoted) }

func replace(at Span, with []byte) Edit {
	if !at.Present() {
		return Edit{}
	}
	return Edit{Span: at, With: with}
}

// EditMeta puts member, a raw `"acpgate":VALUE`, into _meta of params (requests, notifications) or of result. A member
// acpgate that is there already is replaced, whoever wrote it; a missing _meta is added, one that is not an object
// replaced; so is a result null, which some agents answer to session/load. False means that there is nothing to put it
// in: no params, params that are an array, a result that is something else, or an error response.
func (f *Frame) EditMeta(member []byte) (Edit, bool) {
	body := f.Params
	if f.Kind == Result {
		body = f.Result
	}
	switch {
	case !body.Present():
		return Edit{}, false
	case f.gateMember.Present():
		return Edit{Span: f.gateMember, With: member}, true
	case f.Meta.Present():
		return f.insertFirst(f.Meta, "", member, ""), true
	case f.oddMeta.Present():
		return Edit{Span: f.oddMeta, With: member, before: "{", after: "}"}, true
	case f.Raw[body.Start] == '{':
		return f.insertFirst(body, `"_meta":{`, member, "}"), true
	case f.Kind == Result && f.Raw[body.Start] == 'n':
		return Edit{Span: body, With: member, before: `{"_meta":{`, after: "}}"}, true
	default:
		return Edit{}, false
	}
}

// insertFirst inserts before+member+after as the first member of object. after is "" or "}".
func (f *Frame) insertFirst(object Span, before string, member []byte, after string) Edit {
	at := object.Start + 1
	if f.Raw[skipSpace(f.Raw, at)] != '}' {
		if after == "" {
			after = ","
		} else {
			after = "},"
		}
	}
	return Edit{Span: Span{at, at}, With: member, before: before, after: after}
}

// StripGateMeta takes the member acpgate out of _meta, with its comma, so that it does not reach the agent. False means
// that there is none.
func (f *Frame) StripGateMeta() (Edit, bool) {
	m := f.gateMember
	if !m.Present() {
		return Edit{}, false
	}
	if next := skipSpace(f.Raw, m.End); f.Raw[next] == ',' {
		return Edit{Span: Span{m.Start, next + 1}}, true
	}
	prev := m.Start - 1
	for isSpace(f.Raw[prev]) {
		prev--
	}
	if f.Raw[prev] == ',' {
		m.Start = prev
	}
	return Edit{Span: m}, true
}
