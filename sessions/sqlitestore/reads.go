package sqlitestore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"math"
	"strings"

	"github.com/acpgate/acpgate/sessions"
	"github.com/acpgate/acpgate/sessions/internal/segment"
	"github.com/acpgate/acpgate/sessions/journal"
)

// readStatements are prepared once; database/sql keeps them for each connection.
type readStatements struct {
	descending, ascending, journal, segments *sql.Stmt
}

func (r *readStatements) prepare(ctx context.Context, db *sql.DB) error {
	var errs []error
	for stmt, text := range map[**sql.Stmt]string{
		&r.descending: `SELECT member, score, value FROM members WHERE principal = ?1 AND list = ?2
			AND score <= ?3 AND (score < ?3 OR member > ?4) ORDER BY score DESC, member ASC LIMIT ?5`,
		&r.ascending: `SELECT member, score, value FROM members WHERE principal = ?1 AND list = ?2
			AND score >= ?3 AND (score > ?3 OR member < ?4) ORDER BY score ASC, member DESC LIMIT ?5`,
		&r.journal: "SELECT id, epoch, fence, first, next, events, bytes, clean FROM journals WHERE principal = ? AND name = ?",
		// From the segment that holds the event after ?3, or lies behind it.
		&r.segments: `SELECT s.data FROM journals j JOIN segments s ON s.journal = j.id
			WHERE j.principal = ?1 AND j.name = ?2 AND s.last > ?3
			AND s.first >= coalesce((SELECT max(first) FROM segments WHERE journal = j.id AND first <= ?3 + 1), 0) ORDER BY s.first`,
	} {
		var err error
		*stmt, err = db.PrepareContext(ctx, text)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// inside makes an error of a read one of the contract. The driver does not always say that it was ctx that ended a query.
func (s *Store) inside(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	return s.outside(err)
}

// Read implements sessions.Store.
func (s *Store) Read(ctx context.Context, principal string, keys ...string) ([]sessions.Record, error) {
	if err := sessions.CheckRead(principal, keys); err != nil || len(keys) == 0 {
		return nil, err
	}
	found, err := s.read(ctx, principal, keys)
	if err != nil {
		return nil, s.inside(ctx, err)
	}
	out := make([]sessions.Record, len(keys))
	for i, key := range keys {
		out[i] = found[key]
		out[i].Key = key
	}
	return out, nil
}

// read finds the records in one statement, and so as of one moment.
func (s *Store) read(ctx context.Context, principal string, keys []string) (map[string]sessions.Record, error) {
	args := make([]any, 0, 2+len(keys))
	args = append(args, principal, s.cfg.Now().UnixMilli())
	for _, key := range keys {
		args = append(args, key)
	}
	rows, err := s.readerDB.QueryContext(ctx, `SELECT key, version, value FROM records WHERE principal = ? AND (expires IS NULL OR expires > ?)
		AND key IN (?`+strings.Repeat(", ?", len(keys)-1)+")", args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	found := map[string]sessions.Record{}
	for rows.Next() {
		var r sessions.Record
		if err := rows.Scan(&r.Key, &r.Version, &r.Value); err != nil {
			return nil, err
		}
		found[r.Key] = r
	}
	return found, rows.Err()
}

// Scan implements sessions.Store.
func (s *Store) Scan(ctx context.Context, principal, index string, q sessions.Query) ([]sessions.IndexRow, error) {
	if err := sessions.CheckNames(principal, index); err != nil {
		return nil, err
	}
	stmt, score, member := s.reads.descending, int64(math.MaxInt64), ""
	if q.Ascending {
		stmt, score, member = s.reads.ascending, math.MinInt64, strings.Repeat("\xff", sessions.MaxNameBytes+1) // after every name
	}
	if q.After != nil {
		score, member = q.After.Score, q.After.Member
	}
	rows, err := s.scan(ctx, stmt, principal, index, score, member, q.Rows())
	return rows, s.inside(ctx, err)
}

func (s *Store) scan(ctx context.Context, stmt *sql.Stmt, args ...any) ([]sessions.IndexRow, error) {
	rows, err := stmt.QueryContext(ctx, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []sessions.IndexRow
	for rows.Next() {
		var r sessions.IndexRow
		if err := rows.Scan(&r.Member, &r.Score, &r.Value); err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, rows.Err()
}

// JournalInfo implements sessions.Store.
func (s *Store) JournalInfo(ctx context.Context, principal, name string) (sessions.JournalInfo, error) {
	if err := sessions.CheckNames(principal, name); err != nil {
		return sessions.JournalInfo{}, err
	}
	_, info, err := scanJournal(s.reads.journal.QueryRowContext(ctx, principal, name))
	return info, s.inside(ctx, err)
}

// ReadJournal implements sessions.Store.
func (s *Store) ReadJournal(ctx context.Context, principal, name string, after uint64, maxBytes int) ([]journal.Event, error) {
	if err := cmp.Or(sessions.CheckNames(principal, name), sessions.CheckNumbers(after)); err != nil {
		return nil, err
	}
	if maxBytes <= 0 {
		maxBytes = sessions.DefaultReadBytes
	}
	events, err := s.events(ctx, principal, name, min(after, math.MaxInt64-1), maxBytes)
	if err == nil && len(events) == 0 {
		_, err = s.JournalInfo(ctx, principal, name)
	}
	return events, s.inside(ctx, err)
}

func (s *Store) events(ctx context.Context, principal, name string, after uint64, maxBytes int) ([]journal.Event, error) {
	rows, err := s.reads.segments.QueryContext(ctx, principal, name, after)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []journal.Event
	for taken := 0; rows.Next(); {
		var data []byte
		if err := rows.Scan(&data); err != nil {
			return nil, err
		}
		from := len(out)
		if out, err = segment.AppendTo(out, data, after); err != nil {
			return nil, err
		}
		for i, e := range out[from:] {
			if taken += len(e.Data); taken > maxBytes && from+i > 0 {
				return out[:from+i], nil
			}
		}
	}
	return out, rows.Err()
}
