package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/acpgate/acpgate/agentpool/wire"
	"github.com/acpgate/acpgate/gateway/auth"
	"github.com/acpgate/acpgate/sessions"
)

// This file is the one place where errors become JSON-RPC errors (rule W9) and problem+json (RFC 9457).

func errInvalid(reason, message, hint string) *sessions.Error {
	return &sessions.Error{Code: sessions.CodeInvalidRequest, Reason: reason, Message: message, Hint: hint}
}

func errParams(message, hint string) *sessions.Error {
	return &sessions.Error{Code: sessions.CodeInvalidParams, Reason: "bad_params", Message: message, Hint: hint}
}

func errNotInitialized() *sessions.Error {
	return errInvalid("not_initialized", "The connection is not initialized", "send initialize first and wait for its result")
}

func errNoMethod(name string) *sessions.Error {
	return &sessions.Error{Code: sessions.CodeMethodNotFound, Reason: "method_not_found", Message: "Method not found: " + clip(name, 100)}
}

func errTooMany(limit int) *sessions.Error {
	return &sessions.Error{
		Code: sessions.CodeInternal, Reason: "too_many_requests", Message: "Too many open requests on this connection: " + strconv.Itoa(limit),
		Hint: "wait for answers before you send more", Data: limitData(limit),
	}
}

func errTooManySessions(limit int) *sessions.Error {
	return &sessions.Error{
		Code: sessions.CodeInternal, Reason: "attachment_limit", Message: "Too many sessions on this connection: " + strconv.Itoa(limit),
		Hint: "close sessions with session/close, or open another connection", Data: limitData(limit),
	}
}

func errCancelledCall() *sessions.Error {
	return &sessions.Error{Code: sessions.CodeCancelled, Reason: "cancelled", Message: "Cancelled by the client"}
}

// errReattached answers requests whose attachment was replaced: the same connection has loaded or resumed the session
// again, or closed it, before they were answered.
func errReattached() *sessions.Error {
	return &sessions.Error{
		Code: sessions.CodeInternal, Reason: "reattached", Message: "This connection has let go of the session before the answer came",
		Hint: "the request itself may have taken effect; load the session to see",
	}
}

// errUnparsable is the answer to bytes that are no frame (rule W3).
func errUnparsable(bad *wire.Error) *sessions.Error {
	e := &sessions.Error{Code: bad.Code(), Reason: bad.Reason(), Message: "Parse error: " + bad.Msg}
	if e.Code == wire.CodeInvalidRequest {
		e.Message = "Invalid request: " + bad.Msg
	}
	if bad.Offset > 0 {
		e.Data = json.RawMessage(`{"offset":` + strconv.Itoa(bad.Offset) + `}`)
	}
	return e
}

func limitData(limit int) json.RawMessage {
	return json.RawMessage(`{"limit":` + strconv.Itoa(limit) + `}`)
}

// errorOf says what a client is told of err, the outcome of in.
func (c *conn) errorOf(ctx context.Context, in *inbound, err error) *sessions.Error {
	var known *sessions.Error
	var agent *sessions.AgentError
	switch {
	case errors.Is(context.Cause(ctx), errCancelled):
		return errCancelledCall()
	case errors.As(err, &known):
		return known
	case errors.As(err, &agent):
		c.log.Info("agent failed a request", "method", clip(in.f.Method, 64), "err", err)
		return sessions.AsError(err)
	case errors.Is(err, context.DeadlineExceeded):
		return &sessions.Error{Code: sessions.CodeInternal, Reason: "timeout", Message: "This took too long", Hint: "try again"}
	case errors.Is(err, context.Canceled):
		return errCancelledCall()
	default:
		c.log.Error("request failed", "method", clip(in.f.Method, 64), "err", err)
		return &sessions.Error{Code: sessions.CodeInternal, Reason: "internal", Message: "The gateway failed", Hint: "try again; the gateway's log says more"}
	}
}

// errorFrame is an error response; id nil means null.
func errorFrame(id []byte, e *sessions.Error) []byte {
	b := append([]byte(nil), `{"jsonrpc":"2.0","id":`...)
	if id == nil {
		id = []byte("null")
	}
	b = append(append(b, id...), `,"error":`...)
	return append(append(b, e.Object()...), '}')
}

// codeLabel is the metric label of an error code: the codes of rule W9, "agent" for whatever else agents send.
func codeLabel(code int) string {
	switch code {
	case wire.CodeParse, sessions.CodeInvalidRequest, sessions.CodeMethodNotFound, sessions.CodeInvalidParams,
		sessions.CodeInternal, sessions.CodeCancelled, sessions.CodeAuthRequired, sessions.CodeNotFound:
		return strconv.Itoa(code)
	}
	return "agent"
}

// problem is the body of an HTTP error, RFC 9457 with our words.
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
	Reason string `json:"reason"`         // stable word
	Hint   string `json:"hint,omitempty"` // what to do
}

// writeProblem answers with err, which is of type *auth.Error unless it is nobody's business.
func (s *Server) writeProblem(w http.ResponseWriter, err error) {
	var e *auth.Error
	if !errors.As(err, &e) {
		s.log.Error("http request failed", "err", err)
		e = &auth.Error{Status: http.StatusInternalServerError, Reason: "internal", Message: "The gateway failed", Hint: "try again; the gateway's log says more"}
	}
	if e.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int((e.RetryAfter+time.Second-1)/time.Second)))
	}
	if e.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="acpgate"`)
	}
	w.Header().Set("Content-Type", "application/problem+json")
	writeBody(w, e.Status, problem{
		Type: "about:blank", Title: http.StatusText(e.Status), Status: e.Status, Detail: e.Message, Reason: e.Reason, Hint: e.Hint,
	})
}

// clip shortens s to at most n bytes, at a rune boundary.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xC0 == 0x80 {
		n--
	}
	return s[:n] + "…"
}
