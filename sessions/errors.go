package sessions

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
)

// JSON-RPC codes that this package answers with (rule W9).
const (
	CodeInvalidRequest = -32600
	CodeMethodNotFound = -32601
	CodeInvalidParams  = -32602
	CodeInternal       = -32603
	CodeCancelled      = -32800
	CodeAuthRequired   = -32000
	CodeNotFound       = -32002
)

// Causes with which an attachment is dropped.
var (
	// ErrLagging: the attachment's cursor left what the journal retains; the client must resume.
	ErrLagging = errors.New("sessions: the client fell behind what the journal retains")
	// ErrClosed: the view was closed or deleted, by this client or by another.
	ErrClosed = errors.New("sessions: the session was closed")
)

// Error is a failure that a client is told of.
type Error struct {
	Code    int
	Reason  string // stable word, data.reason
	Message string
	Hint    string          // what to do, data.hint
	Data    json.RawMessage // further members of data, a JSON object
	Raw     json.RawMessage // the agent's own error object; when set it is passed on as it is
}

func (e *Error) Error() string {
	if e.Raw != nil {
		return "agent error: " + string(e.Raw)
	}
	return e.Message
}

func errParams(msg, hint string) *Error {
	return &Error{Code: CodeInvalidParams, Reason: "bad_params", Message: msg, Hint: hint}
}

func errNotFound(id string) *Error {
	return &Error{
		Code: CodeNotFound, Reason: "session_not_found", Message: "Session not found: " + clip(id, 128),
		Hint: "list the sessions with session/list, or start one with session/new",
	}
}

func errIDInUse() *Error {
	return &Error{Code: CodeInternal, Reason: "session_in_use", Message: "The agent gave out the id of a session that is open", Hint: "restart the agent"}
}

func errNoMethod(method string) *Error {
	return &Error{Code: CodeMethodNotFound, Message: "Method not found: " + clip(method, 100)}
}

// Object returns the JSON-RPC error object of e.
func (e *Error) Object() json.RawMessage {
	if e.Raw != nil {
		return e.Raw
	}
	data := map[string]any{}
	if len(e.Data) > 0 {
		// Data is made by this module; a broken one only costs the further members.
		_ = json.Unmarshal(e.Data, &data)
	}
	if e.Reason != "" {
		data["reason"] = e.Reason
	}
	if e.Hint != "" {
		data["hint"] = e.Hint
	}
	obj := map[string]any{"code": e.Code, "message": e.Message}
	if len(data) > 0 {
		obj["data"] = data
	}
	return mustJSON(obj)
}

// AsError turns any error into one that a client can be told: *Error as it is, *AgentError with its exit code, signal and
// stderr tail, everything else as internal.
func AsError(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	var a *AgentError
	if errors.As(err, &a) {
		d := map[string]any{"agent": a.Agent}
		if a.Exited {
			if a.Signal != "" {
				d["signal"] = a.Signal
			} else {
				d["exitCode"] = a.ExitCode
			}
		}
		if a.Stderr != "" {
			d["stderr"] = a.Stderr
		}
		code := CodeInternal
		if a.Reason == "agent_unknown" {
			code = CodeInvalidParams
		}
		return &Error{Code: code, Reason: a.Reason, Message: a.Error(), Hint: a.Hint, Data: mustJSON(d)}
	}
	if errors.Is(err, ErrUnavailable) || errors.Is(err, ErrFenced) {
		return errStore(err)
	}
	return &Error{Code: CodeInternal, Reason: "internal", Message: err.Error()}
}

// agentFailure maps an error object of the agent for a session-scoped call. "Not found" in other clothes becomes -32002
// with the original in data (rule W9, CASES 51 and 52); everything else passes as it is.
func agentFailure(raw []byte, session string) *Error {
	var o struct {
		Code    int             `json:"code"`
		Message string          `json:"message"`
		Data    json.RawMessage `json:"data"`
	}
	if json.Unmarshal(raw, &o) != nil {
		return &Error{Code: CodeInternal, Reason: "agent_error", Message: "The agent answered with a malformed error"}
	}
	if o.Code == CodeNotFound || !looksNotFound(o.Code, o.Message, o.Data) {
		return &Error{Code: o.Code, Message: o.Message, Raw: append([]byte(nil), raw...)}
	}
	e := errNotFound(session)
	e.Data = mustJSON(map[string]any{"original": json.RawMessage(raw)})
	return e
}

func mustJSON(v any) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // what agents and clients said goes on as they wrote it
	if err := e.Encode(v); err != nil {
		panic("sessions: " + err.Error()) // only values of this package come here
	}
	return bytes.TrimSuffix(b.Bytes(), []byte{'\n'})
}

// clip shortens s for a message to at most n bytes, at a rune boundary.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xC0 == 0x80 {
		n--
	}
	return s[:n] + "…"
}

func appendInt(dst []byte, n int64) []byte { return strconv.AppendInt(dst, n, 10) }
