package gateway

import (
	"context"
	"errors"

	"github.com/acpgate/acpgate/agentpool/wire"
	"github.com/acpgate/acpgate/sessions"
)

// call is one open request of the client. Its fields change under conn.mu.
type call struct {
	key    string // canonical id
	id     []byte // as the client wrote it
	at     *attached
	cancel context.CancelCauseFunc // while a goroutine of the connection works on it
	over   bool                    // answered
}

// errCancelled is the cause of the context of a request that the client has cancelled.
var errCancelled = errors.New("gateway: the client cancelled the request")

// admit opens a call for a request. An error is to be answered and leaves nothing open (rule W3).
func (c *conn) admit(f *wire.Frame) (*call, *sessions.Error) {
	id := f.ID.Of(f.Raw)
	k := &call{key: wire.CanonicalID(id), id: id}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls == nil {
		c.calls = map[string]*call{}
	}
	switch {
	case c.calls[k.key] != nil:
		return nil, errInvalid("duplicate_id", "A request with this id is still open", "give every request an id of its own")
	case len(c.calls) >= c.srv.cfg.Limits.Requests:
		return nil, errTooMany(c.srv.cfg.Limits.Requests)
	}
	c.calls[k.key] = k
	c.srv.metrics.requestsOpen.Inc()
	return k, nil
}

// release closes the call of a response that an attachment gives out.
func (c *conn) release(id []byte) {
	key := wire.CanonicalID(id)
	c.mu.Lock()
	defer c.mu.Unlock()
	if k := c.calls[key]; k != nil {
		c.closeCall(k)
	}
}

// answer closes the call with a raw result.
func (c *conn) answer(k *call, result []byte) {
	c.mu.Lock()
	open := c.closeCall(k)
	c.mu.Unlock()
	if open {
		c.send(wire.AppendResult(nil, k.id, result))
	}
}

// fail closes the call with an error.
func (c *conn) fail(k *call, e *sessions.Error) {
	c.mu.Lock()
	frame := c.failed(k, e)
	c.mu.Unlock()
	if frame != nil {
		c.send(frame)
	}
}

// failed closes the call and returns its error response; nil if it was answered already. Under mu.
func (c *conn) failed(k *call, e *sessions.Error) []byte {
	if !c.closeCall(k) {
		return nil
	}
	c.srv.metrics.errors.WithLabelValues(codeLabel(e.Code)).Inc()
	return errorFrame(k.id, e)
}

// closeCall takes the call out of the open ones; false if it was answered already. Under mu.
func (c *conn) closeCall(k *call) bool {
	if k.over {
		return false
	}
	k.over = true
	if delete(c.calls, k.key); len(c.calls) == 0 {
		c.calls = nil // an idle connection keeps no empty map
	}
	c.srv.metrics.requestsOpen.Dec()
	return true
}

// cancelRequest takes the client's $/cancel_request (rule W4): what waits here is answered at once, what runs here is told
// by its context, and what an attachment has is its business.
func (c *conn) cancelRequest(f *wire.Frame) {
	params := f.Params.Of(f.Raw)
	id := wire.Lookup(params, "requestId").Of(params)
	if id == nil {
		return
	}
	c.mu.Lock()
	k := c.calls[wire.CanonicalID(id)]
	var at *attached
	var cancel context.CancelCauseFunc
	var frame []byte
	if k != nil {
		at, cancel = k.at, k.cancel
		if at == nil && cancel == nil {
			frame = c.failed(k, errCancelledCall())
		}
	}
	c.mu.Unlock()
	switch {
	case frame != nil:
		c.send(frame)
	case cancel != nil:
		cancel(errCancelled)
	case at != nil:
		at.CancelRequest(k.id)
	}
}

// begin gives a slow request its context; false if it was cancelled while it waited.
func (c *conn) begin(k *call) (ctx context.Context, done func(), ok bool) {
	ctx, cancel := context.WithCancelCause(c.ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	if k.over {
		cancel(nil)
		return nil, nil, false
	}
	k.cancel = cancel
	return ctx, func() {
		c.mu.Lock()
		k.cancel = nil
		c.mu.Unlock()
		cancel(nil)
	}, true
}
