package redisstore

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// place is what a URL says.
type place struct {
	tls      bool
	cluster  bool
	master   string // the name that Sentinels know; "": there are none
	addrs    []string
	user     string
	password string

	sentinelUser, sentinelPassword string

	db int
}

// parseURL reads the URLs of README.md. Its errors do not repeat the URL, which may hold a password.
func parseURL(raw string) (place, error) {
	scheme, rest, found := strings.Cut(raw, "://")
	if !found {
		return place{}, errors.New("must begin with redis://, rediss://, redis+sentinel:// or redis+cluster://")
	}
	base, kind, _ := strings.Cut(scheme, "+")
	p := place{tls: base == "rediss", cluster: kind == "cluster"}
	if base != "redis" && base != "rediss" || !slices.Contains([]string{"redis", "rediss", base + "+sentinel", base + "+cluster"}, scheme) {
		return place{}, fmt.Errorf("unknown scheme %q: redis, rediss, redis+sentinel, redis+cluster, rediss+sentinel or rediss+cluster", scheme)
	}
	authority, path := rest, ""
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		authority, path = rest[:i], rest[i:]
	}
	var err error
	if i := strings.LastIndexByte(authority, '@'); i >= 0 {
		user, password, _ := strings.Cut(authority[:i], ":")
		authority = authority[i+1:]
		var err2 error
		p.user, err = url.PathUnescape(user)
		p.password, err2 = url.PathUnescape(password)
		if err != nil || err2 != nil {
			return place{}, errors.New("user or password is not percent-encoded")
		}
	}
	defaultPort := "6379"
	if kind == "sentinel" {
		defaultPort = "26379"
	}
	if p.addrs, err = addresses(authority, defaultPort); err != nil {
		return place{}, err
	}
	if len(p.addrs) > 1 && kind == "" {
		return place{}, errors.New("several hosts need redis+sentinel:// or redis+cluster://")
	}
	path, query, _ := strings.Cut(path, "?")
	if path, err = url.PathUnescape(strings.TrimPrefix(path, "/")); err != nil {
		return place{}, errors.New("the path is not percent-encoded")
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return place{}, errors.New("the part after ? is not a query")
	}
	return p, p.options(kind, path, values)
}

// addresses splits host[:port],host[:port]...
func addresses(list, defaultPort string) (out []string, err error) {
	for addr := range strings.SplitSeq(list, ",") {
		host, port, err := net.SplitHostPort(addr)
		if err != nil {
			host, port = strings.TrimSuffix(strings.TrimPrefix(addr, "["), "]"), defaultPort
		}
		if n, err := strconv.ParseUint(port, 10, 16); host == "" || err != nil || n == 0 {
			return nil, fmt.Errorf("%q is not host or host:port", addr)
		}
		out = append(out, net.JoinHostPort(host, port))
	}
	return out, nil
}

func (p *place) options(kind, path string, values url.Values) error {
	allowed := map[string]*string{}
	db := ""
	switch kind {
	case "sentinel":
		if p.master = path; path == "" {
			return errors.New("the path must be the name that the Sentinels have for the master")
		}
		allowed["db"], allowed["sentinel_user"], allowed["sentinel_password"] = &db, &p.sentinelUser, &p.sentinelPassword
	case "cluster":
		if path != "" {
			return errors.New("a cluster has one database, so there is no path")
		}
	default:
		db = path
		if path == "" {
			allowed["db"] = &db
		}
	}
	for name, value := range values {
		into, ok := allowed[name]
		if !ok || len(value) != 1 {
			return fmt.Errorf("unknown or repeated option %q", name)
		}
		*into = value[0]
	}
	if db != "" {
		n, err := strconv.ParseUint(db, 10, 16)
		if err != nil {
			return fmt.Errorf("%q is not the number of a database", db)
		}
		p.db = int(n)
	}
	return nil
}

// redact is a URL as it may be shown: without what could be a secret.
func redact(raw string) string {
	scheme, rest, found := strings.Cut(raw, "://")
	if !found {
		return `"..."`
	}
	rest, _, _ = strings.Cut(rest, "?")
	if i := strings.LastIndexByte(rest, '@'); i >= 0 {
		rest = "...@" + rest[i+1:]
	}
	return strconv.Quote(scheme + "://" + rest)
}
