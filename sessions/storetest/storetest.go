// Package storetest is the contract of sessions.Store as tests: one suite that every implementation runs, an in-memory
// model, a real redis-server for tests, and a process that is killed while it writes.
package storetest

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/acpgate/acpgate/sessions"
	"github.com/acpgate/acpgate/sessions/journal"
)

// Backend is a place for data that was made, empty, for one test.
type Backend struct {
	// Open opens a store on the backend; each call gives one on the same data. The test closes it.
	Open func(t testing.TB) sessions.Store
	// Shared says that several stores may be open on the backend at once.
	Shared bool
	// Forgets says that the data are gone when the last store was closed.
	Forgets bool
}

// Run runs the contract suite, as parallel subtests, each on a new backend.
func Run(t *testing.T, newBackend func(t testing.TB) Backend) {
	kind := newBackend(t)
	can := map[string]bool{"": true, "shared": kind.Shared, "durable": !kind.Forgets}
	for _, test := range []struct {
		name  string
		needs string // leaves the test out on a backend that cannot do it
		run   func(*testing.T, Backend)
	}{
		{"ReadAndCommit", "", testReadAndCommit},
		{"ConflictChangesNothing", "", testConflictChangesNothing},
		{"VersionsGrowOverDeletes", "", testVersionsGrow},
		{"TimeToLive", "", testTimeToLive},
		{"PrincipalsAreApart", "", testPrincipalsAreApart},
		{"BoundsOfRecords", "", testBoundsOfRecords},
		{"AnyBytesInNamesAndValues", "", testAnyBytes},
		{"IndexOrderAndPages", "", testIndexOrder},
		{"PagesAreStableUnderChange", "", testPagesUnderChange},
		{"JournalAppendAndRead", "", testJournalAppendAndRead},
		{"JournalFence", "", testJournalFence},
		{"JournalEpoch", "", testJournalEpoch},
		{"JournalRunsAreWhole", "", testJournalRuns},
		{"JournalReadIsBoundedByBytes", "", testJournalReadBytes},
		{"JournalLargeEvents", "", testJournalLargeEvents},
		{"JournalCompact", "", testJournalCompact},
		{"JournalDelete", "", testJournalDelete},
		{"JournalMissing", "", testJournalMissing},
		{"Watch", "", testWatch},
		{"WatchSlow", "", testWatchSlow},
		{"CountersUnderContention", "", testCounters},
		{"OneOfFiveClaims", "", testClaims},
		{"ReadersSeeWholeCommits", "", testWholeCommits},
		{"AppendersAndReaders", "", testAppendersAndReaders},
		{"LikeTheModel", "", testModel},
		{"CloseAndContext", "", testCloseAndContext},
		{"ReopeningKeepsEverything", "durable", testReopen},
		{"SecondStoreTakesOver", "shared", testTakeOver},
		{"SecondStoreWatches", "shared", testWatchOfSecond},
		{"ClaimsOnTwoStores", "shared", testClaimsOnTwo},
	} {
		if can[test.needs] {
			t.Run(test.name, func(t *testing.T) {
				t.Parallel()
				test.run(t, newBackend(t))
			})
		}
	}
}

// open opens a store that the test's end closes.
func open(t testing.TB, b Backend) sessions.Store {
	t.Helper()
	s := b.Open(t)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("closing the store: %v", err)
		}
	})
	return s
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func set(key, value string) sessions.Write { return sessions.Write{Key: key, Value: []byte(value)} }

func commit(t testing.TB, s sessions.Store, writes ...sessions.Write) {
	t.Helper()
	must(t, s.Commit(t.Context(), "alice", sessions.Commit{Writes: writes}))
}

func read(t testing.TB, s sessions.Store, principal string, keys ...string) []sessions.Record {
	t.Helper()
	records, err := s.Read(t.Context(), principal, keys...)
	must(t, err)
	if len(records) != len(keys) {
		t.Fatalf("%d records for %d keys", len(records), len(keys))
	}
	for i, r := range records {
		if r.Key != keys[i] {
			t.Fatalf("record %d is of key %q, want %q", i, r.Key, keys[i])
		}
	}
	return records
}

// value returns a record's value, or "-" when there is none.
func value(t testing.TB, s sessions.Store, principal, key string) string {
	t.Helper()
	r := read(t, s, principal, key)[0]
	if r.Version == 0 {
		return "-"
	}
	return string(r.Value)
}

func wantValue(t testing.TB, s sessions.Store, principal, key, want string) {
	t.Helper()
	if got := value(t, s, principal, key); got != want {
		t.Errorf("%s of %s is %.80q, want %.80q", key, principal, got, want)
	}
}

// event makes an event whose content can be told from its seq.
func event(seq uint64) journal.Event {
	return journal.Event{Seq: seq, Time: 1_700_000_000_000 + int64(seq), Type: journal.Type(1 + seq%7), Data: fmt.Appendf(nil, "event %d", seq)}
}

func run(name string, fence, from, to uint64) sessions.Run {
	r := sessions.Run{Principal: "alice", Journal: name, Fence: fence}
	for seq := from; seq <= to; seq++ {
		r.Events = append(r.Events, event(seq))
	}
	return r
}

func appendRun(t testing.TB, s sessions.Store, r sessions.Run) error {
	t.Helper()
	errs := s.Append(t.Context(), []sessions.Run{r})
	if len(errs) != 1 {
		t.Fatalf("%d results for one run", len(errs))
	}
	return errs[0]
}

func openJournal(t testing.TB, s sessions.Store, name string, fence, epoch uint64) sessions.JournalInfo {
	t.Helper()
	info, err := s.OpenJournal(t.Context(), "alice", name, fence, epoch)
	must(t, err)
	return info
}

func info(t testing.TB, s sessions.Store, name string) sessions.JournalInfo {
	t.Helper()
	i, err := s.JournalInfo(t.Context(), "alice", name)
	must(t, err)
	return i
}

// readAll reads a journal to its end, in pages.
func readAll(t testing.TB, s sessions.Store, principal, name string, after uint64, maxBytes int) []journal.Event {
	t.Helper()
	var out []journal.Event
	for {
		page, err := s.ReadJournal(t.Context(), principal, name, after, maxBytes)
		must(t, err)
		if len(page) == 0 {
			return out
		}
		out = append(out, page...)
		after = page[len(page)-1].Seq
	}
}

// wantEvents checks that events are those of event, from first to last.
func wantEvents(t testing.TB, events []journal.Event, first, last uint64) {
	t.Helper()
	if uint64(len(events)) != last-first+1 {
		t.Fatalf("%d events, want those from %d to %d", len(events), first, last)
	}
	for i, got := range events {
		if want := event(first + uint64(i)); !equal(got, want) {
			t.Fatalf("event %+v, want %+v", got, want)
		}
	}
}

func equal(a, b journal.Event) bool {
	return a.Seq == b.Seq && a.Time == b.Time && a.Type == b.Type && bytes.Equal(a.Data, b.Data)
}
