package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"net/http"
	"sync"
	"time"
)

// ticketBook keeps the open tickets, by the digest of their text.
type ticketBook struct {
	perPrincipal int

	mu   sync.Mutex
	open map[[sha256.Size]byte]ticket
}

type ticket struct {
	id  Identity
	end time.Time
}

func newTicketBook(perPrincipal int) *ticketBook {
	return &ticketBook{perPrincipal: perPrincipal, open: map[[sha256.Size]byte]ticket{}}
}

// issue makes a ticket that stands for id until ttl is over or it is redeemed.
func (b *ticketBook) issue(id Identity, ttl time.Duration) (string, error) {
	text := rand.Text()
	now := time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	own := 0
	for sum, t := range b.open {
		switch {
		case !now.Before(t.end):
			delete(b.open, sum)
		case t.id.Principal == id.Principal:
			own++
		}
	}
	if own >= b.perPrincipal || len(b.open) >= maxPrincipals {
		return "", &Error{
			Status: http.StatusTooManyRequests, Reason: "ticket_limit", Message: "Too many tickets are open",
			Hint: "use the tickets that you have, or wait until they end", RetryAfter: ttl,
		}
	}
	b.open[sha256.Sum256([]byte(text))] = ticket{id, now.Add(ttl)}
	return text, nil
}

// redeem ends a ticket and returns whom it stands for.
func (b *ticketBook) redeem(text string) (Identity, bool) {
	sum := sha256.Sum256([]byte(text))
	b.mu.Lock()
	defer b.mu.Unlock()
	t, ok := b.open[sum]
	delete(b.open, sum)
	return t.id, ok && time.Now().Before(t.end)
}
