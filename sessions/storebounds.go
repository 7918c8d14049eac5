package sessions

import (
	"fmt"
	"math"
	"strings"

	"github.com/acpgate/acpgate/sessions/journal"
)

// Bounds of a Store.
const (
	MaxNameBytes       = 1 << 10   // principals, keys, members, index and journal names
	MaxValueBytes      = 16 << 20  // value of a record
	MaxIndexValueBytes = 64 << 10  // value of an index member
	MaxReadKeys        = 1000      // keys of one Read
	MaxCommitEntries   = 1000      // entries of each list of one Commit
	MaxRunBytes        = 128 << 20 // payload of one Run: the longest line and what waits beside it
	MaxScanRows        = 1000      // rows of one Scan
	DefaultScanRows    = 100
	DefaultReadBytes   = 1 << 20 // payload of one ReadJournal that names no bound

	maxStoreNumber = math.MaxInt64 // fences, epochs, seqs: the largest that every backend keeps
)

// maxSessionID bounds the ids of sessions, in bytes: with the kind of a record and the agent before it, an id is a name of
// the store.
const maxSessionID = MaxNameBytes / 2

// possibleID reports whether a session can have the id. One that cannot is an unknown one: it is never read or written.
func possibleID(id string) bool { return CheckNames(id) == nil && len(id) <= maxSessionID }

// CheckNames returns ErrInvalid when a name is empty, longer than MaxNameBytes or contains NUL.
func CheckNames(names ...string) error {
	for _, name := range names {
		switch {
		case name == "":
			return fmt.Errorf("%w: empty name", ErrInvalid)
		case len(name) > MaxNameBytes:
			return fmt.Errorf("%w: name of %d bytes (at most %d): %.40q", ErrInvalid, len(name), MaxNameBytes, name)
		case strings.IndexByte(name, 0) >= 0:
			return fmt.Errorf("%w: NUL in name %.40q", ErrInvalid, name)
		}
	}
	return nil
}

// CheckRead returns ErrInvalid when the arguments of a Read are outside of the bounds.
func CheckRead(principal string, keys []string) error {
	if len(keys) > MaxReadKeys {
		return fmt.Errorf("%w: %d keys in one read (at most %d)", ErrInvalid, len(keys), MaxReadKeys)
	}
	if err := CheckNames(principal); err != nil {
		return err
	}
	return CheckNames(keys...)
}

// Check returns ErrInvalid when c is outside of the bounds.
func (c Commit) Check() error {
	if n := max(len(c.Expect), len(c.Writes), len(c.Indexes)); n > MaxCommitEntries {
		return fmt.Errorf("%w: %d entries in one commit (at most %d)", ErrInvalid, n, MaxCommitEntries)
	}
	for _, e := range c.Expect {
		if err := CheckNames(e.Key); err != nil {
			return err
		}
	}
	for _, w := range c.Writes {
		if err := CheckNames(w.Key); err != nil {
			return err
		}
		if len(w.Value) > MaxValueBytes {
			return fmt.Errorf("%w: value of %d bytes (at most %d)", ErrInvalid, len(w.Value), MaxValueBytes)
		}
		if w.TTL < 0 {
			return fmt.Errorf("%w: negative time to live %v", ErrInvalid, w.TTL)
		}
	}
	for _, x := range c.Indexes {
		if err := CheckNames(x.Index, x.Member); err != nil {
			return err
		}
		if len(x.Value) > MaxIndexValueBytes {
			return fmt.Errorf("%w: index value of %d bytes (at most %d)", ErrInvalid, len(x.Value), MaxIndexValueBytes)
		}
	}
	return nil
}

// Rows is the number of rows that q asks for: Limit within its bounds, or the default.
func (q Query) Rows() int {
	if q.Limit <= 0 {
		return DefaultScanRows
	}
	return min(q.Limit, MaxScanRows)
}

// Check returns ErrInvalid when r is outside of the bounds, has no events, or its seqs are not consecutive.
func (r Run) Check() error {
	if err := CheckNames(r.Principal, r.Journal); err != nil {
		return err
	}
	if len(r.Events) == 0 {
		return fmt.Errorf("%w: run without events", ErrInvalid)
	}
	first := r.Events[0].Seq
	var bytes int64
	for i, e := range r.Events {
		if e.Seq != first+uint64(i) {
			return fmt.Errorf("%w: seq %d in a run after %d", ErrInvalid, e.Seq, first+uint64(i)-1)
		}
		bytes += int64(len(e.Data))
	}
	if bytes > MaxRunBytes {
		return fmt.Errorf("%w: run of %d bytes (at most %d)", ErrInvalid, bytes, int64(MaxRunBytes))
	}
	return CheckNumbers(r.Fence, first, first+uint64(len(r.Events)))
}

// CheckNumbers returns ErrInvalid when a fence, an epoch or a seq is larger than a backend can keep.
func CheckNumbers(numbers ...uint64) error {
	for _, n := range numbers {
		if n > maxStoreNumber {
			return fmt.Errorf("%w: number %d (at most %d)", ErrInvalid, n, uint64(maxStoreNumber))
		}
	}
	return nil
}

// CheckFolded returns ErrInvalid when folded is not what Compact takes: ascending seqs, from 1 to upto.
func CheckFolded(upto uint64, folded []journal.Event) error {
	var last uint64
	for _, e := range folded {
		if e.Seq <= last || e.Seq > upto {
			return fmt.Errorf("%w: folded seq %d after %d, up to %d", ErrInvalid, e.Seq, last, upto)
		}
		last = e.Seq
	}
	return CheckNumbers(upto)
}

// Opened returns what the journal becomes when it is opened under fence with a proposed epoch (rule N3). A journal that
// does not exist is the zero JournalInfo; floor is then the greatest epoch of those that were deleted in its principal.
// Clean of the result says how the journal was found. Error: ErrFenced.
func (j JournalInfo) Opened(fence, epoch, floor uint64) (JournalInfo, error) {
	if fence < j.Fence {
		return JournalInfo{}, ErrFenced
	}
	if j.Next == 0 {
		return JournalInfo{Epoch: max(epoch, floor+1), Fence: fence, First: 1, Next: 1}, nil
	}
	j.Fence = fence
	if !j.Clean {
		j.Epoch = max(epoch, j.Epoch+1)
	}
	return j, nil
}
