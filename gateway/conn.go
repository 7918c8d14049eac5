package gateway

import (
	"bufio"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
	"golang.org/x/time/rate"

	"github.com/acpgate/acpgate/gateway/auth"
	"github.com/acpgate/acpgate/sessions"
)

// phase is how far a connection's initialize is.
type phase uint8

const (
	fresh        phase = iota // nothing yet, or a failed try
	initializing              // the agent is asked, which may mean that it is started
	ready
)

// conn is one WebSocket connection. Its goroutines: run, which reads; the write loop, which exists only while there is
// something to write; one for each slow request or lane; and one that closes. run waits for all of them.
type conn struct {
	srv     *Server
	id      string
	agent   string
	remote  string
	who     auth.Identity
	log     *slog.Logger
	started time.Time

	ws   *websocket.Conn
	cork *cork
	in   *bufio.Reader // of ws; to see whether more has come

	frameRate *rate.Limiter // nil: unlimited
	byteRate  *rate.Limiter

	ctx    context.Context // ends with the connection; the cause is the *closing
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup

	cutShort atomic.Bool // the connection ended, and what is ready for the client does not matter any more

	mu       sync.Mutex // a leaf: nothing of package sessions is called under it
	end      *closing   // set once
	phase    phase
	features sessions.Features
	gate     *lane                // frames that wait for the answer to initialize; nil: none is under way
	lanes    map[string]*lane     // by session id
	calls    map[string]*call     // open requests of the client, by canonical id
	handles  map[string]*attached // sessions in use
	retired  []*attached          // and those that are still to be pulled dry
	ready    queue                // attachments with something to pull
	out      outbox
	ping     pingState
	paused   int // the read loop waits for us, not for the peer
	writing  bool
}

var _ sessions.Client = (*conn)(nil)

// closing says why a connection ended. It is the cause of conn.ctx.
type closing struct {
	code   int // of the table; from the peer's close frame if that came first
	reason string
	gone   bool // no close frame is to be sent
	write  bool // a write has failed; the read loop knows better why
	flush  bool // what is ready leaves before the close frame, for half of the grace; under conn.mu
	err    error
	idle   chan struct{} // closed when the write loop has ended
}

func (e *closing) Error() string {
	if e.reason != "" {
		return "connection closed: " + closeName(e.code) + ": " + e.reason
	}
	return "connection closed: " + closeName(e.code)
}

func (e *closing) Unwrap() error { return e.err }

// attached is an attachment in use.
type attached struct {
	Attachment
	handle  string
	queued  bool     // in conn.ready, or being pulled
	again   bool     // woken while it was being pulled
	retired bool     // pull what is left, then detach
	tail    [][]byte // answers that leave behind what is left
}

func (c *conn) ID() string        { return c.id }
func (c *conn) Principal() string { return c.who.Principal }
func (c *conn) Agent() string     { return c.agent }

func (c *conn) Features() sessions.Features {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.features
}

// Wake is called by sessions, also under its locks.
func (c *conn) Wake(a *sessions.Attachment) { c.wake(a) }

func (c *conn) wake(a Attachment) {
	c.mu.Lock()
	defer c.mu.Unlock()
	// One that is not in use yet is pulled once it is; one that is retired has been asked to be.
	if at := c.inUse(a); at != nil {
		c.enqueue(at)
	}
}

// Drop is called by sessions, also under its locks.
func (c *conn) Drop(a *sessions.Attachment, cause error) { c.drop(a, cause) }

func (c *conn) drop(a Attachment, cause error) {
	if errors.Is(cause, sessions.ErrLagging) {
		c.srv.metrics.lagging.Inc()
		c.close(closing{code: codeLagging, reason: "resync", err: cause})
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if at := c.inUse(a); at != nil {
		c.retire(at)
	}
}

// inUse finds the use of an attachment; nil if it is not in use, or retired. Under mu.
func (c *conn) inUse(a Attachment) *attached {
	if at := c.handles[a.Handle()]; at != nil && at.Attachment == a {
		return at
	}
	return nil
}

// Notify is called by sessions, also under its locks.
func (c *conn) Notify(frame []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.end != nil || !c.out.admits(len(frame), c.srv.cfg.Limits.ControlQueue) {
		c.srv.metrics.notificationsDropped.Inc()
		return
	}
	c.out.add(append([]byte(nil), frame...))
	c.srv.metrics.answerBytes.Add(float64(len(frame)))
	c.startWriter()
}

// run is the life of the connection.
//
// Handling a frame takes a deeper stack than waiting for one, and the runtime hardly ever shrinks a stack that is half in
// use. So once there is nothing more to read, a new goroutine with a small stack does the waiting, which saves half of
// what an idle connection costs, for half a microsecond.
func (c *conn) run() {
	why, ok := c.readLoop()
	if ok {
		go c.run()
		return
	}
	c.close(why)
	c.wg.Wait()
	c.mu.Lock()
	end, left := c.end, c.retired
	if end.write {
		end = &why
	}
	for _, at := range c.handles {
		left = append(left, at)
	}
	c.srv.metrics.requestsOpen.Sub(float64(len(c.calls)))
	c.srv.metrics.answerBytes.Sub(float64(c.out.bytes))
	c.handles, c.retired, c.calls = nil, nil, nil
	c.mu.Unlock()
	for _, at := range left {
		at.Detach()
	}
	c.srv.cfg.Sessions.Gone(c)
	c.srv.metrics.attachments.Sub(float64(len(left)))
	c.srv.metrics.closes.WithLabelValues(closeName(end.code)).Inc()
	c.log.Info("connection closed", "code", end.code, "reason", end.reason, "err", end.err, "after", time.Since(c.started))
	c.srv.remove(c)
}

// close ends the connection. The first call decides code and reason; it never blocks.
func (c *conn) close(why closing) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.end != nil {
		return
	}
	why.idle = make(chan struct{})
	c.cutShort.Store(!why.flush)
	c.end = &why
	if !c.writing {
		close(why.idle)
	}
	c.ping.stop()
	c.cancel(&why)
	c.wg.Go(func() { c.finish(&why) })
}

// finish closes the socket: behind what is being written, with a close frame, and in any case within the grace.
// A write that blocks because the peer does not read is cut.
func (c *conn) finish(why *closing) {
	if why.gone {
		_ = c.ws.CloseNow() // that the socket is closed is no news
		return
	}
	grace := c.srv.cfg.Limits.CloseGrace
	cut := time.AfterFunc(grace, func() { _ = c.cork.Conn.Close() })
	defer cut.Stop()
	enough := time.AfterFunc(grace/2, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		why.flush = false
		c.cutShort.Store(true)
	})
	defer enough.Stop()
	<-why.idle
	if err := c.ws.Close(websocket.StatusCode(why.code), why.reason); err != nil {
		c.log.Debug("closing handshake did not end well", "err", err)
	}
}

// adopt takes an attachment into use, in place of an older one with its handle.
func (c *conn) adopt(a Attachment) *attached {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := &attached{Attachment: a, handle: a.Handle()}
	if c.handles == nil {
		c.handles = map[string]*attached{}
	}
	if old := c.handles[at.handle]; old != nil {
		c.retire(old)
	}
	c.handles[at.handle] = at
	c.srv.metrics.attachments.Inc()
	c.enqueue(at)
	return at
}

// retire ends the use of an attachment once it has run dry. Under mu.
func (c *conn) retire(at *attached) {
	if at.retired {
		return
	}
	at.retired = true
	if c.handles[at.handle] == at {
		delete(c.handles, at.handle)
	}
	c.retired = append(c.retired, at)
	c.enqueue(at)
}

// enqueue has an attachment pulled. Under mu.
func (c *conn) enqueue(at *attached) {
	if at.queued {
		at.again = true
		return
	}
	at.queued = true
	c.ready.push(at)
	c.startWriter()
}

// pulled decides how it goes on with an attachment after a Pull: again later, or not; and whether it is to be detached.
func (c *conn) pulled(at *attached, more bool) (tail [][]byte, detach bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if more || at.again {
		at.again = false
		c.ready.push(at)
		return nil, false
	}
	at.queued = false
	tail, at.tail = at.tail, nil
	if at.retired {
		c.retired = slices.DeleteFunc(c.retired, func(x *attached) bool { return x == at })
		c.srv.metrics.attachments.Dec()
		for _, k := range c.calls {
			if k.at == at {
				tail = append(tail, c.failed(k, errReattached()))
			}
		}
		return tail, true
	}
	return tail, false
}

// queue is a first-in-first-out list that gives its memory back when it is empty.
type queue struct {
	items []*attached
	head  int
}

func (q *queue) push(at *attached) {
	if q.head > len(q.items)/2 {
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	q.items = append(q.items, at)
}

func (q *queue) pop() *attached {
	if q.head == len(q.items) {
		return nil
	}
	at := q.items[q.head]
	q.items[q.head] = nil
	q.head++
	if q.head == len(q.items) {
		q.items, q.head = nil, 0
	}
	return at
}
