package auth

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"time"
)

// Mode is how clients prove who they are (rule T1).
type Mode string

const (
	ModeToken Mode = "token" // a token, or what was made from one: a cookie or a ticket
	ModeProxy Mode = "proxy" // a header of a trusted reverse proxy
	ModeNone  Mode = "none"  // nobody has to; for loopback only
)

// Config configures an Authenticator. Zero values are the documented defaults.
type Config struct {
	Mode     Mode   // default ModeToken
	StateDir string // existing directory for token, tokens.json and cookie.key; required in mode token
	// TokenFile holds the first token instead of <state>/token. It is made if it is missing.
	TokenFile string

	ProxyHeader string   // header with the user's name in mode proxy; default X-Forwarded-User
	ProxyFrom   []string // addresses or CIDRs whose header is believed; required in mode proxy

	CookiePath string        // path that the cookie is sent to; default /
	CookieTTL  time.Duration // default 30 days, renewed by use
	TicketTTL  time.Duration // of a ticket for a WebSocket, default 30 s (rule T2)
	LoginTTL   time.Duration // of a login link, default 15 min
	MaxTickets int           // open tickets of one principal, default 64

	FailureBurst int           // failed attempts that one address has at once, default 10
	FailureEvery time.Duration // after which it gets one back, default 6 s

	Logger *slog.Logger // default: none
}

// maxPrincipals bounds everything that is kept per principal or address: open tickets (with MaxTickets) and failure counts.
const maxPrincipals = 4096

func (c Config) withDefaults() Config {
	if c.Mode == "" {
		c.Mode = ModeToken
	}
	if c.ProxyHeader == "" {
		c.ProxyHeader = "X-Forwarded-User"
	}
	if c.CookiePath == "" {
		c.CookiePath = "/"
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	def := func(p *time.Duration, d time.Duration) {
		if *p == 0 {
			*p = d
		}
	}
	def(&c.CookieTTL, 30*24*time.Hour)
	def(&c.TicketTTL, 30*time.Second)
	def(&c.LoginTTL, 15*time.Minute)
	def(&c.FailureEvery, 6*time.Second)
	if c.MaxTickets == 0 {
		c.MaxTickets = 64
	}
	if c.FailureBurst == 0 {
		c.FailureBurst = 10
	}
	return c
}

// Validate reports every problem of c at once, each as `field: problem (got value)`.
func (c Config) Validate() error {
	var errs []error
	bad := func(field, problem string, got any) {
		errs = append(errs, fmt.Errorf("%s: %s (got %v)", field, problem, got))
	}
	switch c.Mode {
	case "", ModeToken:
		if c.StateDir == "" {
			bad("StateDir", "is required in mode token", `""`)
		}
	case ModeProxy:
		if len(c.ProxyFrom) == 0 {
			bad("ProxyFrom", "mode proxy needs the address of the proxy, or everybody could name himself", "none")
		}
	case ModeNone:
	case "oidc":
		bad("Mode", "login by OpenID Connect is not offered by this version; put a proxy that does it in front and use mode proxy", c.Mode)
	default:
		bad("Mode", "must be token, proxy or none", c.Mode)
	}
	if _, err := parseNetworks(c.ProxyFrom); err != nil {
		errs = append(errs, err)
	}
	if c.CookiePath != "" && !strings.HasPrefix(c.CookiePath, "/") {
		bad("CookiePath", "must begin with /", c.CookiePath)
	}
	for _, f := range []struct {
		name string
		n    int64
	}{
		{"CookieTTL", int64(c.CookieTTL)},
		{"TicketTTL", int64(c.TicketTTL)},
		{"LoginTTL", int64(c.LoginTTL)},
		{"MaxTickets", int64(c.MaxTickets)},
		{"FailureBurst", int64(c.FailureBurst)},
		{"FailureEvery", int64(c.FailureEvery)},
	} {
		if f.n < 0 {
			bad(f.name, "must not be negative", f.n)
		}
	}
	return errors.Join(errs...)
}

// parseNetworks reads addresses and CIDRs; an address stands for itself alone.
func parseNetworks(list []string) ([]netip.Prefix, error) {
	var nets []netip.Prefix
	var errs []error
	for _, s := range list {
		if addr, err := netip.ParseAddr(s); err == nil {
			addr = addr.Unmap().WithZone("")
			nets = append(nets, netip.PrefixFrom(addr, addr.BitLen()))
			continue
		}
		p, err := netip.ParsePrefix(s)
		if err != nil {
			errs = append(errs, fmt.Errorf("ProxyFrom: must be an address or a network like 10.0.0.0/8 (got %q)", s))
			continue
		}
		nets = append(nets, p.Masked())
	}
	return nets, errors.Join(errs...)
}
