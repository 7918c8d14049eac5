package auth

import (
	"net/http"
	"time"
)

// Error says why a request was not let in. Package gateway turns it into problem+json.
type Error struct {
	Status     int    // HTTP status
	Reason     string // stable word: unauthorized, rate_limited, login_unused, ticket_limit, bad_request
	Message    string
	Hint       string        // what to do
	RetryAfter time.Duration // for 429
}

func (e *Error) Error() string { return "auth: " + e.Message }

func errUnauthorized(message, hint string) *Error {
	return &Error{Status: http.StatusUnauthorized, Reason: "unauthorized", Message: message, Hint: hint}
}

const hintToken = "open the login link that the gateway printed, or send the token as Authorization: Bearer or as the WebSocket subprotocol bearer.<token>"
