// Package gateway is the HTTP face of acpgate: a server with the WebSocket endpoint /acp, logins, probes, metrics and the
// page. It speaks to package sessions only; what a session is, who may answer an agent and what is sent again after a
// reconnect is decided there. README.md is the reference of everything that goes over the wire.
//
// # One connection
//
// accept checks an upgrade (Host, Origin, login, limits) and leaves the connection to a goroutine of its own, so that
// everything of the HTTP request can be freed. From then on:
//
//	run          reads frames, one at a time, and hands each on (frame, call, dispatch); the owner of all others
//	write loop   exists while there is something to write; writes pings and pongs, answers of the connection's own, and
//	             what attachments have, a share of each in turn; ends when all of them are dry
//	request      one for each slow request without a session: session/new, session/list, authenticate...
//	lane         one for each session with a slow request under way; handles later frames of the session in order
//	finish       closes the socket, once
//
// An idle connection has one goroutine, no write buffer and no timer but the ping's.
//
// # Invariants
//
//   - Frames of one session take effect in the order in which a connection sent them. What does not wait (prompts, cancels)
//     is handled by the read loop itself; behind something slow it goes into the lane.
//   - What a session has for a client leaves in its order, because it is pulled from one attachment by one goroutine; an
//     attachment is pulled only once it is registered, so that the client cannot use a session before the gateway knows
//     which attachment is meant.
//   - A request is open from admit until closeCall or release, whichever comes first, and is answered exactly once.
//   - Nobody waits for a client but its own goroutines: Wake, Drop and Notify, which sessions calls under its locks, take
//     conn.mu for a moment and start a write loop at most.
//   - The read loop waits only for what the client itself can end: answers that it does not read, a session of its own that
//     is slow, its own rate. While it waits so, a missing pong is not held against the client.
//   - Frames that are handed to sessions are copies of their exact size, or, when they are large, the buffer that they were
//     read into; no pooled buffer leaves this package.
//   - Every end of a connection goes through close, whose first call decides code and reason; finish never takes longer than
//     Limits.CloseGrace, and run returns when the last goroutine of the connection has ended and nothing is attached.
//   - No label of a metric and no key of a map that outlives a connection takes a value that a client can make up.
//
// # Locks
//
// Server.mu before conn.mu (signOut). conn.mu is a leaf otherwise: sessions is called without it, since sessions calls us
// under its own locks. cork.mu is a leaf that is held while the socket is written to: the write loop takes it, and the
// WebSocket library to answer the peer's close frame. admission.mu is a leaf.
package gateway
