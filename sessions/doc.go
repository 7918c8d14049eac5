// Package sessions is the mind of acpgate: what a conversation is, who sees it, and what happens to a prompt.
//
// A Manager keeps Views. A view is one live conversation: a handle that clients use, the agent session it is bound to, the
// journal of that session, and the Attachments of the connections that look at it. Package gateway brings clients, package
// agentpool brings agents; this package knows neither HTTP nor processes, only the interfaces Client and Agent.
//
// # How a line travels
//
// The process's one reader goroutine calls View.AgentLine for every line of the session, in the order in which the agent
// wrote them. The view appends the line to its journal as it is. Attachments pull: when a connection's socket has room, its
// write loop calls Attachment.Pull, which renders the events after its cursor, with its handle and, if the client opted in,
// with their place in the journal spliced into the original bytes. There is no queue per client and no second path: a live
// client, a late joiner and one that comes back with a cursor read the same journal. Responses to a client's requests are
// anchored: they leave when the cursor has passed the event behind which the agent wrote them.
//
// # Invariants
//
//   - At most one turn of a view runs (rule V16). A prompt is written to the agent after its journal entry.
//   - A session is bound by at most one view and open in at most one process (rule V2): opening is single-flight per session,
//     and closing at the agent ends before the same session is opened again.
//   - A request of the agent is answered exactly once, and never approved by the gateway (rule V18).
//   - Every event has one place (epoch, seq), and at most one frame with that place goes to a client.
//   - Nothing under a lock waits for an agent, a socket or a disk. Agent callbacks and Client methods do not block.
//   - Everything is bounded: journals by count, bytes and age and all of them together by Config.JournalMemory; the queue,
//     open requests, open calls and remembered keys of a view by Config; views by principal.
//
// # Lock order
//
// View.mu, then Manager.mu, then Attachment.mu, then the locks of a form, the journal and known, which are leaves. No
// view is locked while Manager.mu is held. An Agent's Unbind and Release wait for the reader goroutine and are called
// without View.mu, except on that goroutine itself.
//
// # Goroutines
//
// Manager.spawn starts what outlives a call (waking a view, closing a session at its agent); Manager.Close waits for it.
// Timers hold no goroutine and look at the view's state when they fire.
package sessions
