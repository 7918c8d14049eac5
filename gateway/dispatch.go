package gateway

import (
	"errors"
	"strings"

	"github.com/acpgate/acpgate/agentpool/wire"
	"github.com/acpgate/acpgate/sessions"
)

// method says how the frames of one method are handled.
type method struct {
	handle func(*conn, *inbound)
	// slow handlers wait for an agent: they run in a goroutine, and later frames of their session behind them.
	slow bool
	// keyed: params.sessionId is required.
	keyed bool
	// notification: it must not have an id; otherwise it must.
	notification bool
	// either: with or without id.
	either bool
	// always: handled at once, past everything that waits.
	always bool
}

// methodOf is the dispatch table.
func methodOf(f *wire.Frame) method {
	switch f.Method {
	case "initialize":
		return method{handle: (*conn).initialize, always: true}
	case "session/new":
		return method{handle: (*conn).open, slow: true}
	case "session/load", "session/resume", "session/fork":
		return method{handle: (*conn).open, slow: true, keyed: true}
	case "session/close", "session/delete":
		return method{handle: (*conn).closeSession, slow: true, keyed: true}
	case "session/list":
		return method{handle: (*conn).list, slow: true}
	case "session/prompt", "session/set_mode", "session/set_model", "session/set_config_option",
		"_acpgate/force_stop", "_acpgate/queue_cancel", "_acpgate/merge_preview", "_acpgate/merge":
		return method{handle: (*conn).request, keyed: true}
	case "session/cancel":
		return method{handle: (*conn).notify, keyed: true, notification: true}
	case "authenticate", "logout":
		return method{handle: (*conn).callAgent, slow: true}
	case "_acpgate/ping":
		return method{handle: (*conn).pingRequest, always: true}
	case "$/cancel_request":
		return method{handle: (*conn).cancelNotification, notification: true, always: true}
	case "session/update", "session/request_permission", "elicitation/create", "elicitation/complete":
		return method{handle: (*conn).refuse, either: true} // of agents
	}
	switch prefix, _, _ := strings.Cut(f.Method, "/"); {
	case prefix == "$":
		return method{handle: (*conn).refuse, either: true, always: true}
	case prefix == "fs", prefix == "terminal", prefix == "_acpgate":
		return method{handle: (*conn).refuse, either: true}
	case f.Kind == wire.Request && f.SessionID.Present():
		return method{handle: (*conn).request}
	case f.Kind == wire.Request:
		return method{handle: (*conn).callAgent, slow: true}
	default:
		return method{handle: (*conn).notify, notification: true}
	}
}

// frame takes one message of the client. raw is changed, and kept if it is ours.
func (c *conn) frame(raw []byte, ours bool) {
	parsed, err := wire.ParseClient(raw, wire.Limits{})
	if err != nil {
		var bad *wire.Error
		errors.As(err, &bad) // the only type that ParseClient gives
		c.srv.metrics.errors.WithLabelValues(codeLabel(bad.Code())).Inc()
		c.send(errorFrame(parsed.ID.Of(parsed.Raw), errUnparsable(bad)))
		return
	}
	f := &parsed
	if !ours {
		f.Raw = append([]byte(nil), f.Raw...)
	}
	switch f.Kind {
	case wire.Result, wire.Failure:
		if !c.initialized() || !c.srv.cfg.Sessions.Answer(c, f) {
			c.srv.metrics.responsesDropped.Inc()
		}
	default:
		c.call(f)
	}
}

// call takes a request or notification.
func (c *conn) call(f *wire.Frame) {
	in := &inbound{f: f, m: methodOf(f)}
	in.session, _ = wire.Unquote(f.SessionID.Of(f.Raw)) // a scanned token, or absent: ""
	isRequest := f.Kind == wire.Request
	if e := c.malformed(in, isRequest); e != nil {
		if isRequest {
			c.srv.metrics.errors.WithLabelValues(codeLabel(e.Code)).Inc()
			c.send(errorFrame(f.ID.Of(f.Raw), e))
		} else {
			c.srv.metrics.notificationsDropped.Inc()
		}
		return
	}
	if isRequest {
		k, e := c.admit(f)
		if e != nil {
			c.srv.metrics.errors.WithLabelValues(codeLabel(e.Code)).Inc()
			c.send(errorFrame(f.ID.Of(f.Raw), e))
			return
		}
		in.call = k
	}
	if in.m.always {
		in.m.handle(c, in)
		return
	}
	c.mu.Lock()
	for c.gate != nil {
		if c.push(c.gate, func() *lane { return c.gate }, in) || c.end != nil {
			c.mu.Unlock()
			return
		}
	}
	c.mu.Unlock()
	c.dispatch(in)
}

// malformed says what is wrong with a frame before anything is done with it; nil if nothing is.
func (c *conn) malformed(in *inbound, isRequest bool) *sessions.Error {
	f, m := in.f, in.m
	switch {
	case f.Method != "initialize" && !c.begun():
		return errNotInitialized()
	case m.either:
	case m.notification && isRequest:
		return errInvalid("not_a_request", f.Method+" is a notification", "send it without an id")
	case !m.notification && !isRequest:
		return errInvalid("not_a_notification", f.Method+" is a request", "send it with an id")
	}
	if m.keyed && in.session == "" {
		return errParams(f.Method+" needs params.sessionId", "send the session's id, a string")
	}
	return nil
}

func (c *conn) initialized() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.phase == ready
}

// begun reports whether a client has said initialize, whether or not it was answered yet.
func (c *conn) begun() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.phase != fresh
}
