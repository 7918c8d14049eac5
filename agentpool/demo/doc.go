// Package demo is the built-in ACP agent of acpgate: the agent that a first start shows, and the reference agent of its tests.
// It runs as a process of its own ("acpgate demo-agent", the binary re-executed) and speaks ACP version 1 on stdin and
// stdout. README.md says what prompts do and how script files are written.
//
// # Invariants
//
//   - A line on stdout is written whole, under one lock, in one write. The updates that belong to a request are written
//     before its response by the goroutine that writes the response.
//   - Requests of one session are handled in the order of their lines (lanes); a prompt occupies its lane only until its turn
//     has started. Requests of different sessions never wait for each other. The goroutine that reads stdin never writes.
//   - A session has at most one turn. Its history is appended to by the turn, by background messages and by nothing else.
//   - A session's file comes into being with its first message and is only appended to. Nothing recreates a deleted one.
//
// # Locks
//
// agent.mu guards the table of open sessions, session.mu the state of one; neither is held while the other is taken, while a
// line is written, or while the disk is read. conn.out (whole lines) and lister.mu are leaves.
package demo
