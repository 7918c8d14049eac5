package gateway

import (
	"bufio"
	"encoding/binary"
	"math"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// corkSize is the largest batch that leaves in one write.
	corkSize = 64 << 10
	// pieceSize is the largest single write.
	pieceSize = 64 << 10
	// slowPiece is that to a peer that has let us wait within the last slowPieces, so that its progress can be seen.
	slowPiece  = 4 << 10
	slowPieces = 64

	// maxUnsent bounds what the kernel holds of a connection before it has sent it.
	maxUnsent = 256 << 10

	hijackReadBuffer  = 512 // frame headers and most of what a client sends; larger payloads go past it
	hijackWriteBuffer = 192 // a whole control frame, so that one is never torn apart

	// slowWrite is how long a write takes that had to wait for room. One that finds room proves nothing about the peer.
	slowWrite = 5 * time.Millisecond

	// lastFlush is how long the close frame that answers the peer's may take to leave.
	lastFlush = time.Second
)

// corkPool holds the batches of connections that are writing right now; an idle connection has none.
type corkPool struct{ p sync.Pool }

func newCorkPool() *corkPool {
	return &corkPool{sync.Pool{New: func() any { b := make([]byte, 0, corkSize); return &b }}}
}

// cork is the net.Conn under a WebSocket. The WebSocket library flushes after every frame, which costs a system call each;
// between hold and release the cork gathers frames, so that what is ready together leaves together (measured: ten times
// the frames per second). What is written while it is not held leaves at once.
//
// hold, frame and release belong to the write loop. The library's close frame, by Write, may come from another goroutine:
// each call is one frame and is not torn apart.
type cork struct {
	net.Conn
	pool *corkPool

	early []byte       // what the HTTP server had read past the request; for Read
	rx    atomic.Int64 // bytes read
	taken atomic.Int64 // writes that had to wait and then succeeded: each proves that the peer takes what it is sent

	mu     sync.Mutex // also held while the socket is written to
	held   bool
	batch  *[]byte
	writes int // writes to the socket since the last release
	slow   int // writes that are still to be small
}

func (c *cork) hold() {
	c.mu.Lock()
	c.held = true
	c.mu.Unlock()
}

// release sends what was gathered and returns the number of writes to the socket since the last release.
func (c *cork) release() (writes int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	err = c.flush()
	if c.batch != nil {
		c.pool.p.Put(c.batch)
		c.batch = nil
	}
	c.held = false
	writes, c.writes = c.writes, 0
	return writes, err
}

// frame writes one unfragmented frame of a server, which is not masked (RFC 6455, 5.2). Only while held.
//
// The library could write data frames too. It takes three locks that can be waited for with a context, which cost more
// than the rest of the way together (350 ns a frame against 110), and it has no way to write a pong later than it reads
// the ping.
func (c *cork) frame(opcode byte, payload []byte) error {
	const fin = 0x80
	head := [10]byte{fin | opcode}
	n := 2
	switch size := len(payload); {
	case size <= maxControlPayload:
		head[1] = byte(size)
	case size <= math.MaxUint16:
		head[1], n = 126, 4
		binary.BigEndian.PutUint16(head[2:], uint16(size))
	default:
		head[1], n = 127, 10
		binary.BigEndian.PutUint64(head[2:], uint64(size))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.gather(head[:n]); err != nil {
		return err
	}
	return c.gather(payload)
}

// Write is the library's, for the close frame.
func (c *cork) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.held {
		return c.send(p)
	}
	if err := c.gather(p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// gather adds p to the batch; what is too much for one batch leaves at once. Under mu.
func (c *cork) gather(p []byte) error {
	if c.batch == nil {
		c.batch = c.pool.p.Get().(*[]byte)
		*c.batch = (*c.batch)[:0]
	}
	for len(*c.batch)+len(p) > corkSize {
		k := corkSize - len(*c.batch)
		*c.batch = append(*c.batch, p[:k]...)
		p = p[k:]
		if err := c.flush(); err != nil {
			return err
		}
		if whole := len(p) - len(p)%pieceSize; whole > 0 {
			if _, err := c.send(p[:whole]); err != nil {
				return err
			}
			p = p[whole:]
		}
	}
	*c.batch = append(*c.batch, p...)
	return nil
}

// flush sends the batch. Under mu.
func (c *cork) flush() error {
	if c.batch == nil || len(*c.batch) == 0 {
		return nil
	}
	_, err := c.send(*c.batch)
	*c.batch = (*c.batch)[:0]
	return err
}

// send writes to the socket. Under mu.
func (c *cork) send(p []byte) (n int, err error) {
	for n < len(p) {
		piece := pieceSize
		if c.slow > 0 {
			piece = slowPiece
			c.slow--
		}
		begin := time.Now()
		k, err := c.Conn.Write(p[n:min(n+piece, len(p))])
		if k > 0 && time.Since(begin) >= slowWrite {
			c.taken.Add(1)
			c.slow = slowPieces
		}
		n += k
		c.writes++
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// Read is called by one goroutine at a time.
func (c *cork) Read(p []byte) (int, error) {
	if len(c.early) > 0 {
		n := copy(p, c.early)
		c.early = c.early[n:]
		if len(c.early) == 0 {
			c.early = nil
		}
		return n, nil
	}
	n, err := c.Conn.Read(p)
	c.rx.Add(int64(n))
	return n, err
}

// Close closes the socket. The answer to the peer's close frame may still be in the batch, or on its way: it gets a
// moment to leave, and a write that is blocked no more than that.
func (c *cork) Close() error {
	if c.Conn.SetWriteDeadline(time.Now().Add(lastFlush)) == nil {
		c.mu.Lock()
		_ = c.flush() // the connection ends either way
		c.mu.Unlock()
	}
	return c.Conn.Close()
}

// corkedWriter gives whoever hijacks the connection a corked one with small buffers.
type corkedWriter struct {
	http.ResponseWriter
	pool *corkPool
	// Set by Hijack.
	cork *cork
	in   *bufio.Reader
}

var _ http.Hijacker = (*corkedWriter)(nil)

func (w *corkedWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	nc, brw, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	w.cork = &cork{Conn: nc, pool: w.pool}
	if n := brw.Reader.Buffered(); n > 0 {
		w.cork.early = make([]byte, n)
		if _, err := brw.Reader.Read(w.cork.early); err != nil { // buffered: it cannot fail and gives all of it
			return nil, nil, err
		}
	}
	w.in = bufio.NewReaderSize(w.cork, hijackReadBuffer)
	return w.cork, bufio.NewReadWriter(w.in, bufio.NewWriterSize(w.cork, hijackWriteBuffer)), nil
}
