package agentpool

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"sync"

	"github.com/acpgate/acpgate/agentpool/wire"
)

var (
	errQueueFull   = errors.New("the agent does not read its input")
	errQueueClosed = errors.New("the agent's input is closed")
)

// keepBuffer is how large a buffer of a queue may be to be used again.
const keepBuffer = 256 << 10

// lineQueue is what waits to be written to an agent's stdin. It is bounded in bytes, what is being written included; an
// empty queue takes any one line. Lines that wait together leave in one write.
type lineQueue struct {
	limit int64

	mu      sync.Mutex
	pending []byte
	writing int   // bytes that are in a write
	broken  error // set once nothing is taken any more
	wake    chan struct{}
}

func newLineQueue(limit int64) *lineQueue {
	return &lineQueue{limit: limit, wake: make(chan struct{}, 1)}
}

// add appends raw with edits applied as one line. It never waits. Errors: errQueueFull, errQueueClosed.
func (q *lineQueue) add(raw []byte, edits ...wire.Edit) error {
	size := len(raw) + 1
	for i := range edits {
		size += len(edits[i].With)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.broken != nil {
		return q.broken
	}
	if waiting := len(q.pending) + q.writing; waiting > 0 && int64(waiting+size) > q.limit {
		return errQueueFull
	}
	start := len(q.pending)
	q.pending = wire.Splice(slices.Grow(q.pending, size), raw, edits...)
	unbreak(q.pending[start:])
	q.pending = append(q.pending, '\n')
	select {
	case q.wake <- struct{}{}:
	default:
	}
	return nil
}

// unbreak replaces raw line breaks, which can only be between tokens, by spaces: one frame is one line (rule W3).
func unbreak(line []byte) {
	for _, c := range []byte{'\n', '\r'} {
		for rest := line; ; {
			i := bytes.IndexByte(rest, c)
			if i < 0 {
				break
			}
			rest[i] = ' '
			rest = rest[i+1:]
		}
	}
}

// close refuses further lines. What waits is still written.
func (q *lineQueue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.broken == nil {
		q.broken = errQueueClosed
		close(q.wake)
	}
}

// waiting is how many bytes wait or are being written.
func (q *lineQueue) waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.pending) + q.writing
}

// run writes to w until the queue is closed and empty, or until w fails; then it closes w.
func (q *lineQueue) run(w io.WriteCloser) {
	defer w.Close()
	var spare []byte
	for {
		q.mu.Lock()
		batch, closed := q.pending, q.broken != nil
		if len(batch) > 0 {
			q.pending, q.writing = spare[:0], len(batch)
		}
		q.mu.Unlock()
		if len(batch) == 0 {
			if closed {
				return
			}
			<-q.wake
			continue
		}
		_, err := w.Write(batch)
		q.mu.Lock()
		q.writing = 0
		if err != nil {
			q.pending = nil
			if q.broken == nil {
				q.broken = errQueueClosed
				close(q.wake)
			}
		}
		q.mu.Unlock()
		if err != nil {
			return
		}
		spare = nil
		if cap(batch) <= keepBuffer {
			spare = batch[:0]
		}
	}
}
