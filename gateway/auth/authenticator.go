package auth

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"
)

// Authenticator says who requests come from. It is safe for concurrent use and owns no goroutine.
type Authenticator struct {
	cfg      Config
	proxies  []netip.Prefix
	creds    *credentialStore // nil but in mode token
	cookies  *cookies         // nil but in mode token
	tickets  *ticketBook
	failures *failures
}

// New checks cfg and opens the files of mode token, making those that are missing.
func New(cfg Config) (*Authenticator, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	a := &Authenticator{cfg: cfg, tickets: newTicketBook(cfg.MaxTickets), failures: newFailures(cfg.FailureBurst, cfg.FailureEvery)}
	var err error
	if a.proxies, err = parseNetworks(cfg.ProxyFrom); err != nil {
		return nil, err
	}
	if cfg.Mode != ModeToken {
		return a, nil
	}
	if a.creds, err = openCredentials(cfg); err != nil {
		return nil, err
	}
	if a.cookies, err = openCookies(cfg); err != nil {
		return nil, err
	}
	return a, nil
}

// Mode is the mode of the Config.
func (a *Authenticator) Mode() Mode { return a.cfg.Mode }

// Authenticate says who sends r, by bearer header or cookie, proxy header, or mode none. Errors are of type *Error. A
// wrong bearer token is an error even beside a good cookie.
func (a *Authenticator) Authenticate(r *http.Request) (Identity, error) {
	switch a.cfg.Mode {
	case ModeNone:
		return Identity{Principal: Local, Via: ViaNone}, nil
	case ModeProxy:
		return a.fromProxy(r)
	}
	if text, ok, err := bearer(r); err != nil {
		return Identity{}, err
	} else if ok {
		return a.fromToken(r, text, ViaBearer)
	}
	return a.fromCookie(r)
}

// AuthenticateUpgrade is Authenticate for a WebSocket upgrade, where a client that cannot set headers may also offer a
// subprotocol bearer.<token>, or add ?ticket= with a ticket of IssueTicket (rule T2). The ticket is redeemed here: Host and
// Origin must be checked before.
func (a *Authenticator) AuthenticateUpgrade(r *http.Request) (Identity, error) {
	if text := r.URL.Query().Get("ticket"); text != "" && a.cfg.Mode != ModeNone {
		return a.Redeem(r, text)
	}
	if a.cfg.Mode == ModeToken && len(r.Header.Values("Authorization")) == 0 {
		if text, ok := subprotocolToken(r); ok {
			return a.fromToken(r, text, ViaSubprotocol)
		}
	}
	return a.Authenticate(r)
}

// Login checks a token that somebody typed. In the modes without tokens it is an error.
func (a *Authenticator) Login(r *http.Request, token string) (Identity, error) {
	if a.cfg.Mode != ModeToken {
		return Identity{}, a.loginUnused()
	}
	return a.fromToken(r, strings.TrimSpace(token), ViaBearer)
}

// Redeem ends a ticket and returns whom it stands for.
func (a *Authenticator) Redeem(r *http.Request, text string) (Identity, error) {
	from := address(r)
	if err := a.failures.allowed(from); err != nil {
		return Identity{}, err
	}
	id, ok := a.tickets.redeem(text)
	if !ok || !a.Valid(id) {
		a.failures.note(from)
		return Identity{}, errUnauthorized("The ticket is unknown, used or over", "get another one: a ticket works once, for a short time")
	}
	id.Via = ViaTicket
	return id, nil
}

// Purpose says what a ticket is for, which decides how long it lives.
type Purpose string

const (
	ForSocket Purpose = "socket" // Config.TicketTTL
	ForLogin  Purpose = "login"  // Config.LoginTTL
)

// IssueTicket makes a ticket that stands for id, once, and says how long. Errors are of type *Error.
func (a *Authenticator) IssueTicket(id Identity, p Purpose) (text string, ttl time.Duration, err error) {
	ttl = a.cfg.TicketTTL
	if p == ForLogin {
		ttl = a.cfg.LoginTTL
	}
	text, err = a.tickets.issue(id, ttl)
	return text, ttl, err
}

// LocalTicket makes a login ticket for the first token, for the link that the terminal shows. It is "" with nil in the
// modes without login.
func (a *Authenticator) LocalTicket() (string, error) {
	if a.cfg.Mode != ModeToken {
		return "", nil
	}
	c, ok := a.creds.byPrincipal(Local)
	if !ok {
		return "", errUnauthorized("The token file is gone", "start the gateway again to have a new token made")
	}
	text, _, err := a.IssueTicket(Identity{Principal: Local, Via: ViaTicket, Token: c.id}, ForLogin)
	return text, err
}

// SetCookie logs a browser in as id, which must rest on a token, and returns id with its end. secure says that the
// browser reaches us by HTTPS. Errors are of type *Error.
func (a *Authenticator) SetCookie(w http.ResponseWriter, id Identity, secure bool) (Identity, error) {
	if a.cookies == nil || id.Token == "" {
		return id, a.loginUnused()
	}
	id.Login = rand.Text()
	id.Expires = a.cookies.set(w, id, secure)
	return id, nil
}

// RenewCookie gives a browser whose cookie is past half of its life a new one.
func (a *Authenticator) RenewCookie(w http.ResponseWriter, id Identity, secure bool) {
	if id.Via == ViaCookie && time.Until(id.Expires) < a.cfg.CookieTTL/2 {
		a.cookies.set(w, id, secure)
	}
}

// ClearCookie logs a browser out. What somebody copied from the browser before counts until its end; removing or changing
// the token ends that too.
func (a *Authenticator) ClearCookie(w http.ResponseWriter, secure bool) {
	if a.cookies != nil {
		a.cookies.clear(w, secure)
	}
}

// Valid reports whether what id rests on still counts. Package gateway asks it for open connections from time to time.
func (a *Authenticator) Valid(id Identity) bool {
	if a.creds == nil {
		return true
	}
	if !id.Expires.IsZero() && !time.Now().Before(id.Expires) {
		return false
	}
	c, ok := a.creds.byID(id.Token)
	return ok && c.principal == id.Principal
}

// IsBearerProtocol reports whether a WebSocket subprotocol carries a token; such a one is never selected (rule W2).
func IsBearerProtocol(p string) bool {
	const prefix = "bearer."
	return len(p) >= len(prefix) && strings.EqualFold(p[:len(prefix)], prefix)
}

func (a *Authenticator) fromToken(r *http.Request, text string, via Via) (Identity, error) {
	from := address(r)
	if err := a.failures.allowed(from); err != nil {
		return Identity{}, err
	}
	c, ok := a.creds.byToken(text)
	if !ok {
		a.failures.note(from)
		return Identity{}, errUnauthorized("The token is not valid", hintToken)
	}
	return Identity{Principal: c.principal, Via: via, Token: c.id}, nil
}

func (a *Authenticator) fromCookie(r *http.Request) (Identity, error) {
	id, ok := a.cookies.read(r)
	if !ok {
		return Identity{}, errUnauthorized("Not logged in", hintToken)
	}
	c, ok := a.creds.byID(id.Token)
	if !ok {
		return Identity{}, errUnauthorized("The token of this login was removed or changed", hintToken)
	}
	id.Principal = c.principal
	return id, nil
}

func (a *Authenticator) fromProxy(r *http.Request) (Identity, error) {
	peer, ok := peerAddr(r)
	trusted := false
	for _, p := range a.proxies {
		trusted = trusted || ok && p.Contains(peer)
	}
	if !trusted {
		return Identity{}, errUnauthorized("The request does not come from the proxy", "connect through the proxy, or list its address")
	}
	names := r.Header.Values(a.cfg.ProxyHeader)
	if len(names) != 1 {
		return Identity{}, errUnauthorized(
			fmt.Sprintf("The proxy must name the user in one %s header (got %d)", a.cfg.ProxyHeader, len(names)),
			"let the proxy log users in and replace what clients send in that header",
		)
	}
	if err := checkPrincipal(names[0]); err != nil {
		return Identity{}, &Error{Status: http.StatusBadRequest, Reason: "bad_request", Message: "The proxy sent a bad user name: " + err.Error()}
	}
	return Identity{Principal: strings.Clone(names[0]), Via: ViaProxy}, nil // not a piece of the request's headers
}

func (a *Authenticator) loginUnused() *Error {
	return &Error{Status: http.StatusNotFound, Reason: "login_unused", Message: "This gateway has no login of its own (mode " + string(a.cfg.Mode) + ")"}
}

// bearer returns the token of the Authorization header. Another scheme is an error: somebody meant to prove who he is.
func bearer(r *http.Request) (text string, ok bool, err error) {
	values := r.Header.Values("Authorization")
	if len(values) == 0 {
		return "", false, nil
	}
	scheme, text, _ := strings.Cut(values[0], " ")
	if len(values) > 1 || !strings.EqualFold(scheme, "Bearer") || strings.TrimSpace(text) == "" {
		return "", false, errUnauthorized("The Authorization header must be one Bearer token", hintToken)
	}
	return strings.TrimSpace(text), true, nil
}

// subprotocolToken returns the token of the first bearer. subprotocol that is offered.
func subprotocolToken(r *http.Request) (string, bool) {
	for _, line := range r.Header.Values("Sec-WebSocket-Protocol") {
		for p := range strings.SplitSeq(line, ",") {
			if p = strings.TrimSpace(p); IsBearerProtocol(p) {
				return p[len("bearer."):], true
			}
		}
	}
	return "", false
}

// peerAddr is the address of the other end of the connection; headers that claim another one are not looked at.
func peerAddr(r *http.Request) (netip.Addr, bool) {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}, false
	}
	addr, err := netip.ParseAddr(host)
	return addr.Unmap().WithZone(""), err == nil
}

// address is what failed attempts are counted by: an IPv4 address, or the /64 that one IPv6 customer has.
func address(r *http.Request) netip.Prefix {
	addr, ok := peerAddr(r)
	if !ok {
		return netip.Prefix{}
	}
	bits := addr.BitLen()
	if addr.Is6() {
		bits = 64
	}
	p, err := addr.Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return p
}

// Reason returns the reason word of an *Error, "internal" for any other error.
func Reason(err error) string {
	var e *Error
	if errors.As(err, &e) {
		return e.Reason
	}
	return "internal"
}
