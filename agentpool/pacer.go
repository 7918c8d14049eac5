package agentpool

import (
	"runtime"
	"time"
)

const (
	paceEvery = 100 * time.Microsecond // batches that follow each other faster than this are quick
	paceAfter = 16                     // quick ones in a row
	paceSmall = 16 << 10               // bytes; a larger batch is worth a wake-up
	paceSleep = 50 * time.Microsecond  // at least: up to a millisecond when nothing else goes on
)

// pacer slows the reader of an agent down that writes many small lines, each by itself. To be woken for a few lines costs
// the gateway and the agent ten times as much as the lines do; after a short sleep there are many of them. Up to some
// 10,000 lines a second, far more than a model writes, nothing is delayed.
type pacer struct {
	last  time.Time // end of the last batch
	quick int       // quick small batches in a row
}

// rest is called when a batch of lines has been handed on, before the next one is waited for. urgent says that there was
// more than notifications: somebody waits for what comes next.
func (c *pacer) rest(bytes int, urgent bool) {
	now := time.Now()
	if urgent || bytes >= paceSmall || now.Sub(c.last) >= paceEvery {
		c.quick = 0
	} else {
		c.quick++
	}
	c.last = now
	if c.quick < paceAfter {
		runtime.Gosched() // whoever was woken goes first, or would wait for this thread to be found waiting
		return
	}
	time.Sleep(paceSleep)
	c.last = time.Now()
}
