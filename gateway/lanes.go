package gateway

import "github.com/acpgate/acpgate/agentpool/wire"

// lane holds the frames of one session that came while a slow one of it is under way, so that each session's frames take
// effect in the order in which they came on a connection: a prompt sent right behind a session/load waits for it. A lane
// exists only as long as its goroutine. Its fields change under conn.mu.
type lane struct {
	waiting []*inbound
	bytes   int
	space   chan struct{} // closed when a frame has left; nil: nobody waits
}

// inbound is a request or notification of the client on its way.
type inbound struct {
	f       *wire.Frame
	m       method
	session string // decoded params.sessionId, "" if there is none
	call    *call  // nil for a notification
}

// push puts a frame behind the others, once there is room, and reports whether it did: not if the lane ended meanwhile,
// which current tells, or the connection. Under mu, which is given up while waiting.
func (c *conn) push(l *lane, current func() *lane, in *inbound) bool {
	lim := c.srv.cfg.Limits
	for c.end == nil && current() == l && len(l.waiting) > 0 && (len(l.waiting) >= lim.Waiting || l.bytes+len(in.f.Raw) > lim.WaitingSize) {
		if l.space == nil {
			l.space = make(chan struct{})
		}
		c.srv.metrics.pauses.WithLabelValues("session").Inc()
		c.waitUnlocked(l.space)
	}
	if c.end != nil || current() != l {
		return false
	}
	l.waiting = append(l.waiting, in)
	l.bytes += len(in.f.Raw)
	c.srv.metrics.framesWaiting.Inc()
	return true
}

// shift takes the frame in front; nil when there is none. Under mu.
func (c *conn) shift(l *lane) *inbound {
	if len(l.waiting) == 0 {
		return nil
	}
	in := l.waiting[0]
	l.waiting[0] = nil
	l.waiting = l.waiting[1:]
	l.bytes -= len(in.f.Raw)
	c.srv.metrics.framesWaiting.Dec()
	if l.space != nil {
		close(l.space)
		l.space = nil
	}
	return in
}

// shiftAll takes all frames. Under mu.
func (c *conn) shiftAll(l *lane) []*inbound {
	var all []*inbound
	for in := c.shift(l); in != nil; in = c.shift(l) {
		all = append(all, in)
	}
	return all
}

// dispatch starts the handling of a frame, behind what its session or the connection is busy with. Called by one
// goroutine at a time: the read loop, or the one that has handled initialize.
func (c *conn) dispatch(in *inbound) {
	c.mu.Lock()
	if in.session != "" {
		for {
			l := c.lanes[in.session]
			if l == nil {
				break
			}
			if c.push(l, func() *lane { return c.lanes[in.session] }, in) || c.end != nil {
				c.mu.Unlock()
				return
			}
		}
	}
	if c.end != nil {
		c.mu.Unlock()
		return
	}
	switch {
	case !in.m.slow:
		c.mu.Unlock()
		in.m.handle(c, in)
		return
	case in.session == "":
		c.wg.Go(func() { in.m.handle(c, in) })
	default:
		l := &lane{}
		if c.lanes == nil {
			c.lanes = map[string]*lane{}
		}
		c.lanes[in.session] = l
		c.wg.Go(func() { c.runLane(l, in) })
	}
	c.mu.Unlock()
}

// runLane handles a slow frame and then, one after the other, what has come behind it.
func (c *conn) runLane(l *lane, in *inbound) {
	session := in.session
	for in != nil {
		in.m.handle(c, in)
		c.mu.Lock()
		if in = c.shift(l); in == nil || c.end != nil {
			delete(c.lanes, session)
			c.shiftAll(l)
			c.mu.Unlock()
			return
		}
		c.mu.Unlock()
	}
}

// openGate lets the frames through that waited for the answer to initialize, in order.
func (c *conn) openGate() {
	for {
		c.mu.Lock()
		in := c.shift(c.gate)
		if in == nil || c.end != nil {
			c.shiftAll(c.gate)
			c.gate = nil
			c.mu.Unlock()
			return
		}
		c.mu.Unlock()
		c.dispatch(in)
	}
}
