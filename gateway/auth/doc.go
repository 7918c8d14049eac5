// Package auth says who a request comes from. It knows nothing of agents, sessions or sockets: package gateway asks it
// once per HTTP request or WebSocket upgrade and passes the Identity on.
//
// # Modes (rule T1)
//
//   - token: the token of <state>/token (made at first start) stands for the principal "local"; every named token of
//     <state>/tokens.json for the principal of its name. A client shows its token as Authorization: Bearer, as the
//     WebSocket subprotocol bearer.<token>, or swaps it for a cookie (a page) or a one-time ticket (rule T2).
//   - proxy: a reverse proxy in one of the listed networks names the user in a header.
//   - none: everybody is "local". Package gateway allows it on loopback only.
//
// # Invariants
//
//   - A raw token is never logged, never kept in a cookie and never compared but as a SHA-256 digest in constant time.
//     Tokens carry 128 random bits, so a plain digest is enough: there is nothing to guess and nothing to stretch.
//   - A cookie names the token that it was made from and is worthless once that token is removed or changed. There is no
//     list of cookies: it is signed with <state>/cookie.key and carries its own end.
//   - A ticket works once. It is redeemed after every other check of the request, so that a request that is refused for
//     another reason does not use it up.
//   - Token files are looked at on every use: tokens that "acpgate token" adds or removes count at once.
//   - Failed attempts are limited by address (a /64 counts as one address), successful ones and cookies are not.
//
// # Locks
//
// credentialStore.mu, ticketBook.mu and failures.mu are leaves: no other lock is taken and nothing blocks under them but
// the reading of the two token files under credentialStore.mu.
package auth
