package sqlitestore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/acpgate/acpgate/sessions"
)

// Commit implements sessions.Store.
func (s *Store) Commit(ctx context.Context, principal string, c sessions.Commit) error {
	if err := cmp.Or(sessions.CheckNames(principal), c.Check()); err != nil {
		return err
	}
	var size int64
	for _, w := range c.Writes {
		size += int64(len(w.Value))
	}
	return s.write(ctx, size, func(t *tx) error { return t.commit(principal, c, s.cfg.Now()) })
}

func (t *tx) commit(principal string, c sessions.Commit, now time.Time) error {
	for _, e := range c.Expect {
		var version uint64
		err := t.row(t.w.getVersion, principal, e.Key, now.UnixMilli()).Scan(&version)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		if version != e.Version {
			return fmt.Errorf("%w: %s", sessions.ErrConflict, e.Key)
		}
	}
	version := t.next()
	for _, w := range c.Writes {
		if err := t.put(principal, w, version, now); err != nil {
			return err
		}
		t.tell(principal, w.Key)
	}
	for _, x := range c.Indexes {
		var err error
		if x.Remove {
			err = t.exec(t.w.deleteMember, principal, x.Index, x.Member)
		} else {
			err = t.exec(t.w.setMember, principal, x.Index, x.Member, x.Score, blob(x.Value))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (t *tx) put(principal string, w sessions.Write, version uint64, now time.Time) error {
	if w.Delete {
		return t.exec(t.w.deleteRecord, principal, w.Key)
	}
	var expires any
	if w.TTL > 0 {
		// Up to the next millisecond: a record never ends before its time.
		expires = now.Add(w.TTL + time.Millisecond - 1).UnixMilli()
	}
	return t.exec(t.w.setRecord, principal, w.Key, version, expires, blob(w.Value))
}

// blob keeps an empty value from being NULL.
func blob(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}
