package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/acpgate/acpgate/agentpool"
	"github.com/acpgate/acpgate/gateway/auth"
)

// config is what serve needs: the settings, checked and completed.
type config struct {
	settings
	self     string           // path of this program
	state    string           // path of the state directory
	specs    []agentpool.Spec // the default agent first
	roots    []string         // absolute and existing, the default one first
	loopback bool             // nothing but this machine reaches the listen address
	level    slog.Level
}

// problems collects what is wrong with the settings, so that all of it is reported at once.
type problems []error

func (p *problems) add(format string, args ...any) { *p = append(*p, fmt.Errorf(format, args...)) }

// addAll adds what a part says about its Config: problems of the fields in flags, under the names of the flags. Other fields
// are none that a setting could be to blame for.
func (p *problems) addAll(err error, flags map[string]string) {
	if err == nil {
		return
	}
	for line := range strings.Lines(err.Error()) {
		field, rest, ok := strings.Cut(strings.TrimSpace(line), ": ")
		if flag := flags[field]; ok && flag != "" {
			p.add("%s: %s", flag, rest)
		}
	}
}

func (p problems) err() error {
	if len(p) == 0 {
		return nil
	}
	return usageError{errors.Join(p...)}
}

// resolve checks the settings and completes them with what depends on this machine. It changes nothing.
func (s settings) resolve() (*config, error) {
	c := &config{settings: s}
	var p problems
	var err error
	if c.self, err = os.Executable(); err != nil {
		p.add("cannot find this program to start agents with: %w", err)
	}
	c.resolveListen(&p)
	c.resolveAccess(&p)
	c.resolveAgents(&p)
	c.resolveRoots(&p)
	c.checkLimits(&p)
	c.state = resolveState(s.State, &p)
	p.addAll(c.gatewayConfig(gatewayParts{}).Validate(), gatewayFlags)
	p.addAll(c.poolConfig("/", nil, nil).Validate(), poolFlags)
	if err := c.level.UnmarshalText([]byte(s.LogLevel)); err != nil {
		p.add("--log-level: %w", err)
	}
	return c, p.err()
}

func (c *config) resolveListen(p *problems) {
	host, port, err := net.SplitHostPort(c.Listen)
	if err != nil {
		p.add("--listen: must be HOST:PORT (got %q)", c.Listen)
	} else if n, err := strconv.ParseUint(port, 10, 16); err != nil {
		p.add("--listen: the port must be 0 to 65535 (got %q)", port)
	} else {
		c.Listen = net.JoinHostPort(host, strconv.FormatUint(n, 10))
	}
	c.loopback = isLoopback(host)

	switch {
	case (c.TLSCert == "") != (c.TLSKey == ""):
		p.add("--tls-cert: needs --tls-key, and the other way round")
	case c.TLSCert != "":
		if _, err := tls.LoadX509KeyPair(c.TLSCert, c.TLSKey); err != nil {
			p.add("--tls-cert: %w", err)
		}
	}
	c.TLSCert, c.TLSKey = absolute(c.TLSCert, "--tls-cert", p), absolute(c.TLSKey, "--tls-key", p)
	if c.BasePath = "/" + strings.Trim(c.BasePath, "/"); c.BasePath == "/" {
		c.BasePath = ""
	}
}

// isLoopback reports whether a listen host can only be reached from this machine. A name other than localhost may resolve
// to anything tomorrow.
func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}

func (c *config) resolveAccess(p *problems) {
	if c.Auth == string(auth.ModeNone) && !c.loopback {
		p.add("--auth none: anybody who reaches %s could run agents as you: listen on loopback, or use --auth token or proxy", c.Listen)
	}
	if c.TokenFile != "" && c.Auth != string(auth.ModeToken) {
		p.add("--token-file: is for --auth token (got --auth %s)", c.Auth)
	}
	c.TokenFile = absolute(c.TokenFile, "--token-file", p)
	if len(c.ProxyFrom) > 0 && c.Auth != string(auth.ModeProxy) {
		p.add("--proxy-from: is for --auth proxy (got --auth %s)", c.Auth)
	}
	p.addAll(c.authConfig("/", nil).Validate(), authFlags)
}

func (c *config) resolveAgents(p *problems) {
	for _, flag := range c.Agent {
		spec, err := agentpool.ParseFlag(flag)
		if err != nil {
			for line := range strings.Lines(err.Error()) {
				p.add("--agent: %s", strings.TrimSpace(line))
			}
		}
		c.specs = append(c.specs, spec)
	}
	if c.Agents != "" {
		specs, err := agentpool.ReadFile(c.Agents)
		if err != nil {
			*p = append(*p, err)
		}
		c.specs = append(c.specs, specs...)
	}
	if len(c.specs) == 0 && len(c.Agent) == 0 && c.Agents == "" {
		// The demo agent is this program, started anew.
		c.specs = []agentpool.Spec{{Name: "demo", Title: "Demo agent", Command: c.self, Args: []string{"demo-agent"}}}
	}
	seen := map[string]bool{}
	for i, spec := range c.specs {
		if seen[spec.Name] && spec.Name != "" {
			p.add("--agent: two agents have the name %q", spec.Name)
		}
		seen[spec.Name] = true
		if spec.LineLimit == 0 {
			c.specs[i].LineLimit = int64(c.LineLimit)
		}
	}
	if c.DefaultAgent == "" {
		return
	}
	i := slices.IndexFunc(c.specs, func(s agentpool.Spec) bool { return s.Name == c.DefaultAgent })
	if i < 0 {
		p.add("--default-agent: no agent has this name (got %q)", c.DefaultAgent)
		return
	}
	first := c.specs[i]
	c.specs = slices.Insert(slices.Delete(c.specs, i, i+1), 0, first)
}

func (c *config) resolveRoots(p *problems) {
	roots := c.Root
	if len(roots) == 0 {
		if dir, err := os.Getwd(); err == nil {
			roots = append(roots, dir)
		}
		if home, err := os.UserHomeDir(); err == nil && isDir(home) {
			roots = append(roots, home)
		}
		if len(roots) == 0 {
			p.add("--root: there is neither a current nor a home directory: name one")
		}
	}
	for _, root := range roots {
		abs, err := filepath.Abs(root)
		switch {
		case err != nil:
			p.add("--root: %w", err)
		case !isDir(abs):
			p.add("--root: must be an existing directory (got %q)", root)
		case !slices.Contains(c.roots, abs):
			c.roots = append(c.roots, abs)
		}
	}
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// checkLimits refuses zero and less: no limit can be switched off by accident.
func (c *config) checkLimits(p *problems) {
	for _, limit := range []struct {
		flag  string
		value int64
		text  any
	}{
		{"--queue", int64(c.Queue), c.Queue},
		{"--max-processes", int64(c.MaxProcesses), c.MaxProcesses},
		{"--max-views", int64(c.MaxViews), c.MaxViews},
		{"--max-connections", int64(c.MaxConnections), c.MaxConnections},
		{"--connect-rate", int64(c.ConnectRate), c.ConnectRate},
		{"--max-frame-rate", int64(c.MaxFrameRate), c.MaxFrameRate},
		{"--max-byte-rate", int64(c.MaxByteRate), c.MaxByteRate},
		{"--journal-max-events", int64(c.JournalMaxEvents), c.JournalMaxEvents},
		{"--journal-max-bytes", int64(c.JournalMaxBytes), c.JournalMaxBytes},
		{"--journal-max-age", int64(c.JournalMaxAge), c.JournalMaxAge},
		{"--journal-memory", int64(c.JournalMemory), c.JournalMemory},
		{"--frame-limit", int64(c.FrameLimit), c.FrameLimit},
		{"--line-limit", int64(c.LineLimit), c.LineLimit},
		{"--sleep-after", int64(c.SleepAfter), c.SleepAfter},
		{"--slot-ttl", int64(c.SlotTTL), c.SlotTTL},
		{"--ping", int64(c.Ping), c.Ping},
	} {
		if limit.value <= 0 {
			p.add("%s: must be more than 0 (got %v)", limit.flag, limit.text)
		}
	}
	line := agentpool.Spec{Name: "x", Command: "x", LineLimit: int64(c.LineLimit)}
	p.addAll(line.Validate(), map[string]string{"agents.x.limits.line": "--line-limit"})
	if c.DrainTimeout < 0 {
		p.add("--drain-timeout: must not be negative (got %v)", c.DrainTimeout)
	}
	if c.Ping > 0 && c.Ping < time.Second {
		p.add("--ping: must be at least 1s (got %v)", c.Ping)
	}
}

// resolveState is the state directory that a flag means.
func resolveState(flag string, p *problems) string {
	dir := flag
	if dir == "" {
		if dir = defaultStateDir(); dir == "" {
			p.add("--state: there is no home directory: name one")
			return ""
		}
	}
	return absolute(dir, "--state", p)
}

// absolute is the absolute form of a path, empty for none.
func absolute(path, flag string, p *problems) string {
	if path == "" {
		return ""
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		p.add("%s: %w", flag, err)
	}
	return abs
}
