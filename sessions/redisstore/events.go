package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/acpgate/acpgate/sessions"
	"github.com/acpgate/acpgate/sessions/internal/segment"
	"github.com/acpgate/acpgate/sessions/journal"
)

// Fields of a stream's entries.
const (
	fieldBefore = "b" // payload that was appended before it; not in folded ones
	fieldData   = "d"
)

// entry is a segment in a stream.
type entry struct {
	first  uint64
	before int64
	data   []byte
}

func parseEntry(m redis.XMessage) (entry, error) {
	id, _, _ := strings.Cut(m.ID, "-")
	first, err := strconv.ParseUint(id, 10, 64)
	data, there := m.Values[fieldData].(string)
	if err != nil || !there {
		return entry{}, fmt.Errorf("entry %s is not a segment", m.ID)
	}
	e := entry{first: first, data: []byte(data)}
	if before, there := m.Values[fieldBefore].(string); there {
		e.before, err = strconv.ParseInt(before, 10, 64)
	}
	return e, err
}

// call is one run of append.lua: a run, or several that follow each other in one journal.
type call struct {
	keys  []string
	args  []any
	next  uint64 // seq that a run must begin with to go along
	runs  []int  // places in the caller's list
	bytes int64
	cmd   once
}

// Append implements sessions.Store.
func (s *Store) Append(ctx context.Context, runs []sessions.Run) []error {
	errs := make([]error, len(runs))
	var calls []*call
	for i, r := range runs {
		if errs[i] = r.Check(); errs[i] != nil {
			continue
		}
		segments := segment.Pack(r.Events)
		if n := len(calls); n > 0 && s.joins(calls[n-1], runs[calls[n-1].runs[0]], r) {
			calls[n-1].add(i, segments)
			continue
		}
		j := s.space(r.Principal).journal(r.Journal)
		c := &call{keys: []string{j.header, j.tail, j.stream}, args: []any{fixed(r.Fence), r.Events[0].Seq, nil, j.channel(), j.change()}}
		c.add(i, segments)
		calls = append(calls, c)
	}
	for len(calls) > 0 {
		n, bytes := 0, int64(0)
		for n < len(calls) && n < s.cfg.PipelineRuns && (n == 0 || bytes+calls[n].bytes <= s.cfg.PipelineBytes) {
			bytes += calls[n].bytes
			n++
		}
		s.send(ctx, calls[:n], true, errs)
		calls = calls[n:]
	}
	return errs
}

// joins reports whether r goes on where c ends, so that one call can carry both: it saves work, and the answer for both
// is the same.
func (s *Store) joins(c *call, first, r sessions.Run) bool {
	return r.Principal == first.Principal && r.Journal == first.Journal && r.Fence == first.Fence && r.Events[0].Seq == c.next &&
		c.bytes < s.cfg.PipelineBytes
}

func (c *call) add(run int, segments []segment.Segment) {
	c.runs = append(c.runs, run)
	for _, seg := range segments {
		c.args = append(c.args, streamID(seg.First), seg.Bytes, seg.Data)
		c.bytes += int64(len(seg.Data))
		c.next = seg.Last + 1
	}
	c.args[2] = c.next
}

// send runs the calls in one pipeline and notes their results in errs. Those that Redis refuses because it does not
// know the script are sent again, with the script.
func (s *Store) send(ctx context.Context, calls []*call, known bool, errs []error) {
	for _, c := range calls {
		c.cmd = s.append.command(ctx, known, c.keys, c.args)
	}
	// The error of a pipeline is the first of its commands', which each have their own.
	if len(calls) == 1 {
		_ = s.client.Process(ctx, calls[0].cmd)
	} else {
		_, _ = s.client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for _, c := range calls {
				_ = pipe.Process(ctx, c.cmd)
			}
			return nil
		})
	}
	var again []*call
	for _, c := range calls {
		text, err := c.cmd.Text()
		if known && unknownScript(err) {
			again = append(again, c)
			continue
		}
		err = s.result(ctx, text, err)
		for _, i := range c.runs {
			errs[i] = err
		}
	}
	if len(again) > 0 {
		s.send(ctx, again, false, errs)
	}
}

// result is what append.lua said.
func (s *Store) result(ctx context.Context, text string, err error) error {
	switch {
	case err != nil:
		return s.outside(ctx, err)
	case text == "ok":
		return nil
	case text == "missing":
		return sessions.ErrNoJournal
	case text == "fenced":
		return sessions.ErrFenced
	case text == "gap":
		return sessions.ErrGap
	}
	return s.outside(ctx, fmt.Errorf("append.lua says %q", text))
}

const (
	firstEntries = 16   // of the first page of a read
	maxEntries   = 1024 // of any
)

// ReadJournal implements sessions.Store.
func (s *Store) ReadJournal(ctx context.Context, principal, name string, after uint64, maxBytes int) ([]journal.Event, error) {
	if err := cmp.Or(sessions.CheckNames(principal, name), sessions.CheckNumbers(after)); err != nil {
		return nil, err
	}
	if maxBytes <= 0 {
		maxBytes = sessions.DefaultReadBytes
	}
	for {
		r := &pager{s: s, j: s.space(principal).journal(name), left: maxBytes, after: after, entries: firstEntries}
		st, err := load(ctx, s.client, r.j)
		if err == nil {
			err = r.read(ctx, st)
		}
		if errors.Is(err, errChanged) {
			continue
		}
		if err != nil {
			return nil, s.inside(ctx, err)
		}
		return r.out, nil
	}
}

// errChanged says that the journal was compacted, opened or made anew while it was read.
var errChanged = errors.New("changed meanwhile")

// pager reads a journal page by page until it has what was asked for.
type pager struct {
	s       *Store
	j       journalKeys
	out     []journal.Event
	left    int    // bytes
	after   uint64 // seq of the last event read
	entries int    // of the next page
}

func (r *pager) read(ctx context.Context, st state) error {
	for r.after+1 < st.next {
		stream := r.j.stream
		if r.after < st.base {
			stream = r.j.folded
		}
		page, end, err := r.page(ctx, stream, st)
		if err != nil {
			return err
		}
		before := r.left
		for _, m := range page {
			if done, err := r.take(m); done || err != nil {
				return err
			}
		}
		if end {
			if stream == r.j.stream {
				return nil
			}
			r.after = st.base
		}
		// Twice as many, but not many more than are wanted: the entries of a journal are of all sizes.
		r.entries = min(2*r.entries, maxEntries, 1+r.left*(len(page)+1)/max(before-r.left, 1))
	}
	return nil
}

// page returns the segment that holds the event after r.after, if there is one, and some behind it. It tells whether
// the stream ends with them.
func (r *pager) page(ctx context.Context, stream string, st state) (page []redis.XMessage, end bool, err error) {
	at := streamID(min(r.after, math.MaxInt64-1) + 1)
	var head, rest *redis.XMessageSliceCmd
	var now *redis.SliceCmd
	_, err = r.s.client.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		now = pipe.HMGet(ctx, r.j.header, "folds", "epoch")
		head = pipe.XRevRangeN(ctx, stream, at, "-", 1)
		rest = pipe.XRangeN(ctx, stream, "("+at, "+", int64(r.entries))
		return nil
	})
	if err != nil {
		return nil, false, err
	}
	if fmt.Sprint(now.Val()...) != fmt.Sprint(strconv.FormatInt(st.folds, 10), strconv.FormatUint(st.epoch, 10)) {
		return nil, false, errChanged
	}
	return append(head.Val(), rest.Val()...), len(rest.Val()) < r.entries, nil
}

// take adds the events of a segment that are still to come. It reports whether the read has what it wants.
func (r *pager) take(m redis.XMessage) (done bool, err error) {
	e, err := parseEntry(m)
	if err != nil {
		return false, err
	}
	from := len(r.out)
	if r.out, err = segment.AppendTo(r.out, e.data, r.after); err != nil {
		return false, err
	}
	for i, ev := range r.out[from:] {
		if r.left -= len(ev.Data); r.left < 0 && from+i > 0 {
			r.out = r.out[:from+i]
			return true, nil
		}
		r.after = ev.Seq
	}
	return false, nil
}
