package wire

import "strconv"

// ErrorKind says in which way bytes are not a frame.
type ErrorKind uint8

const (
	ErrSyntax       ErrorKind = iota + 1 // not JSON (RFC 8259), or more than one value
	ErrUTF8                              // JSON but for bytes that are not UTF-8, or half a surrogate pair
	ErrDepth                             // nested deeper than Limits.MaxDepth
	ErrDuplicateKey                      // an object, at any level, has two members of one name
	ErrBatch                             // valid JSON: an array
	ErrNotJSONRPC                        // valid JSON, but no JSON-RPC 2.0 message
	ErrBadID                             // an id that is neither a string nor a number, or longer than Limits.MaxID
)

// Codes of JSON-RPC 2.0 that Error.Code gives.
const (
	CodeParse          = -32700
	CodeInvalidRequest = -32600
)

// Error is the error of Parse and ParseClient.
type Error struct {
	Kind   ErrorKind
	Offset int    // of the offending byte in the input; 0 when the whole value is meant
	Msg    string // constant text, never input
}

var _ error = (*Error)(nil)

// Code is the JSON-RPC error code for a client (rule W3): -32700 when the bytes are not acceptable JSON, else -32600.
func (e *Error) Code() int {
	if e.Kind <= ErrDuplicateKey {
		return CodeParse
	}
	return CodeInvalidRequest
}

// Reason is the stable word for error data (rule W9).
func (e *Error) Reason() string {
	switch e.Kind {
	case ErrUTF8:
		return "bad_utf8"
	case ErrDepth:
		return "too_deep"
	case ErrDuplicateKey:
		return "duplicate_key"
	case ErrBatch:
		return "batch"
	case ErrNotJSONRPC:
		return "not_jsonrpc"
	case ErrBadID:
		return "bad_id"
	default:
		return "bad_json"
	}
}

func (e *Error) Error() string {
	return "wire: " + e.Msg + " at byte " + strconv.Itoa(e.Offset)
}
