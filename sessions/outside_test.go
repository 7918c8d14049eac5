package sessions_test

import (
	"context"
	"sync"
	"testing"

	"github.com/acpgate/acpgate/sessions"
	"github.com/acpgate/acpgate/sessions/journal"
)

// outside is a store that lives outside of the bubble in which it is used. Its work is done by goroutines out there; a
// goroutine of the bubble that waits for one waits on a channel from out there, so it neither passes for blocked nor lets the
// bubble's time go on: to the bubble, a call of the store takes no time. Contexts stay inside, because their channels do.
type outside struct {
	sessions.Store
	idle chan *worker
}

type worker struct {
	job  chan func()
	done chan struct{}
}

const outsideWorkers = 8

// newOutside is to be called outside of the bubble. The end of t closes s.
func newOutside(t testing.TB, s sessions.Store) *outside {
	o := &outside{Store: s, idle: make(chan *worker, outsideWorkers)}
	var all []*worker
	var wg sync.WaitGroup
	for range outsideWorkers {
		w := &worker{make(chan func()), make(chan struct{})}
		all = append(all, w)
		o.idle <- w
		wg.Go(func() {
			for f := range w.job {
				f()
				w.done <- struct{}{}
			}
		})
	}
	t.Cleanup(func() {
		for _, w := range all {
			close(w.job)
		}
		wg.Wait()
		if err := s.Close(); err != nil {
			t.Errorf("closing the store: %v", err)
		}
	})
	return o
}

func (o *outside) do(f func(ctx context.Context)) {
	w := <-o.idle
	w.job <- func() { f(context.Background()) }
	<-w.done
	o.idle <- w
}

func (o *outside) Read(_ context.Context, principal string, keys ...string) (recs []sessions.Record, err error) {
	o.do(func(ctx context.Context) { recs, err = o.Store.Read(ctx, principal, keys...) })
	return recs, err
}

func (o *outside) Commit(_ context.Context, principal string, c sessions.Commit) (err error) {
	o.do(func(ctx context.Context) { err = o.Store.Commit(ctx, principal, c) })
	return err
}

func (o *outside) Scan(_ context.Context, principal, index string, q sessions.Query) (rows []sessions.IndexRow, err error) {
	o.do(func(ctx context.Context) { rows, err = o.Store.Scan(ctx, principal, index, q) })
	return rows, err
}

func (o *outside) OpenJournal(_ context.Context, principal, name string, fence, epoch uint64) (info sessions.JournalInfo, err error) {
	o.do(func(ctx context.Context) { info, err = o.Store.OpenJournal(ctx, principal, name, fence, epoch) })
	return info, err
}

func (o *outside) Append(_ context.Context, runs []sessions.Run) (errs []error) {
	o.do(func(ctx context.Context) { errs = o.Store.Append(ctx, runs) })
	return errs
}

func (o *outside) ReadJournal(_ context.Context, principal, name string, after uint64, maxBytes int) (events []journal.Event, err error) {
	o.do(func(ctx context.Context) { events, err = o.Store.ReadJournal(ctx, principal, name, after, maxBytes) })
	return events, err
}

func (o *outside) JournalInfo(_ context.Context, principal, name string) (info sessions.JournalInfo, err error) {
	o.do(func(ctx context.Context) { info, err = o.Store.JournalInfo(ctx, principal, name) })
	return info, err
}

func (o *outside) Compact(_ context.Context, principal, name string, fence, upto uint64, folded []journal.Event) (err error) {
	o.do(func(ctx context.Context) { err = o.Store.Compact(ctx, principal, name, fence, upto, folded) })
	return err
}

func (o *outside) CloseJournal(_ context.Context, principal, name string, fence uint64) (err error) {
	o.do(func(ctx context.Context) { err = o.Store.CloseJournal(ctx, principal, name, fence) })
	return err
}

func (o *outside) DeleteJournal(_ context.Context, principal, name string) (err error) {
	o.do(func(ctx context.Context) { err = o.Store.DeleteJournal(ctx, principal, name) })
	return err
}
