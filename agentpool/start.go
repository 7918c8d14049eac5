package agentpool

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/acpgate/acpgate/agentpool/wire"
	"github.com/acpgate/acpgate/sessions"
)

// failedStartLadder ends a process that did not get to answer initialize: nobody's work is lost.
func failedStartLadder() ladder { return ladder{closeWait: 0, termWait: orphanWait} }

// startError is a failed start.
type startError struct {
	*sessions.AgentError
	isCheap bool // nothing was run, so that it may be tried again at once
}

func failStart(spec *Spec, err error, hint string) *startError {
	return &startError{AgentError: &sessions.AgentError{Reason: reasonStartFailed, Agent: spec.Name, Err: err, Hint: hint}}
}

// startOne starts a process and initializes it. When it fails, nothing of the process is left. The caller has counted the
// process; it is uncounted when it is gone.
func (p *Pool) startOne(principal string, spec *Spec, where root) (*process, *startError) {
	l, serr := p.prepare(principal, spec, where)
	if serr != nil {
		p.mu.Lock()
		p.uncount(principal)
		p.mu.Unlock()
		serr.isCheap = true
		return nil, serr
	}
	p.stats.starts.Add(1)
	p.mu.Lock()
	p.number++
	number := p.number
	p.mu.Unlock()
	proc, err := startProcess(number, processConfig{
		spec: spec, principal: principal, roots: p.roots, ladder: l.ladder,
		log:    p.log.With("agent", spec.Name, "process", number),
		stats:  &p.stats,
		notify: p.cfg.OnNotification, onEnd: p.processEnded, onGone: p.processGone,
	}, l)
	if err != nil {
		p.mu.Lock()
		p.uncount(principal)
		p.mu.Unlock()
		return nil, failStart(spec, err, "the supervisor could not be started; is the gateway's binary still there?")
	}
	p.register(proc)
	if serr := p.initialize(proc); serr != nil {
		proc.stop(failedStartLadder(), reasonStartFailed)
		<-proc.done
		return nil, serr
	}
	return proc, nil
}

// register makes a process known to Close and Renew, which may have been called already.
func (p *Pool) register(proc *process) {
	p.mu.Lock()
	p.processes[proc] = struct{}{}
	closed, renewed := p.closed, p.renewed
	p.mu.Unlock()
	if closed {
		proc.stop(failedStartLadder(), reasonExited)
	}
	if !renewed.IsZero() {
		proc.child.renew(max(time.Millisecond, time.Until(renewed)))
	}
}

// prepare works out what to run.
func (p *Pool) prepare(principal string, spec *Spec, where root) (launch, *startError) {
	home := ""
	if !p.ownsHome(principal) {
		dir, err := homeDir(p.stateDir, principal)
		if err != nil {
			return launch{}, failStart(spec, err, "the state directory must be writable")
		}
		home = dir
	}
	env := agentEnv(p.cfg.Environ, slices.Concat(p.cfg.EnvAllow, spec.EnvAllow), spec.Env, home)
	search := lookEnv(env, "PATH")
	command, err := lookCommand(spec.Command, search)
	if err != nil {
		return launch{}, failStart(spec, err, commandHint(spec, search))
	}
	l := launch{
		supervisor: p.cfg.Supervisor, env: env, dir: spec.Dir,
		argv:   append([]string{command}, spec.Args...),
		ladder: ladder{p.cfg.CloseWait, p.cfg.TermWait},
	}
	if l.dir == "" {
		l.dir = p.roots[0].real
		if where != (root{}) {
			l.dir = where.real
		}
	}
	if where == (root{}) {
		return l, nil
	}
	bwrap, err := p.bwrap.find(lookEnv(p.cfg.Environ, "PATH"))
	if err != nil {
		return launch{}, failStart(spec, err, "")
	}
	box := sandbox{
		bwrap: bwrap, command: command, path: search, read: spec.SandboxRead,
		work: where, home: lookEnv(env, "HOME"), stateDir: p.stateDir, dir: l.dir,
	}
	l.argv = append(box.args(), l.argv...)
	return l, nil
}

// ownsHome reports whether the principal's agents have the home of the gateway's user.
func (p *Pool) ownsHome(principal string) bool {
	return principal != "" && principal == p.cfg.HomeOwner
}

func commandHint(spec *Spec, search string) string {
	if strings.Contains(spec.Command, "/") {
		return "check the path of the command"
	}
	hint := fmt.Sprintf("install it, or give its whole path; the agent's PATH is %s", search)
	if strings.ContainsAny(spec.Command, " \t") {
		hint = "command is one program, arguments belong into args; " + hint
	}
	return hint
}

// initialize waits until the process runs, and for its answer to initialize, within the start budget.
func (p *Pool) initialize(proc *process) *startError {
	spec := proc.spec
	budget := time.NewTimer(spec.StartTimeout)
	defer budget.Stop()
	late := func() *startError {
		err := failStart(spec, fmt.Errorf("no answer to initialize within %v", spec.StartTimeout),
			"is it an ACP agent? It must speak ACP on its standard streams; a slow first start needs a larger startTimeout")
		err.Stderr = proc.lastWords()
		return err
	}
	select {
	case <-proc.child.started:
		if err := proc.child.startErr; err != nil {
			return failStart(spec, err, "the command could not be run")
		}
	case <-budget.C:
		return late()
	case <-p.closing:
		return failStart(spec, errPoolClosed, "")
	}

	raw := wire.AppendRequest(nil, []byte("0"), "initialize", initializeParams(spec, p.cfg.Version))
	f, err := wire.Parse(raw, proc.limits)
	if err != nil {
		return failStart(spec, err, "")
	}
	type answer struct {
		info *sessions.AgentInfo
		err  *startError
	}
	answered := make(chan answer, 1)
	if _, err := proc.call(&f, nil, func(r sessions.Reply) {
		info, err := readReply(spec, r)
		answered <- answer{info, err}
	}, nil); err != nil {
		return exitedEarly(spec, err)
	}
	select {
	case a := <-answered:
		proc.info = a.info
		return a.err
	case <-budget.C:
		return late()
	case <-p.closing:
		return failStart(spec, errPoolClosed, "")
	}
}

// readReply reads the answer to initialize, or why there is none.
func readReply(spec *Spec, r sessions.Reply) (*sessions.AgentInfo, *startError) {
	if r.Err != nil {
		return nil, exitedEarly(spec, r.Err)
	}
	f := r.Frame
	if f.Kind == wire.Failure {
		e := f.Error.Of(f.Raw)
		text, err := wire.Unquote(wire.Lookup(e, "message").Of(e))
		if err != nil {
			text = "no message"
		}
		return nil, failStart(spec, fmt.Errorf("it refused initialize: %s", text), "")
	}
	info, err := readInfo(spec, f.Result.Of(f.Raw))
	if err != nil {
		return nil, failStart(spec, err, "use a version of the agent that speaks ACP version 1")
	}
	return info, nil
}

// exitedEarly is the error of a process that ended before it answered.
func exitedEarly(spec *Spec, err error) *startError {
	var e *sessions.AgentError
	if !errors.As(err, &e) {
		return failStart(spec, err, "")
	}
	early := *e
	early.Reason = reasonStartFailed
	if early.Err == nil {
		early.Err = errors.New("it ended as soon as it was started")
	}
	early.Hint = "run the command by hand to see what it says"
	return &startError{AgentError: &early}
}
