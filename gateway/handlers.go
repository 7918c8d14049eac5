package gateway

import (
	"context"
	"errors"

	"github.com/acpgate/acpgate/agentpool/wire"
	"github.com/acpgate/acpgate/sessions"
)

// open serves session/new, load, resume and fork. The answer leaves through the attachment, behind what the client must
// see first.
func (c *conn) open(in *inbound) {
	ctx, done, ok := c.begin(in.call)
	if !ok {
		return
	}
	defer done()
	if e := c.roomForSession(in.session); e != nil {
		c.fail(in.call, e)
		return
	}
	a, err := c.srv.cfg.Sessions.Open(ctx, c, in.f)
	if err != nil {
		c.fail(in.call, c.errorOf(ctx, in, err))
		return
	}
	c.mu.Lock()
	in.call.cancel = nil
	c.mu.Unlock()
	at := c.adopt(a)
	c.mu.Lock()
	in.call.at = at
	c.mu.Unlock()
}

// closeSession serves session/close and session/delete. The answer leaves behind everything that the session has for this
// connection, among it the ends of its turns.
func (c *conn) closeSession(in *inbound) {
	ctx, done, ok := c.begin(in.call)
	if !ok {
		return
	}
	defer done()
	serve := c.srv.cfg.Sessions.CloseSession
	if in.f.Method == "session/delete" {
		serve = c.srv.cfg.Sessions.DeleteSession
	}
	result, err := serve(ctx, c, in.f)
	if err != nil {
		c.fail(in.call, c.errorOf(ctx, in, err))
		return
	}
	c.mu.Lock()
	at := c.handles[in.session]
	if at == nil {
		c.mu.Unlock()
		c.answer(in.call, result)
		return
	}
	defer c.mu.Unlock()
	if c.closeCall(in.call) {
		at.tail = append(at.tail, wire.AppendResult(nil, in.call.id, result))
	}
	c.retire(at)
}

func (c *conn) list(in *inbound) { c.ask(in, c.srv.cfg.Sessions.ListSessions) }

// callAgent passes on a request that names no session: authenticate, logout, and what the gateway does not know.
func (c *conn) callAgent(in *inbound) { c.ask(in, c.srv.cfg.Sessions.Call) }

func (c *conn) ask(in *inbound, serve func(context.Context, sessions.Client, *wire.Frame) ([]byte, error)) {
	ctx, done, ok := c.begin(in.call)
	if !ok {
		return
	}
	defer done()
	result, err := serve(ctx, c, in.f)
	if err != nil {
		c.fail(in.call, c.errorOf(ctx, in, err))
		return
	}
	c.answer(in.call, result)
}

// request passes a request to the session that it names, attaching to it if this connection has not yet (rule V3).
func (c *conn) request(in *inbound) {
	at, err := c.session(in.session)
	if err == nil {
		err = c.requestOf(at, in)
		if isNotFound(err) {
			// The attachment is of a view that was closed. There may be another by now, opened by somebody else.
			c.mu.Lock()
			c.retire(at)
			c.mu.Unlock()
			if at, err = c.session(in.session); err == nil {
				err = c.requestOf(at, in)
			}
		}
	}
	if err != nil {
		c.fail(in.call, c.errorOf(c.ctx, in, err))
	}
}

func (c *conn) requestOf(at *attached, in *inbound) error {
	c.mu.Lock()
	over := in.call.over // cancelled while it waited
	in.call.at = at
	c.mu.Unlock()
	if over {
		return nil
	}
	err := at.Request(in.f)
	if err != nil {
		c.mu.Lock()
		in.call.at = nil
		c.mu.Unlock()
	}
	return err
}

// notify passes a notification to the session that it names, or to the agent if it names none.
func (c *conn) notify(in *inbound) {
	if in.session == "" {
		c.srv.cfg.Sessions.Notify(c, in.f)
		return
	}
	at, err := c.session(in.session)
	if err != nil {
		c.srv.metrics.notificationsDropped.Inc()
		return
	}
	at.Notify(in.f)
}

// session returns this connection's attachment under handle.
func (c *conn) session(handle string) (*attached, error) {
	c.mu.Lock()
	at := c.handles[handle]
	c.mu.Unlock()
	if at != nil {
		return at, nil
	}
	if e := c.roomForSession(handle); e != nil {
		return nil, e
	}
	a, err := c.srv.cfg.Sessions.Attach(c, handle)
	if err != nil {
		return nil, err
	}
	return c.adopt(a), nil
}

// roomForSession reports whether the connection may use one more session, unless it uses handle already.
func (c *conn) roomForSession(handle string) *sessions.Error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := c.srv.cfg.Limits.Attachments; len(c.handles)+len(c.retired) >= n && (handle == "" || c.handles[handle] == nil) {
		return errTooManySessions(n)
	}
	return nil
}

// pingRequest answers _acpgate/ping, the heartbeat that a page can see.
func (c *conn) pingRequest(in *inbound) { c.answer(in.call, []byte("{}")) }

func (c *conn) cancelNotification(in *inbound) { c.cancelRequest(in.f) }

// refuse answers requests that are not for the gateway or an agent with -32601 and ignores such notifications: $/ping and
// its like, and what only agents send.
func (c *conn) refuse(in *inbound) {
	if in.call != nil {
		c.fail(in.call, errNoMethod(in.f.Method))
	}
}

// isNotFound reports whether a session is not open any more.
func isNotFound(err error) bool {
	var e *sessions.Error
	return errors.As(err, &e) && e.Code == sessions.CodeNotFound && e.Raw == nil
}
