package gateway

// outbox holds whole frames that belong to the connection and not to a session: answers and notifications. Its methods
// are called under conn.mu.
type outbox struct {
	frames [][]byte
	bytes  int
	space  chan struct{} // closed when frames have left; nil: nobody waits
}

// admits reports whether another n bytes fit into limit; an empty outbox takes any one frame.
func (o *outbox) admits(n, limit int) bool { return o.bytes == 0 || o.bytes+n <= limit }

func (o *outbox) add(frame []byte) {
	o.frames = append(o.frames, frame)
	o.bytes += len(frame)
}

// take hands all frames to the writer. Their bytes count until written is called.
func (o *outbox) take() [][]byte {
	f := o.frames
	o.frames = nil
	return f
}

func (o *outbox) written(n int) {
	o.bytes -= n
	if o.space != nil {
		close(o.space)
		o.space = nil
	}
}

func (o *outbox) waitForSpace() <-chan struct{} {
	if o.space == nil {
		o.space = make(chan struct{})
	}
	return o.space
}

// send queues a frame of the connection's own, waiting for space in the outbox: that is how a client that sends requests
// and does not read the answers is stopped. It reports false when the connection ended instead.
func (c *conn) send(frame []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.end == nil && !c.out.admits(len(frame), c.srv.cfg.Limits.ControlQueue) {
		c.srv.metrics.pauses.WithLabelValues("queue").Inc()
		c.waitUnlocked(c.out.waitForSpace())
	}
	if c.end != nil {
		return false
	}
	c.out.add(frame)
	c.srv.metrics.answerBytes.Add(float64(len(frame)))
	c.startWriter()
	return true
}

// waitUnlocked waits for ch or the end of the connection, without mu. While the read loop waits here the peer's pongs
// are not read, so it is not blamed for missing ones.
func (c *conn) waitUnlocked(ch <-chan struct{}) {
	c.paused++
	c.mu.Unlock()
	select {
	case <-ch:
	case <-c.ctx.Done():
	}
	c.mu.Lock()
	c.paused--
}
