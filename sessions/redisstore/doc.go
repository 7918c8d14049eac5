// Package redisstore keeps sessions.Store in Redis (6.2 or later): the store of several gateways that work together.
//
// Invariants:
//
//   - All keys of a principal are in one hash slot, so that each operation is one on one node of a cluster.
//   - Commit and Append are a Lua script each, so they happen as a whole and in one round trip; what seldom happens (opening,
//     compacting, closing and deleting journals) is a WATCH, a decision in Go, and a MULTI. No rule is in Lua: the scripts compare and
//     write what they are given.
//   - A version is a number of the principal's counter, which only grows. A counter that is made anew, because Redis has lost its data,
//     starts at the time in microseconds: versions from before mean nothing after.
//   - A journal has a header (epoch, fence, clean, what was folded), which only operations on the whole journal change; a tail (next,
//     bytes), which Append changes; a stream of segments as they were appended, with ids "<first seq>-0"; and a stream of folded ones.
//     Segments never change. Events up to the header's base count only if they are in the folded stream.
//   - A command that is not idempotent is never sent twice: what a broken connection leaves in doubt is ErrUnavailable.
//   - Changes are told by pub/sub on one connection for all watchers. Whenever a subscription is made anew, its watchers are told that
//     changes may have been lost.
//
// Locks: listener.turn (held while one SUBSCRIBE or UNSUBSCRIBE is sent and confirmed), then listener.mu (held for
// moments), then the lock of watch.Hub.
package redisstore
