package storetest

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/acpgate/acpgate/sessions"
	"github.com/acpgate/acpgate/sessions/internal/watch"
	"github.com/acpgate/acpgate/sessions/journal"
)

var _ sessions.Store = (*Memory)(nil)

// Memory is a Store in maps: the model that the contract suite compares the others with, and a store for tests of what
// needs one. It never fails, but after Close. Time is time.Now, so it runs inside testing/synctest.
type Memory struct {
	watchers watch.Hub

	mu         sync.Mutex
	closed     bool
	version    uint64
	principals map[string]*space
}

// space is what one principal has.
type space struct {
	records  map[string]memRecord
	indexes  map[string]map[string]sessions.IndexRow
	journals map[string]*memJournal
	floor    uint64 // greatest epoch of a deleted journal
}

type memRecord struct {
	version uint64
	value   []byte
	expires time.Time // zero: never
}

type memJournal struct {
	info   sessions.JournalInfo // all but First, Events and Bytes
	events []journal.Event
}

// NewMemory returns an empty store.
func NewMemory() *Memory { return &Memory{principals: map[string]*space{}} }

// enter locks the store and returns the principal's space; the caller unlocks.
func (m *Memory) enter(ctx context.Context, principal string) (*space, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return nil, fmt.Errorf("%w: closed", sessions.ErrUnavailable)
	}
	p := m.principals[principal]
	if p == nil {
		p = &space{map[string]memRecord{}, map[string]map[string]sessions.IndexRow{}, map[string]*memJournal{}, 0}
		m.principals[principal] = p
	}
	return p, nil
}

func (p *space) record(key string) memRecord {
	r := p.records[key]
	if !r.expires.IsZero() && !time.Now().Before(r.expires) {
		return memRecord{}
	}
	return r
}

// Read implements sessions.Store.
func (m *Memory) Read(ctx context.Context, principal string, keys ...string) ([]sessions.Record, error) {
	if err := sessions.CheckRead(principal, keys); err != nil {
		return nil, err
	}
	p, err := m.enter(ctx, principal)
	if err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	out := make([]sessions.Record, len(keys))
	for i, key := range keys {
		r := p.record(key)
		out[i] = sessions.Record{Key: key, Version: r.version, Value: bytes.Clone(r.value)}
	}
	return out, nil
}

// Commit implements sessions.Store.
func (m *Memory) Commit(ctx context.Context, principal string, c sessions.Commit) error {
	if err := cmp.Or(sessions.CheckNames(principal), c.Check()); err != nil {
		return err
	}
	p, err := m.enter(ctx, principal)
	if err != nil {
		return err
	}
	defer m.mu.Unlock()
	for _, e := range c.Expect {
		if p.record(e.Key).version != e.Version {
			return fmt.Errorf("%w: %s", sessions.ErrConflict, e.Key)
		}
	}
	m.version++
	var changed []string
	for _, w := range c.Writes {
		changed = append(changed, w.Key)
		if w.Delete {
			delete(p.records, w.Key)
			continue
		}
		r := memRecord{version: m.version, value: append([]byte{}, w.Value...)}
		if w.TTL > 0 {
			r.expires = time.Now().Add(w.TTL)
		}
		p.records[w.Key] = r
	}
	for _, x := range c.Indexes {
		if x.Remove {
			delete(p.indexes[x.Index], x.Member)
			continue
		}
		if p.indexes[x.Index] == nil {
			p.indexes[x.Index] = map[string]sessions.IndexRow{}
		}
		p.indexes[x.Index][x.Member] = sessions.IndexRow{Member: x.Member, Score: x.Score, Value: append([]byte{}, x.Value...)}
	}
	m.watchers.Tell(principal, changed...)
	return nil
}

// Scan implements sessions.Store.
func (m *Memory) Scan(ctx context.Context, principal, index string, q sessions.Query) ([]sessions.IndexRow, error) {
	if err := sessions.CheckNames(principal, index); err != nil {
		return nil, err
	}
	p, err := m.enter(ctx, principal)
	if err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	order := func(a, b sessions.IndexRow) int {
		c := cmp.Or(cmp.Compare(b.Score, a.Score), strings.Compare(a.Member, b.Member))
		if q.Ascending {
			return -c
		}
		return c
	}
	rows := slices.SortedFunc(maps.Values(p.indexes[index]), order)
	if q.After != nil {
		rows = slices.DeleteFunc(rows, func(r sessions.IndexRow) bool { return order(r, *q.After) <= 0 })
	}
	return rows[:min(len(rows), q.Rows())], nil
}

// OpenJournal implements sessions.Store.
func (m *Memory) OpenJournal(ctx context.Context, principal, name string, fence, epoch uint64) (sessions.JournalInfo, error) {
	if err := cmp.Or(sessions.CheckNames(principal, name), sessions.CheckNumbers(fence, epoch)); err != nil {
		return sessions.JournalInfo{}, err
	}
	p, err := m.enter(ctx, principal)
	if err != nil {
		return sessions.JournalInfo{}, err
	}
	defer m.mu.Unlock()
	j := p.journals[name]
	if j == nil {
		j = &memJournal{}
	}
	info, err := j.state().Opened(fence, epoch, p.floor)
	if err != nil {
		return sessions.JournalInfo{}, err
	}
	j.info = info
	j.info.Clean = false
	p.journals[name] = j
	m.watchers.Tell(principal, "journal:"+name)
	return info, nil
}

func (j *memJournal) state() sessions.JournalInfo {
	info := j.info
	info.First, info.Events, info.Bytes = info.Next, int64(len(j.events)), 0
	for i, e := range j.events {
		if i == 0 {
			info.First = e.Seq
		}
		info.Bytes += int64(len(e.Data))
	}
	return info
}

// fenced returns the journal if fence may write it.
func (p *space) fenced(name string, fence uint64) (*memJournal, error) {
	j := p.journals[name]
	if j == nil {
		return nil, sessions.ErrNoJournal
	}
	if fence < j.info.Fence {
		return nil, sessions.ErrFenced
	}
	return j, nil
}

// Append implements sessions.Store.
func (m *Memory) Append(ctx context.Context, runs []sessions.Run) []error {
	errs := make([]error, len(runs))
	for i, run := range runs {
		if errs[i] = run.Check(); errs[i] == nil {
			errs[i] = m.append(ctx, run)
		}
	}
	return errs
}

func (m *Memory) append(ctx context.Context, run sessions.Run) error {
	p, err := m.enter(ctx, run.Principal)
	if err != nil {
		return err
	}
	defer m.mu.Unlock()
	j, err := p.fenced(run.Journal, run.Fence)
	if err != nil {
		return err
	}
	if run.Events[0].Seq != j.info.Next {
		return sessions.ErrGap
	}
	for _, e := range run.Events {
		e.Data = append([]byte{}, e.Data...)
		j.events = append(j.events, e)
	}
	j.info.Next += uint64(len(run.Events))
	j.info.Clean = false
	m.watchers.Tell(run.Principal, "journal:"+run.Journal)
	return nil
}

// ReadJournal implements sessions.Store.
func (m *Memory) ReadJournal(ctx context.Context, principal, name string, after uint64, maxBytes int) ([]journal.Event, error) {
	if err := cmp.Or(sessions.CheckNames(principal, name), sessions.CheckNumbers(after)); err != nil {
		return nil, err
	}
	p, err := m.enter(ctx, principal)
	if err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	j := p.journals[name]
	if j == nil {
		return nil, sessions.ErrNoJournal
	}
	if maxBytes <= 0 {
		maxBytes = sessions.DefaultReadBytes
	}
	var out []journal.Event
	for _, e := range j.events {
		if e.Seq <= after {
			continue
		}
		if maxBytes -= len(e.Data); maxBytes < 0 && len(out) > 0 {
			break
		}
		out = append(out, e)
	}
	return out, nil
}

// JournalInfo implements sessions.Store.
func (m *Memory) JournalInfo(ctx context.Context, principal, name string) (sessions.JournalInfo, error) {
	if err := sessions.CheckNames(principal, name); err != nil {
		return sessions.JournalInfo{}, err
	}
	p, err := m.enter(ctx, principal)
	if err != nil {
		return sessions.JournalInfo{}, err
	}
	defer m.mu.Unlock()
	j := p.journals[name]
	if j == nil {
		return sessions.JournalInfo{}, sessions.ErrNoJournal
	}
	return j.state(), nil
}

// Compact implements sessions.Store.
func (m *Memory) Compact(ctx context.Context, principal, name string, fence, upto uint64, folded []journal.Event) error {
	if err := cmp.Or(sessions.CheckNames(principal, name), sessions.CheckFolded(upto, folded), sessions.CheckNumbers(fence)); err != nil {
		return err
	}
	return m.change(ctx, principal, name, fence, func(j *memJournal) error {
		if upto >= j.info.Next {
			return fmt.Errorf("%w: compaction up to %d of a journal that ends before %d", sessions.ErrInvalid, upto, j.info.Next)
		}
		events := make([]journal.Event, 0, len(folded))
		for _, e := range folded {
			e.Data = append([]byte{}, e.Data...)
			events = append(events, e)
		}
		for _, e := range j.events {
			if e.Seq > upto {
				events = append(events, e)
			}
		}
		j.events = events
		return nil
	})
}

// CloseJournal implements sessions.Store.
func (m *Memory) CloseJournal(ctx context.Context, principal, name string, fence uint64) error {
	if err := cmp.Or(sessions.CheckNames(principal, name), sessions.CheckNumbers(fence)); err != nil {
		return err
	}
	return m.change(ctx, principal, name, fence, func(j *memJournal) error {
		j.info.Clean = true
		return nil
	})
}

// change lets f change a journal under fence, and tells it.
func (m *Memory) change(ctx context.Context, principal, name string, fence uint64, f func(*memJournal) error) error {
	p, err := m.enter(ctx, principal)
	if err != nil {
		return err
	}
	defer m.mu.Unlock()
	j, err := p.fenced(name, fence)
	if err != nil {
		return err
	}
	if err := f(j); err != nil {
		return err
	}
	m.watchers.Tell(principal, "journal:"+name)
	return nil
}

// DeleteJournal implements sessions.Store.
func (m *Memory) DeleteJournal(ctx context.Context, principal, name string) error {
	if err := sessions.CheckNames(principal, name); err != nil {
		return err
	}
	p, err := m.enter(ctx, principal)
	if err != nil {
		return err
	}
	defer m.mu.Unlock()
	if j := p.journals[name]; j != nil {
		p.floor = max(p.floor, j.info.Epoch)
		delete(p.journals, name)
		m.watchers.Tell(principal, "journal:"+name)
	}
	return nil
}

// Watch implements sessions.Store.
func (m *Memory) Watch(ctx context.Context, principal string) (<-chan sessions.Change, error) {
	if err := sessions.CheckNames(principal); err != nil {
		return nil, err
	}
	c := m.watchers.Watch(ctx, principal, nil)
	if c == nil {
		return nil, fmt.Errorf("%w: closed", sessions.ErrUnavailable)
	}
	return c, nil
}

// Check implements sessions.Store.
func (m *Memory) Check(ctx context.Context) error {
	_, err := m.enter(ctx, "check")
	if err == nil {
		m.mu.Unlock()
	}
	return err
}

// Close implements sessions.Store.
func (m *Memory) Close() error {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	m.watchers.Close()
	return nil
}
