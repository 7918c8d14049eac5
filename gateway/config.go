package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/acpgate/acpgate/gateway/auth"
)

// Config configures a Server. Zero values are the documented defaults.
type Config struct {
	Listener net.Listener // required; the Server closes it
	TLS      *tls.Config  // serve HTTPS with these certificates; nil: HTTP
	BasePath string       // serve everything below this path; default /

	// AllowHosts are further values of the Host header to accept (rule T2): HOST for any port, or HOST:PORT. The listen
	// address and localhost, 127.0.0.1 and [::1] with its port always are.
	AllowHosts []string
	// AllowOrigins are further origins whose pages may connect, as scheme://host[:port]. Origins of allowed hosts are.
	AllowOrigins []string

	Auth     *auth.Authenticator // required
	Sessions Sessions            // required
	Page     http.Handler        // everything that is not the API; nil: 404

	// Agents lists the configured agents for a principal, the default one first. Required. It must not block.
	Agents  func(principal string) []Agent
	Roots   []string // allowed workspaces, for clients to know; the first is the default directory
	Version string

	// Checks decide /readyz. Each has two seconds.
	Checks []Check
	// Metrics are values of other parts, exposed under acpgate_ with the gateway's own.
	Metrics []Metric
	// MetricsOpen serves /metrics to everybody. Otherwise it needs a login, except from loopback without a proxy.
	MetricsOpen bool

	Limits Limits
	Logger *slog.Logger // default: none
	Audit  *slog.Logger // logins; default: none
}

// Agent is a configured agent as clients see it.
type Agent struct {
	Name  string `json:"name"`
	Title string `json:"title,omitempty"` // once it is known
}

// Check is one condition of readiness.
type Check struct {
	Name string
	Func func(ctx context.Context) error
}

// Metric is a value of another part.
type Metric struct {
	Name    string // without acpgate_; a counter's ends in _total
	Help    string
	Counter bool // else a gauge
	Value   func() float64
}

// Limits bounds what connections may take (rules W6, T6). 0 is the default; for rates, -1 is unlimited.
type Limits struct {
	FrameBytes   int64 // largest frame of a client; default 32 MiB
	LineBytes    int64 // largest line of an agent, for clients to know; default 64 MiB
	Queue        int   // prompts that may wait in a session, for clients to know; default 8
	SendBuffer   int   // bytes taken out of one session's journal at a time; default 256 KiB
	ControlQueue int   // bytes of answers that wait for the socket; an empty queue takes any one. Default 256 KiB

	Requests    int // open requests of one connection; default 256
	Attachments int // sessions that one connection uses at a time; default 1024
	Waiting     int // frames of one session that wait behind a slow one; default 64
	WaitingSize int // and their bytes; none waiting takes any one. Default 1 MiB

	Conns             int // default 20,000
	ConnsPerPrincipal int // default 1,000
	ConnectRate       int // connections per second of one principal, for long; default 50
	ConnectBurst      int // and at once; default 200

	FrameRate int   // frames per second that a connection may send for long; default 20,000
	ByteRate  int64 // bytes per second that a connection may send for long; default 256 MiB

	Ping       time.Duration // default 20 s (rule W11)
	Pong       time.Duration // time to answer; default 20 s
	CloseGrace time.Duration // time for the closing handshake before the socket is cut; default 5 s
}

func (l Limits) withDefaults() Limits {
	num := func(p *int, n int) {
		if *p == 0 {
			*p = n
		}
	}
	size := func(p *int64, n int64) {
		if *p == 0 {
			*p = n
		}
	}
	def := func(p *time.Duration, d time.Duration) {
		if *p == 0 {
			*p = d
		}
	}
	size(&l.FrameBytes, 32<<20)
	size(&l.LineBytes, 64<<20)
	num(&l.Queue, 8)
	num(&l.SendBuffer, 256<<10)
	num(&l.ControlQueue, 256<<10)
	num(&l.Requests, 256)
	num(&l.Attachments, 1024)
	num(&l.Waiting, 64)
	num(&l.WaitingSize, 1<<20)
	num(&l.Conns, 20_000)
	num(&l.ConnsPerPrincipal, 1000)
	num(&l.ConnectRate, 50)
	num(&l.ConnectBurst, 200)
	num(&l.FrameRate, 20_000)
	size(&l.ByteRate, 256<<20)
	def(&l.Ping, 20*time.Second)
	def(&l.Pong, 20*time.Second)
	def(&l.CloseGrace, 5*time.Second)
	return l
}

func (c Config) withDefaults() Config {
	c.Limits = c.Limits.withDefaults()
	c.BasePath = strings.TrimSuffix(c.BasePath, "/")
	if c.Page == nil {
		c.Page = http.NotFoundHandler()
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Audit == nil {
		c.Audit = slog.New(slog.DiscardHandler)
	}
	return c
}

// Validate reports every problem of c at once, each as `field: problem (got value)`.
func (c Config) Validate() error {
	var errs []error
	bad := func(field, problem string, got any) {
		errs = append(errs, fmt.Errorf("%s: %s (got %v)", field, problem, got))
	}
	for field, missing := range map[string]bool{
		"Listener": c.Listener == nil, "Auth": c.Auth == nil, "Sessions": c.Sessions == nil, "Agents": c.Agents == nil,
	} {
		if missing {
			bad(field, "is required", nil)
		}
	}
	if c.Listener != nil && c.Auth != nil && c.Auth.Mode() == auth.ModeNone && !isLoopback(c.Listener.Addr()) {
		bad("Listener", "without a login (auth mode none) the gateway listens on loopback only, since everybody who reaches it "+
			"can run commands: listen on 127.0.0.1, or use auth mode token or proxy", c.Listener.Addr())
	}
	if p := strings.TrimSuffix(c.BasePath, "/"); p != "" && (!strings.HasPrefix(p, "/") || strings.ContainsAny(p, "{}*?#%\\ ") || (&url.URL{Path: p}).JoinPath().Path != p) {
		bad("BasePath", "must be a plain path like /acpgate", c.BasePath)
	}
	for _, h := range c.AllowHosts {
		if u, err := url.Parse("//" + h); err != nil || u.Host != h || u.Hostname() == "" || strings.Contains(h, "*") {
			bad("AllowHosts", "must be HOST or HOST:PORT", h)
		}
	}
	for _, o := range c.AllowOrigins {
		u, err := url.Parse(o)
		if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || o != u.Scheme+"://"+u.Host || strings.Contains(o, "*") {
			bad("AllowOrigins", "must be scheme://host[:port]", o)
		}
	}
	errs = append(errs, c.Limits.Validate())
	return errors.Join(errs...)
}

const minFrameBytes = 4 << 10

// Validate reports every problem of l at once.
func (l Limits) Validate() error {
	var errs []error
	for _, f := range []struct {
		name string
		n    int64
		rate bool
	}{
		{"FrameBytes", l.FrameBytes, false},
		{"LineBytes", l.LineBytes, false},
		{"Queue", int64(l.Queue), false},
		{"SendBuffer", int64(l.SendBuffer), false},
		{"ControlQueue", int64(l.ControlQueue), false},
		{"Requests", int64(l.Requests), false},
		{"Attachments", int64(l.Attachments), false},
		{"Waiting", int64(l.Waiting), false},
		{"WaitingSize", int64(l.WaitingSize), false},
		{"Conns", int64(l.Conns), false},
		{"ConnsPerPrincipal", int64(l.ConnsPerPrincipal), false},
		{"ConnectRate", int64(l.ConnectRate), true},
		{"ConnectBurst", int64(l.ConnectBurst), false},
		{"FrameRate", int64(l.FrameRate), true},
		{"ByteRate", l.ByteRate, true},
		{"Ping", int64(l.Ping), false},
		{"Pong", int64(l.Pong), false},
		{"CloseGrace", int64(l.CloseGrace), false},
	} {
		switch {
		case f.rate && f.n < -1:
			errs = append(errs, fmt.Errorf("Limits.%s: must be positive, 0 for the default or -1 for unlimited (got %d)", f.name, f.n))
		case !f.rate && f.n < 0:
			errs = append(errs, fmt.Errorf("Limits.%s: must not be negative (got %d)", f.name, f.n))
		}
	}
	if l.FrameBytes > 0 && l.FrameBytes < minFrameBytes {
		errs = append(errs, fmt.Errorf("Limits.FrameBytes: must be at least %d, or no client could initialize (got %d)", minFrameBytes, l.FrameBytes))
	}
	if l.FrameBytes > 1<<30 {
		errs = append(errs, fmt.Errorf("Limits.FrameBytes: must be at most 1 GiB (got %d)", l.FrameBytes))
	}
	return errors.Join(errs...)
}

// isLoopback reports whether only this machine can reach addr.
func isLoopback(addr net.Addr) bool {
	tcp, ok := addr.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}
