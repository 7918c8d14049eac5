package wire

import (
	"bytes"
	"hash/maphash"
	"math"
)

// Parse scans b, which holds one JSON-RPC 2.0 message with optional white space around it, in one pass. Everything that
// JSON demands is checked, and more: UTF-8, depth, and that no object at any level has two members of one name, once
// escapes are decoded (readers differ in which of two they take). Frame.Raw is b without the white space around it.
//
// Errors are of type *Error. When b is valid JSON (Error.Code is -32600), the frame returned with the error has Raw, and
// ID if there is a usable one, so that an answer can carry them. Frames of known methods do not allocate.
func Parse(b []byte, lim Limits) (Frame, error) {
	return parse(b, lim, false)
}

// ParseClient is Parse for frames of clients, with two more rules. Every raw CR and LF of the message is replaced in
// place, in b, by a space: they can only be between tokens, and a frame must reach an agent as exactly one line, or one
// frame could be two messages there (rule W3). And a member whose name is only in its case different from one that
// acpgate routes by ("ID", "Method", "sessionid" in params) is ErrNotJSONRPC: agents whose decoder ignores case would see
// another message than the one that was checked.
func ParseClient(b []byte, lim Limits) (Frame, error) {
	f, err := parse(b, lim, true)
	unbreak(f.Raw, '\n')
	unbreak(f.Raw, '\r')
	return f, err
}

func parse(b []byte, lim Limits, client bool) (f Frame, err error) {
	lo, hi := trim(b)
	if lo == hi {
		return f, &Error{Kind: ErrSyntax, Offset: lo, Msg: "no value"}
	}
	if hi-lo > math.MaxInt32 {
		return f, &Error{Kind: ErrSyntax, Offset: lo, Msg: "longer than 2 GiB"}
	}
	s := scanner{b: b[lo:hi:hi], client: client, maxDepth: lim.maxDepth(), loneSurrogates: lim.LoneSurrogates}
	end := s.top(&f)
	if end >= 0 {
		if end = s.space(end); end < len(s.b) {
			end = s.fail(ErrSyntax, end, "data after the value")
		}
	}
	if end >= 0 {
		end = s.classify(&f, lim.maxID())
	}
	if end < 0 {
		e := &Error{Kind: s.kind, Offset: lo + s.off, Msg: s.msg}
		if e.Code() == CodeParse {
			return Frame{}, e
		}
		return Frame{Raw: s.b, ID: f.ID}, e
	}
	f.Raw = s.b
	return f, nil
}

func unbreak(b []byte, c byte) {
	for {
		i := bytes.IndexByte(b, c)
		if i < 0 {
			return
		}
		b[i] = ' '
		b = b[i+1:]
	}
}

// trim returns the bounds of b without the white space around it.
func trim(b []byte) (lo, hi int) {
	hi = len(b)
	for lo < hi && isSpace(b[lo]) {
		lo++
	}
	for hi > lo && isSpace(b[hi-1]) {
		hi--
	}
	return lo, hi
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\r' || c == '\t' }

// scanner is the state of one Parse. Its scanning methods take the index of the first byte of a value and return the
// index after it, or -1 once fail was called.
type scanner struct {
	b              []byte
	client         bool
	maxDepth       int
	loneSurrogates bool

	jsonrpc, id, method Span
	wrongCase           Span // of a client: a member that some decoders would take for one of ours

	// Names of the members of all open objects, outermost first: numKeys of them in room, or all of them in spill once
	// room was full. A slice of room kept here would move the scanner to the heap.
	numKeys int
	room    [inlineKeys]keyRef
	spill   []keyRef

	names  []byte     // decoded names of those that were written with escapes
	tables [][]uint32 // spare hash tables for objects with many members
	seed   maphash.Seed

	kind ErrorKind
	off  int
	msg  string
}

func (s *scanner) fail(kind ErrorKind, off int, msg string) int {
	s.kind, s.off, s.msg = kind, off, msg
	return -1
}

// classify decides from the members found what kind of message it is.
func (s *scanner) classify(f *Frame, maxID int) int {
	switch s.b[0] {
	case '{':
	case '[':
		return s.fail(ErrBatch, 0, "batches are not supported")
	default:
		return s.fail(ErrNotJSONRPC, 0, "a message must be an object")
	}

	badID := false
	if s.id.Present() {
		c := s.b[s.id.Start]
		badID = c != '"' && c != '-' && (c < '0' || c > '9') || s.id.End-s.id.Start > maxID
		if !badID {
			f.ID = s.id
		}
	}

	if v := s.jsonrpc.Of(s.b); string(v) != `"2.0"` && !Equal(v, "2.0") {
		return s.fail(ErrNotJSONRPC, s.jsonrpc.Start, `jsonrpc must be "2.0"`)
	}
	if s.wrongCase.Present() {
		return s.fail(ErrNotJSONRPC, s.wrongCase.Start, "name of a member in the wrong case")
	}
	isCall := s.method.Present()
	hasResult, hasError := f.Result.Present(), f.Error.Present()
	switch {
	case isCall && s.b[s.method.Start] != '"':
		return s.fail(ErrNotJSONRPC, s.method.Start, "method must be a string")
	case isCall && (hasResult || hasError):
		return s.fail(ErrNotJSONRPC, s.method.Start, "method together with result or error")
	case isCall && f.Params.Present() && s.b[f.Params.Start] != '{' && s.b[f.Params.Start] != '[':
		return s.fail(ErrNotJSONRPC, f.Params.Start, "params must be an object or an array")
	case !isCall && hasResult && hasError:
		return s.fail(ErrNotJSONRPC, f.Error.Start, "both result and error")
	case !isCall && !hasResult && !hasError:
		return s.fail(ErrNotJSONRPC, 0, "neither method, result nor error")
	case hasError && s.b[f.Error.Start] != '{':
		return s.fail(ErrNotJSONRPC, f.Error.Start, "error must be an object")
	case !isCall && !s.id.Present():
		return s.fail(ErrNotJSONRPC, 0, "response without id")
	case badID:
		return s.fail(ErrBadID, s.id.Start, "id must be a string or a number, of bounded length")
	}

	switch {
	case isCall:
		f.Kind = Notification
		if f.ID.Present() {
			f.Kind = Request
		}
		f.Method = methodName(s.method.Of(s.b))
		return 0
	case hasResult:
		f.Kind = Result
	default:
		f.Kind = Failure
	}
	if f.Params.Present() {
		// Not a part of a response: what was found in it does not count.
		f.Params = Span{}
		f.SessionID, f.Meta, f.GateMeta, f.Update, f.UpdateKind = Span{}, Span{}, Span{}, Span{}, Span{}
		f.gateMember, f.oddMeta = Span{}, Span{}
		if hasResult && s.b[f.Result.Start] == '{' {
			return s.object(f.Result.Start, 2, roleResult, f)
		}
	}
	return 0
}
