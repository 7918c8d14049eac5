package agentpool

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/acpgate/acpgate/agentpool/wire"
	"github.com/acpgate/acpgate/sessions"
)

// Sizes that are no setting.
const (
	stderrRing   = 64 << 10               // what is kept of stderr (rule W7)
	noiseRing    = 16 << 10               // what is kept of stdout lines that are no messages
	stderrTail   = 4 << 10                // of it in an AgentError
	maxGathered  = 1 << 20                // bytes of lines for which sessions are woken once
	maxAsks      = 1024                   // open requests of an agent
	maxPending   = 4096                   // lines of sessions that nobody knows yet
	maxElicited  = 64                     // elicitations whose completion may still be announced
	stdoutGrace  = 500 * time.Millisecond // from the end of stdout to the exit, before the agent is stopped for it
	stderrGrace  = 250 * time.Millisecond // for the last words on stderr after the exit
	pipeDeadline = 5 * time.Second        // for what is still in the pipes when the whole tree is gone
)

// Words of AgentError.Reason.
const (
	reasonUnknown     = "agent_unknown"
	reasonRestarting  = "agent_restarting"
	reasonStartFailed = "agent_start_failed"
	reasonLimit       = "agent_limit"
	reasonExited      = "agent_exited"
	reasonRestarted   = "agent_restarted"
	reasonStalled     = "agent_stalled"
)

// process is one running agent: the ordered mux between its pipes and the handles.
//
// Goroutines: read (stdout; runs every callback), the queue's writer (stdin), readStderr, child.watch, up to fsWorkers
// for file requests, and at most one deliverHeld a Bind. read is the last one: done is closed when all have ended and
// nothing of the process tree is left.
type process struct {
	processConfig
	number uint64
	child  *child
	in     *lineQueue
	stderr *ring
	noise  *ring
	files  fileServer
	info   *sessions.AgentInfo // set once, before the process is handed out
	limits wire.Limits
	frame  wire.Frame // of the current line
	reader uint64     // number of the reader goroutine
	urgent bool       // a request or response came since the last pause; the reader goroutine's
	noted  []*route   // got lines since the last pause; the reader goroutine's

	wg   sync.WaitGroup // all goroutines but read and child.watch
	done chan struct{}

	mu   sync.Mutex
	turn sync.Cond // on mu: the turn to run callbacks is free, or a route is idle
	mux

	ended    *sessions.AgentError // once set, nothing is written or routed any more
	stopping bool
	stopWord string // AgentError.Reason when stopping ends it
}

// processConfig is what a process needs of its pool. Every field is set.
type processConfig struct {
	spec      *Spec
	principal string
	roots     []root // for file requests
	ladder    ladder
	log       *slog.Logger
	stats     *counters
	notify    func(principal, agent string, line []byte)
	onEnd     func(p *process, crashed bool) // the process takes no more work; before its callbacks learn that
	onGone    func(p *process)               // nothing of it is left
}

// startProcess launches l and runs its pipes.
func startProcess(number uint64, cfg processConfig, l launch) (*process, error) {
	c, err := l.start()
	if err != nil {
		return nil, err
	}
	p := &process{
		processConfig: cfg, number: number, child: c,
		in:     newLineQueue(cfg.spec.StdinLimit),
		stderr: newRing(stderrRing), noise: newRing(noiseRing),
		done: make(chan struct{}),
		// A text that was cut inside of an emoji is no reason to lose an agent's message.
		limits: wire.Limits{LoneSurrogates: true},
		mux: mux{
			routes: map[string]*route{}, calls: map[uint64]call{}, asks: map[string]ask{},
			held: heldLines{limit: cfg.spec.PendingLimit},
		},
	}
	p.turn.L = &p.mu
	p.files.init(p)
	stderrDone := make(chan struct{})
	p.wg.Go(func() { p.in.run(c.stdin) })
	p.wg.Go(func() {
		defer close(stderrDone)
		p.readStderr()
	})
	go p.read(stderrDone)
	return p, nil
}

// stop begins the stop ladder and returns at once. word becomes the Reason of the AgentError that everybody gets.
func (p *process) stop(l ladder, word string) {
	p.mu.Lock()
	first := !p.stopping && p.ended == nil
	if first {
		p.stopping, p.stopWord = true, word
	}
	p.mu.Unlock()
	if first {
		p.in.close() // the writer writes what waits, then closes stdin
		p.child.stop(l)
	}
}

// isStopping reports whether the process was told to end, or has ended.
func (p *process) isStopping() bool { return p.endError() != nil }

// endError says why the process takes nothing more, nil while it does.
func (p *process) endError() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.ended != nil:
		return p.ended
	case p.stopping:
		return p.errStopping()
	}
	return nil
}

// finish runs on the reader goroutine when stdout has ended. It waits for the exit, tells everybody, and waits until
// nothing is left.
func (p *process) finish(stderrDone <-chan struct{}) {
	select {
	case <-p.child.exited:
	case <-time.After(stdoutGrace):
		// An agent that closed its stdout can serve nobody.
		p.stop(p.ladder, reasonExited)
		<-p.child.exited
	}
	select {
	case <-stderrDone:
	case <-time.After(stderrGrace):
	}
	p.announceEnd()

	<-p.child.gone
	p.in.close()
	_ = p.child.stdin.Close() // fails a write that nobody will read
	deadline := time.Now().Add(pipeDeadline)
	_ = p.child.stderr.SetReadDeadline(deadline)
	p.files.close()
	p.wg.Wait()
	_ = p.child.stdout.Close()
	_ = p.child.stderr.Close()
	p.onGone(p)
	close(p.done)
}

// announceEnd makes the end known: to the pool, then to the open calls in their order, then to the sinks.
func (p *process) announceEnd() {
	status := p.child.status
	p.mu.Lock()
	err := &sessions.AgentError{
		Reason: reasonExited, Agent: p.spec.Name,
		ExitCode: status.code, Signal: status.signal, Exited: status.err == nil, Err: status.err,
		Stderr: p.lastWords(),
	}
	crashed := !p.stopping
	if p.stopping {
		err.Reason = p.stopWord
	}
	p.ended = err
	calls := p.calls
	p.calls = map[uint64]call{}
	p.mu.Unlock()

	p.log.Info("agent process ended", "code", status.code, "signal", status.signal, "crashed", crashed, "open_calls", len(calls), "err", status.err)
	p.onEnd(p, crashed)

	p.mu.Lock()
	p.enter(p.reader)
	p.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(calls)) {
		calls[id].done(sessions.Reply{Err: err})
	}
	p.leaveTo(p.reader)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, session := range slices.Sorted(maps.Keys(p.routes)) {
		r := p.enterRoute([]byte(session), p.reader)
		if r == nil {
			continue
		}
		delete(p.routes, session)
		p.mu.Unlock()
		r.sink.AgentGone(err)
		p.mu.Lock()
		p.leave()
	}
}

// lastWords is what the agent said last: on stderr, or else on stdout outside the protocol.
func (p *process) lastWords() string {
	if tail := p.stderr.Tail(stderrTail); tail != "" {
		return tail
	}
	return p.noise.Tail(stderrTail)
}

// errStopping is the error of calls on a process that is ending but has not ended.
func (p *process) errStopping() error {
	return &sessions.AgentError{Reason: p.stopWord, Agent: p.spec.Name, Err: errors.New("the process is being stopped")}
}

// errQueue makes a queue's refusal an AgentError. mu is not held.
func (p *process) errQueue(err error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.ended != nil:
		return p.ended
	case errors.Is(err, errQueueFull):
		p.stats.stdinStalled.Add(1)
		return &sessions.AgentError{
			Reason: reasonStalled, Agent: p.spec.Name, Err: err,
			Hint: fmt.Sprintf("it has not read %d bytes that wait for it; stop it, or wait", p.in.waiting()),
		}
	case p.stopping:
		return p.errStopping()
	}
	return &sessions.AgentError{Reason: reasonExited, Agent: p.spec.Name, Err: err}
}
