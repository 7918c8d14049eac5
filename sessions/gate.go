package sessions

import "github.com/acpgate/acpgate/agentpool/wire"

// gated reports whether the read-only gate of a side conversation is on (rule S8). Under mu.
func (v *View) gated() bool { return v.isSide() && !v.m.cfg.SideGateOff }

// harmless are the kinds of tool calls that a side conversation may ask a person for. Every other kind, and one that is not
// known, counts as a change.
var harmless = [...]string{"read", "search", "think", "fetch"}

// changes reports whether a permission request is for something that changes things. The kind is that of the request, or of
// the tool call that was announced before it. Under mu.
func (v *View) changes(f *wire.Frame) bool {
	call := wire.Lookup(f.Params.Of(f.Raw), "toolCall").Of(f.Params.Of(f.Raw))
	kind, err := wire.Unquote(wire.Lookup(call, "kind").Of(call))
	if err != nil || kind == "" {
		id, _ := wire.Unquote(wire.Lookup(call, "toolCallId").Of(call)) // absent: ""
		kind = v.toolKinds[id]
	}
	for _, k := range harmless {
		if kind == k {
			return false
		}
	}
	return true
}

// refuseChange answers a permission request with the option to reject, and says so. Under mu.
func (v *View) refuseChange(r *agentRequest, f *wire.Frame) {
	result, _ := r.rejection()
	v.respond(r.agentID, result, nil)
	params := f.Params.Of(f.Raw)
	what, err := wire.Unquote(wire.Lookup(params, "toolCall", "title").Of(params))
	if what = oneLine(what); err != nil || what == "" {
		what = "a change"
	}
	v.notice("Refused in this side conversation: " + what + ".")
}

func errReadOnly() *Error {
	return &Error{
		Code: CodeInternal, Reason: "read_only", Message: "This is a side conversation: files are not written here",
		Hint: "describe the change instead; it can be made in the main conversation",
	}
}
