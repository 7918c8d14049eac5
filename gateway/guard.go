package gateway

import (
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/acpgate/acpgate/gateway/auth"
)

// guard checks the Host and Origin of requests against the allow-lists (rule T2). The Host check is what stops DNS
// rebinding: a page of evil.example whose name suddenly means 127.0.0.1 still says evil.example.
type guard struct {
	port    string              // of the listener
	hosts   map[string]struct{} // allowed host:port, lower case
	anyPort map[string]struct{} // allowed hosts on any port
	origins map[string]struct{} // allowed scheme://host[:port], beside those of allowed hosts
}

func newGuard(listen net.Addr, hosts, origins []string) *guard {
	g := &guard{hosts: map[string]struct{}{}, anyPort: map[string]struct{}{}, origins: map[string]struct{}{}}
	host, port, err := net.SplitHostPort(listen.String())
	if err == nil {
		g.port = port
		for _, h := range []string{host, "localhost", "127.0.0.1", "::1"} {
			g.hosts[net.JoinHostPort(h, port)] = struct{}{}
		}
	}
	for _, h := range hosts {
		h = strings.ToLower(h)
		if _, _, err := net.SplitHostPort(h); err == nil {
			g.hosts[h] = struct{}{}
		} else {
			g.anyPort[strings.Trim(h, "[]")] = struct{}{}
		}
	}
	for _, o := range origins {
		g.origins[normalOrigin(o)] = struct{}{}
	}
	return g
}

// host checks the Host header of r.
func (g *guard) host(r *http.Request) error {
	if g.allowsHost(r, r.Host, r.TLS != nil) {
		return nil
	}
	return &auth.Error{
		Status: http.StatusForbidden, Reason: "host_not_allowed", Message: "The gateway does not answer to the name " + clip(r.Host, 100),
		Hint: "start it with --allow-host " + clip(r.Host, 100) + " if that is its name",
	}
}

func (g *guard) allowsHost(r *http.Request, host string, https bool) bool {
	name, port := splitHost(host, https)
	if name == "" {
		return false
	}
	full := net.JoinHostPort(name, port)
	if _, ok := g.hosts[full]; ok {
		return true
	}
	if _, ok := g.anyPort[name]; ok {
		return true
	}
	// Listening on all addresses, each of them is a listen address: the one that this connection came in by.
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return ok && port == g.port && local.String() == full
}

// origin checks the Origin header of r, if there is one: it must be ours or on the list. absent reports that there is none.
func (g *guard) origin(r *http.Request) (absent bool, err error) {
	values := r.Header.Values("Origin")
	if len(values) == 0 {
		return true, nil
	}
	if len(values) == 1 && g.allowsOrigin(r, values[0]) {
		return false, nil
	}
	return false, &auth.Error{
		Status: http.StatusForbidden, Reason: "origin_not_allowed", Message: "Pages of " + clip(values[0], 100) + " may not connect",
		Hint: "start the gateway with --allow-origin " + clip(values[0], 100) + " if they should",
	}
}

func (g *guard) allowsOrigin(r *http.Request, origin string) bool {
	if _, ok := g.origins[normalOrigin(origin)]; ok {
		return true
	}
	u, err := url.Parse(origin)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || origin != u.Scheme+"://"+u.Host {
		return false
	}
	return g.allowsHost(r, u.Host, u.Scheme == "https")
}

// splitHost returns name and port of a Host header, in lower case; without a port it is that of the scheme.
func splitHost(host string, https bool) (name, port string) {
	host = strings.ToLower(host)
	name, port, err := net.SplitHostPort(host)
	if err != nil {
		name, port = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"), "80"
		if https {
			port = "443"
		}
	}
	return strings.TrimSuffix(name, "."), port
}

// normalOrigin writes an origin as browsers do: in lower case, without the scheme's own port.
func normalOrigin(o string) string {
	o = strings.ToLower(o)
	switch {
	case strings.HasPrefix(o, "http://"):
		return strings.TrimSuffix(o, ":80")
	case strings.HasPrefix(o, "https://"):
		return strings.TrimSuffix(o, ":443")
	}
	return o
}
