package agentpool

import (
	"time"

	"github.com/acpgate/acpgate/sessions"
)

// restart decides when an agent of a principal may be started again (rule T5). It has no clock: now is given.
type restart struct {
	min, max, stable time.Duration
	breakerAfter     int

	streak    int       // ends and failures in a row, without a stable run in between
	failures  int       // failed starts in a row
	notBefore time.Time // of the next start
	last      *sessions.AgentError
}

// failed notes a start that failed.
func (r *restart) failed(now time.Time, err *sessions.AgentError) {
	r.failures++
	r.last = err
	r.delay(now)
}

// started notes a start that did not fail. What follows is not known to be stable yet.
func (r *restart) started() { r.failures, r.notBefore, r.last = 0, time.Time{}, nil }

// ended notes the end of a process that had started.
func (r *restart) ended(now time.Time, ran time.Duration, crashed bool, err *sessions.AgentError) {
	if ran >= r.stable {
		r.streak = 0
	}
	if crashed {
		r.last = err
		r.delay(now)
	}
}

// delay doubles the wait, from min to max.
func (r *restart) delay(now time.Time) {
	wait := r.max
	if r.streak < 32 {
		wait = min(r.max, r.min<<r.streak)
	}
	if wait <= 0 {
		wait = r.max // the shift ran over
	}
	r.streak++
	if r.isOpen() {
		wait = r.max
	}
	r.notBefore = now.Add(wait)
}

// isOpen reports whether the breaker is open: so many starts failed that only one try each max is worth it.
func (r *restart) isOpen() bool { return r.failures >= r.breakerAfter }

// isIdle reports whether there is nothing to remember.
func (r *restart) isIdle(now time.Time) bool {
	return r.streak == 0 && r.failures == 0 && !now.Before(r.notBefore)
}

// wait is how long the next start has to wait.
func (r *restart) wait(now time.Time) time.Duration { return max(0, r.notBefore.Sub(now)) }
