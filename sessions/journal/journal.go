// Package journal keeps the ordered events of one session and lets any number of readers pull them at their own cursors.
//
// There is no queue per reader: Append copies an event once into a segment and wakes the readers that ran dry; a reader
// asks for the events after its cursor when its socket has room. A reader that is slow only lags, until its cursor leaves
// what the journal retains (rule W6).
package journal

import (
	"errors"
	"sort"
	"sync"
	"sync/atomic"
	"time"
)

// Type says what an event is. The payload format of each type belongs to package sessions.
type Type uint8

const (
	Update      Type = iota + 1 // a notification of the agent, the line as it wrote it
	Prompt                      // one content block of a prompt
	Request                     // a request of the agent to its clients
	RequestDone                 // that request was answered or withdrawn
	TurnEnd                     // result or error of a turn
	State                       // state of the view; view-scoped
	Notice                      // quiet line of the gateway; view-scoped
	Context                     // entry beside the conversation, or the news that the agent has got it
)

// Event is one entry. Data aliases the journal's memory: it never changes, and must not be changed.
type Event struct {
	Seq  uint64
	Time int64 // Unix milliseconds at which the gateway read it
	Type Type
	Data []byte
}

// Cursor is a place in a journal: everything up to and including Seq has been seen. Epoch names the generation of the
// journal; a seq of one epoch means nothing in another (rule V11).
type Cursor struct {
	Epoch uint64
	Seq   uint64
}

var (
	// ErrTrimmed says that events between the cursor and the oldest retained one are gone.
	ErrTrimmed = errors.New("journal: cursor is older than what is retained")
	// ErrEpoch says that the cursor belongs to another generation, or lies in the future of this one.
	ErrEpoch = errors.New("journal: cursor is of another epoch")
)

// Limits bound what one journal retains. Zero values are the defaults.
type Limits struct {
	MaxEvents int           // default 200,000
	MaxBytes  int64         // payload bytes, default 64 MiB; one event of any size is always admitted
	MaxAge    time.Duration // default 30 days
}

// WithDefaults returns l with its zero values replaced.
func (l Limits) WithDefaults() Limits {
	if l.MaxEvents <= 0 {
		l.MaxEvents = 200_000
	}
	if l.MaxBytes <= 0 {
		l.MaxBytes = 64 << 20
	}
	if l.MaxAge <= 0 {
		l.MaxAge = 30 * 24 * time.Hour
	}
	return l
}

// Journal is the log of one session. Safe for concurrent use.
type Journal struct {
	epoch  uint64
	limits Limits
	budget *Budget

	// ready is the seq up to which readers may read: the event to come, or the first critical event that is not stored yet.
	ready atomic.Uint64
	// next and total are written under mu and read without it by readers that only want to know whether there is more.
	next  atomic.Uint64 // seq of the event to come; the first is 1
	total atomic.Int64  // bytes ever appended
	// asked is set from a call of dirty until Unstored answers it: one call is enough for many events.
	asked    atomic.Bool
	throttle throttle

	mu      sync.Mutex
	segs    []*segment
	first   uint64 // oldest retained seq
	events  int
	bytes   int64
	readers []*Reader
	fold    *Fold
	closed  bool

	dirty    func(urgent bool) // asks for Stored to be called some time; nil: nothing is stored
	critical []uint64          // seqs of critical events that are not stored yet
	stored   uint64            // everything up to it is stored
	storedAt int64             // total when that was appended
	failing  bool              // the store does not take anything for the time being
	waiting  []storedWait
}

type storedWait struct {
	seq uint64
	fn  func(error)
}

// New returns an empty journal of the given epoch.
func New(epoch uint64, limits Limits, budget *Budget) *Journal {
	j := &Journal{epoch: epoch, limits: limits.WithDefaults(), budget: budget, first: 1, throttle: throttle{moved: make(chan struct{}, 1)}}
	j.next.Store(1)
	j.ready.Store(1)
	return j
}

// Restore returns a journal with events that were stored: ascending, those of one epoch and those folded from earlier ones.
// next is the seq of the event to come.
func Restore(epoch, next uint64, events []Event, limits Limits, budget *Budget) *Journal {
	j := New(epoch, limits, budget)
	j.first = next
	for i, e := range events {
		if i == 0 {
			j.first = e.Seq
		}
		j.next.Store(e.Seq)
		j.put(e.Type, e.Time, e.Data)
	}
	j.next.Store(next)
	j.ready.Store(next)
	j.stored, j.storedAt = next-1, j.total.Load()
	return j
}

// Epoch names this generation of the journal.
func (j *Journal) Epoch() uint64 { return j.epoch }

// Head is the cursor of a reader that has seen everything.
func (j *Journal) Head() Cursor { return Cursor{j.epoch, j.next.Load() - 1} }

// Start is the cursor before the oldest retained event.
func (j *Journal) Start() Cursor {
	j.mu.Lock()
	defer j.mu.Unlock()
	return Cursor{j.epoch, j.first - 1}
}

// Trimmed reports whether the journal has lost its beginning.
func (j *Journal) Trimmed() bool { return j.Start().Seq > 0 }

// Append adds an event at time now, copying data, and wakes the readers that wait. It returns the event's seq.
func (j *Journal) Append(t Type, now time.Time, data []byte) uint64 {
	seq := j.Add(t, now, data)
	j.Wake()
	return seq
}

// Wake wakes the readers that wait and have not seen everything.
func (j *Journal) Wake() {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, r := range j.readers {
		r.notify()
	}
}

// Add is Append without waking anybody: readers that wait go on waiting until Wake. Waking one costs more than an event
// does, so whoever has several to append wakes once.
func (j *Journal) Add(t Type, now time.Time, data []byte) uint64 {
	ms := now.UnixMilli()
	j.mu.Lock()
	seq := j.next.Load()
	j.put(t, ms, data)
	j.next.Store(seq + 1)
	dirty := j.dirty
	if dirty != nil && t.Critical() {
		j.critical = append(j.critical, seq)
	}
	j.setReady()
	lost := j.trim(ms)
	j.mu.Unlock()
	if dirty != nil && (t.Critical() || !j.asked.Swap(true)) {
		dirty(t.Critical())
	}
	for _, r := range lost {
		r.lost()
	}
	return seq
}

// put copies an event into the last segment. Under mu.
func (j *Journal) put(t Type, ms int64, data []byte) {
	j.tail(len(data)).add(t, ms, data)
	j.events++
	j.bytes += int64(len(data))
	j.total.Add(int64(len(data)))
	j.account(int64(len(data)))
}

// account takes n bytes from the budget. Under mu.
func (j *Journal) account(n int64) {
	if j.budget != nil && !j.closed {
		j.budget.used.Add(n)
	}
}

// locate returns the events from seq on, or from the first one after it, that lie in one segment. Under mu; there must be
// one.
func (j *Journal) locate(seq uint64) Chunk {
	i := sort.Search(len(j.segs), func(i int) bool { return j.segs[i].first > seq }) - 1
	if i < 0 || seq >= j.segs[i].first+uint64(len(j.segs[i].ev)) {
		i++ // between two segments: what was there was folded
		seq = j.segs[i].first
	}
	return j.segs[i].from(seq)
}

func (j *Journal) tail(n int) *segment {
	if len(j.segs) > 0 {
		s := j.segs[len(j.segs)-1]
		follows := s.first+uint64(len(s.ev)) == j.next.Load()
		if follows && len(s.ev) < segEvents && len(s.buf)+n <= segBytes {
			return s
		}
	}
	s := &segment{first: j.next.Load()}
	if len(j.segs) > 0 && n <= segBytes {
		// A busy session: another one like the last, instead of growing into it again.
		s.buf = make([]byte, 0, segBytes)
		s.ev = make([]header, 0, min(len(j.segs[len(j.segs)-1].ev)+segEvents/16, segEvents))
	}
	j.segs = append(j.segs, s)
	return s
}

// trim drops whole segments from the front while a limit is exceeded, and returns the readers whose cursor was in them.
func (j *Journal) trim(nowMS int64) []*Reader {
	maxBytes := j.limits.MaxBytes
	if j.budget != nil && j.budget.used.Load() > j.budget.max && j.bytes > budgetFloor {
		maxBytes = min(maxBytes, max(j.bytes/2, budgetFloor))
	}
	oldest := nowMS - j.limits.MaxAge.Milliseconds()
	n := 0
	for n < len(j.segs)-1 {
		s := j.segs[n]
		if j.events <= j.limits.MaxEvents && j.bytes <= maxBytes && s.ev[len(s.ev)-1].time >= oldest {
			break
		}
		j.events -= len(s.ev)
		j.bytes -= int64(len(s.buf))
		j.account(-int64(len(s.buf)))
		n++
	}
	if n == 0 {
		return nil
	}
	j.advanceFold(j.segs[n].first)
	// A copy, not a reslice: the dropped segments must become garbage.
	j.segs = append([]*segment(nil), j.segs[n:]...)
	j.first = j.segs[0].first
	var lost []*Reader
	for _, r := range j.readers {
		if r.cursor.Load()+1 < j.first && !r.gone && r.lost != nil {
			r.gone = true
			lost = append(lost, r)
		}
	}
	return lost
}

// Transcript calls fn with the folded transcript: entries in order, of which the first head are the beginning and dropped
// more were left out behind them. fn must not keep or change them, or call back into the journal.
func (j *Journal) Transcript(fn func(entries []*Entry, head, dropped int)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.advanceFold(j.next.Load())
	fn(j.fold.Entries())
}

// advanceFold takes the events before seq into the transcript. Under mu.
func (j *Journal) advanceFold(seq uint64) {
	if j.fold == nil {
		j.fold = NewFold(FoldLimits{})
	}
	for _, s := range j.segs {
		if last := s.first + uint64(len(s.ev)); last <= j.fold.Seq()+1 {
			continue
		}
		if s.first >= seq {
			return
		}
		c := s.from(max(s.first, j.fold.Seq()+1))
		for i := range c.Len() {
			if e := c.At(i); e.Seq < seq {
				j.fold.Add(e)
			}
		}
	}
}

// Stats is what a journal holds.
type Stats struct {
	Events  int
	Bytes   int64
	Readers int
}

// Stats returns what the journal holds now.
func (j *Journal) Stats() Stats {
	j.mu.Lock()
	defer j.mu.Unlock()
	return Stats{j.events, j.bytes, len(j.readers)}
}

// Close gives the journal's bytes back to the budget. Readers keep what they hold; what a late line still appends is not
// counted.
func (j *Journal) Close() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.account(-j.bytes)
	j.closed = true
}
