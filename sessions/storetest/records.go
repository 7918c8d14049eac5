package storetest

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/acpgate/acpgate/sessions"
)

func testReadAndCommit(t *testing.T, b Backend) {
	s := open(t, b)
	must(t, s.Check(t.Context()))
	if got := read(t, s, "alice"); len(got) != 0 {
		t.Errorf("no keys give %v", got)
	}
	for _, r := range read(t, s, "alice", "x", "y", "x") {
		if r.Version != 0 || r.Value != nil {
			t.Errorf("a record that does not exist: %+v", r)
		}
	}
	must(t, s.Commit(t.Context(), "alice", sessions.Commit{
		Expect: []sessions.Expect{{Key: "x"}, {Key: "y", Version: 0}},
		Writes: []sessions.Write{set("x", "1"), set("y", ""), set("z", "3")},
	}))
	got := read(t, s, "alice", "z", "nothing", "y", "x", "z")
	if string(got[0].Value) != "3" || got[1].Version != 0 || len(got[2].Value) != 0 || got[2].Version == 0 || string(got[3].Value) != "1" || got[4].Version != got[0].Version {
		t.Errorf("read %+v", got)
	}
	// In one commit entries are applied in order.
	commit(t, s, set("x", "2"), set("x", "3"), sessions.Write{Key: "y", Delete: true}, sessions.Write{Key: "w", Delete: true}, set("w", "4"))
	wantValue(t, s, "alice", "x", "3")
	wantValue(t, s, "alice", "y", "-")
	wantValue(t, s, "alice", "w", "4")
	// An empty commit is one, and deleting what is not there is no error.
	must(t, s.Commit(t.Context(), "alice", sessions.Commit{}))
	commit(t, s, sessions.Write{Key: "never", Delete: true})
	must(t, s.Check(t.Context()))
}

func testConflictChangesNothing(t *testing.T, b Backend) {
	s := open(t, b)
	commit(t, s, set("x", "1"), set("y", "1"))
	v := read(t, s, "alice", "x", "y")
	for _, tc := range []struct {
		name   string
		expect []sessions.Expect
		ok     bool
	}{
		{"too old", []sessions.Expect{{Key: "x", Version: v[0].Version}, {Key: "y", Version: v[1].Version - 1}}, false},
		{"too new", []sessions.Expect{{Key: "x", Version: v[0].Version}, {Key: "y", Version: v[1].Version + 1}}, false},
		{"there, wanted absent", []sessions.Expect{{Key: "x"}}, false},
		{"absent, wanted there", []sessions.Expect{{Key: "none", Version: v[0].Version}}, false},
		{"all hold", []sessions.Expect{{Key: "x", Version: v[0].Version}, {Key: "y", Version: v[1].Version}, {Key: "none"}}, true},
	} {
		err := s.Commit(t.Context(), "alice", sessions.Commit{
			Expect:  tc.expect,
			Writes:  []sessions.Write{set("x", tc.name), {Key: "y", Delete: true}, set("new", tc.name)},
			Indexes: []sessions.IndexWrite{{Index: "i", Member: "m", Score: 1}},
		})
		rows, scanErr := s.Scan(t.Context(), "alice", "i", sessions.Query{})
		must(t, scanErr)
		if tc.ok {
			must(t, err)
			wantValue(t, s, "alice", "x", tc.name)
			wantValue(t, s, "alice", "y", "-")
			if len(rows) != 1 {
				t.Errorf("%s: %d index rows", tc.name, len(rows))
			}
			continue
		}
		if !errors.Is(err, sessions.ErrConflict) {
			t.Errorf("%s: %v, want ErrConflict", tc.name, err)
		}
		wantValue(t, s, "alice", "x", "1")
		wantValue(t, s, "alice", "y", "1")
		wantValue(t, s, "alice", "new", "-")
		if len(rows) != 0 {
			t.Errorf("%s: %d index rows", tc.name, len(rows))
		}
	}
	// A commit may only ask.
	x := read(t, s, "alice", "x")[0]
	must(t, s.Commit(t.Context(), "alice", sessions.Commit{Expect: []sessions.Expect{{Key: "x", Version: x.Version}}}))
	if err := s.Commit(t.Context(), "alice", sessions.Commit{Expect: []sessions.Expect{{Key: "x"}}}); !errors.Is(err, sessions.ErrConflict) {
		t.Errorf("asking: %v, want ErrConflict", err)
	}
	if again := read(t, s, "alice", "x")[0]; again.Version != x.Version {
		t.Error("asking changed the version")
	}
}

func testVersionsGrow(t *testing.T, b Backend) {
	s := open(t, b)
	var last uint64
	for i := range 5 {
		commit(t, s, set("x", fmt.Sprint(i)), set("other", "same"))
		r := read(t, s, "alice", "x")[0]
		if r.Version <= last {
			t.Fatalf("version %d after %d", r.Version, last)
		}
		last = r.Version
		commit(t, s, sessions.Write{Key: "x", Delete: true})
		// Whoever still knows the deleted record must not take the next one for it.
		err := s.Commit(t.Context(), "alice", sessions.Commit{Expect: []sessions.Expect{{Key: "x", Version: last}}, Writes: []sessions.Write{set("x", "late")}})
		if !errors.Is(err, sessions.ErrConflict) {
			t.Fatalf("a late save of a deleted record: %v", err)
		}
	}
	commit(t, s, sessions.Write{Key: "x", Value: []byte("short"), TTL: time.Millisecond})
	time.Sleep(20 * time.Millisecond)
	commit(t, s, set("x", "again"))
	if r := read(t, s, "alice", "x")[0]; r.Version <= last {
		t.Errorf("version %d after %d and an end of life", r.Version, last)
	}
}

func testTimeToLive(t *testing.T, b Backend) {
	s := open(t, b)
	const short, long = 60 * time.Millisecond, time.Hour
	before := time.Now()
	commit(t, s, sessions.Write{Key: "short", Value: []byte("1"), TTL: short}, sessions.Write{Key: "long", Value: []byte("1"), TTL: long},
		sessions.Write{Key: "kept", Value: []byte("1"), TTL: short}, set("late", "1"))
	r := read(t, s, "alice", "short")[0]
	if time.Since(before) < short && r.Version == 0 {
		t.Error("gone before its time")
	}
	// Each write decides anew: without a time to live it is for ever, with one it ends.
	commit(t, s, set("kept", "2"), sessions.Write{Key: "late", Value: []byte("2"), TTL: short})
	for deadline := time.Now().Add(5 * time.Second); value(t, s, "alice", "short")+value(t, s, "alice", "late") != "--"; {
		if time.Now().After(deadline) {
			t.Fatal("records outlive their time")
		}
		time.Sleep(5 * time.Millisecond)
	}
	if time.Since(before) < short {
		t.Error("gone before its time")
	}
	wantValue(t, s, "alice", "long", "1")
	wantValue(t, s, "alice", "kept", "2")
	// What has ended does not exist for a commit either.
	if r.Version == 0 { // it was slow to be read
		r = read(t, s, "alice", "long")[0]
	}
	if err := s.Commit(t.Context(), "alice", sessions.Commit{Expect: []sessions.Expect{{Key: "short", Version: r.Version}}}); !errors.Is(err, sessions.ErrConflict) {
		t.Errorf("expecting what has ended: %v, want ErrConflict", err)
	}
	must(t, s.Commit(t.Context(), "alice", sessions.Commit{Expect: []sessions.Expect{{Key: "short"}}, Writes: []sessions.Write{set("short", "2")}}))
	wantValue(t, s, "alice", "short", "2")
}

// strange are names that a careless encoding would mix up or break.
var strange = []string{
	"alice", "Alice", "alice ", "a{b}c", "}{", "p:alice", "a:b", "%7B", "a%b", "a*", "a?b", "[a]", "a\nb", "ünï", "\xff\xfe", "a'b\"c", strings.Repeat("n", sessions.MaxNameBytes),
}

func testPrincipalsAreApart(t *testing.T, b Backend) {
	s := open(t, b)
	for i, p := range strange {
		must(t, s.Commit(t.Context(), p, sessions.Commit{
			Writes:  []sessions.Write{set("x", fmt.Sprint(i))},
			Indexes: []sessions.IndexWrite{{Index: "i", Member: fmt.Sprint(i), Score: 1}},
		}))
		_, err := s.OpenJournal(t.Context(), p, "j", 1, 1)
		must(t, err)
		r := run("j", 1, 1, uint64(i+1))
		r.Principal = p
		must(t, appendRun(t, s, r))
	}
	for i, p := range strange {
		wantValue(t, s, p, "x", fmt.Sprint(i))
		rows, err := s.Scan(t.Context(), p, "i", sessions.Query{})
		must(t, err)
		if len(rows) != 1 || rows[0].Member != fmt.Sprint(i) {
			t.Errorf("%q: index rows %v", p, rows)
		}
		wantEvents(t, readAll(t, s, p, "j", 0, 0), 1, uint64(i+1))
	}
	wantValue(t, s, "nobody", "x", "-")
}

func testAnyBytes(t *testing.T, b Backend) {
	s := open(t, b)
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	for i, name := range strange {
		must(t, s.Commit(t.Context(), "alice", sessions.Commit{
			Writes:  []sessions.Write{{Key: name, Value: fmt.Append(all, i)}},
			Indexes: []sessions.IndexWrite{{Index: name, Member: name, Score: int64(i), Value: fmt.Append(all, i)}},
		}))
		openJournal(t, s, name, 1, 1)
		r := run(name, 1, 1, uint64(i+1))
		must(t, appendRun(t, s, r))
	}
	for i, name := range strange {
		wantValue(t, s, "alice", name, string(fmt.Append(all, i)))
		rows, err := s.Scan(t.Context(), "alice", name, sessions.Query{})
		must(t, err)
		if len(rows) != 1 || rows[0].Member != name || rows[0].Score != int64(i) || string(rows[0].Value) != string(fmt.Append(all, i)) {
			t.Errorf("%q: index rows %v", name, rows)
		}
		wantEvents(t, readAll(t, s, "alice", name, 0, 0), 1, uint64(i+1))
	}
}

func testBoundsOfRecords(t *testing.T, b Backend) {
	s := open(t, b)
	large := strings.Repeat("v", sessions.MaxValueBytes)
	commit(t, s, set("large", large))
	wantValue(t, s, "alice", "large", large)

	many := sessions.Commit{}
	var keys []string
	for i := range sessions.MaxCommitEntries {
		key := fmt.Sprint("many-", i)
		keys = append(keys, key)
		many.Expect = append(many.Expect, sessions.Expect{Key: key})
		many.Writes = append(many.Writes, set(key, key))
		many.Indexes = append(many.Indexes, sessions.IndexWrite{Index: "many", Member: key, Score: int64(i)})
	}
	must(t, s.Commit(t.Context(), "alice", many))
	for _, r := range read(t, s, "alice", keys...) {
		if string(r.Value) != r.Key {
			t.Fatalf("%s is %q", r.Key, r.Value)
		}
	}
	many.Writes = append(many.Writes, set("one more", ""))

	for name, err := range map[string]error{
		"empty principal": s.Commit(t.Context(), "", sessions.Commit{}),
		"empty key":       s.Commit(t.Context(), "alice", sessions.Commit{Writes: []sessions.Write{set("", "")}}),
		"NUL":             s.Commit(t.Context(), "alice", sessions.Commit{Expect: []sessions.Expect{{Key: "a\x00b"}}}),
		"long key":        s.Commit(t.Context(), "alice", sessions.Commit{Writes: []sessions.Write{set(strings.Repeat("k", sessions.MaxNameBytes+1), "")}}),
		"large value":     s.Commit(t.Context(), "alice", sessions.Commit{Writes: []sessions.Write{set("x", large+"v")}}),
		"negative time":   s.Commit(t.Context(), "alice", sessions.Commit{Writes: []sessions.Write{{Key: "x", TTL: -1}}}),
		"many entries":    s.Commit(t.Context(), "alice", many),
		"empty member":    s.Commit(t.Context(), "alice", sessions.Commit{Indexes: []sessions.IndexWrite{{Index: "i"}}}),
		"large row": s.Commit(t.Context(), "alice", sessions.Commit{Indexes: []sessions.IndexWrite{
			{Index: "i", Member: "m", Value: make([]byte, sessions.MaxIndexValueBytes+1)},
		}}),
	} {
		if !errors.Is(err, sessions.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", name, err)
		}
	}
	if _, err := s.Read(t.Context(), "alice", append(keys, "one more")...); !errors.Is(err, sessions.ErrInvalid) {
		t.Errorf("reading too many keys: %v, want ErrInvalid", err)
	}
	if _, err := s.Watch(t.Context(), ""); !errors.Is(err, sessions.ErrInvalid) {
		t.Errorf("watching nobody: %v, want ErrInvalid", err)
	}
}
