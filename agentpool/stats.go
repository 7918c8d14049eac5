package agentpool

import "sync/atomic"

// counters are what the processes of a pool count.
type counters struct {
	starts, startFailures, crashes      atomic.Uint64
	noiseLines, stderrBytes             atomic.Uint64
	skippedLines, skippedBytes          atomic.Uint64
	heldLines, heldDropped              atomic.Uint64
	unknownResponses, lateAnswers       atomic.Uint64
	refusedRequests, stdinStalled       atomic.Uint64
	fileReads, fileWrites, fileFailures atomic.Uint64
}

// Stats is a snapshot for metrics. Counters only grow.
type Stats struct {
	Starts        uint64 // processes started
	StartFailures uint64 // of them, or instead of them: failed before they had answered initialize
	Crashes       uint64 // processes that ended by themselves later

	NoiseLines       uint64 // stdout lines that were no messages
	StderrBytes      uint64
	SkippedLines     uint64 // stdout lines over the limit
	SkippedBytes     uint64
	HeldLines        uint64 // updates of sessions that were not bound yet
	HeldDropped      uint64 // of them: dropped because too much was held
	UnknownResponses uint64 // responses to ids that were not open
	LateAnswers      uint64 // our answers to requests that were not open any more
	RefusedRequests  uint64 // requests of agents that nobody could decide
	StdinStalled     uint64 // messages refused because the agent did not read its input

	FileReads, FileWrites, FileFailures uint64 // file requests that were served, and that failed

	Agents []AgentStats // in configured order
}

// AgentStats is the state of one configured agent.
type AgentStats struct {
	Name      string
	Processes int // running or starting
	Handles   int // users of them: sessions and callers
	Idle      int // processes without users
	Broken    int // principals for whom the breaker is open
	Stdin     int // bytes that wait to be read by processes
}

func (c *counters) snapshot() Stats {
	return Stats{
		Starts: c.starts.Load(), StartFailures: c.startFailures.Load(), Crashes: c.crashes.Load(),
		NoiseLines: c.noiseLines.Load(), StderrBytes: c.stderrBytes.Load(),
		SkippedLines: c.skippedLines.Load(), SkippedBytes: c.skippedBytes.Load(),
		HeldLines: c.heldLines.Load(), HeldDropped: c.heldDropped.Load(),
		UnknownResponses: c.unknownResponses.Load(), LateAnswers: c.lateAnswers.Load(),
		RefusedRequests: c.refusedRequests.Load(), StdinStalled: c.stdinStalled.Load(),
		FileReads: c.fileReads.Load(), FileWrites: c.fileWrites.Load(), FileFailures: c.fileFailures.Load(),
	}
}
