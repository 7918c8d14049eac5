// Package wire reads and edits JSON-RPC 2.0 frames without decoding them. It is a leaf: it imports nothing of acpgate
// and anything may import it.
//
// A Frame is the original bytes and the places of its parts. Everything that acpgate changes in a message (request ids,
// session ids, its own _meta) is spliced into the original bytes, so unknown fields, number spelling and key order pass
// through untouched.
package wire

// Kind says what a frame is.
type Kind uint8

const (
	Invalid      Kind = iota
	Request           // method and id
	Notification      // method, no id
	Result            // id and result
	Failure           // id and error
)

// String returns a word for logs.
func (k Kind) String() string {
	switch k {
	case Request:
		return "request"
	case Notification:
		return "notification"
	case Result:
		return "result"
	case Failure:
		return "failure"
	default:
		return "invalid"
	}
}

// Span is a half-open byte range of Frame.Raw. The zero Span means that the part is absent.
type Span struct{ Start, End int }

// Present reports whether the part is there.
func (s Span) Present() bool { return s.End > s.Start }

// Of returns the bytes of the part, nil when it is absent. The slice aliases raw.
func (s Span) Of(raw []byte) []byte {
	if !s.Present() {
		return nil
	}
	return raw[s.Start:s.End:s.End]
}

// Frame is one scanned JSON-RPC message. All spans index Raw; values are raw JSON (strings with their quotes). A Frame is
// valid as long as Raw is.
type Frame struct {
	Raw  []byte
	Kind Kind

	// Method is the decoded method name; known methods do not allocate. Empty for responses.
	Method string

	ID     Span // raw id: a number or a string with its quotes
	Params Span
	Result Span
	Error  Span

	SessionID  Span // params.sessionId or result.sessionId when it is a string, with its quotes
	Meta       Span // params._meta or result._meta when it is an object
	GateMeta   Span // the acpgate member of Meta, whatever its type
	Update     Span // params.update when it is an object
	UpdateKind Span // params.update.sessionUpdate when it is a string, with its quotes
	StopReason Span // result.stopReason when it is a string, with its quotes

	gateMember Span // GateMeta with its name: from the name's quote to the end of the value
	oddMeta    Span // params._meta or result._meta when it is not an object
}
