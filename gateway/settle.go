package gateway

import (
	"context"
	"time"
)

// settlePoll is how often settle looks.
const settlePoll = 5 * time.Millisecond

// settle waits until the connections have written what there is to write, but no longer than a close may take: the end of
// an answer must not be lost because the gateway ends with it (rule N4). New turns are refused by then, so this ends soon
// unless a client does not read or an agent goes on by itself.
func (s *Server) settle(ctx context.Context, conns []*conn) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Limits.CloseGrace)
	defer cancel()
	poll := time.NewTicker(settlePoll)
	defer poll.Stop()
	for _, c := range conns {
		for c.isWriting() {
			select {
			case <-ctx.Done():
				return
			case <-poll.C:
			}
		}
	}
}

// isWriting reports whether the connection has something to write.
func (c *conn) isWriting() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.writing && c.end == nil
}
