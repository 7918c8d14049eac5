package agentpool

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/acpgate/acpgate/sessions"
)

var _ sessions.Agents = (*Pool)(nil)

// Pool starts, shares and ends agent processes. It is safe for concurrent use. Close ends it.
type Pool struct {
	cfg      Config
	log      *slog.Logger
	names    []string
	specs    map[string]*Spec
	roots    []root
	stateDir string // with links resolved
	bwrap    bubblewrap
	warnOnce sync.Once // that there is no sandbox
	stats    counters
	closing  chan struct{}
	wake     chan struct{} // makes the janitor look again
	wg       sync.WaitGroup

	mu        sync.Mutex
	closed    bool
	groups    map[groupKey]*group
	restarts  map[restartKey]*restart
	infos     map[string]*sessions.AgentInfo
	processes map[*process]struct{} // until nothing is left of them
	counts    map[string]int        // processes by principal, those that are being started included
	total     int
	number    uint64
	renewed   time.Time // when agents must be gone unless Renew is called; zero: never
}

// groupKey names the processes that sessions may share. root is empty for agents without a sandbox.
type groupKey struct{ principal, agent, root string }

type restartKey struct{ principal, agent string }

// group is the processes of one key.
type group struct {
	key     groupKey
	spec    *Spec
	members []*member
	flights []*flight
}

// member is a process that is handed out.
type member struct {
	p        *process
	g        *group
	sessions int // handles that take a session's room
	users    int // all handles
	started  time.Time
	used     time.Time // when a handle was last given or taken back
}

// New checks cfg and returns a pool. No process is started yet.
func New(cfg Config) (*Pool, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("agentpool: %w", err)
	}
	cfg = cfg.withDefaults()
	p := &Pool{
		cfg: cfg, log: cfg.Logger, specs: map[string]*Spec{},
		closing: make(chan struct{}), wake: make(chan struct{}, 1),
		groups: map[groupKey]*group{}, restarts: map[restartKey]*restart{}, infos: map[string]*sessions.AgentInfo{},
		processes: map[*process]struct{}{}, counts: map[string]int{},
	}
	for i := range cfg.Specs {
		p.names = append(p.names, cfg.Specs[i].Name)
		p.specs[cfg.Specs[i].Name] = &cfg.Specs[i]
	}
	for _, dir := range cfg.Roots {
		p.roots = append(p.roots, newRoot(dir))
	}
	p.stateDir = newRoot(cfg.StateDir).real
	p.wg.Go(p.janitor)
	return p, nil
}

// Names implements sessions.Agents.
func (p *Pool) Names() []string { return append([]string(nil), p.names...) }

// Describe implements sessions.Agents. What a principal's process answered counts for all: it depends on the command line.
func (p *Pool) Describe(ctx context.Context, principal, agent string) (*sessions.AgentInfo, error) {
	if info := p.Known(agent); info != nil {
		return info, nil
	}
	h, err := p.Control(ctx, principal, agent)
	if err != nil {
		return nil, err
	}
	defer h.Release()
	return h.Info(), nil
}

// Known returns what the agent answered to initialize, nil if none of its processes has yet. It starts nothing.
func (p *Pool) Known(agent string) *sessions.AgentInfo {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.infos[agent]
}

// Acquire implements sessions.Agents. An error that is not about the agent, such as that of ctx, is the Err of the
// *sessions.AgentError.
func (p *Pool) Acquire(ctx context.Context, principal, agent, cwd string) (sessions.Agent, error) {
	return p.acquire(ctx, principal, agent, cwd, false)
}

// Control implements sessions.Agents.
func (p *Pool) Control(ctx context.Context, principal, agent string) (sessions.Agent, error) {
	return p.acquire(ctx, principal, agent, "", true)
}

func (p *Pool) acquire(ctx context.Context, principal, agent, cwd string, control bool) (sessions.Agent, error) {
	spec := p.specs[agent]
	if spec == nil {
		return nil, &sessions.AgentError{Reason: reasonUnknown, Agent: agent, Hint: "pick one of the configured agents"}
	}
	where, err := p.confine(spec, cwd)
	if err != nil {
		return nil, &sessions.AgentError{
			Reason: reasonStartFailed, Agent: agent, Err: err,
			Hint: "the agent's config demands a sandbox; install bubblewrap or allow user namespaces",
		}
	}
	w := &want{principal: principal, spec: spec, where: where, control: control}
	m, aerr := p.obtain(ctx, w)
	if aerr != nil {
		return nil, aerr
	}
	return &handle{pool: p, m: m, p: m.p, control: control}, nil
}

// sibling returns a further handle to the process of m.
func (p *Pool) sibling(m *member) (sessions.Agent, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := m.p.endError(); err != nil {
		return nil, err
	}
	if !m.hasRoom() {
		return nil, &sessions.AgentError{
			Reason: reasonLimit, Agent: m.g.spec.Name, Hint: "the process has no room for a further session",
		}
	}
	m.join(false)
	p.keepSpare(m.g)
	return &handle{pool: p, m: m, p: m.p}, nil
}

// confine returns the workspace root that an agent with a session in cwd is confined to, and the key of it; both are zero
// for an agent without a sandbox.
func (p *Pool) confine(spec *Spec, cwd string) (root, error) {
	if spec.Sandbox == SandboxNone {
		return root{}, nil
	}
	_, err := p.bwrap.find(lookEnv(p.cfg.Environ, "PATH"))
	switch {
	case err != nil && spec.Sandbox == SandboxBwrap:
		return root{}, err
	case err != nil:
		p.warnOnce.Do(func() { p.log.Warn("agents run without a sandbox", "err", err) })
		return root{}, nil
	}
	var best root
	for _, r := range p.roots {
		if _, ok := r.rel(filepath.Clean(cwd)); ok && len(r.real) > len(best.real) {
			best = r
		}
	}
	if best == (root{}) {
		best = p.roots[0]
	}
	return best, nil
}

// release takes a handle back.
func (p *Pool) release(m *member, control bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m.users--
	if !control {
		m.sessions--
	}
	m.used = time.Now()
	if m.users == 0 {
		p.wakeJanitor()
	}
}

// processEnded takes a process out of its group: nobody gets it any more. It runs before its users learn of the end.
func (p *Pool) processEnded(proc *process, crashed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := p.memberOf(proc)
	if m == nil {
		return // it did not get to be handed out, or it was stopped for being idle
	}
	m.g.remove(m)
	now := time.Now()
	if crashed {
		p.stats.crashes.Add(1)
	}
	r := p.restartOf(m.g.key)
	r.ended(now, now.Sub(m.started), crashed, proc.ended)
	p.forget(m.g.key, r, now)
	p.keepSpare(m.g)
}

// processGone ends the accounting of a process, nothing of which is left.
func (p *Pool) processGone(proc *process) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.processes, proc)
	p.uncount(proc.principal)
}

func (p *Pool) uncount(principal string) {
	p.total--
	if p.counts[principal]--; p.counts[principal] == 0 {
		delete(p.counts, principal)
	}
}

func (p *Pool) memberOf(proc *process) *member {
	for _, g := range p.groups {
		for _, m := range g.members {
			if m.p == proc {
				return m
			}
		}
	}
	return nil
}

// restartOf returns the restart state of a group's agent and principal. mu is held.
func (p *Pool) restartOf(key groupKey) *restart {
	k := restartKey{key.principal, key.agent}
	r := p.restarts[k]
	if r == nil {
		r = &restart{min: p.cfg.RestartMin, max: p.cfg.RestartMax, stable: p.cfg.StableAfter, breakerAfter: p.cfg.BreakerAfter}
		p.restarts[k] = r
	}
	return r
}

// forget drops what need not be remembered, so that the maps do not grow with every principal ever seen. mu is held.
func (p *Pool) forget(key groupKey, r *restart, now time.Time) {
	if r.isIdle(now) {
		delete(p.restarts, restartKey{key.principal, key.agent})
	}
	if g := p.groups[key]; g != nil && len(g.members) == 0 && len(g.flights) == 0 {
		delete(p.groups, key)
	}
}

// groupOf returns the group of a key. mu is held.
func (p *Pool) groupOf(key groupKey, spec *Spec) *group {
	g := p.groups[key]
	if g == nil {
		g = &group{key: key, spec: spec}
		p.groups[key] = g
	}
	return g
}

func (g *group) remove(m *member) {
	for i := range g.members {
		if g.members[i] == m {
			g.members = append(g.members[:i], g.members[i+1:]...)
			return
		}
	}
}

// hasRoom reports whether the process takes one more session.
func (m *member) hasRoom() bool {
	return !m.p.isStopping() && (m.g.spec.SessionsPerProcess == 0 || m.sessions < m.g.spec.SessionsPerProcess)
}

// CanStart reports why the default agent cannot be started, nil if nothing is known against it. It starts nothing.
func (p *Pool) CanStart() error {
	spec := p.specs[p.names[0]]
	env := agentEnv(p.cfg.Environ, append(append([]string(nil), p.cfg.EnvAllow...), spec.EnvAllow...), spec.Env, "")
	if _, err := lookCommand(spec.Command, lookEnv(env, "PATH")); err != nil {
		return fmt.Errorf("agent %s: %w", spec.Name, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, g := range p.groups {
		if g.key.agent == spec.Name && len(g.members) > 0 {
			return nil
		}
	}
	for key, r := range p.restarts {
		if key.agent == spec.Name && r.isOpen() {
			return fmt.Errorf("agent %s: %d starts in a row failed: %w", spec.Name, r.failures, r.last)
		}
	}
	return nil
}

// Stats returns a snapshot of counters and of what runs.
func (p *Pool) Stats() Stats {
	s := p.stats.snapshot()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, name := range p.names {
		a := AgentStats{Name: name}
		for _, g := range p.groups {
			if g.key.agent != name {
				continue
			}
			a.Processes += len(g.members) + len(g.flights)
			for _, m := range g.members {
				a.Handles += m.users
				a.Stdin += m.p.in.waiting()
				if m.users == 0 {
					a.Idle++
				}
			}
		}
		for key, r := range p.restarts {
			if key.agent == name && r.isOpen() {
				a.Broken++
			}
		}
		s.Agents = append(s.Agents, a)
	}
	return s
}

// Renew lets every supervisor end its agent unless Renew is called again within d (rule T5): a node whose lease ran out
// must not have agents that write files. A pool that never calls it has agents that live as long as it does.
func (p *Pool) Renew(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.renewed = time.Now().Add(d)
	for proc := range p.processes {
		proc.child.renew(d)
	}
}

// Close ends all processes by the stop ladder and returns when nothing of them is left and every goroutine of the pool has
// ended. When ctx ends first, what is left is killed; the error says so.
func (p *Pool) Close(ctx context.Context) error {
	p.mu.Lock()
	if !p.closed {
		p.closed = true
		close(p.closing)
	}
	running := make([]*process, 0, len(p.processes))
	for proc := range p.processes {
		running = append(running, proc)
	}
	p.mu.Unlock()
	for _, proc := range running {
		proc.stop(proc.ladder, reasonExited)
	}

	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for _, proc := range running {
			<-proc.done
		}
		p.wg.Wait()
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
	}
	for _, proc := range running {
		proc.child.kill()
	}
	<-ended
	return fmt.Errorf("agentpool: agents were killed: %w", context.Cause(ctx))
}

var errPoolClosed = errors.New("the gateway is stopping")
