package redisstore

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"
)

// Config is what Open needs. Zero values are the defaults named here.
type Config struct {
	// URL says where Redis is; README.md has its forms. Required. It may hold a password: it is never logged.
	URL string
	// TLS is used for the URL's hosts when its scheme begins with rediss: default the system's roots.
	TLS *tls.Config
	// Prefix is the begin of every key: default "acpgate". Gateways with the same prefix on the same Redis share everything.
	Prefix string
	// Logger: default slog.Default().
	Logger *slog.Logger

	// DialTimeout bounds connecting, and Timeout a command on its way and back, each also bounded by the context of the
	// call: default 2 s and 5 s.
	DialTimeout, Timeout time.Duration
	// PoolSize bounds the connections to each node, but for the one of watchers: default 32. Calls beyond it wait, up
	// to Timeout.
	PoolSize int
	// PipelineBytes and PipelineRuns bound what Append sends before it waits for answers: default 4 MiB and 512 runs.
	// One run of any size is always sent.
	PipelineBytes int64
	PipelineRuns  int
	// PingEvery is how long the connection of watchers may be silent before it is asked whether it still works, and how
	// long the answer may take: default 5 s.
	PingEvery time.Duration
}

// Validate returns every problem of c at once, each as "field: problem (got value)".
func (c Config) Validate() error {
	var problems []error
	bad := func(field, problem string, got any) {
		problems = append(problems, fmt.Errorf("%s: %s (got %v)", field, problem, got))
	}
	if _, err := parseURL(c.URL); err != nil {
		bad("URL", err.Error(), redact(c.URL))
	}
	if strings.ContainsAny(c.Prefix, "{}\x00") {
		bad("Prefix", "must not contain braces or NUL", fmt.Sprintf("%q", c.Prefix))
	}
	for _, d := range []struct {
		field string
		value time.Duration
	}{{"DialTimeout", c.DialTimeout}, {"Timeout", c.Timeout}, {"PingEvery", c.PingEvery}} {
		if d.value < 0 {
			bad(d.field, "must not be negative", d.value)
		}
	}
	for _, n := range []struct {
		field string
		value int64
	}{{"PoolSize", int64(c.PoolSize)}, {"PipelineBytes", c.PipelineBytes}, {"PipelineRuns", int64(c.PipelineRuns)}} {
		if n.value < 0 {
			bad(n.field, "must not be negative", n.value)
		}
	}
	return errors.Join(problems...)
}

func (c Config) withDefaults() Config {
	if c.Prefix == "" {
		c.Prefix = "acpgate"
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.DialTimeout == 0 {
		c.DialTimeout = 2 * time.Second
	}
	if c.Timeout == 0 {
		c.Timeout = 5 * time.Second
	}
	if c.PoolSize == 0 {
		c.PoolSize = 32
	}
	if c.PipelineBytes == 0 {
		c.PipelineBytes = 4 << 20
	}
	if c.PipelineRuns == 0 {
		c.PipelineRuns = 512
	}
	if c.PingEvery == 0 {
		c.PingEvery = 5 * time.Second
	}
	return c
}
