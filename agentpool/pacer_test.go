package agentpool

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestPacer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c pacer
		rest := func(bytes int, urgent bool) time.Duration {
			before := time.Now()
			c.rest(bytes, urgent)
			return time.Since(before)
		}
		many := func(n, bytes int, every time.Duration) (slept time.Duration) {
			for range n {
				time.Sleep(every)
				slept += rest(bytes, false)
			}
			return slept
		}
		if d := many(100, 200, paceEvery); d != 0 {
			t.Errorf("slept %v between slow lines", d)
		}
		if d := many(100, paceSmall, 0); d != 0 {
			t.Errorf("slept %v between large batches", d)
		}
		if d := many(100, 200, 10*time.Microsecond); d != (100-paceAfter+1)*paceSleep {
			t.Errorf("slept %v between 100 quick small batches", d)
		}
		if d := rest(200, true); d != 0 {
			t.Errorf("slept %v after a response", d)
		}
		if d := many(paceAfter-1, 200, 10*time.Microsecond); d != 0 {
			t.Errorf("slept %v at once again", d)
		}
		if d := many(1, 200, time.Second) + many(paceAfter-1, 200, 0); d != 0 {
			t.Errorf("slept %v after a silence", d)
		}
	})
}
