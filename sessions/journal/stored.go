package journal

// Persist makes the journal ask dirty, without blocking, to have its events stored: urgently for critical events, which no
// reader sees before they are stored (a prompt, a turn's end, a request and its outcome must never be unsaid).
func (j *Journal) Persist(dirty func(urgent bool)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.dirty = dirty
}

// Critical reports whether events of the type are stored before anybody sees them.
func (t Type) Critical() bool {
	return t == Prompt || t == TurnEnd || t == Request || t == RequestDone || t == Context
}

// Unstored returns events up to seq upto that are not stored yet, at most about maxBytes of payload, and whether older ones
// were trimmed away before they could be stored.
func (j *Journal) Unstored(upto uint64, maxBytes int) (events []Event, gap bool) {
	j.asked.Store(false)
	j.mu.Lock()
	defer j.mu.Unlock()
	seq := j.stored + 1
	if seq < j.first {
		seq, gap = j.first, true
	}
	n := 0
	upto = min(upto, j.next.Load()-1)
	for seq <= upto && n < maxBytes {
		c := j.locate(seq)
		for i := range c.Len() {
			e := c.At(i)
			if e.Seq > upto {
				return events, gap
			}
			events = append(events, e)
			seq = e.Seq + 1
			if n += len(e.Data); n >= maxBytes {
				break
			}
		}
	}
	return events, gap
}

// AllStored reports whether every event is stored.
func (j *Journal) AllStored() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.stored+1 == j.next.Load()
}

// Stored says that everything up to seq is stored: readers that waited for critical events go on, and AfterStored
// functions run.
func (j *Journal) Stored(seq uint64) {
	j.mu.Lock()
	if seq > j.stored {
		j.stored, j.storedAt = seq, j.total.Load()-j.behind(seq)
	}
	j.failing = false
	for len(j.critical) > 0 && j.critical[0] <= j.stored {
		j.critical = j.critical[1:]
	}
	j.setReady()
	var run []func(error)
	keep := j.waiting[:0]
	for _, w := range j.waiting {
		if w.seq <= j.stored {
			run = append(run, w.fn)
		} else {
			keep = append(keep, w)
		}
	}
	j.waiting = keep
	for _, r := range j.readers {
		r.notify()
	}
	j.throttle.tell()
	j.mu.Unlock()
	for _, f := range run {
		f(nil)
	}
}

// Unstore says that nothing is stored any more: everything retained is to be stored again.
func (j *Journal) Unstore() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.stored = j.first - 1
	j.storedAt = j.total.Load() - j.behind(j.stored)
}

// Failed says that events cannot be stored for the time being: readers are shown what is there, and AfterStored functions
// get err.
func (j *Journal) Failed(err error) {
	j.mu.Lock()
	j.critical = nil
	j.failing = true
	j.setReady()
	run := j.waiting
	j.waiting = nil
	for _, r := range j.readers {
		r.notify()
	}
	j.mu.Unlock()
	for _, w := range run {
		w.fn(err)
	}
}

// Settled reports whether no critical event waits to be stored.
func (j *Journal) Settled() bool { return j.ready.Load() == j.next.Load() }

// AfterStored calls fn, on the goroutine that stores, once everything up to seq is stored or could not be. False, and fn is
// not called, if it is already or if nothing is stored.
func (j *Journal) AfterStored(seq uint64, fn func(error)) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.dirty == nil || seq <= j.stored {
		return false
	}
	j.waiting = append(j.waiting, storedWait{seq, fn})
	return true
}

// setReady is under mu.
func (j *Journal) setReady() {
	if len(j.critical) > 0 {
		j.ready.Store(j.critical[0])
	} else {
		j.ready.Store(j.next.Load())
	}
}
