package journal

import "sync/atomic"

// Reader pulls events at a cursor. One goroutine at a time may call Next; the other methods are safe from any.
type Reader struct {
	j      *Journal
	wake   func()
	lost   func()
	cursor atomic.Uint64 // last seq handed out
	read   atomic.Int64  // bytes handed out plus those before the start: comparable with Journal.total
	armed  atomic.Bool
	gone   bool // lost was called; under j.mu
}

// NewReader returns a reader that has seen everything up to c. wake is called, at most once after each time that the
// reader ran dry, when there is more; it must not block. lost is called once when the cursor leaves what is retained; it
// may be called while the caller of Append holds locks. Errors: ErrEpoch, ErrTrimmed.
func (j *Journal) NewReader(c Cursor, wake, lost func()) (*Reader, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if c.Epoch != j.epoch || c.Seq >= j.next.Load() {
		return nil, ErrEpoch
	}
	if c.Seq+1 < j.first {
		return nil, ErrTrimmed
	}
	r := &Reader{j: j, wake: wake, lost: lost}
	r.cursor.Store(c.Seq)
	r.read.Store(j.total.Load() - j.behind(c.Seq))
	j.readers = append(j.readers, r)
	return r, nil
}

// behind returns the payload bytes after seq. Under mu.
func (j *Journal) behind(seq uint64) int64 {
	var n int64
	for i := len(j.segs) - 1; i >= 0; i-- {
		s := j.segs[i]
		if s.first > seq+1 {
			n += int64(len(s.buf))
			continue
		}
		if k := int(seq + 1 - s.first); k < len(s.ev) {
			start := uint32(0)
			if k > 0 {
				start = s.ev[k-1].end
			}
			n += int64(len(s.buf)) - int64(start)
		}
		break
	}
	return n
}

// Cursor is the last seq handed out.
func (r *Reader) Cursor() Cursor { return Cursor{r.j.epoch, r.cursor.Load()} }

// Next returns the events after the cursor that lie in one segment. ok is false when there are none. Nothing is
// consumed until Advance. Error: ErrTrimmed.
func (r *Reader) Next() (c Chunk, ok bool, err error) {
	seq := r.cursor.Load() + 1
	if seq >= r.j.ready.Load() {
		return Chunk{}, false, nil
	}
	j := r.j
	if j.total.Load()-r.read.Load() <= j.window()/2 {
		j.throttle.tell()
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if seq < j.first {
		return Chunk{}, false, ErrTrimmed
	}
	ready := j.ready.Load()
	if seq >= ready {
		return Chunk{}, false, nil
	}
	c = j.locate(seq)
	if n := int(ready - c.first); n < len(c.ev) {
		c.ev = c.ev[:n]
	}
	return c, true, nil
}

// Advance moves the cursor over ev, which Next returned.
func (r *Reader) Advance(ev Event) {
	r.cursor.Store(ev.Seq)
	r.read.Add(int64(len(ev.Data)))
}

// Arm asks for one call of wake when there is more than the cursor has seen. It returns false, and is not armed, when
// there is more already.
func (r *Reader) Arm() bool {
	r.armed.Store(true)
	if r.cursor.Load()+1 >= r.j.ready.Load() {
		return true
	}
	// Whoever takes the flag back owns the wake-up: if an Append was faster, its wake call is under way.
	return !r.armed.CompareAndSwap(true, false)
}

// Poke wakes the reader if it is armed, for things beside the journal that it has to look at.
func (r *Reader) Poke() { r.notify() }

func (r *Reader) notify() {
	if r.armed.Load() && r.armed.CompareAndSwap(true, false) {
		r.wake()
	}
}

// Close ends the reader. wake and lost are not called after it returns, but for a call that is running.
func (r *Reader) Close() {
	r.armed.Store(false)
	j := r.j
	j.mu.Lock()
	defer j.mu.Unlock()
	for i, x := range j.readers {
		if x == r {
			last := len(j.readers) - 1
			j.readers[i] = j.readers[last]
			j.readers[last] = nil
			j.readers = j.readers[:last]
			r.gone = true
			return
		}
	}
}
