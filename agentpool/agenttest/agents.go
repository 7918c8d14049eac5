package agenttest

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	acp "github.com/coder/acp-go-sdk"

	"github.com/acpgate/acpgate/sessions"
)

var _ sessions.Agents = (*Agents)(nil)

// AllCapabilities is the default initialize result: an agent that can do everything that acpgate makes use of.
const AllCapabilities = `{"protocolVersion":1,"agentInfo":{"name":"fake","title":"Fake agent","version":"1.0.0"},` +
	`"agentCapabilities":{"loadSession":true,"promptCapabilities":{"image":true,"embeddedContext":true},` +
	`"sessionCapabilities":{"list":{},"resume":{},"fork":{},"close":{},"delete":{}},"auth":{"logout":{}}},"authMethods":[]}`

// NoCapabilities is the initialize result of an agent that can only start sessions and answer prompts.
const NoCapabilities = `{"protocolVersion":1,"agentCapabilities":{},"authMethods":[]}`

const defaultStdinBytes = 1 << 20

// Config says which agents there are. The zero value is one agent called "fake" that can do everything.
type Config struct {
	// Profiles are the configured agents, the default one first.
	Profiles []Profile
	// Lenient keeps contract violations out of the test's failures; they are still listed by Violations.
	Lenient bool
	// AwaitTimeout bounds every Await of a test: default 10 s (of the bubble's time inside synctest).
	AwaitTimeout time.Duration
}

// Profile is one configured agent.
type Profile struct {
	Name       string             // default "fake"
	Initialize string             // raw initialize result; default AllCapabilities
	Handlers   map[string]Handler // behaviour of methods, in place of the default ones; see Process.Handle
	// BeforeNew and AfterNew are updates (raw update objects) that the agent sends right before and right after it answers
	// session/new, as real agents do with their commands.
	BeforeNew, AfterNew []string
	// SessionsPerProcess is how many handles with a place for a session one process gives before the next one is started; 0 means no limit.
	SessionsPerProcess int
	// PerDirectory starts a process for each working directory, as sandboxed agents have it.
	PerDirectory bool
	// EndWhenUnused ends a process when its last handle is released.
	EndWhenUnused bool
	// StdinBytes is how much a stalled process buffers before writes fail with agent_stalled; default 1 MiB.
	StdinBytes int
	GatewayFS  bool              // see sessions.AgentInfo
	MCPServers []json.RawMessage // see sessions.AgentInfo
}

// Agents hands out in-memory agent processes. It is safe for concurrent use.
type Agents struct {
	tb       testing.TB
	cfg      Config
	profiles map[string]*Profile
	infos    map[string]*sessions.AgentInfo
	disk     *disk

	mu         sync.Mutex
	cond       *sync.Cond
	procs      []*Process
	startErr   map[string]*sessions.AgentError
	startDelay time.Duration
	violations []string
	closed     bool
}

// New returns Agents whose processes end, and whose goroutines are awaited, when the test ends. A profile whose initialize
// result is not one fails the test at once.
func New(tb testing.TB, cfg Config) *Agents {
	tb.Helper()
	if len(cfg.Profiles) == 0 {
		cfg.Profiles = []Profile{{}}
	}
	if cfg.AwaitTimeout == 0 {
		cfg.AwaitTimeout = 10 * time.Second
	}
	a := &Agents{
		tb: tb, cfg: cfg, disk: newDisk(),
		profiles: map[string]*Profile{}, infos: map[string]*sessions.AgentInfo{}, startErr: map[string]*sessions.AgentError{},
	}
	a.cond = sync.NewCond(&a.mu)
	for i := range cfg.Profiles {
		p := cfg.Profiles[i]
		if p.Name == "" {
			p.Name = "fake"
		}
		if p.Initialize == "" {
			p.Initialize = AllCapabilities
		}
		if p.StdinBytes == 0 {
			p.StdinBytes = defaultStdinBytes
		}
		cfg.Profiles[i].Name = p.Name
		info, err := Info(p.Name, p.Initialize)
		if err != nil {
			tb.Fatalf("agenttest: profile %s: %v", p.Name, err)
		}
		info.GatewayFS, info.MCPServers = p.GatewayFS, p.MCPServers
		a.profiles[p.Name], a.infos[p.Name] = &p, info
	}
	tb.Cleanup(a.Close)
	return a
}

// Info reads an initialize result as the pool does.
func Info(name, result string) (*sessions.AgentInfo, error) {
	var r acp.InitializeResponse
	if err := json.Unmarshal([]byte(result), &r); err != nil {
		return nil, fmt.Errorf("initialize result: %w", err)
	}
	title := name
	if r.AgentInfo != nil {
		title = r.AgentInfo.Name
		if r.AgentInfo.Title != nil && *r.AgentInfo.Title != "" {
			title = *r.AgentInfo.Title
		}
	}
	caps := r.AgentCapabilities
	return &sessions.AgentInfo{
		Name: name, Title: title, Result: json.RawMessage(result),
		LoadSession:     caps.LoadSession,
		List:            caps.SessionCapabilities.List != nil,
		Resume:          caps.SessionCapabilities.Resume != nil,
		Fork:            caps.SessionCapabilities.Fork != nil,
		Close:           caps.SessionCapabilities.Close != nil,
		Delete:          caps.SessionCapabilities.Delete != nil,
		EmbeddedContext: caps.PromptCapabilities.EmbeddedContext,
		Logout:          caps.Auth.Logout != nil,
	}, nil
}

// Names implements sessions.Agents.
func (a *Agents) Names() []string {
	names := make([]string, len(a.cfg.Profiles))
	for i, p := range a.cfg.Profiles {
		names[i] = p.Name
	}
	return names
}

// Describe implements sessions.Agents. No process is started; start errors and the start delay apply.
func (a *Agents) Describe(ctx context.Context, _, agent string) (*sessions.AgentInfo, error) {
	if err := a.start(ctx, agent); err != nil {
		return nil, err
	}
	return a.infos[agent], nil
}

// Acquire implements sessions.Agents.
func (a *Agents) Acquire(ctx context.Context, principal, agent, cwd string) (sessions.Agent, error) {
	return a.acquire(ctx, agent, request{principal: principal, profile: a.profiles[agent], cwd: cwd})
}

// Control implements sessions.Agents.
func (a *Agents) Control(ctx context.Context, principal, agent string) (sessions.Agent, error) {
	return a.acquire(ctx, agent, request{principal: principal, profile: a.profiles[agent], control: true})
}

func (a *Agents) acquire(ctx context.Context, agent string, r request) (sessions.Agent, error) {
	if err := a.start(ctx, agent); err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil, &sessions.AgentError{Reason: "agent_start_failed", Agent: agent, Hint: "the gateway stops"}
	}
	for _, p := range a.procs {
		if h := p.handle(r); h != nil {
			return h, nil
		}
	}
	p := newProcess(a, r, a.infos[agent], uint64(len(a.procs)+1))
	a.procs = append(a.procs, p)
	a.cond.Broadcast()
	return p.handle(r), nil
}

// start is what a start may fail with.
func (a *Agents) start(ctx context.Context, agent string) error {
	if a.profiles[agent] == nil {
		return &sessions.AgentError{Reason: "agent_unknown", Agent: agent, Hint: "pick one of the configured agents"}
	}
	a.mu.Lock()
	delay, err := a.startDelay, a.startErr[agent]
	a.mu.Unlock()
	if delay > 0 {
		t := time.NewTimer(delay)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if err != nil {
		return err
	}
	return nil
}

// FailStart makes every Describe and Acquire of the agent fail with err from now on; nil ends that.
func (a *Agents) FailStart(agent string, err *sessions.AgentError) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.startErr[agent] = err
}

// DelayStart makes every Describe and Acquire take d from now on.
func (a *Agents) DelayStart(d time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.startDelay = d
}

// Processes returns all processes ever started, oldest first.
func (a *Agents) Processes() []*Process {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]*Process(nil), a.procs...)
}

// Started waits until the n-th process (counted from 1) was started and returns it. It fails the test when none comes.
func (a *Agents) Started(tb testing.TB, n int) *Process {
	tb.Helper()
	var p *Process
	if !a.await(a.cond, func() bool {
		if len(a.procs) >= n {
			p = a.procs[n-1]
		}
		return p != nil
	}) {
		tb.Fatalf("agenttest: process %d was not started", n)
	}
	return p
}

// Owner returns the running process in which the agent's session is open, nil when there is none.
func (a *Agents) Owner(session string) *Process {
	for _, p := range a.Processes() {
		if p.Open(session) {
			return p
		}
	}
	return nil
}

// Violations lists what the code under test did and a gateway must not do.
func (a *Agents) Violations() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]string(nil), a.violations...)
}

func (a *Agents) violation(format string, args ...any) {
	msg := fmt.Sprintf(format, args...)
	a.mu.Lock()
	a.violations = append(a.violations, msg)
	closed := a.closed
	a.mu.Unlock()
	if !a.cfg.Lenient && !closed {
		a.tb.Errorf("agenttest: contract violated: %s", msg)
	}
}

// Close ends all processes as if the gateway stopped them and waits for their goroutines. It may be called again.
func (a *Agents) Close() {
	a.mu.Lock()
	a.closed = true
	procs := append([]*Process(nil), a.procs...)
	a.mu.Unlock()
	for _, p := range procs {
		p.end(&sessions.AgentError{Reason: "agent_exited", Agent: p.info.Name, Exited: true})
	}
	for _, p := range procs {
		p.wg.Wait()
	}
}

// await waits on cond until ok, called with cond's lock held, is true. It reports false after Config.AwaitTimeout.
func (a *Agents) await(cond *sync.Cond, ok func() bool) bool {
	late := false
	t := time.AfterFunc(a.cfg.AwaitTimeout, func() {
		cond.L.Lock()
		late = true
		cond.L.Unlock()
		cond.Broadcast()
	})
	defer t.Stop()
	cond.L.Lock()
	defer cond.L.Unlock()
	for !ok() {
		if late {
			return false
		}
		cond.Wait()
	}
	return true
}
