package gateway

import "github.com/acpgate/acpgate/sessions"

// startWriter has a write loop running. Under mu.
func (c *conn) startWriter() {
	if c.writing || c.end != nil {
		return
	}
	c.writing = true
	c.wg.Go(c.writeLoop)
}

// writeLoop writes until there is nothing left, then ends: an idle connection has no goroutine but the reading one. It is
// the only one that pulls attachments.
func (c *conn) writeLoop() {
	w := writer{c: c}
	c.cork.hold()
	for w.err == nil {
		job := c.next()
		switch {
		case job.none():
			w.flush()
			if c.park(false) {
				return
			}
			c.cork.hold()
		case job.ping || job.pong != nil:
			w.control(job)
		case job.frames != nil:
			w.answers(job.frames)
		default:
			w.pull(job.at)
		}
	}
	w.flush()
	c.close(closing{code: codeAbnormal, gone: true, write: true, err: w.err})
	c.park(true)
}

// job is the next thing to write.
type job struct {
	ping   bool
	pong   *[]byte
	frames [][]byte
	at     *attached
}

func (j job) none() bool { return !j.ping && j.pong == nil && j.frames == nil && j.at == nil }

// next picks what to write next: pings and pongs, then answers of the connection, then attachments in turn.
func (c *conn) next() job {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.end != nil && !c.end.flush:
		return job{} // the close frame is what is left to write
	case c.ping.owed || c.ping.pong != nil:
		j := job{ping: c.ping.owed, pong: c.ping.pong}
		c.ping.owed, c.ping.pong = false, nil
		return j
	case c.out.frames != nil:
		return job{frames: c.out.take()}
	default:
		return job{at: c.ready.pop()}
	}
}

// park ends the write loop, unless something came in meanwhile and the socket is not broken.
func (c *conn) park(broken bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	more := c.ping.owed || c.ping.pong != nil || c.out.frames != nil || c.ready.items != nil
	if more && !broken && (c.end == nil || c.end.flush) {
		return false
	}
	c.writing = false
	if c.end != nil {
		close(c.end.idle)
	}
	return true
}

// writer is the state of one write loop.
type writer struct {
	c             *conn
	err           error
	frames, bytes int // since the last flush
}

// write writes one text frame into the cork.
func (w *writer) write(b []byte) {
	if w.err != nil {
		return
	}
	w.err = w.c.cork.frame(opText, b) // without a deadline: a slow client only lags (rule W6)
	w.frames++
	w.bytes += len(b)
}

// flush sends what is in the cork.
func (w *writer) flush() {
	writes, err := w.c.cork.release()
	if w.err == nil {
		w.err = err
	}
	m := w.c.srv.metrics
	m.framesOut.Add(float64(w.frames))
	m.bytesOut.Add(float64(w.bytes))
	m.socketWrites.Add(float64(writes))
	w.frames, w.bytes = 0, 0
}

func (w *writer) control(j job) {
	if j.pong != nil {
		w.err = w.c.cork.frame(opPong, *j.pong)
	}
	if j.ping && w.err == nil {
		w.err = w.c.cork.frame(opPing, nil)
		w.c.srv.metrics.pings.Inc()
	}
}

func (w *writer) answers(frames [][]byte) {
	n := 0
	for _, f := range frames {
		w.write(f)
		n += len(f)
	}
	w.c.mu.Lock()
	w.c.out.written(n)
	w.c.mu.Unlock()
	w.c.srv.metrics.answerBytes.Sub(float64(n))
}

// pull lets one attachment write its share.
func (w *writer) pull(at *attached) {
	share := share{w: w, left: w.c.srv.cfg.Limits.SendBuffer}
	more := at.Pull(&share)
	tail, detach := w.c.pulled(at, more)
	if detach {
		at.Detach()
	}
	for _, f := range tail {
		w.write(f)
	}
}

// share is what one attachment may write before it is the next one's turn.
type share struct {
	w    *writer
	left int
}

var _ sessions.Out = (*share)(nil)

func (s *share) Frame(b []byte) bool {
	s.w.write(b)
	s.left -= len(b)
	return s.left > 0 && s.w.err == nil && !s.w.c.cutShort.Load()
}

func (s *share) Reply(id, b []byte) bool {
	s.w.c.release(id)
	return s.Frame(b)
}
