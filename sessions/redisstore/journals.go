package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/acpgate/acpgate/sessions"
	"github.com/acpgate/acpgate/sessions/internal/segment"
	"github.com/acpgate/acpgate/sessions/journal"
)

// state is what Redis keeps of a journal beside its segments.
type state struct {
	// The header.
	epoch, fence uint64
	clean        bool
	// Events up to base are those of the folded stream, if they are anywhere. cum is the payload that was ever appended
	// up to base; folds counts compactions, so that a reader sees that one came in between.
	base          uint64
	cum           int64
	folds         int64
	first         uint64 // seq of the first folded event, when there are any
	folded, bytes int64  // folded events, and their payload

	// The tail.
	next  uint64
	total int64 // payload ever appended
}

func (st state) info() sessions.JournalInfo {
	info := sessions.JournalInfo{
		Epoch: st.epoch, Fence: st.fence, Clean: st.clean, First: st.base + 1, Next: st.next,
		Events: st.folded + int64(st.next-1-st.base), Bytes: st.bytes + st.total - st.cum,
	}
	if st.folded > 0 {
		info.First = st.first
	}
	return info
}

// header is the header as arguments of HSET.
func (st state) header() []any {
	clean := 0
	if st.clean {
		clean = 1
	}
	return []any{
		"epoch", st.epoch, "fence", fixed(st.fence), "clean", clean, "base", st.base, "cum", st.cum, "folds", st.folds,
		"first", st.first, "folded", st.folded, "bytes", st.bytes,
	}
}

// parseState reads what HGETALL gave for header and tail. ErrNoJournal when there is none.
func parseState(header, tail map[string]string) (st state, err error) {
	if len(header) == 0 {
		return state{}, sessions.ErrNoJournal
	}
	number := func(text string) uint64 {
		n, parseErr := strconv.ParseUint(text, 10, 64)
		err = cmp.Or(err, parseErr)
		return n
	}
	signed := func(text string) int64 {
		n, parseErr := strconv.ParseInt(text, 10, 64)
		err = cmp.Or(err, parseErr)
		return n
	}
	st = state{
		epoch: number(header["epoch"]), fence: number(header["fence"]), clean: header["clean"] == "1",
		base: number(header["base"]), cum: signed(header["cum"]), folds: signed(header["folds"]),
		first: number(header["first"]), folded: signed(header["folded"]), bytes: signed(header["bytes"]),
		next: number(tail["next"]), total: signed(tail["bytes"]),
	}
	return st, err
}

// load reads a journal's state as of one moment, through the client or a watching connection.
func load(ctx context.Context, c redis.Cmdable, j journalKeys) (state, error) {
	var header, tail *redis.MapStringStringCmd
	_, err := c.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		header, tail = pipe.HGetAll(ctx, j.header), pipe.HGetAll(ctx, j.tail)
		return nil
	})
	if err != nil {
		return state{}, err
	}
	return parseState(header.Val(), tail.Val())
}

// inside keeps the errors of the contract and makes all others ErrUnavailable.
func (s *Store) inside(ctx context.Context, err error) error {
	for _, kind := range []error{sessions.ErrFenced, sessions.ErrNoJournal, sessions.ErrInvalid} {
		if errors.Is(err, kind) {
			return err
		}
	}
	return s.outside(ctx, err)
}

// change lets decide look at a journal and say what is written, and writes it unless the header has changed meanwhile:
// then decide is asked again. st.next is 0 when there is no journal; appends that come in between do not disturb.
func (s *Store) change(ctx context.Context, j journalKeys, decide func(tx *redis.Tx, st state) (func(redis.Pipeliner), error)) error {
	for {
		decided := false
		err := s.client.Watch(ctx, func(tx *redis.Tx) error {
			decided = true
			header, err := tx.HGetAll(ctx, j.header).Result()
			if err != nil {
				return err
			}
			tail, err := tx.HGetAll(ctx, j.tail).Result()
			if err != nil {
				return err
			}
			st, err := parseState(header, tail)
			if err != nil && !errors.Is(err, sessions.ErrNoJournal) {
				return err
			}
			write, err := decide(tx, st)
			if err != nil || write == nil {
				return err
			}
			_, err = tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
				write(pipe)
				pipe.Publish(ctx, j.channel(), j.change())
				return nil
			})
			return err
		}, j.header, j.floor())
		if err == nil && !decided { // go-redis says nil when all redirections of a cluster were in vain
			err = errNoNode
		}
		if !errors.Is(err, redis.TxFailedErr) || ctx.Err() != nil {
			return s.inside(ctx, err)
		}
	}
}

var errNoNode = errors.New("no node of the cluster takes the command")

// fenced is an error when there is no journal, or fence may not write it.
func (st state) fenced(fence uint64) error {
	switch {
	case st.next == 0:
		return sessions.ErrNoJournal
	case fence < st.fence:
		return sessions.ErrFenced
	}
	return nil
}

// OpenJournal implements sessions.Store.
func (s *Store) OpenJournal(ctx context.Context, principal, name string, fence, epoch uint64) (sessions.JournalInfo, error) {
	if err := cmp.Or(sessions.CheckNames(principal, name), sessions.CheckNumbers(fence, epoch)); err != nil {
		return sessions.JournalInfo{}, err
	}
	j := s.space(principal).journal(name)
	var st state
	var clean bool
	var tail *redis.MapStringStringCmd
	err := s.change(ctx, j, func(tx *redis.Tx, found state) (func(redis.Pipeliner), error) {
		floor, err := tx.Get(ctx, j.floor()).Uint64()
		if err != nil && !errors.Is(err, redis.Nil) {
			return nil, err
		}
		var before sessions.JournalInfo
		if found.next > 0 {
			before = found.info()
		}
		info, err := before.Opened(fence, epoch, floor)
		if err != nil {
			return nil, err
		}
		st, clean = found, info.Clean
		st.epoch, st.fence, st.clean = info.Epoch, info.Fence, false
		return func(pipe redis.Pipeliner) {
			pipe.HSet(ctx, j.header, st.header()...)
			if found.next == 0 {
				pipe.HSet(ctx, j.tail, "next", 1, "bytes", 0)
			}
			tail = pipe.HGetAll(ctx, j.tail) // the owner before this one may have appended until now
		}, nil
	})
	if err != nil {
		return sessions.JournalInfo{}, err
	}
	last, err := strconv.ParseUint(tail.Val()["next"], 10, 64)
	total, err2 := strconv.ParseInt(tail.Val()["bytes"], 10, 64)
	if err := errors.Join(err, err2); err != nil {
		return sessions.JournalInfo{}, s.outside(ctx, err)
	}
	st.next, st.total = last, total
	info := st.info()
	info.Clean = clean
	return info, nil
}

// JournalInfo implements sessions.Store.
func (s *Store) JournalInfo(ctx context.Context, principal, name string) (sessions.JournalInfo, error) {
	if err := sessions.CheckNames(principal, name); err != nil {
		return sessions.JournalInfo{}, err
	}
	st, err := load(ctx, s.client, s.space(principal).journal(name))
	if err != nil {
		return sessions.JournalInfo{}, s.inside(ctx, err)
	}
	return st.info(), nil
}

// Compact implements sessions.Store.
func (s *Store) Compact(ctx context.Context, principal, name string, fence, upto uint64, folded []journal.Event) error {
	if err := cmp.Or(sessions.CheckNames(principal, name), sessions.CheckFolded(upto, folded), sessions.CheckNumbers(fence)); err != nil {
		return err
	}
	j := s.space(principal).journal(name)
	return s.change(ctx, j, func(tx *redis.Tx, st state) (func(redis.Pipeliner), error) {
		if err := st.fenced(fence); err != nil {
			return nil, err
		}
		if upto >= st.next {
			return nil, fmt.Errorf("%w: compaction up to %d of a journal that ends before %d", sessions.ErrInvalid, upto, st.next)
		}
		events, keep := folded, uint64(0)
		var err error
		if upto < st.base {
			// What was folded already and lies behind upto stays.
			if events, err = foldedAfter(ctx, tx, j, upto, folded); err != nil {
				return nil, err
			}
		} else if keep, err = st.cut(ctx, tx, j, upto); err != nil {
			return nil, err
		}
		st.folds++
		st.first, st.folded, st.bytes = 0, int64(len(events)), 0
		for i, e := range events {
			if i == 0 {
				st.first = e.Seq
			}
			st.bytes += int64(len(e.Data))
		}
		return func(pipe redis.Pipeliner) {
			pipe.HSet(ctx, j.header, st.header()...)
			if keep > 0 {
				pipe.XTrimMinID(ctx, j.stream, streamID(keep))
			}
			pipe.Del(ctx, j.folded)
			for _, seg := range segment.Pack(events) {
				pipe.XAdd(ctx, &redis.XAddArgs{Stream: j.folded, ID: streamID(seg.First), Values: []any{fieldData, seg.Data}})
			}
		}, nil
	})
}

// cut moves the base to upto and returns the seq of the first segment that is still needed. The segment that upto lies
// in stays whole; readers leave out what is not behind the base.
func (st *state) cut(ctx context.Context, tx *redis.Tx, j journalKeys, upto uint64) (keep uint64, err error) {
	if upto == st.base {
		return 0, nil
	}
	entries, err := tx.XRevRangeN(ctx, j.stream, streamID(upto), "-", 1).Result()
	if err != nil {
		return 0, err
	}
	if len(entries) == 0 {
		return 0, fmt.Errorf("journal %s has no segment of event %d", j.name, upto)
	}
	seg, err := parseEntry(entries[0])
	if err != nil {
		return 0, err
	}
	events, err := segment.AppendTo(nil, seg.data, 0)
	if err != nil {
		return 0, err
	}
	st.base, st.cum, keep = upto, seg.before, upto+1
	for _, e := range events {
		if e.Seq <= upto {
			st.cum += int64(len(e.Data))
		} else {
			keep = seg.first
		}
	}
	return keep, nil
}

// foldedAfter returns events and behind them the folded ones with a seq greater than upto.
func foldedAfter(ctx context.Context, tx *redis.Tx, j journalKeys, upto uint64, events []journal.Event) ([]journal.Event, error) {
	entries, err := tx.XRange(ctx, j.folded, "-", "+").Result()
	if err != nil {
		return nil, err
	}
	events = events[:len(events):len(events)]
	for _, entry := range entries {
		seg, err := parseEntry(entry)
		if err != nil {
			return nil, err
		}
		if events, err = segment.AppendTo(events, seg.data, upto); err != nil {
			return nil, err
		}
	}
	return events, nil
}

// CloseJournal implements sessions.Store.
func (s *Store) CloseJournal(ctx context.Context, principal, name string, fence uint64) error {
	if err := cmp.Or(sessions.CheckNames(principal, name), sessions.CheckNumbers(fence)); err != nil {
		return err
	}
	j := s.space(principal).journal(name)
	return s.change(ctx, j, func(_ *redis.Tx, st state) (func(redis.Pipeliner), error) {
		if err := st.fenced(fence); err != nil {
			return nil, err
		}
		return func(pipe redis.Pipeliner) { pipe.HSet(ctx, j.header, "clean", 1) }, nil
	})
}

// DeleteJournal implements sessions.Store.
func (s *Store) DeleteJournal(ctx context.Context, principal, name string) error {
	if err := sessions.CheckNames(principal, name); err != nil {
		return err
	}
	j := s.space(principal).journal(name)
	return s.change(ctx, j, func(tx *redis.Tx, st state) (func(redis.Pipeliner), error) {
		if st.next == 0 {
			return nil, nil
		}
		floor, err := tx.Get(ctx, j.floor()).Uint64()
		if err != nil && !errors.Is(err, redis.Nil) {
			return nil, err
		}
		return func(pipe redis.Pipeliner) {
			pipe.Set(ctx, j.floor(), max(floor, st.epoch), 0)
			pipe.Unlink(ctx, j.header, j.tail, j.stream, j.folded)
		}, nil
	})
}
