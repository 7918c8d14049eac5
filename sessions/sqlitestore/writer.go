package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

// op is a call that writes. apply may run more than once, each time in a new transaction.
type op struct {
	size  int64
	apply func(*tx) error
	err   error
	done  chan struct{}
}

// write hands apply to the writer and waits for the commit that carries it. size is about how many bytes it writes. ctx ends the
// wait for the writer; what the writer has begun is waited for.
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
	statements
}

func newWriter(ctx context.Context, s *Store) (*writer, error) {
	w := &writer{store: s}
	if err := s.conn.QueryRowContext(ctx, "SELECT version FROM meta").Scan(&w.version); err != nil {
		return nil, err
	}
	return w, w.prepare(ctx, s.conn)
}

func (w *writer) run() {
	purge := time.NewTicker(w.store.cfg.PurgeEvery)
	defer purge.Stop()
	for {
		select {
		case o := <-w.store.ops:
			w.commit(w.gather(o))
		case <-purge.C:
			if err := w.purge(); err != nil {
				w.store.cfg.Logger.Warn("removing records whose time is over failed", "err", w.store.outside(err))
			}
		case <-w.store.closing:
			return
		}
	}
}

// gather returns first and the calls that wait behind it, within the bounds of a group. The channel has no buffer: a call in it is
// one whose caller waits.
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
	for _, o := range group {
		if err != nil {
			o.err = err
		}
		close(o.done)
	}
	if err != nil {
		w.store.failed.Store(true)
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

// undo rolls back what err has ended. SQLite has done so itself after some errors, and says then that there is nothing to roll back,
// which is no news; if it cannot, the next begin fails and says why.
func (w *writer) undo(err error) error {
	_, _ = w.rollback.ExecContext(context.Background())
	return err
}

const purgeRows = 1000 // records of one transaction of purge

// purge removes records whose time to live is over.
func (w *writer) purge() error {
	for {
		var n int64
		err := w.transact([]*op{{apply: func(t *tx) error {
			result, err := w.purgeRecords.ExecContext(context.Background(), w.store.cfg.Now().UnixMilli(), purgeRows)
			if err != nil {
				return err
			}
			n, err = result.RowsAffected()
			return err
		}}})
		if err != nil || n < purgeRows {
			return err
		}
	}
}

// statements are the writer's, each prepared once.
type statements struct {
	begin, end, rollback                                                     *sql.Stmt
	setVersion, setChecked, setProbe                                         *sql.Stmt
	getVersion, setRecord, deleteRecord, purgeRecords                        *sql.Stmt
	setMember, deleteMember                                                  *sql.Stmt
	getJournal, putJournal, extendJournal, dropJournal                       *sql.Stmt
	closeJournal, shortenJournal, getFloor, raiseFloor                       *sql.Stmt
	addSegment, straddling, headTotals, dropHead, firstSegment, dropSegments *sql.Stmt
}

func (st *statements) prepare(ctx context.Context, conn *sql.Conn) error {
	const expired = "expires IS NOT NULL AND expires <= ?"
	var errs []error
	for stmt, text := range map[**sql.Stmt]string{
		&st.begin:    "BEGIN IMMEDIATE",
		&st.end:      "COMMIT",
		&st.rollback: "ROLLBACK",

		&st.setVersion: "UPDATE meta SET version = ?",
		&st.setChecked: "UPDATE meta SET checked = ?",
		&st.setProbe:   "UPDATE meta SET probe = ?",

		&st.getVersion: "SELECT version FROM records WHERE principal = ? AND key = ? AND NOT (" + expired + ")",
		&st.setRecord: `INSERT INTO records (principal, key, version, expires, value) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT DO UPDATE SET version = excluded.version, expires = excluded.expires, value = excluded.value`,
		&st.deleteRecord: "DELETE FROM records WHERE principal = ? AND key = ?",
		&st.purgeRecords: "DELETE FROM records WHERE rowid IN (SELECT rowid FROM records WHERE " + expired + " LIMIT ?)",

		&st.setMember: `INSERT INTO members (principal, list, member, score, value) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT DO UPDATE SET score = excluded.score, value = excluded.value`,
		&st.deleteMember: "DELETE FROM members WHERE principal = ? AND list = ? AND member = ?",

		&st.getJournal: "SELECT id, epoch, fence, first, next, events, bytes, clean FROM journals WHERE principal = ? AND name = ?",
		&st.putJournal: `INSERT INTO journals (principal, name, epoch, fence, first, next, events, bytes, clean) VALUES (?, ?, ?, ?, ?, ?, 0, 0, 0)
			ON CONFLICT DO UPDATE SET epoch = excluded.epoch, fence = excluded.fence, clean = 0`,
		&st.extendJournal: `UPDATE journals SET next = next + ?1, events = events + ?1, bytes = bytes + ?2, clean = 0
			WHERE principal = ?3 AND name = ?4 AND fence <= ?5 AND next = ?6 RETURNING id`,
		&st.closeJournal:   "UPDATE journals SET clean = 1 WHERE id = ?",
		&st.shortenJournal: "UPDATE journals SET first = ?, events = ?, bytes = ? WHERE id = ?",
		&st.dropJournal:    "DELETE FROM journals WHERE id = ?",
		&st.getFloor:       "SELECT coalesce(max(epoch), 0) FROM floors WHERE principal = ?",
		&st.raiseFloor:     "INSERT INTO floors (principal, epoch) VALUES (?, ?) ON CONFLICT DO UPDATE SET epoch = max(epoch, excluded.epoch)",

		&st.addSegment:   "INSERT INTO segments (journal, first, last, events, bytes, data) VALUES (?, ?, ?, ?, ?, ?)",
		&st.straddling:   "SELECT data FROM segments WHERE journal = ?1 AND first <= ?2 AND last > ?2",
		&st.headTotals:   "SELECT coalesce(sum(events), 0), coalesce(sum(bytes), 0) FROM segments WHERE journal = ? AND first <= ?",
		&st.dropHead:     "DELETE FROM segments WHERE journal = ? AND first <= ?",
		&st.firstSegment: "SELECT min(first) FROM segments WHERE journal = ?",
		&st.dropSegments: "DELETE FROM segments WHERE journal = ?",
	} {
		var err error
		*stmt, err = conn.PrepareContext(ctx, text)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
