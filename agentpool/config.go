package agentpool

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"
)

const (
	defaultCloseWait = 2 * time.Second
	defaultTermWait  = 2 * time.Second
)

// Config is what New needs. Zero values are the defaults named here.
type Config struct {
	// Specs are the configured agents, the default one first. At least one.
	Specs []Spec
	// Supervisor is the argv prefix that runs Supervise, usually the program's own path and "supervise". Required.
	Supervisor []string
	// Logger: default slog.Default(). What agents write is logged at debug level only (rule T7).
	Logger *slog.Logger
	// Version is told to agents in clientInfo: default "dev".
	Version string

	// Roots are the allowed workspaces, absolute directories, the default one first. At least one. Gateway-served file
	// requests stay inside them (rule T4), and so does what a sandboxed agent can write.
	Roots []string
	// StateDir is the gateway's state directory, absolute. Principals have their homes in StateDir/homes, and a sandboxed
	// agent sees nothing else of it. Required.
	StateDir string
	// HomeOwner is the principal whose agents have the home of the gateway's user: the one who set the agents up there, and
	// whose logins and sessions must not vanish when a second principal comes. Empty: nobody.
	HomeOwner string
	// Environ is the gateway's environment: default os.Environ(). EnvAllow names variables, or PREFIX_*, that every
	// agent gets from it besides the usual ones (rule T3).
	Environ  []string
	EnvAllow []string

	// MaxProcesses bounds all processes: default 256. MaxPerPrincipal bounds those of one principal: default 32.
	MaxProcesses    int
	MaxPerPrincipal int
	// IdleTimeout ends a process that nobody has a handle to: default 5 min.
	IdleTimeout time.Duration
	// CloseWait and TermWait are the waits of the stop ladder, after closing stdin and after TERM: default 2 s each.
	CloseWait, TermWait time.Duration

	// RestartMin and RestartMax bound the time between a process that ended by itself, or did not start, and the next try;
	// it doubles from one to the other: default 1 s and 60 s. A process that ran for StableAfter starts it anew: default
	// 60 s. RestartWait is how long an Acquire waits for it: default 2 s.
	RestartMin, RestartMax, StableAfter, RestartWait time.Duration
	// BreakerAfter is how many starts in a row must fail before an agent counts as broken: default 5. From then on it is
	// tried once in RestartMax.
	BreakerAfter int

	// OnNotification takes the notifications of agents that name no session, such as _auth/status_update. It is called on
	// the reader goroutine of the process: it must not block and must not keep line.
	OnNotification func(principal, agent string, line []byte)
}

func (c Config) withDefaults() Config {
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.Environ == nil {
		c.Environ = os.Environ()
	}
	if c.OnNotification == nil {
		c.OnNotification = func(string, string, []byte) {}
	}
	setDefault(&c.Version, "dev")
	setDefault(&c.MaxProcesses, 256)
	setDefault(&c.MaxPerPrincipal, 32)
	setDefault(&c.IdleTimeout, 5*time.Minute)
	setDefault(&c.CloseWait, defaultCloseWait)
	setDefault(&c.TermWait, defaultTermWait)
	setDefault(&c.RestartMin, time.Second)
	setDefault(&c.RestartMax, time.Minute)
	setDefault(&c.StableAfter, time.Minute)
	setDefault(&c.RestartWait, 2*time.Second)
	setDefault(&c.BreakerAfter, 5)
	specs := make([]Spec, len(c.Specs))
	for i, s := range c.Specs {
		specs[i] = s.withDefaults()
	}
	c.Specs = specs
	return c
}

// Validate reports everything that is wrong, each as `field: problem (got value)`.
func (c Config) Validate() error {
	var errs []error
	add := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if len(c.Specs) == 0 {
		add("Specs: must name at least one agent")
	}
	seen := map[string]bool{}
	for _, s := range c.Specs {
		if err := s.Validate(); err != nil {
			errs = append(errs, err)
		}
		if seen[s.Name] {
			add("Specs: two agents have one name (got %q)", s.Name)
		}
		seen[s.Name] = true
	}
	if len(c.Supervisor) == 0 {
		add("Supervisor: must not be empty")
	}
	if len(c.Roots) == 0 {
		add("Roots: must name at least one directory")
	}
	for _, root := range c.Roots {
		if !filepath.IsAbs(root) {
			add("Roots: must be absolute (got %q)", root)
		}
	}
	if !filepath.IsAbs(c.StateDir) {
		add("StateDir: must be absolute (got %q)", c.StateDir)
	}
	for _, pattern := range c.EnvAllow {
		if err := validateEnvPattern(pattern); err != nil {
			add("EnvAllow: %w", err)
		}
	}
	for _, n := range []struct {
		field string
		value int
	}{{"MaxProcesses", c.MaxProcesses}, {"MaxPerPrincipal", c.MaxPerPrincipal}, {"BreakerAfter", c.BreakerAfter}} {
		if n.value < 0 {
			add("%s: must not be negative (got %d)", n.field, n.value)
		}
	}
	for _, d := range []struct {
		field string
		value time.Duration
	}{
		{"IdleTimeout", c.IdleTimeout},
		{"CloseWait", c.CloseWait},
		{"TermWait", c.TermWait},
		{"RestartMin", c.RestartMin},
		{"RestartMax", c.RestartMax},
		{"StableAfter", c.StableAfter},
		{"RestartWait", c.RestartWait},
	} {
		if d.value < 0 {
			add("%s: must not be negative (got %v)", d.field, d.value)
		}
	}
	if d := c.withDefaults(); d.RestartMin > d.RestartMax {
		add("RestartMin: must not be over RestartMax (got %v over %v)", d.RestartMin, d.RestartMax)
	}
	return errors.Join(errs...)
}
