package sqlitestore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/acpgate/acpgate/sessions"
	"github.com/acpgate/acpgate/sessions/internal/segment"
	"github.com/acpgate/acpgate/sessions/journal"
)

// OpenJournal implements sessions.Store.
func (s *Store) OpenJournal(ctx context.Context, principal, name string, fence, epoch uint64) (info sessions.JournalInfo, err error) {
	if err := cmp.Or(sessions.CheckNames(principal, name), sessions.CheckNumbers(fence, epoch)); err != nil {
		return sessions.JournalInfo{}, err
	}
	err = s.write(ctx, 0, func(t *tx) error {
		_, info, err = scanJournal(t.row(t.w.getJournal, principal, name))
		if err != nil && !errors.Is(err, sessions.ErrNoJournal) {
			return err
		}
		var floor uint64
		if err := t.row(t.w.getFloor, principal).Scan(&floor); err != nil {
			return err
		}
		if info, err = info.Opened(fence, epoch, floor); err != nil {
			return err
		}
		t.tell(principal, "journal:"+name)
		return t.exec(t.w.putJournal, principal, name, info.Epoch, info.Fence, info.First, info.Next)
	})
	if err != nil {
		return sessions.JournalInfo{}, err
	}
	return info, nil
}

// scanJournal reads a row of journals. ErrNoJournal when there is none.
func scanJournal(row *sql.Row) (id int64, info sessions.JournalInfo, err error) {
	err = row.Scan(&id, &info.Epoch, &info.Fence, &info.First, &info.Next, &info.Events, &info.Bytes, &info.Clean)
	if errors.Is(err, sql.ErrNoRows) {
		err = sessions.ErrNoJournal
	}
	return id, info, err
}

// fenced returns the journal if fence may write it.
func (t *tx) fenced(principal, name string, fence uint64) (id int64, info sessions.JournalInfo, err error) {
	id, info, err = scanJournal(t.row(t.w.getJournal, principal, name))
	if err == nil && fence < info.Fence {
		err = sessions.ErrFenced
	}
	return id, info, err
}

// packed is a run that is ready to be written. Packing is the caller's work: the writer has more to do.
type packed struct {
	sessions.Run
	segments []segment.Segment
	bytes    int64
}

// Append implements sessions.Store.
func (s *Store) Append(ctx context.Context, runs []sessions.Run) []error {
	errs := make([]error, len(runs))
	ready := make([]packed, len(runs))
	var size int64
	for i, r := range runs {
		if errs[i] = r.Check(); errs[i] != nil {
			continue
		}
		ready[i] = packed{Run: r, segments: segment.Pack(r.Events)}
		for _, seg := range ready[i].segments {
			ready[i].bytes += seg.Bytes
		}
		size += ready[i].bytes
	}
	results := make([]error, len(runs))
	err := s.write(ctx, size, func(t *tx) error {
		for i := range ready {
			if errs[i] != nil {
				continue
			}
			if results[i] = t.append(&ready[i]); results[i] != nil && !contractual(results[i]) {
				return results[i]
			}
		}
		return nil
	})
	for i := range errs {
		errs[i] = cmp.Or(errs[i], err, results[i])
	}
	return errs
}

func (t *tx) append(r *packed) error {
	var id int64
	err := t.row(t.w.extendJournal, len(r.Events), r.bytes, r.Principal, r.Journal, r.Fence, r.Events[0].Seq).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		if _, _, err := t.fenced(r.Principal, r.Journal, r.Fence); err != nil {
			return err
		}
		return sessions.ErrGap
	}
	if err != nil {
		return err
	}
	t.tell(r.Principal, "journal:"+r.Journal)
	return t.add(id, r.segments)
}

func (t *tx) add(id int64, segments []segment.Segment) error {
	for _, seg := range segments {
		if err := t.exec(t.w.addSegment, id, seg.First, seg.Last, seg.Events, seg.Bytes, seg.Data); err != nil {
			return err
		}
	}
	return nil
}

// Compact implements sessions.Store.
func (s *Store) Compact(ctx context.Context, principal, name string, fence, upto uint64, folded []journal.Event) error {
	if err := cmp.Or(sessions.CheckNames(principal, name), sessions.CheckFolded(upto, folded), sessions.CheckNumbers(fence)); err != nil {
		return err
	}
	segments := segment.Pack(folded)
	for done := false; !done; {
		err := s.write(ctx, total(segments), func(t *tx) error {
			id, info, err := t.fenced(principal, name, fence)
			if err != nil {
				return err
			}
			if upto >= info.Next {
				return fmt.Errorf("%w: compaction up to %d of a journal that ends before %d", sessions.ErrInvalid, upto, info.Next)
			}
			step := upto
			if len(folded) == 0 {
				if step, err = t.step(id, upto); err != nil {
					return err
				}
			}
			done = step == upto
			t.tell(principal, "journal:"+name)
			return t.compact(id, info, step, segments)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// step returns how far a trim up to upto goes at once. A journal that is trimmed in part is a whole one, and so others
// need not wait until all of it is gone.
func (t *tx) step(id int64, upto uint64) (uint64, error) {
	var last uint64
	err := t.row(t.w.stepUpto, id, upto, sweepRows-1).Scan(&last)
	if errors.Is(err, sql.ErrNoRows) {
		return upto, nil
	}
	return min(last, upto), err
}

func total(segments []segment.Segment) (bytes int64) {
	for _, seg := range segments {
		bytes += seg.Bytes
	}
	return bytes
}

func (t *tx) compact(id int64, info sessions.JournalInfo, upto uint64, segments []segment.Segment) error {
	// The segment that upto lies in is packed anew, without what goes.
	var data []byte
	switch err := t.row(t.w.straddling, id, upto).Scan(&data); {
	case err == nil:
		rest, err := segment.AppendTo(nil, data, upto)
		if err != nil {
			return err
		}
		segments = append(segments[:len(segments):len(segments)], segment.Pack(rest)...)
	case !errors.Is(err, sql.ErrNoRows):
		return err
	}
	var events, bytes int64
	if err := t.row(t.w.headTotals, id, upto).Scan(&events, &bytes); err != nil {
		return err
	}
	if err := t.exec(t.w.dropHead, id, upto); err != nil {
		return err
	}
	if err := t.add(id, segments); err != nil {
		return err
	}
	info.Events -= events
	for _, seg := range segments {
		info.Events += seg.Events
	}
	info.Bytes += total(segments) - bytes
	var first sql.NullInt64
	if err := t.row(t.w.firstSegment, id).Scan(&first); err != nil {
		return err
	}
	info.First = info.Next
	if first.Valid {
		info.First = uint64(first.Int64)
	}
	return t.exec(t.w.shortenJournal, info.First, info.Events, info.Bytes, id)
}

// CloseJournal implements sessions.Store.
func (s *Store) CloseJournal(ctx context.Context, principal, name string, fence uint64) error {
	if err := cmp.Or(sessions.CheckNames(principal, name), sessions.CheckNumbers(fence)); err != nil {
		return err
	}
	return s.write(ctx, 0, func(t *tx) error {
		id, _, err := t.fenced(principal, name, fence)
		if err != nil {
			return err
		}
		t.tell(principal, "journal:"+name)
		return t.exec(t.w.closeJournal, id)
	})
}

// DeleteJournal implements sessions.Store.
func (s *Store) DeleteJournal(ctx context.Context, principal, name string) error {
	if err := sessions.CheckNames(principal, name); err != nil {
		return err
	}
	return s.write(ctx, 0, func(t *tx) error {
		id, info, err := scanJournal(t.row(t.w.getJournal, principal, name))
		if errors.Is(err, sessions.ErrNoJournal) {
			return nil
		}
		if err != nil {
			return err
		}
		t.tell(principal, "journal:"+name)
		t.w.litter = true
		return cmp.Or(
			t.exec(t.w.dropJournal, id),
			t.exec(t.w.raiseFloor, principal, info.Epoch),
			t.exec(t.w.addGarbage, id),
		)
	})
}
