package sqlitestore

import (
	"context"
	"database/sql"
	"time"
)

// op is a call that writes. apply may run more than once, each time in a new transaction.
type op struct {
	size  int64
	apply func(*tx) error
	err   error
	done  chan struct{}
}

// write hands apply to the writer and waits for the commit that carries it. size is about how many bytes it writes. ctx
// ends the wait for the writer; what the writer has begun is waited for.
func (s *Store) write(ctx context.Context, size int64, apply func(*tx) error) error {
	if err := ctx.Err(); err != nil {
		return s.outside(err)
	}
	o := &op{size: size, apply: apply, done: make(chan struct{})}
	select {
	case s.ops <- o:
	case <-s.closing:
		return s.outside(errClosed)
	case <-ctx.Done():
		return s.outside(ctx.Err())
	}
	<-o.done
	return s.outside(o.err)
}

// writer is the one goroutine that writes. Its statements are of one connection and are used by it alone.
type writer struct {
	store   *Store
	version uint64 // that the last commit gave; never goes back, not even when its transaction did
	litter  bool   // there may be something to sweep
	statements
}

// newWriter returns a writer, also with an error: its statements must be closed either way.
func newWriter(ctx context.Context, s *Store) (*writer, error) {
	w := &writer{store: s, litter: true}
	if err := s.conn.QueryRowContext(ctx, "SELECT version FROM meta").Scan(&w.version); err != nil {
		return w, err
	}
	return w, w.prepare(ctx, s.conn)
}

const (
	sweepAfter = 16  // groups of callers that go before a step of a sweep
	sweepRows  = 200 // rows of each kind that a step removes
)

func (w *writer) run() {
	purge := time.NewTicker(w.store.cfg.PurgeEvery)
	defer purge.Stop()
	for w.next(purge.C) {
		// Callers go first, but not for ever.
		for n := 1; w.litter && !w.store.closed(); n++ {
			if n%sweepAfter == 0 || !w.poll() {
				w.sweep()
			}
		}
	}
}

// next waits for something to do and does it. It returns false when the store is closing.
func (w *writer) next(purge <-chan time.Time) bool {
	select {
	case o := <-w.store.ops:
		w.commit(w.gather(o))
	case <-purge:
		w.litter = true
	case <-w.store.closing:
		return false
	}
	return true
}

// poll serves the callers that wait now. It returns false when there are none.
func (w *writer) poll() bool {
	select {
	case o := <-w.store.ops:
		w.commit(w.gather(o))
		return true
	default:
		return false
	}
}

// gather returns first and the calls that wait behind it, within the bounds of a group. The channel has no buffer: a
// call in it is one whose caller waits.
func (w *writer) gather(first *op) []*op {
	group, size := []*op{first}, first.size
	for len(group) < w.store.cfg.GroupOps && size < w.store.cfg.GroupBytes {
		select {
		case o := <-w.store.ops:
			group = append(group, o)
			size += o.size
		default:
			return group
		}
	}
	return group
}

// commit commits a group, as one or, when that fails, one by one, and answers its callers.
func (w *writer) commit(group []*op) {
	err := w.transact(group)
	if err != nil && len(group) > 1 {
		for _, o := range group {
			w.commit([]*op{o})
		}
		return
	}
	if err != nil {
		w.store.failed.Store(true)
		group[0].err = err
	} else {
		w.store.transactions.Add(1)
		w.store.calls.Add(int64(len(group)))
	}
	for _, o := range group {
		close(o.done)
	}
}

// tx is a transaction in the making.
type tx struct {
	w       *writer
	version uint64
	told    []told
}

type told struct{ principal, key string }

func (t *tx) tell(principal, key string) { t.told = append(t.told, told{principal, key}) }

// next returns the version of the commit that asks.
func (t *tx) next() uint64 {
	t.version++
	return t.version
}

func (t *tx) exec(stmt *sql.Stmt, args ...any) error {
	_, err := stmt.ExecContext(context.Background(), args...)
	return err
}

// count is exec for a statement whose number of rows matters.
func (t *tx) count(stmt *sql.Stmt, args ...any) (int64, error) {
	result, err := stmt.ExecContext(context.Background(), args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

func (t *tx) row(stmt *sql.Stmt, args ...any) *sql.Row {
	return stmt.QueryRowContext(context.Background(), args...)
}

// transact applies a group and commits it. Its error is one of the database; what single calls say is in them.
func (w *writer) transact(group []*op) error {
	t := &tx{w: w, version: w.version}
	if err := t.exec(w.begin); err != nil {
		return w.undo(err)
	}
	for _, o := range group {
		if o.err = o.apply(t); o.err != nil && !contractual(o.err) {
			return w.undo(o.err)
		}
	}
	if t.version != w.version {
		w.version = t.version
		if err := t.exec(w.setVersion, w.version); err != nil {
			return w.undo(err)
		}
	}
	if err := t.exec(w.end); err != nil {
		return w.undo(err)
	}
	w.store.lastWrite.Store(time.Now().UnixNano())
	for _, c := range t.told {
		w.store.watchers.Tell(c.principal, c.key)
	}
	return nil
}

// undo rolls back what err has ended. SQLite has done so itself after some errors, and says then that there is nothing
// to roll back, which is no news; if it cannot, the next begin fails and says why.
func (w *writer) undo(err error) error {
	_, _ = w.rollback.ExecContext(context.Background())
	return err
}

// sweep removes some of the records whose time to live is over and some segments of deleted journals. The rows of a
// journal lie all over the file, so to remove many of them at once would make callers wait. What fails is tried again
// when the next purge is due.
func (w *writer) sweep() {
	w.litter = false
	var records, segments int64
	err := w.transact([]*op{{apply: func(t *tx) (err error) {
		if records, err = t.count(w.purgeRecords, w.store.cfg.Now().UnixMilli(), sweepRows); err != nil {
			return err
		}
		if segments, err = t.count(w.purgeSegments, sweepRows); err != nil || segments == sweepRows {
			return err
		}
		return t.exec(w.emptyGarbage)
	}}})
	if err != nil {
		w.store.cfg.Logger.Warn("removing what is over failed", "err", w.store.outside(err))
		return
	}
	w.litter = records == sweepRows || segments == sweepRows
}
