// Package agentpool runs ACP agents: it reads their specs, starts their processes below a supervisor, and shares each
// process between sessions. Pool implements sessions.Agents, its handles sessions.Agent.
//
//	spec, err := agentpool.ParseFlag(`opencode=opencode acp`)
//	pool, err := agentpool.New(agentpool.Config{
//		Specs:      []agentpool.Spec{spec},
//		Supervisor: []string{os.Args[0], "supervise"},
//		Roots:      []string{"/srv/work"}, StateDir: "/var/lib/acpgate",
//	})
//	agent, err := pool.Acquire(ctx, "ann", "opencode", "/srv/work/shop")
//	defer agent.Release()
//
// Sub-package wire parses and edits frames, demo is the built-in agent, agenttest an agent without a process for the tests
// of other packages.
//
// # Parts
//
//	spec, specflag, specfile, environ   what to run
//	supervise, tree_*                   the supervisor, in its own process
//	child                               the gateway's side of it
//	pipe_*                              what a pipe holds
//	linequeue, reader, pacer            stdin and stdout
//	stderr, ring                        stderr
//	process, mux, handle                one process, its routing, its users
//	fs, sandbox                         what an agent may touch
//	pool, acquire, start, idle, restart which processes there are
//
// # Invariants
//
//   - Every callback of a process (done functions, Sink methods, OnNotification) runs in the order in which the agent wrote
//     its lines (rule W5), one at a time. That is the reader goroutine; only lines that were held for a session are
//     delivered by a goroutine of their own when the session is bound outside of a callback. Later lines of that session
//     wait for them.
//   - No lock of this package is held during a callback. A callback may call any method of any handle; it must not block
//     and must not keep the frame.
//   - done is called exactly once for every Request that returned no error.
//   - Unbind and Release return when no Sink method of the session runs, unless one of them called. The caller must not hold
//     a lock that its Sink takes.
//   - Every request of an agent is answered: by the session that got it, by ServeFS, or by the process itself at once,
//     when no session got it or the session is unbound (rule W8).
//   - No method of a handle waits for the process: writes go to a queue that is bounded in bytes (rule W6), and a full
//     one is an error.
//   - Everything that an agent can make grow is bounded: a line, what waits for its stdin, stderr and noise that are kept,
//     lines of unknown sessions, its open requests, its file requests.
//   - An agent runs only below a supervisor, which ends when nothing of the agent's process tree is left (rule T5). A
//     process counts against the limits until then.
//   - Close returns after the last goroutine.
//
// # Locks
//
// Pool.mu, then process.mu, then the small ones that are held for no other lock: lineQueue.mu, fileServer.mu, ring.mu,
// child.mu. fileServer.mu comes before process.mu where a request is refused. Callbacks take the turn (mux.busy), which is
// no lock: it is waited for with process.mu released.
package agentpool
