package agentpool

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Values of Spec.Sandbox.
const (
	SandboxNone  = "none"  // the agent sees what the gateway's user sees
	SandboxAuto  = "auto"  // bubblewrap where it works, else none, with one warning in the log
	SandboxBwrap = "bwrap" // bubblewrap, or the agent does not start
)

// FSGateway is the value of Spec.FS that lets the agent read and write files through the gateway (rule T4).
const FSGateway = "gateway"

// Defaults of Spec.
const (
	DefaultFSMaxBytes   = 8 << 20
	DefaultStartTimeout = 90 * time.Second // first runs through npx download the agent
	DefaultLineLimit    = 64 << 20
	DefaultStdinLimit   = 64 << 20
	DefaultPendingLimit = 4 << 20
)

// Bounds of Spec.
const (
	minLineLimit = 64 << 10
	maxLineLimit = 1 << 30
)

// Spec is one configured agent. It is immutable once a pool has it.
type Spec struct {
	// Name is how clients pick the agent: [a-z0-9][a-z0-9._-]*, at most 64 bytes.
	Name string
	// Title is shown to people; empty means what the agent calls itself.
	Title string

	// Command is a path, or a name that is looked up in the PATH of the agent's environment. No shell is run.
	Command string
	Args    []string
	// Env is set in the agent's environment, in front of everything that is copied.
	Env map[string]string
	// EnvAllow names variables, or PREFIX_*, that are copied from the gateway's environment besides the usual ones
	// (rule T3). Variables of the gateway itself (ACPGATE_*) are never copied.
	EnvAllow []string
	// Dir is the working directory of the process, absolute. Empty means the workspace root.
	Dir string

	// MCPServers are added to those of every session, in ACP's own form.
	MCPServers []json.RawMessage

	// FS is empty or FSGateway. FSMaxBytes bounds one file that is read or written that way: default 8 MiB.
	FS         string
	FSMaxBytes int64

	// SessionsPerProcess is how many sessions one process takes. 0 means any number.
	SessionsPerProcess int
	// Sandbox is SandboxNone (default), SandboxAuto or SandboxBwrap. SandboxRead are paths, absolute, that a sandboxed
	// agent may read besides the system and its own command.
	Sandbox     string
	SandboxRead []string
	// StartTimeout is the time from the start of a process to its answer to initialize: default 90 s.
	StartTimeout time.Duration
	// Prewarm keeps one started process with room ready for every principal that has a session with this agent.
	Prewarm bool

	// LineLimit is the longest line of its output, in bytes: default 64 MiB, 64 KiB to 1 GiB (rule W7).
	LineLimit int64
	// StdinLimit bounds what waits to be written to it, in bytes; an empty queue takes any one frame. Default 64 MiB.
	StdinLimit int64
	// PendingLimit bounds the updates of sessions that nobody knows yet, in bytes: default 4 MiB (rule W5).
	PendingLimit int64
}

// problem is one thing that is wrong with a spec.
type problem struct{ field, text string }

var (
	nameForm = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`)
	envForm  = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

// Validate reports everything that is wrong, each as `agents.NAME.field: problem (got value)`.
func (s Spec) Validate() error {
	var errs []error
	for _, p := range s.problems() {
		errs = append(errs, fmt.Errorf("agents.%s.%s: %s", s.Name, p.field, p.text))
	}
	return errors.Join(errs...)
}

func (s Spec) problems() []problem {
	var ps []problem
	add := func(field, format string, args ...any) { ps = append(ps, problem{field, fmt.Sprintf(format, args...)}) }

	if !nameForm.MatchString(s.Name) {
		add("name", "must match %s (got %q)", nameForm, s.Name)
	}
	if strings.TrimSpace(s.Command) == "" {
		add("command", "must not be empty")
	}
	if i := slices.IndexFunc(append([]string{s.Command}, s.Args...), hasNUL); i >= 0 {
		add("args", "must not contain a NUL byte")
	}
	for name, value := range s.Env {
		if !envForm.MatchString(name) || isGatewayVar(name) {
			add("env", "not a name that an agent can have (got %q)", name)
		}
		if hasNUL(value) {
			add("env", "the value of %s must not contain a NUL byte", name)
		}
	}
	for _, pattern := range s.EnvAllow {
		if err := validateEnvPattern(pattern); err != nil {
			add("envAllow", "%v", err)
		}
	}
	if s.Dir != "" && !strings.HasPrefix(s.Dir, "/") {
		add("dir", "must be absolute (got %q)", s.Dir)
	}
	for i, server := range s.MCPServers {
		if err := validateMCPServer(server); err != nil {
			add("mcpServers", "entry %d: %v", i+1, err)
		}
	}
	if s.FS != "" && s.FS != FSGateway {
		add("fs", "must be %q or absent (got %q)", FSGateway, s.FS)
	}
	switch s.Sandbox {
	case "", SandboxNone, SandboxAuto, SandboxBwrap:
	default:
		add("sandbox", "must be none, auto or bwrap (got %q)", s.Sandbox)
	}
	for _, path := range s.SandboxRead {
		if !strings.HasPrefix(path, "/") {
			add("sandboxRead", "must be absolute (got %q)", path)
		}
	}
	if s.SessionsPerProcess < 0 {
		add("sessionsPerProcess", "must not be negative (got %d)", s.SessionsPerProcess)
	}
	if s.StartTimeout < 0 {
		add("startTimeout", "must not be negative (got %v)", s.StartTimeout)
	}
	if s.FSMaxBytes < 0 {
		add("fsMaxBytes", "must not be negative (got %d)", s.FSMaxBytes)
	}
	if s.LineLimit != 0 && (s.LineLimit < minLineLimit || s.LineLimit > maxLineLimit) {
		add("limits.line", "must be %d to %d bytes (got %d)", minLineLimit, maxLineLimit, s.LineLimit)
	}
	if s.StdinLimit < 0 {
		add("limits.stdin", "must not be negative (got %d)", s.StdinLimit)
	}
	if s.PendingLimit < 0 {
		add("limits.pending", "must not be negative (got %d)", s.PendingLimit)
	}
	return ps
}

func hasNUL(s string) bool { return strings.IndexByte(s, 0) >= 0 }

// validateMCPServer checks the form of ACP: name and command for stdio, else type http or sse with name and url.
func validateMCPServer(raw json.RawMessage) error {
	var m struct {
		Name    string `json:"name"`
		Type    string `json:"type"`
		Command string `json:"command"`
		URL     string `json:"url"`
	}
	if err := json.Unmarshal(raw, &m); err != nil {
		return errors.New("must be an object with name, and command or type and url, as texts")
	}
	switch {
	case m.Name == "":
		return errors.New("name must not be empty")
	case m.Type == "" || m.Type == "stdio":
		if m.Command == "" {
			return errors.New("command must not be empty")
		}
	case m.Type == "http" || m.Type == "sse":
		if m.URL == "" {
			return errors.New("url must not be empty")
		}
	default:
		return fmt.Errorf("type must be stdio, http or sse (got %q)", m.Type)
	}
	return nil
}

func (s Spec) withDefaults() Spec {
	setDefault(&s.Sandbox, SandboxNone)
	setDefault(&s.FSMaxBytes, DefaultFSMaxBytes)
	setDefault(&s.StartTimeout, DefaultStartTimeout)
	setDefault(&s.LineLimit, DefaultLineLimit)
	setDefault(&s.StdinLimit, DefaultStdinLimit)
	setDefault(&s.PendingLimit, DefaultPendingLimit)
	return s
}

func setDefault[T comparable](v *T, to T) {
	var zero T
	if *v == zero {
		*v = to
	}
}
