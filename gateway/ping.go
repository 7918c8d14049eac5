package gateway

import "time"

const (
	opText            = 0x1
	opPing            = 0x9
	opPong            = 0xA
	maxControlPayload = 125
)

// pingState is the heartbeat of a connection (rule W11). The write loop writes pings and pongs: the WebSocket library would
// need a goroutine for each ping, and would have the read loop wait behind a blocked write to send a pong. Under conn.mu.
type pingState struct {
	timer   *time.Timer
	waiting bool      // for a pong
	sent    time.Time // when the ping was queued
	rx      int64     // bytes read, and
	taken   int64     // slow writes, until then
	owed    bool      // the write loop has a ping to write
	pong    *[]byte   // and a pong, the newest
}

func (p *pingState) stop() {
	if p.timer != nil {
		p.timer.Stop()
	}
}

// schedulePing starts the heartbeat.
func (c *conn) schedulePing() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.end == nil {
		c.ping.timer = time.AfterFunc(c.srv.cfg.Limits.Ping, c.beat)
	}
}

// beat is the timer's: a ping is due, or the deadline of the last one has come.
func (c *conn) beat() {
	if !c.srv.cfg.Auth.Valid(c.who) {
		c.close(closing{code: codeSignedOut, reason: "log in again"})
		return
	}
	lim := c.srv.cfg.Limits
	c.mu.Lock()
	p := &c.ping
	late := p.waiting && !c.alive()
	if !late && c.end == nil {
		if !p.waiting {
			p.waiting, p.owed, p.sent = true, true, time.Now()
			c.startWriter()
		}
		p.rx, p.taken = c.cork.rx.Load(), c.cork.taken.Load()
		p.timer.Reset(lim.Pong)
	}
	c.mu.Unlock()
	if late {
		c.srv.metrics.pingTimeouts.Inc()
		c.close(closing{code: codePingTimeout, reason: "no pong in " + lim.Pong.String()})
	}
}

// alive reports whether a missing pong has a good reason: the peer sends something else, behind which the pong will come;
// it takes, slowly, what is in front of the ping; or it is not read because we hold it back. Under mu.
func (c *conn) alive() bool {
	return c.paused > 0 || c.cork.rx.Load() != c.ping.rx || c.cork.taken.Load() != c.ping.taken
}

// ponged takes a pong.
func (c *conn) ponged() {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := &c.ping
	if p.waiting && c.end == nil {
		p.waiting = false
		p.timer.Reset(max(0, c.srv.cfg.Limits.Ping-time.Since(p.sent)))
	}
}

// pinged takes a ping and has it answered by the write loop. Only the newest is: whoever sends more of them than he reads
// answers to is not kept a queue for.
func (c *conn) pinged(payload []byte) {
	b := append([]byte(nil), payload...)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ping.pong = &b
	c.startWriter()
}
