package journal

import (
	"sync/atomic"
	"time"
)

const (
	throttleWindow = 1 << 20 // bytes that the leading reader may be behind before it is waited for
	throttleStep   = 4 * time.Millisecond
	throttleRate   = 32 << 10               // bytes that it must drain in a step to be waited for: 8 MB/s
	throttleMax    = 12 * throttleStep      // of one call
	throttlePause  = 100 * time.Millisecond // in which a slow reader is not waited for again
	throttleCredit = 300 * time.Millisecond // that a reader is waited for which is about to be lost
)

// throttle is the state of Throttle. All but waiting and moved belongs to the appender.
type throttle struct {
	waiting atomic.Bool
	moved   chan struct{} // one token, from whoever takes waiting back

	read   int64         // what the leading reader had read at the last look
	since  time.Time     // that it has read so much
	credit time.Duration // for how long it may be waited for although it does not keep up
	paused time.Time     // until when it is not waited for
}

// Throttle holds the appender back while others keep up with it but are behind. It is to be called by the appender, one
// goroutine, after every 64 KiB or so, and waits at most 48 ms. It waits
//
//   - for the reader that is furthest ahead: an agent that writes faster than a socket takes bytes would push even the
//     fastest client out of the journal, and events that are read while the processor has them in its caches cost half;
//   - for the store, when half of what the journal retains is not stored yet, unless the store fails.
//
// A slow socket stops nobody (rule W6). A reader that drains less than 8 MB/s is not waited for, and having found one,
// Throttle leaves it alone for 100 ms. Only when the reader is about to be lost, since half of what is retained is behind it,
// and was seen to read in the last 300 ms, it is waited for regardless, until 300 ms are spent beyond what it has earned by
// reading: a client or a gateway that did not get the processor for a moment is not slow.
func (j *Journal) Throttle() {
	t := &j.throttle
	j.Wake()
	l, now := j.lag(), time.Now()
	t.earn(l.read, now)
	for end := now.Add(throttleMax); now.Before(end); {
		if !l.unstored && (l.bytes <= j.window() || !t.isWorthIt(l, now)) {
			return
		}
		told := j.await()
		then := now
		l, now = j.lag(), time.Now()
		if !told && l.bytes > j.window() && l.read-t.read < throttleRate {
			t.paused = now.Add(throttlePause)
		}
		t.credit -= now.Sub(then)
		t.earn(l.read, now)
	}
}

// isWorthIt reports whether to wait for a reader that is far behind.
func (t *throttle) isWorthIt(l lag, now time.Time) bool {
	return !now.Before(t.paused) || l.endangered && t.credit > 0 && now.Sub(t.since) < throttleCredit
}

// earn notes how much the reader has read by now.
func (t *throttle) earn(read int64, now time.Time) {
	n := read - t.read
	if n == 0 {
		return
	}
	t.read, t.since = read, now
	if n > 0 { // not another reader
		t.credit = min(t.credit+throttleStep*time.Duration(n)/throttleRate, throttleCredit)
	}
}

// await waits for a step, or until somebody tells that he has caught up.
func (j *Journal) await() (told bool) {
	t := &j.throttle
	timer := time.NewTimer(throttleStep)
	defer timer.Stop()
	t.waiting.Store(true)
	if l := j.lag(); l.unstored || l.bytes > j.window()/2 {
		select {
		case <-t.moved:
			return true
		case <-timer.C:
		}
	}
	if t.waiting.CompareAndSwap(true, false) {
		return false
	}
	<-t.moved // is on its way
	return true
}

// tell ends a wait of the appender.
func (t *throttle) tell() {
	if t.waiting.Load() && t.waiting.CompareAndSwap(true, false) {
		t.moved <- struct{}{}
	}
}

// window is how many bytes a reader may be behind without being waited for.
func (j *Journal) window() int64 { return min(throttleWindow, j.limits.MaxBytes/4) }

// lag is how far the others are behind the appender.
type lag struct {
	bytes      int64 // of the reader that is furthest ahead, 0 without one
	read       int64 // that it has read
	endangered bool  // it has half of what is retained before it
	unstored   bool  // so has the store
}

func (j *Journal) lag() (l lag) {
	j.mu.Lock()
	defer j.mu.Unlock()
	total, last := j.total.Load(), j.next.Load()-1
	far := func(bytes int64, seq uint64) bool {
		return bytes > j.limits.MaxBytes/2 || last-seq > uint64(j.limits.MaxEvents)/2
	}
	l.unstored = j.dirty != nil && !j.failing && far(total-j.storedAt, j.stored)
	var best *Reader
	for _, r := range j.readers {
		if best == nil || r.cursor.Load() > best.cursor.Load() {
			best = r
		}
	}
	if best != nil {
		l.read = best.read.Load()
		l.bytes = total - l.read
		l.endangered = far(l.bytes, best.cursor.Load())
	}
	return l
}
