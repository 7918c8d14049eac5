package sessions

import (
	"context"
	"errors"
	"time"

	"github.com/acpgate/acpgate/sessions/journal"
)

// Store keeps what outlives a process: versioned records, ordered indexes and journals, each within one principal. It is
// small on purpose: every rule is written once, in this package, as a retried read - decide - commit. Implementations:
// sqlitestore (one node), redisstore (a cluster). The contract suite is sessions/storetest.
//
// Principals, keys, members, index and journal names are non-empty strings of at most 1 KiB without NUL; values at most
// 16 MiB; fences, epochs and seqs at most 2^63-1. storebounds.go has every bound; what is outside of them is ErrInvalid.
//
// All methods are safe for concurrent use and return ErrUnavailable (wrapped, with the cause) when the backend cannot be
// reached or its disk is full. A write that failed so may have been applied all the same when the connection to the
// backend broke; on SQLite it was not. Values and events given to a method may be reused when it returns.
type Store interface {
	// Read returns the records of keys, in their order, as of one moment. A record that does not exist, or whose time to
	// live is over, has Version 0.
	Read(ctx context.Context, principal string, keys ...string) ([]Record, error)

	// Commit applies all of c or nothing, the entries of each list in order. It fails with ErrConflict when an expected
	// version does not hold. A commit that returned nil survives a crash of the gateway and, on SQLite, of the machine.
	Commit(ctx context.Context, principal string, c Commit) error

	// Scan returns rows of an index in order.
	Scan(ctx context.Context, principal, index string, q Query) ([]IndexRow, error)

	// OpenJournal makes fence the writer's fence of the journal, creating the journal if need be. From then on appends and
	// compactions under a lower fence fail with ErrFenced, and so does OpenJournal itself. The journal gets a new epoch,
	// the larger of epoch and one more than its last, when it is new or was not closed cleanly (rule N3). It counts as not
	// closed from then on: what its writer showed to readers and had not yet appended when it died must not be taken for
	// what the next writer appends under the same seqs. The info is that of the opened journal, but for Clean, which says
	// how it was found: true when the epoch goes on.
	OpenJournal(ctx context.Context, principal, name string, fence, epoch uint64) (JournalInfo, error)

	// Append adds runs of events to journals, in order, and returns one error for each run: nil, ErrFenced, ErrGap (the
	// first seq is not the journal's next), ErrNoJournal, or ErrUnavailable. Runs of different journals may be from
	// different principals. A run is stored whole or not at all, and a run that returned nil survives as a Commit does. It
	// marks the journal as not closed.
	Append(ctx context.Context, runs []Run) []error

	// ReadJournal returns events with a seq greater than after, in order: at least one if there is any, and no more than
	// about maxBytes of payload (0: 1 MiB). ErrNoJournal if it does not exist.
	ReadJournal(ctx context.Context, principal, name string, after uint64, maxBytes int) ([]journal.Event, error)

	// JournalInfo describes a journal without opening it. ErrNoJournal if it does not exist.
	JournalInfo(ctx context.Context, principal, name string) (JournalInfo, error)

	// Compact replaces all events with a seq up to and including upto by folded, whose seqs are ascending and not above
	// upto; they need not be consecutive. First becomes the seq of the first event that is left, or Next. ErrFenced,
	// ErrNoJournal; upto must be below Next.
	Compact(ctx context.Context, principal, name string, fence, upto uint64, folded []journal.Event) error

	// CloseJournal marks the journal as closed cleanly, so that the next OpenJournal keeps its epoch and cursors stay valid.
	// ErrFenced, ErrNoJournal.
	CloseJournal(ctx context.Context, principal, name string, fence uint64) error

	// DeleteJournal removes a journal, if there is one. Its name starts anew, with a greater epoch, if it is opened again.
	DeleteJournal(ctx context.Context, principal, name string) error

	// Watch tells what changes in the principal's records and journals from now on, until ctx ends and the channel is
	// closed. Changes of one key may be merged, and one from just before may be told too; the end of a record's time to
	// live is not told. When changes were lost (slow consumer, connection lost) one Change with Lost set comes in their
	// place.
	Watch(ctx context.Context, principal string) (<-chan Change, error)

	// Check reports whether the store can be read and written now; it is what readiness asks.
	Check(ctx context.Context) error

	// Close waits for what is under way and releases everything.
	Close() error
}

// Errors of a Store.
var (
	ErrConflict    = errors.New("store: a record has changed meanwhile")
	ErrFenced      = errors.New("store: another owner has taken over")
	ErrGap         = errors.New("store: the run does not follow the journal's last event")
	ErrNoJournal   = errors.New("store: no such journal")
	ErrUnavailable = errors.New("store: unavailable")
	ErrInvalid     = errors.New("store: invalid argument")
)

// Record is a value with the version of its last write. Versions of a key only grow, also over deletes.
type Record struct {
	Key     string
	Version uint64 // 0: there is none
	Value   []byte
}

// Commit is a transaction within one principal.
type Commit struct {
	Expect  []Expect
	Writes  []Write
	Indexes []IndexWrite
}

// Expect demands that a record has this version; 0: that there is none.
type Expect struct {
	Key     string
	Version uint64
}

// Write sets a record, or deletes it.
type Write struct {
	Key    string
	Value  []byte
	TTL    time.Duration // 0: for ever
	Delete bool
}

// IndexWrite sets or removes a member of an ordered index. A member has one score.
type IndexWrite struct {
	Index  string
	Member string
	Score  int64
	Value  []byte // small; comes back in IndexRow
	Remove bool
}

// Query asks for rows by descending score, equal scores by ascending member; Ascending turns both round. After starts
// behind that place, which need not exist any more. Limit is at most 1,000, default 100.
type Query struct {
	After     *IndexRow // Score and Member
	Ascending bool
	Limit     int
}

// IndexRow is a member of an index.
type IndexRow struct {
	Member string
	Score  int64
	Value  []byte
}

// JournalInfo describes a journal.
type JournalInfo struct {
	Epoch  uint64
	Fence  uint64
	First  uint64 // seq of the oldest retained event; Next when it is empty
	Next   uint64 // seq of the event to come; a new journal starts with 1
	Events int64
	Bytes  int64 // payload
	Clean  bool  // it was closed, and neither opened nor appended to since
}

// Run is a sequence of events for one journal; their seqs are consecutive.
type Run struct {
	Principal string
	Journal   string
	Fence     uint64
	Events    []journal.Event
}

// Change says that something was written. Key is a record's key, or "journal:" and the journal's name.
type Change struct {
	Key  string
	Lost bool
}
