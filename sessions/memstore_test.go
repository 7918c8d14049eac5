package sessions_test

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"github.com/acpgate/acpgate/sessions"
	"github.com/acpgate/acpgate/sessions/journal"
)

var _ sessions.Store = (*memStore)(nil)

// memStore is a store in memory with a switch that makes it unavailable: for tests of time and of faults. The rules are
// proved on the real stores too, in stores_test.go.
type memStore struct {
	mu       sync.Mutex
	version  uint64
	records  map[[2]string]memRecord
	indexes  map[[2]string]map[string]sessions.IndexRow
	journals map[[2]string]*memJournal
	fail     error
	appends  int
	onCommit func() // called once, before the next commit is looked at
	onAppend func() // called once, before the next append
	noAppend bool
	broken   string // name of a journal that takes nothing any more
}

type memRecord struct {
	sessions.Record
	until time.Time
}

type memJournal struct {
	info   sessions.JournalInfo
	events []journal.Event
}

func newMemStore() *memStore {
	return &memStore{
		records: map[[2]string]memRecord{}, indexes: map[[2]string]map[string]sessions.IndexRow{}, journals: map[[2]string]*memJournal{},
	}
}

// break makes every call fail with err until it is nil again.
func (m *memStore) setFail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fail = err
}

func (m *memStore) Read(_ context.Context, principal string, keys ...string) ([]sessions.Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail != nil {
		return nil, m.fail
	}
	if err := sessions.CheckRead(principal, keys); err != nil {
		return nil, err
	}
	out := make([]sessions.Record, len(keys))
	for i, k := range keys {
		out[i].Key = k
		if r, ok := m.records[[2]string{principal, k}]; ok && (r.until.IsZero() || time.Now().Before(r.until)) {
			out[i] = r.Record
		}
	}
	return out, nil
}

func (m *memStore) Commit(_ context.Context, principal string, c sessions.Commit) error {
	m.mu.Lock()
	hook := m.onCommit
	m.onCommit = nil
	m.mu.Unlock()
	if hook != nil {
		hook()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail != nil {
		return m.fail
	}
	if err := c.Check(); err != nil {
		return err
	}
	for _, e := range c.Expect {
		if m.records[[2]string{principal, e.Key}].Version != e.Version {
			return sessions.ErrConflict
		}
	}
	for _, w := range c.Writes {
		k := [2]string{principal, w.Key}
		if w.Delete {
			delete(m.records, k)
			continue
		}
		m.version++
		r := memRecord{Record: sessions.Record{Key: w.Key, Version: m.version, Value: slices.Clone(w.Value)}}
		if w.TTL > 0 {
			r.until = time.Now().Add(w.TTL)
		}
		m.records[k] = r
	}
	for _, x := range c.Indexes {
		k := [2]string{principal, x.Index}
		if m.indexes[k] == nil {
			m.indexes[k] = map[string]sessions.IndexRow{}
		}
		if x.Remove {
			delete(m.indexes[k], x.Member)
		} else {
			m.indexes[k][x.Member] = sessions.IndexRow{Member: x.Member, Score: x.Score, Value: slices.Clone(x.Value)}
		}
	}
	return nil
}

// breakJournal makes appends to the journal fail for good.
func (m *memStore) breakJournal(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.broken = name
}

// failAppends makes every append fail, or ends that.
func (m *memStore) failAppends(fail bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.noAppend = fail
}

// beforeAppend makes the next append call f first.
func (m *memStore) beforeAppend(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.onAppend = f
}

// before makes the next commit call f first.
func (m *memStore) before(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.onCommit = f
}

// members are those of an index of the principal "local".
func (m *memStore) members(index string) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []string
	for k := range m.indexes[[2]string{"local", index}] {
		out = append(out, k)
	}
	sort.Strings(out)
	return out
}

// has reports whether the principal "local" has a record or a journal of that name.
func (m *memStore) has(name string) (record, events bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := [2]string{"local", name}
	_, record = m.records[k]
	return record, m.journals[k] != nil
}

func (m *memStore) Scan(_ context.Context, principal, index string, q sessions.Query) ([]sessions.IndexRow, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail != nil {
		return nil, m.fail
	}
	var rows []sessions.IndexRow
	for _, r := range m.indexes[[2]string{principal, index}] {
		rows = append(rows, r)
	}
	sort.Slice(rows, func(i, j int) bool {
		if rows[i].Score != rows[j].Score {
			return rows[i].Score > rows[j].Score
		}
		return rows[i].Member < rows[j].Member
	})
	if a := q.After; a != nil {
		i := sort.Search(len(rows), func(i int) bool {
			return rows[i].Score < a.Score || (rows[i].Score == a.Score && rows[i].Member > a.Member)
		})
		rows = rows[i:]
	}
	return rows[:min(len(rows), max(q.Limit, 1))], nil
}

func (m *memStore) OpenJournal(_ context.Context, principal, name string, fence, epoch uint64) (sessions.JournalInfo, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail != nil {
		return sessions.JournalInfo{}, m.fail
	}
	k := [2]string{principal, name}
	j := m.journals[k]
	switch {
	case j == nil:
		j = &memJournal{info: sessions.JournalInfo{Epoch: epoch, First: 1, Next: 1, Clean: true}}
		m.journals[k] = j
	case j.info.Fence > fence:
		return sessions.JournalInfo{}, sessions.ErrFenced
	case !j.info.Clean:
		j.info.Epoch = max(epoch, j.info.Epoch+1)
	}
	j.info.Fence = fence
	found := j.info
	j.info.Clean = false
	return found, nil
}

func (m *memStore) Append(_ context.Context, runs []sessions.Run) []error {
	m.mu.Lock()
	hook := m.onAppend
	m.onAppend = nil
	m.mu.Unlock()
	if hook != nil {
		hook()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]error, len(runs))
	for i, r := range runs {
		j := m.journals[[2]string{r.Principal, r.Journal}]
		switch {
		case m.fail != nil:
			out[i] = m.fail
		case m.noAppend:
			out[i] = sessions.ErrUnavailable
		case j == nil || r.Journal == m.broken:
			out[i] = sessions.ErrNoJournal
		case j.info.Fence > r.Fence:
			out[i] = sessions.ErrFenced
		case j.info.Next != r.Events[0].Seq:
			out[i] = fmt.Errorf("%w: %d after %d", sessions.ErrGap, r.Events[0].Seq, j.info.Next)
		default:
			for _, e := range r.Events {
				e.Data = slices.Clone(e.Data)
				j.events = append(j.events, e)
				j.info.Next = e.Seq + 1
			}
			j.info.Clean = false
			m.appends++
		}
	}
	return out
}

func (m *memStore) ReadJournal(_ context.Context, principal, name string, after uint64, maxBytes int) ([]journal.Event, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	j := m.journals[[2]string{principal, name}]
	if m.fail != nil {
		return nil, m.fail
	}
	if j == nil {
		return nil, sessions.ErrNoJournal
	}
	var out []journal.Event
	for n, i := 0, sort.Search(len(j.events), func(i int) bool { return j.events[i].Seq > after }); i < len(j.events) && (n == 0 || n < maxBytes); i++ {
		out = append(out, j.events[i])
		n += len(j.events[i].Data)
	}
	return out, nil
}

func (m *memStore) JournalInfo(_ context.Context, principal, name string) (sessions.JournalInfo, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if j := m.journals[[2]string{principal, name}]; j != nil {
		return j.info, m.fail
	}
	return sessions.JournalInfo{}, sessions.ErrNoJournal
}

func (m *memStore) Compact(context.Context, string, string, uint64, uint64, []journal.Event) error {
	return nil
}

func (m *memStore) CloseJournal(_ context.Context, principal, name string, fence uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	j := m.journals[[2]string{principal, name}]
	switch {
	case m.fail != nil:
		return m.fail
	case j == nil:
		return sessions.ErrNoJournal
	case j.info.Fence > fence:
		return sessions.ErrFenced
	}
	j.info.Clean = true
	return nil
}

func (m *memStore) DeleteJournal(_ context.Context, principal, name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.journals, [2]string{principal, name})
	return m.fail
}

func (m *memStore) Watch(ctx context.Context, _ string) (<-chan sessions.Change, error) {
	ch := make(chan sessions.Change)
	context.AfterFunc(ctx, func() { close(ch) })
	return ch, nil
}

func (m *memStore) Check(context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.fail
}

func (m *memStore) Close() error { return nil }

// storeLink is one gateway's way to the store; a gateway that crashed has none.
type storeLink struct {
	sessions.Store
	lost atomic.Bool
}

func (l *storeLink) cut() { l.lost.Store(true) }

func (l *storeLink) Commit(ctx context.Context, principal string, c sessions.Commit) error {
	if l.lost.Load() {
		return sessions.ErrUnavailable
	}
	return l.Store.Commit(ctx, principal, c)
}

func (l *storeLink) Append(ctx context.Context, runs []sessions.Run) []error {
	if l.lost.Load() {
		return slices.Repeat([]error{sessions.ErrUnavailable}, len(runs))
	}
	return l.Store.Append(ctx, runs)
}

func (l *storeLink) CloseJournal(ctx context.Context, principal, name string, fence uint64) error {
	if l.lost.Load() {
		return sessions.ErrUnavailable
	}
	return l.Store.CloseJournal(ctx, principal, name, fence)
}
