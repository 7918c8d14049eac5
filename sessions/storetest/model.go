package storetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/acpgate/acpgate/sessions"
	"github.com/acpgate/acpgate/sessions/journal"
)

// twins does everything on a store and on the model, and compares.
type twins struct {
	t     *testing.T
	rnd   *rand.Rand
	store sessions.Store
	model *Memory
}

func testModel(t *testing.T, b Backend) {
	model := NewMemory()
	defer func() { must(t, model.Close()) }()
	for seed := range uint64(3) {
		tw := &twins{t, rand.New(rand.NewPCG(seed, 3)), open(t, b), model}
		for step := 0; step < 300 && !t.Failed(); step++ {
			tw.step()
		}
		tw.compareAll()
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
		if !b.Forgets { // the next seed goes on with what is there
			must(t, tw.store.Close())
			continue
		}
		return
	}
}

func (tw *twins) principal() string { return []string{"alice", "bob"}[tw.rnd.IntN(2)] }
func (tw *twins) key() string       { return fmt.Sprint("key-", tw.rnd.IntN(6)) }
func (tw *twins) journal() string   { return fmt.Sprint("journal-", tw.rnd.IntN(4)) }

// same fails when the two answered differently.
func (tw *twins) same(what string, store, model error) {
	tw.t.Helper()
	for _, kind := range []error{sessions.ErrConflict, sessions.ErrFenced, sessions.ErrGap, sessions.ErrNoJournal, sessions.ErrInvalid} {
		if errors.Is(store, kind) != errors.Is(model, kind) {
			tw.t.Errorf("%s: %v, the model says %v", what, store, model)
		}
	}
	if (store == nil) != (model == nil) {
		tw.t.Errorf("%s: %v, the model says %v", what, store, model)
	}
}

func (tw *twins) step() {
	switch n := tw.rnd.IntN(10); {
	case n < 3:
		tw.commit()
	case n < 4:
		tw.scan()
	default:
		tw.journals()
	}
}

func (tw *twins) commit() {
	ctx, p := tw.t.Context(), tw.principal()
	var onStore, onModel sessions.Commit
	for range tw.rnd.IntN(3) {
		key := tw.key()
		s, m := read(tw.t, tw.store, p, key)[0], read(tw.t, tw.model, p, key)[0]
		// Versions are each store's own; what they mean is the same.
		off := uint64(0)
		if tw.rnd.IntN(5) == 0 {
			off = 1
		}
		onStore.Expect = append(onStore.Expect, sessions.Expect{Key: key, Version: s.Version + off})
		onModel.Expect = append(onModel.Expect, sessions.Expect{Key: key, Version: m.Version + off})
	}
	for range tw.rnd.IntN(4) {
		w := set(tw.key(), fmt.Sprint(tw.rnd.IntN(1000)))
		w.Delete = tw.rnd.IntN(4) == 0
		onStore.Writes = append(onStore.Writes, w)
	}
	for range tw.rnd.IntN(4) {
		onStore.Indexes = append(onStore.Indexes, sessions.IndexWrite{
			Index: fmt.Sprint("index-", tw.rnd.IntN(2)), Member: fmt.Sprint(tw.rnd.IntN(30)), Score: tw.rnd.Int64N(8) - 4,
			Value: fmt.Append(nil, tw.rnd.IntN(1000)), Remove: tw.rnd.IntN(4) == 0,
		})
	}
	onModel.Writes, onModel.Indexes = onStore.Writes, onStore.Indexes
	tw.same("commit", tw.store.Commit(ctx, p, onStore), tw.model.Commit(ctx, p, onModel))
}

func (tw *twins) scan() {
	q := sessions.Query{Ascending: tw.rnd.IntN(2) == 0, Limit: tw.rnd.IntN(8)}
	if tw.rnd.IntN(2) == 0 {
		q.After = &sessions.IndexRow{Member: fmt.Sprint(tw.rnd.IntN(40)), Score: tw.rnd.Int64N(10) - 5}
	}
	tw.compareScan(tw.principal(), fmt.Sprint("index-", tw.rnd.IntN(2)), q)
}

func (tw *twins) compareScan(principal, index string, q sessions.Query) {
	got, err := tw.store.Scan(tw.t.Context(), principal, index, q)
	must(tw.t, err)
	want, err := tw.model.Scan(tw.t.Context(), principal, index, q)
	must(tw.t, err)
	if !slices.EqualFunc(got, want, func(a, b sessions.IndexRow) bool {
		return a.Member == b.Member && a.Score == b.Score && string(a.Value) == string(b.Value)
	}) {
		tw.t.Errorf("scan of %s with %+v:\n got %v\nwant %v", index, q, got, want)
	}
}

func (tw *twins) journals() {
	ctx, p, name := tw.t.Context(), tw.principal(), tw.journal()
	state, err := tw.model.JournalInfo(ctx, p, name)
	fence := state.Fence + uint64(tw.rnd.IntN(3))
	if fence > 0 && tw.rnd.IntN(6) == 0 {
		fence--
	}
	if err != nil {
		state.Next = 1
	}
	switch tw.rnd.IntN(12) {
	case 0, 1:
		epoch := state.Epoch + uint64(tw.rnd.IntN(3))
		got, err := tw.store.OpenJournal(ctx, p, name, fence, epoch)
		want, modelErr := tw.model.OpenJournal(ctx, p, name, fence, epoch)
		tw.same("open", err, modelErr)
		wantInfo(tw.t, "open", got, want)
	case 2:
		tw.same("close", tw.store.CloseJournal(ctx, p, name, fence), tw.model.CloseJournal(ctx, p, name, fence))
	case 3:
		if tw.rnd.IntN(4) == 0 {
			tw.same("delete", tw.store.DeleteJournal(ctx, p, name), tw.model.DeleteJournal(ctx, p, name))
		}
	case 4:
		upto := tw.rnd.Uint64N(state.Next + 1)
		var folded []journal.Event
		for seq := tw.rnd.Uint64N(20) + 1; seq <= upto; seq += 1 + tw.rnd.Uint64N(20) {
			e := event(seq)
			e.Type = journal.Notice
			folded = append(folded, e)
		}
		tw.same("compact", tw.store.Compact(ctx, p, name, fence, upto, folded), tw.model.Compact(ctx, p, name, fence, upto, folded))
	default:
		var runs []sessions.Run
		next := state.Next
		for range tw.rnd.IntN(4) {
			if tw.rnd.IntN(10) == 0 {
				next++
			}
			r := run(name, fence, next, next+tw.rnd.Uint64N(12))
			r.Principal = p
			next += uint64(len(r.Events))
			runs = append(runs, r)
		}
		got, want := tw.store.Append(ctx, runs), tw.model.Append(ctx, runs)
		for i := range runs {
			tw.same("append", got[i], want[i])
		}
	}
	tw.compareJournal(p, name, tw.rnd.Uint64N(state.Next+1))
}

func (tw *twins) compareJournal(p, name string, after uint64) {
	tw.t.Helper()
	ctx := tw.t.Context()
	got, err := tw.store.JournalInfo(ctx, p, name)
	want, modelErr := tw.model.JournalInfo(ctx, p, name)
	tw.same("info", err, modelErr)
	wantInfo(tw.t, "info", got, want)
	if err == nil && !slices.EqualFunc(readAll(tw.t, tw.store, p, name, after, 1000), readAll(tw.t, tw.model, p, name, after, 1000), equal) {
		tw.t.Errorf("%s after %d differs", name, after)
	}
}

func (tw *twins) compareAll() {
	for _, p := range []string{"alice", "bob"} {
		for i := range 6 {
			key := fmt.Sprint("key-", i)
			if got, want := value(tw.t, tw.store, p, key), value(tw.t, tw.model, p, key); got != want {
				tw.t.Errorf("%s of %s is %s, want %s", key, p, got, want)
			}
		}
		for i := range 2 {
			tw.compareScan(p, fmt.Sprint("index-", i), sessions.Query{})
		}
		for i := range 4 {
			tw.compareJournal(p, fmt.Sprint("journal-", i), 0)
		}
	}
}
