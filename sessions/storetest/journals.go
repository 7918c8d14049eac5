package storetest

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/acpgate/acpgate/sessions"
	"github.com/acpgate/acpgate/sessions/internal/segment"
	"github.com/acpgate/acpgate/sessions/journal"
)

func wantErr(t testing.TB, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: %v, want %v", what, err, want)
	}
}

func wantInfo(t testing.TB, what string, got, want sessions.JournalInfo) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %+v, want %+v", what, got, want)
	}
}

func size(events []journal.Event) (n int64) {
	for _, e := range events {
		n += int64(len(e.Data))
	}
	return n
}

func testJournalAppendAndRead(t *testing.T, b Backend) {
	s := open(t, b)
	wantInfo(t, "new", openJournal(t, s, "j", 3, 7), sessions.JournalInfo{Epoch: 7, Fence: 3, First: 1, Next: 1})
	if got := readAll(t, s, "alice", "j", 0, 0); len(got) != 0 {
		t.Errorf("an empty journal has %v", got)
	}
	must(t, appendRun(t, s, run("j", 3, 1, 1)))
	must(t, appendRun(t, s, run("j", 3, 2, 50)))
	must(t, appendRun(t, s, run("j", 3, 51, 60)))
	for _, gap := range []sessions.Run{run("j", 3, 62, 63), run("j", 3, 60, 61), run("j", 3, 1, 1)} {
		wantErr(t, "a run that does not follow", appendRun(t, s, gap), sessions.ErrGap)
	}
	all := readAll(t, s, "alice", "j", 0, 0)
	wantEvents(t, all, 1, 60)
	wantInfo(t, "after appends", info(t, s, "j"), sessions.JournalInfo{Epoch: 7, Fence: 3, First: 1, Next: 61, Events: 60, Bytes: size(all)})
	for after := range uint64(60) {
		wantEvents(t, readAll(t, s, "alice", "j", after, 0), after+1, 60)
	}
	for _, after := range []uint64{60, 61, 1000, math.MaxInt64} {
		if got := readAll(t, s, "alice", "j", after, 0); len(got) != 0 {
			t.Errorf("after %d there is %v", after, got)
		}
	}
	// The type of an event, its time and every byte of its payload come back.
	odd := []journal.Event{{Seq: 61, Time: -5, Type: 255, Data: []byte{0, 1, 255}}, {Seq: 62, Time: math.MaxInt64, Type: 0}, {Seq: 63, Time: math.MinInt64, Data: []byte("{}")}}
	must(t, appendRun(t, s, sessions.Run{Principal: "alice", Journal: "j", Fence: 3, Events: odd}))
	for i, got := range readAll(t, s, "alice", "j", 60, 0) {
		if !equal(got, odd[i]) {
			t.Errorf("event %+v, want %+v", got, odd[i])
		}
	}
}

func testJournalFence(t *testing.T, b Backend) {
	s := open(t, b)
	openJournal(t, s, "j", 5, 1)
	must(t, appendRun(t, s, run("j", 5, 1, 3)))
	_, err := s.OpenJournal(t.Context(), "alice", "j", 4, 9)
	wantErr(t, "opening under a lower fence", err, sessions.ErrFenced)
	openJournal(t, s, "j", 8, 1)
	before := info(t, s, "j")
	for _, stale := range []uint64{0, 5, 7} {
		wantErr(t, "appending", appendRun(t, s, run("j", stale, 4, 4)), sessions.ErrFenced)
		wantErr(t, "compacting", s.Compact(t.Context(), "alice", "j", stale, 2, nil), sessions.ErrFenced)
		wantErr(t, "closing", s.CloseJournal(t.Context(), "alice", "j", stale), sessions.ErrFenced)
	}
	wantInfo(t, "after stale writes", info(t, s, "j"), before)
	wantEvents(t, readAll(t, s, "alice", "j", 0, 0), 1, 3)
	must(t, appendRun(t, s, run("j", 8, 4, 4)))
	must(t, appendRun(t, s, run("j", 9, 5, 5))) // only lower ones are stale
	openJournal(t, s, "j", math.MaxInt64, 1)
	wantErr(t, "appending", appendRun(t, s, run("j", math.MaxInt64-1, 6, 6)), sessions.ErrFenced)
	must(t, appendRun(t, s, run("j", math.MaxInt64, 6, 6)))
	// Fences are per journal.
	openJournal(t, s, "k", 1, 1)
	must(t, appendRun(t, s, run("k", 1, 1, 1)))
}

func testJournalEpoch(t *testing.T, b Backend) {
	s := open(t, b)
	if got := openJournal(t, s, "j", 1, 0); got.Epoch != 1 || got.Clean {
		t.Errorf("a new journal without a proposed epoch: %+v", got)
	}
	for _, step := range []struct {
		name     string
		do       func() error
		propose  uint64
		epoch    uint64
		clean    bool
		appended uint64
	}{
		{"nobody closed it", nil, 0, 2, false, 0},
		{"nobody closed it, a greater one proposed", nil, 40, 40, false, 0},
		{"nobody closed it, a lower one proposed", nil, 7, 41, false, 0},
		{"closed", func() error { return s.CloseJournal(t.Context(), "alice", "j", 1) }, 100, 41, true, 0},
		{"closed, opened, and left", nil, 0, 42, false, 0},
		{"appended to and closed", func() error {
			return errors.Join(appendRun(t, s, run("j", 1, 1, 5)), s.CloseJournal(t.Context(), "alice", "j", 1))
		}, 0, 42, true, 5},
		{"closed and appended to", func() error {
			return errors.Join(s.CloseJournal(t.Context(), "alice", "j", 1), appendRun(t, s, run("j", 1, 6, 6)))
		}, 0, 43, false, 6},
		{"closed twice", func() error {
			return errors.Join(s.CloseJournal(t.Context(), "alice", "j", 1), s.CloseJournal(t.Context(), "alice", "j", 1))
		}, 0, 43, true, 6},
		{"compacted and closed", func() error {
			return errors.Join(s.Compact(t.Context(), "alice", "j", 1, 4, nil), s.CloseJournal(t.Context(), "alice", "j", 1))
		}, 0, 43, true, 6},
	} {
		if step.do != nil {
			must(t, step.do())
			if got := info(t, s, "j"); got.Clean != step.clean {
				t.Errorf("%s: %+v", step.name, got)
			}
		}
		got := openJournal(t, s, "j", 1, step.propose)
		if got.Epoch != step.epoch || got.Clean != step.clean || got.Next != step.appended+1 {
			t.Errorf("%s: %+v, want epoch %d, clean %v, next %d", step.name, got, step.epoch, step.clean, step.appended+1)
		}
		if got := info(t, s, "j"); got.Clean || got.Epoch != step.epoch {
			t.Errorf("%s, after opening: %+v", step.name, got)
		}
	}
}

func testJournalRuns(t *testing.T, b Backend) {
	s := open(t, b)
	if errs := s.Append(t.Context(), nil); len(errs) != 0 {
		t.Errorf("no runs give %v", errs)
	}
	openJournal(t, s, "a", 1, 1)
	openJournal(t, s, "b", 5, 1)
	_, err := s.OpenJournal(t.Context(), "bob", "a", 1, 1)
	must(t, err)
	bobs := run("a", 1, 1, 4)
	bobs.Principal = "bob"
	torn := run("a", 1, 6, 9)
	torn.Events[2].Seq = 100
	for i, err := range s.Append(t.Context(), []sessions.Run{
		run("a", 1, 1, 2), run("b", 4, 1, 1), bobs, run("a", 1, 3, 5), run("none", 1, 1, 1), run("b", 5, 2, 2), run("b", 5, 1, 1), torn,
		{Principal: "alice", Journal: "a", Fence: 1},
		run("a", 1, 9, 9), run("a", 1, 6, 7), run("b", 5, 2, 3),
	}) {
		want := []error{
			nil, sessions.ErrFenced, nil, nil, sessions.ErrNoJournal, sessions.ErrGap, nil, sessions.ErrInvalid,
			sessions.ErrInvalid, sessions.ErrGap, nil, nil,
		}[i]
		wantErr(t, fmt.Sprint("run ", i), err, want)
	}
	wantEvents(t, readAll(t, s, "alice", "a", 0, 0), 1, 7)
	wantEvents(t, readAll(t, s, "alice", "b", 0, 0), 1, 3)
	wantEvents(t, readAll(t, s, "bob", "a", 0, 0), 1, 4)

	var many []sessions.Run
	for i := range 500 {
		name := fmt.Sprint("many-", i%250)
		if i < 250 {
			openJournal(t, s, name, 1, 1)
		}
		from := uint64(1 + 3*(i/250))
		many = append(many, run(name, 1, from, from+2))
	}
	for _, err := range s.Append(t.Context(), many) {
		must(t, err)
	}
	for i := range 250 {
		wantEvents(t, readAll(t, s, "alice", fmt.Sprint("many-", i), 0, 0), 1, 6)
	}
}

func testJournalReadBytes(t *testing.T, b Backend) {
	s := open(t, b)
	openJournal(t, s, "j", 1, 1)
	var events []journal.Event
	for seq := uint64(1); seq <= 1200; seq++ {
		e := event(seq)
		e.Data = append(e.Data, strings.Repeat("x", int(seq%300))...)
		events = append(events, e)
	}
	for from := 0; from < len(events); { // runs of 1 to 40 events
		to := min(from+1+from%40, len(events))
		must(t, appendRun(t, s, sessions.Run{Principal: "alice", Journal: "j", Fence: 1, Events: events[from:to]}))
		from = to
	}
	for _, maxBytes := range []int{1, 700, 20_000, 1 << 20, 0} {
		after, got := uint64(0), 0
		for {
			page, err := s.ReadJournal(t.Context(), "alice", "j", after, maxBytes)
			must(t, err)
			if len(page) == 0 {
				break
			}
			if len(page) > 1 && maxBytes > 0 && size(page) > int64(maxBytes) {
				t.Fatalf("%d bytes in %d events, at most %d", size(page), len(page), maxBytes)
			}
			for _, e := range page {
				if !equal(e, events[got]) {
					t.Fatalf("event %d, want %d", e.Seq, events[got].Seq)
				}
				got++
			}
			after = page[len(page)-1].Seq
			if next := got; next < len(events) && maxBytes > 0 && size(page)+int64(len(events[next].Data)) <= int64(maxBytes) {
				t.Fatalf("a page of %d bytes ended before event %d although %d bytes were allowed", size(page), next+1, maxBytes)
			}
		}
		if got != len(events) {
			t.Errorf("pages of %d bytes: %d events of %d", maxBytes, got, len(events))
		}
	}
}

func testJournalLargeEvents(t *testing.T, b Backend) {
	s := open(t, b)
	openJournal(t, s, "j", 1, 1)
	r := run("j", 1, 1, 5)
	r.Events[2].Data = []byte(strings.Repeat("large ", 1<<20)) // far beyond a segment
	r.Events[4].Data = []byte(strings.Repeat("m", segment.MaxBytes))
	must(t, appendRun(t, s, r))
	must(t, appendRun(t, s, run("j", 1, 6, 6)))
	got := readAll(t, s, "alice", "j", 0, 100)
	if len(got) != 6 {
		t.Fatalf("%d events", len(got))
	}
	for i, e := range got[:5] {
		if !equal(e, r.Events[i]) {
			t.Errorf("event %d differs", i+1)
		}
	}
	if i := info(t, s, "j"); i.Events != 6 || i.Bytes != size(got) {
		t.Errorf("%+v, want %d bytes", i, size(got))
	}
	must(t, s.Compact(t.Context(), "alice", "j", 1, 3, []journal.Event{{Seq: 3, Data: []byte("folded")}}))
	if got := readAll(t, s, "alice", "j", 0, 0); len(got) != 4 || string(got[0].Data) != "folded" || !equal(got[2], r.Events[4]) {
		t.Errorf("%d events after compaction", len(got))
	}
}

func testJournalCompact(t *testing.T, b Backend) {
	s := open(t, b)
	openJournal(t, s, "j", 1, 1)
	for from := uint64(1); from <= 100; from += 10 {
		must(t, appendRun(t, s, run("j", 1, from, from+9)))
	}
	fold := func(seqs ...uint64) (out []journal.Event) {
		for _, seq := range seqs {
			out = append(out, journal.Event{Seq: seq, Time: 1, Type: journal.Notice, Data: fmt.Appendf(nil, "folded %d", seq)})
		}
		return out
	}
	for _, step := range []struct {
		name   string
		upto   uint64
		folded []journal.Event
		kept   []uint64 // folded seqs that are left in front
		tail   uint64   // first of the events that were not folded
	}{
		{"within a run", 25, fold(3, 10, 25), []uint64{3, 10, 25}, 26},
		{"at the end of a run, folding the folded", 40, fold(3, 30, 31), []uint64{3, 30, 31}, 41},
		{"nothing new", 0, nil, []uint64{3, 30, 31}, 41},
		{"only a part of what is folded", 20, fold(1, 2), []uint64{1, 2, 30, 31}, 41},
		{"a part, leaving nothing of it", 30, nil, []uint64{31}, 41},
		{"trimming", 45, nil, nil, 46},
		{"trimming again", 45, nil, nil, 46},
		{"before the first", 10, fold(7), []uint64{7}, 46},
		{"all but the last", 99, fold(98, 99), []uint64{98, 99}, 100},
		{"all", 100, fold(100), []uint64{100}, 101},
		{"everything away", 100, nil, nil, 101},
	} {
		must(t, s.Compact(t.Context(), "alice", "j", 1, step.upto, step.folded))
		got := readAll(t, s, "alice", "j", 0, 0)
		want := fold(step.kept...)
		for seq := step.tail; seq <= 100; seq++ {
			want = append(want, event(seq))
		}
		if len(got) != len(want) {
			t.Fatalf("%s: %d events, want %d", step.name, len(got), len(want))
		}
		first := uint64(101)
		for i, e := range got {
			first = min(first, e.Seq)
			if !equal(e, want[i]) {
				t.Errorf("%s: event %+v, want %+v", step.name, e, want[i])
			}
			rest := readAll(t, s, "alice", "j", e.Seq, 300)
			if len(rest) != len(want)-i-1 {
				t.Errorf("%s: %d events after %d, want %d", step.name, len(rest), e.Seq, len(want)-i-1)
			}
		}
		wantInfo(t, step.name, info(t, s, "j"), sessions.JournalInfo{
			Epoch: 1, Fence: 1, First: first, Next: 101, Events: int64(len(want)), Bytes: size(want),
		})
	}
	must(t, appendRun(t, s, run("j", 1, 101, 103)))
	wantEvents(t, readAll(t, s, "alice", "j", 0, 0), 101, 103)

	for name, err := range map[string]error{
		"beyond the end":  s.Compact(t.Context(), "alice", "j", 1, 104, nil),
		"seq above upto":  s.Compact(t.Context(), "alice", "j", 1, 102, fold(103)),
		"seq 0":           s.Compact(t.Context(), "alice", "j", 1, 102, fold(0)),
		"not ascending":   s.Compact(t.Context(), "alice", "j", 1, 102, fold(101, 101)),
		"upto impossible": s.Compact(t.Context(), "alice", "j", 1, math.MaxUint64, nil),
	} {
		wantErr(t, name, err, sessions.ErrInvalid)
	}
	wantEvents(t, readAll(t, s, "alice", "j", 0, 0), 101, 103)
}

func testJournalDelete(t *testing.T, b Backend) {
	s := open(t, b)
	openJournal(t, s, "j", 9, 30)
	openJournal(t, s, "keep", 1, 5)
	must(t, appendRun(t, s, run("j", 9, 1, 20)))
	must(t, appendRun(t, s, run("keep", 1, 1, 20)))
	must(t, s.Compact(t.Context(), "alice", "j", 9, 5, []journal.Event{event(2)}))
	must(t, s.CloseJournal(t.Context(), "alice", "j", 9))
	must(t, s.DeleteJournal(t.Context(), "alice", "j"))
	must(t, s.DeleteJournal(t.Context(), "alice", "j"))
	_, err := s.JournalInfo(t.Context(), "alice", "j")
	wantErr(t, "info", err, sessions.ErrNoJournal)
	wantErr(t, "a late append", appendRun(t, s, run("j", 9, 21, 21)), sessions.ErrNoJournal)
	// It starts anew; cursors of the old one cannot be taken for those of the new one, even when nobody proposes an epoch.
	wantInfo(t, "opened again", openJournal(t, s, "j", 1, 0), sessions.JournalInfo{Epoch: 31, Fence: 1, First: 1, Next: 1})
	must(t, appendRun(t, s, run("j", 1, 1, 3)))
	wantEvents(t, readAll(t, s, "alice", "j", 0, 0), 1, 3)
	must(t, s.DeleteJournal(t.Context(), "alice", "j"))
	wantInfo(t, "opened with an epoch", openJournal(t, s, "j", 1, 77), sessions.JournalInfo{Epoch: 77, Fence: 1, First: 1, Next: 1})
	wantEvents(t, readAll(t, s, "alice", "keep", 0, 0), 1, 20)
}

func testJournalMissing(t *testing.T, b Backend) {
	s := open(t, b)
	_, err := s.ReadJournal(t.Context(), "alice", "none", 0, 0)
	wantErr(t, "reading", err, sessions.ErrNoJournal)
	_, err = s.JournalInfo(t.Context(), "alice", "none")
	wantErr(t, "info", err, sessions.ErrNoJournal)
	wantErr(t, "compacting", s.Compact(t.Context(), "alice", "none", 1, 0, nil), sessions.ErrNoJournal)
	wantErr(t, "closing", s.CloseJournal(t.Context(), "alice", "none", 1), sessions.ErrNoJournal)
	must(t, s.DeleteJournal(t.Context(), "alice", "none"))

	_, err = s.OpenJournal(t.Context(), "alice", "", 1, 1)
	wantErr(t, "a name that is none", err, sessions.ErrInvalid)
	_, err = s.OpenJournal(t.Context(), "alice", "j", math.MaxInt64+1, 1)
	wantErr(t, "a fence that is too large", err, sessions.ErrInvalid)
	_, err = s.OpenJournal(t.Context(), "alice", "j", 1, math.MaxUint64)
	wantErr(t, "an epoch that is too large", err, sessions.ErrInvalid)
}
