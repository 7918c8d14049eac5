package gateway

import (
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/acpgate/acpgate/gateway/auth"
)

// admission counts connections, in all and by principal, and bounds how fast they come (rule T6).
type admission struct {
	limits Limits

	mu     sync.Mutex
	total  int
	users  map[string]*user
	closed bool // draining
}

type user struct {
	conns int
	lim   *rate.Limiter // nil: unlimited
}

// maxIdleUsers bounds the principals that are kept without a connection, for their rate.
const maxIdleUsers = 4096

func newAdmission(l Limits) *admission { return &admission{limits: l, users: map[string]*user{}} }

// admit takes a place for one connection. Errors are of type *auth.Error, so that all refusals look alike.
func (a *admission) admit(principal string) error {
	refuse := func(status int, reason, message, hint string, after time.Duration) error {
		return &auth.Error{Status: status, Reason: reason, Message: message, Hint: hint, RetryAfter: after}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return errDraining()
	}
	if a.total >= a.limits.Conns {
		return refuse(http.StatusServiceUnavailable, "connection_limit", "The gateway has as many connections as it may", "try again later", 5*time.Second)
	}
	u := a.users[principal]
	if u == nil {
		a.forgetIdle()
		u = &user{}
		if a.limits.ConnectRate > 0 {
			u.lim = rate.NewLimiter(rate.Limit(a.limits.ConnectRate), a.limits.ConnectBurst)
		}
		a.users[principal] = u
	}
	if u.conns >= a.limits.ConnsPerPrincipal {
		return refuse(http.StatusTooManyRequests, "connection_limit", "You have as many connections as you may", "close one first", 5*time.Second)
	}
	if u.lim != nil && !u.lim.Allow() {
		return refuse(http.StatusTooManyRequests, "rate_limited", "You connect too often", "wait longer between attempts", time.Second)
	}
	u.conns++
	a.total++
	return nil
}

func (a *admission) leave(principal string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.total--
	if u := a.users[principal]; u != nil {
		u.conns--
	}
}

// forgetIdle drops principals without connections once there are many, those with a full allowance first. Under mu.
func (a *admission) forgetIdle() {
	if len(a.users) < maxIdleUsers+a.total {
		return
	}
	for name, u := range a.users {
		if u.conns == 0 && (u.lim == nil || u.lim.Tokens() >= float64(a.limits.ConnectBurst)) {
			delete(a.users, name)
		}
	}
	for name, u := range a.users {
		if len(a.users) < maxIdleUsers+a.total {
			return
		}
		if u.conns == 0 {
			delete(a.users, name)
		}
	}
}

// close refuses everybody from now on.
func (a *admission) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
}

func (a *admission) isClosed() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.closed
}

func errDraining() *auth.Error {
	return &auth.Error{
		Status: http.StatusServiceUnavailable, Reason: "draining", Message: "The gateway is shutting down",
		Hint: "connect again in a moment", RetryAfter: 2 * time.Second,
	}
}
