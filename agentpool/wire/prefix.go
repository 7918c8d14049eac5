package wire

// SessionOfPrefix finds params.sessionId or result.sessionId in the first bytes of a line that was too long (rule W7). It
// checks no more than it needs: whoever wrote the line is believed. The token has its quotes and aliases prefix.
func SessionOfPrefix(prefix []byte) (sessionToken []byte, ok bool) {
	top := skipSpace(prefix, 0)
	body := member(prefix, top, "params")
	if !body.Present() {
		body = member(prefix, top, "result")
	}
	if !body.Present() {
		return nil, false
	}
	tok := member(prefix, body.Start, "sessionId").Of(prefix)
	if !isString(tok) {
		return nil, false
	}
	return tok, true
}

// ResponseOfPrefix finds the id of a response in the first bytes of a line that was too long, so that the request does
// not wait for ever. False for anything that is not, or cannot be seen to be, a response. id aliases prefix.
func ResponseOfPrefix(prefix []byte) (id []byte, ok bool) {
	top := skipSpace(prefix, 0)
	if member(prefix, top, "method").Present() {
		return nil, false
	}
	if !member(prefix, top, "result").Present() && !member(prefix, top, "error").Present() {
		return nil, false
	}
	at := member(prefix, top, "id")
	if id = at.Of(prefix); len(id) == 0 || at.End == len(prefix) {
		return nil, false
	}
	if c := id[0]; c == '-' || c >= '0' && c <= '9' || isString(id) {
		return id, true
	}
	return nil, false
}
