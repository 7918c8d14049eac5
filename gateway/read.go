package gateway

import (
	"context"
	"errors"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/coder/websocket"
	"golang.org/x/time/rate"
)

// scratchSize is the buffer that a message is read into at first. Smaller messages are copied out of it to their exact
// size, and it goes back to the pool; larger ones get a buffer of their own.
const scratchSize = 4 << 10

type scratchPool struct{ p sync.Pool }

func newScratchPool() *scratchPool {
	return &scratchPool{sync.Pool{New: func() any { return new([scratchSize]byte) }}}
}

// readLoop reads frames and has them handled. It says why the connection ended, or ok when there is nothing more to read
// at the moment.
func (c *conn) readLoop() (why closing, ok bool) {
	for {
		// No deadline here or below: a context that ends would close the connection. Pings find out who is gone.
		_, r, err := c.ws.Reader(context.Background())
		if err != nil {
			return readFailure(err), false
		}
		// Text and binary alike: one browser client sends its text in binary frames.
		if why, ok := c.readMessage(r); !ok {
			return why, false
		}
		switch {
		case c.ctx.Err() != nil:
			return closing{code: codeAbnormal, gone: true}, false
		case c.in.Buffered() == 0:
			return closing{}, true
		}
	}
}

// readMessage reads one message and has it handled. Only now, with its beginning there, is memory taken for it.
func (c *conn) readMessage(r io.Reader) (why closing, ok bool) {
	scratch := c.srv.scratch.p.Get().(*[scratchSize]byte)
	defer c.srv.scratch.p.Put(scratch)
	buf := scratch[:0]
	limit := int(c.srv.cfg.Limits.FrameBytes)
	for {
		if len(buf) == cap(buf) {
			grown := make([]byte, len(buf), min(4*cap(buf), limit+1))
			copy(grown, buf)
			buf = grown
		}
		n, err := r.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if err == io.EOF {
			break
		}
		if err != nil {
			return readFailure(err), false
		}
		if len(buf) > limit {
			c.srv.metrics.tooBig.Inc()
			return closing{code: codeTooBig, reason: "a message may have " + strconv.Itoa(limit) + " bytes"}, false
		}
		c.pace(c.byteRate, n, "byte_rate")
	}
	c.srv.metrics.framesIn.Inc()
	c.srv.metrics.bytesIn.Add(float64(len(buf)))
	c.pace(c.frameRate, 1, "frame_rate")
	c.frame(buf, cap(buf) > scratchSize)
	return closing{}, true
}

// pace waits until the client may go on, if it sends faster than its rate allows. That holds it back by the flow control
// of TCP and costs nobody else anything.
func (c *conn) pace(lim *rate.Limiter, n int, label string) {
	if lim == nil {
		return
	}
	for n > 0 {
		k := min(n, lim.Burst())
		n -= k
		wait := lim.ReserveN(time.Now(), k).Delay()
		if wait <= 0 {
			continue
		}
		c.srv.metrics.pauses.WithLabelValues(label).Inc()
		t := time.NewTimer(wait)
		c.mu.Lock()
		c.paused++
		c.mu.Unlock()
		select {
		case <-t.C:
		case <-c.ctx.Done():
			t.Stop()
		}
		c.mu.Lock()
		c.paused--
		c.mu.Unlock()
	}
}

// readFailure says what the end of the read loop means: a close frame of the peer, a breach of the protocol, which the
// library has answered with a close frame, or a lost connection.
func readFailure(err error) closing {
	var ce websocket.CloseError
	switch {
	case errors.As(err, &ce):
		return closing{code: int(ce.Code), reason: ce.Reason, gone: true}
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return closing{code: codeAbnormal, gone: true}
	default:
		return closing{code: codeAbnormal, gone: true, err: err}
	}
}
