// Package agenttest is an agent without a process: an in-memory implementation of sessions.Agents and sessions.Agent for
// the tests of the packages above the pool.
//
//	agents := agenttest.New(t, agenttest.Config{})
//	mgr := sessions.NewManager(sessions.Config{Agents: agents, ...})
//	...
//	p := agents.Started(t, 1)                 // the first process
//	call := p.Await("session/prompt")         // waits until the line reached its stdin
//	p.Chunk(call.Session, "hello")            // a line on its stdout
//	call.Result(`{"stopReason":"end_turn"}`)
//
// Every process is an ordinary agent until told otherwise: it answers initialize, session/new, load (with a replay), resume,
// fork, close, delete, list, set_mode, set_config_option and prompt, and ends a turn with "cancelled" on session/cancel. Its
// sessions live on the Agents ("the disk"), so another process can load them. Handle replaces the behaviour of one method;
// Manual leaves the answer to the test; the fault switches (Crash, Stall, OnCancel, Fail, Hold...) break it.
//
// # Order
//
// A process has two goroutines, as a real one has two pipes. The reader takes stdout lines in the order in which Emit and the
// answers were called and runs every callback (done functions, Sink methods) itself, so the order that a test writes is the
// order that the code under test sees. The server takes stdin lines in order and runs the handlers. A line counts as having
// reached stdin when Request, Notify or Respond returns, whether or not it was handled. Both goroutines wait on one
// condition variable only, so they work inside a synctest bubble. New registers a cleanup that ends and awaits them.
//
// # Contract checks
//
// A process watches what is asked of it and reports to the test (testing.TB.Errorf) what a gateway must never do: two prompts
// at once in one session, a load or resume of a session that is open in the process, an answer to a request that is not
// open, a line that is not one JSON-RPC message. Config.Lenient turns that off; Violations lists them either way.
package agenttest
