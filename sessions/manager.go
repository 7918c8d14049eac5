package sessions

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/acpgate/acpgate/agentpool/wire"
	"github.com/acpgate/acpgate/sessions/journal"
)

// Manager keeps the views of one gateway. Lock order: View.mu, then Manager.mu,
// then Attachment.mu, then the journal's own; no view is locked while Manager.mu is held.
type Manager struct {
	cfg    Config
	log    *slog.Logger
	audit  *slog.Logger
	roots  []string // resolved
	budget *journal.Budget
	known  *known
	menus  menus
	keeper *keeper // nil without a store
	node   string

	nextRequest atomic.Int64
	lastEpoch   atomic.Int64
	requests    sync.Map // int64 -> *View: open requests of agents
	draining    atomic.Bool

	stopKeeper context.CancelFunc

	ctx    context.Context // ends with the manager
	cancel context.CancelFunc
	wg     sync.WaitGroup

	locks sync.Map // principal -> *sync.Mutex, the lock of its views and sessions

	mu       sync.Mutex
	closed   bool
	views    map[viewKey]*View // by primary handle
	aliases  map[viewKey]*View
	sessions map[viewKey]*session // by session id: bound, parked or asleep
	ended    map[viewKey]closedMark
	slots    map[string]*slot // by connection
	tokens   map[string]*slot // by claim token
	perUser  map[string]int
	opening  map[viewKey]*opening
	closing  map[viewKey]chan struct{} // sessions that are being closed at their agents
}

type viewKey struct{ principal, agent, handle string }

// opening is a session that is being loaded; further callers wait for it (rule V2).
type opening struct {
	done    chan struct{}
	session *session
	err     error
	gaveUp  bool // err is only that the one who was opening went away
}

// NewManager returns a Manager. Close it to end what it started.
func NewManager(cfg Config) (*Manager, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	m := &Manager{
		cfg: cfg, log: cfg.Logger, audit: cfg.Audit,
		budget: journal.NewBudget(cfg.JournalMemory), known: newKnown(),
		views: map[viewKey]*View{}, aliases: map[viewKey]*View{}, sessions: map[viewKey]*session{}, ended: map[viewKey]closedMark{}, slots: map[string]*slot{}, tokens: map[string]*slot{},
		perUser: map[string]int{}, opening: map[viewKey]*opening{}, closing: map[viewKey]chan struct{}{},
	}
	for _, r := range cfg.Roots {
		real, err := filepath.EvalSymlinks(r)
		if err != nil {
			return nil, fmt.Errorf("root %s: %w", r, err)
		}
		m.roots = append(m.roots, real)
	}
	m.ctx, m.cancel = context.WithCancel(context.Background())
	if cfg.Store != nil {
		m.keeper = newKeeper(cfg.Store, m.log)
		m.known.keeper = m.keeper
		ctx, stop := context.WithCancel(context.Background())
		m.stopKeeper = stop
		go m.keeper.run(ctx)
	}
	return m, nil
}

// lockOf is the lock of all views and sessions of a principal. One for all of them: what two views decide about a session
// is then one critical section. It is never held for longer than a computation.
func (m *Manager) lockOf(principal string) *sync.Mutex {
	mu, _ := m.locks.LoadOrStore(principal, &sync.Mutex{})
	return mu.(*sync.Mutex)
}

// spawn runs f in a goroutine that Close waits for. It does nothing once the manager is closed.
func (m *Manager) spawn(f func(ctx context.Context)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return
	}
	m.wg.Go(func() { f(m.ctx) })
}

// epoch returns a number for a new journal, greater than that of any journal before, also of an earlier life of the
// gateway (milliseconds since 1970, unless two are made within one).
func (m *Manager) epoch() uint64 {
	for {
		last := m.lastEpoch.Load()
		next := max(time.Now().UnixMilli(), last+1)
		if m.lastEpoch.CompareAndSwap(last, next) {
			return uint64(next)
		}
	}
}

// Describe returns the agent of the client's connection, starting a process if nothing is known of it yet.
func (m *Manager) Describe(ctx context.Context, c Client) (*AgentInfo, error) {
	return m.cfg.Agents.Describe(ctx, c.Principal(), c.Agent())
}

// lookup returns the live view under a handle: a primary one before an alias (rule V5).
func (m *Manager) lookup(c Client, handle string) *View {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := sessKey(c, handle)
	if v := m.views[k]; v != nil {
		return v
	}
	return m.aliases[k]
}

// alias makes handle a further one of v. A handle that is another view's primary one stays that view's (rule V5).
func (m *Manager) alias(v *View, handle string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := viewKey{v.principal, v.agentName, handle}
	if m.views[k] != nil || m.aliases[k] == v {
		return
	}
	m.aliases[k] = v
	m.keeper.put(v.principal, []Write{{Key: recordKey("alias", v.agentName, handle), Value: []byte(v.handle)}})
}

// dropAlias forgets handle as an alias of v.
func (m *Manager) dropAlias(v *View, handle string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if k := (viewKey{v.principal, v.agentName, handle}); m.aliases[k] == v || m.aliases[k] == nil {
		delete(m.aliases, k)
		m.keeper.put(v.principal, []Write{{Key: recordKey("alias", v.agentName, handle), Delete: true}}) // also one of before a restart
	}
}

func (m *Manager) session(k viewKey) *session {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.sessions[k]
}

// addSession puts a session that was just opened among those we hold.
func (m *Manager) addSession(s *session) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := s.key()
	if m.closed {
		return &Error{Code: CodeInternal, Reason: "draining", Message: "The gateway is shutting down", Hint: "reconnect and try again"}
	}
	if m.sessions[k] != nil {
		return errIDInUse()
	}
	m.sessions[k] = s
	return nil
}

// rename gives a session that we hold the id that the agent has made for it; what is stored under the old one goes. Under
// s.mu.
func (m *Manager) rename(s *session, id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	old, k := s.key(), viewKey{s.principal, s.agentName, id}
	switch {
	case m.sessions[old] != s || s.gone: // closed meanwhile
		return errNotFound(old.handle)
	case old == k:
		return nil
	case m.sessions[k] != nil:
		return errIDInUse()
	}
	delete(m.sessions, old)
	s.name(id)
	m.sessions[k] = s
	m.keeper.put(s.principal, []Write{
		{Key: recordKey("session", s.agentName, old.handle), Delete: true},
		{Key: recordKey("bound", s.agentName, old.handle), Delete: true},
	})
	return nil
}

func (m *Manager) removeSession(s *session) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if k := s.key(); m.sessions[k] == s {
		delete(m.sessions, k)
	}
}

// Attach joins the live view under handle at its head, for a client that uses a handle which its connection has not
// opened (rule V3). Error: *Error -32002.
func (m *Manager) Attach(c Client, handle string) (*Attachment, error) {
	v := m.lookup(c, handle)
	if v == nil {
		return nil, errNotFound(handle)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed {
		return nil, errNotFound(handle)
	}
	head := v.journal.Head()
	a, err := v.newAttachment(c, handle, head)
	if err != nil {
		return nil, err
	}
	a.snapshotFrames(head.Seq, true)
	v.checkAnswerable()
	return a, nil
}

// add puts a new view under its handle.
func (m *Manager) add(v *View) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := v.key()
	if m.closed {
		return &Error{Code: CodeInternal, Reason: "draining", Message: "The gateway is shutting down", Hint: "reconnect and try again"}
	}
	if m.views[k] != nil {
		return errIDInUse()
	}
	m.views[k] = v
	m.perUser[v.principal]++
	return nil
}

// forget takes s out of the sessions we hold. Until the returned function is called, nobody opens it again: an agent that
// is deleting a session must not be asked to load it at the same time.
func (m *Manager) forget(s *session) (done func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := s.key()
	if m.sessions[k] != s {
		return func() {}
	}
	delete(m.sessions, k)
	ch := make(chan struct{})
	m.closing[k] = ch
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.closing, k)
		close(ch)
	}
}

func (v *View) key() viewKey { return viewKey{v.principal, v.agentName, v.handle} }

// remove takes v out of the live views.
func (m *Manager) remove(v *View) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := v.key()
	if m.views[k] != v {
		return
	}
	delete(m.views, k)
	for a, x := range m.aliases {
		if x == v {
			delete(m.aliases, a)
			m.keeper.put(v.principal, []Write{{Key: recordKey("alias", v.agentName, a.handle), Delete: true}})
		}
	}
	if m.perUser[k.principal]--; m.perUser[k.principal] == 0 {
		delete(m.perUser, k.principal)
	}
}

// room reports whether the principal may have another view.
func (m *Manager) room(principal string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.perUser[principal] < m.cfg.ViewsPerUser {
		return nil
	}
	return &Error{
		Code: CodeInternal, Reason: "view_limit", Message: "Too many open sessions: " + strconv.Itoa(m.perUser[principal]),
		Hint: "close sessions with session/close", Data: mustJSON(map[string]int{"limit": m.cfg.ViewsPerUser}),
	}
}

// Answer takes a client's response to a request of an agent. False: nothing is open under that id, or the answer is not a
// valid one; it was dropped.
func (m *Manager) Answer(c Client, f *wire.Frame) bool {
	id, err := strconv.ParseInt(string(f.ID.Of(f.Raw)), 10, 64)
	if err != nil {
		return false
	}
	x, ok := m.requests.Load(id)
	if !ok {
		return false
	}
	v := x.(*View)
	v.mu.Lock()
	defer v.mu.Unlock()
	for a := range v.atts {
		if a.c.ID() == c.ID() && v.principal == c.Principal() {
			return v.answer(a, id, f)
		}
	}
	return false
}

// AgentNotification passes on a notification of an agent that names no session to every connection that uses one of the
// principal's sessions of that agent.
func (m *Manager) AgentNotification(principal, agent string, line []byte) {
	m.mu.Lock()
	var views []*View
	for k, v := range m.views {
		if k.principal == principal && k.agent == agent {
			views = append(views, v)
		}
	}
	m.mu.Unlock()
	told := map[string]bool{}
	for _, v := range views {
		v.mu.Lock()
		for a := range v.atts {
			if id := a.c.ID(); !told[id] {
				told[id] = true
				a.c.Notify(line)
			}
		}
		v.mu.Unlock()
	}
}

// Stats counts what the manager holds.
type Stats struct {
	Views, Running, Asleep, Queued, Requests int
	JournalBytes                             int64
}

// Stats returns what the manager holds now.
func (m *Manager) Stats() Stats {
	m.mu.Lock()
	views := make([]*View, 0, len(m.views))
	for _, v := range m.views {
		views = append(views, v)
	}
	m.mu.Unlock()
	s := Stats{Views: len(views), JournalBytes: m.budget.Used()}
	for _, v := range views {
		v.mu.Lock()
		if v.turn != nil {
			s.Running++
		}
		if v.proc == nil {
			s.Asleep++
		}
		s.Queued += len(v.queue)
		s.Requests += len(v.requests)
		v.mu.Unlock()
	}
	return s
}

// Drain refuses new prompts and waits until no turn runs, or ctx ends. It reports how many turns still ran.
func (m *Manager) Drain(ctx context.Context) int {
	m.draining.Store(true)
	t := time.NewTicker(20 * time.Millisecond)
	defer t.Stop()
	for {
		n := m.Stats().Running
		if n == 0 && m.settled() {
			return 0
		}
		select {
		case <-ctx.Done():
			return n
		case <-t.C:
		}
	}
}

// settled reports whether clients can be shown all that has happened: the ends of turns are stored.
func (m *Manager) settled() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.sessions {
		if !s.journal.Settled() {
			return false
		}
	}
	return true
}

// Close ends every view, without telling the agents, whose processes end with the pool, and waits for the manager's
// goroutines.
func (m *Manager) Close(ctx context.Context) error {
	m.draining.Store(true)
	m.mu.Lock()
	m.closed = true
	views, held := m.views, m.sessions
	m.views, m.aliases, m.sessions = map[viewKey]*View{}, map[viewKey]*View{}, map[viewKey]*session{}
	m.perUser = map[string]int{}
	m.mu.Unlock()
	m.cancel()
	for _, v := range views {
		v.shut(errStopped())
	}
	for _, s := range held {
		s.mu.Lock()
		p := s.end()
		s.mu.Unlock()
		if p != nil {
			p.Release()
		}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		m.wg.Wait()
		m.closeStored(held)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("sessions: close: %w", ctx.Err())
	}
}
