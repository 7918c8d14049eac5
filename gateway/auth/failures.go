package auth

import (
	"net/http"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// failures limits failed attempts by address: each has burst of them and gets one back every so often.
type failures struct {
	every time.Duration
	burst int

	mu     sync.Mutex
	byAddr map[netip.Prefix]*rate.Limiter
}

func newFailures(burst int, every time.Duration) *failures {
	return &failures{every: every, burst: burst, byAddr: map[netip.Prefix]*rate.Limiter{}}
}

// allowed reports whether the address may try: nil, or an *Error that says when it may.
func (f *failures) allowed(from netip.Prefix) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	lim := f.byAddr[from]
	if lim == nil {
		return nil
	}
	have := lim.Tokens()
	if have >= 1 {
		return nil
	}
	return &Error{
		Status: http.StatusTooManyRequests, Reason: "rate_limited", Message: "Too many failed attempts from this address",
		Hint: "wait, then try again with the right token", RetryAfter: time.Duration((1 - have) * float64(f.every)),
	}
}

func (f *failures) note(from netip.Prefix) {
	f.mu.Lock()
	defer f.mu.Unlock()
	lim := f.byAddr[from]
	if lim == nil {
		f.makeRoom()
		lim = rate.NewLimiter(rate.Every(f.every), f.burst)
		f.byAddr[from] = lim
	}
	lim.Allow()
}

// makeRoom keeps the map bounded: addresses with a clean record go first, then any. Under mu.
func (f *failures) makeRoom() {
	if len(f.byAddr) < maxPrincipals {
		return
	}
	for addr, lim := range f.byAddr {
		if lim.Tokens() >= float64(f.burst) {
			delete(f.byAddr, addr)
		}
	}
	for addr := range f.byAddr {
		if len(f.byAddr) < maxPrincipals {
			return
		}
		delete(f.byAddr, addr)
	}
}
