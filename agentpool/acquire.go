package agentpool

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/acpgate/acpgate/sessions"
)

// want is what an Acquire or Control asks for.
type want struct {
	principal string
	spec      *Spec
	where     root // to be confined to
	control   bool
}

func (w *want) key() groupKey { return groupKey{w.principal, w.spec.Name, w.where.real} }

// obtain finds or starts a process and counts the caller in.
func (p *Pool) obtain(ctx context.Context, w *want) (*member, *sessions.AgentError) {
	patience := p.cfg.RestartWait
	for {
		p.mu.Lock()
		if p.closed {
			p.mu.Unlock()
			return nil, &sessions.AgentError{Reason: reasonStartFailed, Agent: w.spec.Name, Err: errPoolClosed}
		}
		if m := p.pick(w); m != nil {
			m.join(w.control)
			p.keepSpare(m.g)
			p.mu.Unlock()
			return m, nil
		}
		if f := p.joinable(w); f != nil {
			f.join(w.control)
			p.mu.Unlock()
			return p.await(ctx, f, w)
		}
		r := p.restartOf(w.key())
		pause := r.wait(time.Now())
		if pause > patience || r.isOpen() && p.isStarting(w) {
			p.mu.Unlock()
			return nil, notYet(w.spec.Name, r, pause)
		}
		if pause > 0 {
			p.mu.Unlock()
			patience -= pause
			if err := sleep(ctx, p.closing, pause); err != nil {
				return nil, asAgentError(err, w.spec.Name, reasonRestarting)
			}
			continue
		}
		victim, err := p.admit(w.principal, w.spec.Name)
		if err != nil {
			p.mu.Unlock()
			return nil, err
		}
		if victim == nil {
			f := p.startFlight(p.groupOf(w.key(), w.spec), w.where)
			f.join(w.control)
			p.mu.Unlock()
			return p.await(ctx, f, w)
		}
		p.mu.Unlock()
		select {
		case <-victim.done:
		case <-ctx.Done():
			return nil, asAgentError(context.Cause(ctx), w.spec.Name, reasonLimit)
		}
	}
}

// pick returns the running process that was used last of those with room, so that a login reaches the process that the
// next session uses. A control handle needs no room, and any workspace will do. mu is held.
func (p *Pool) pick(w *want) *member {
	var best *member
	for _, g := range p.candidates(w) {
		for _, m := range g.members {
			if (m.hasRoom() || w.control && !m.p.isStopping()) && (best == nil || m.used.After(best.used)) {
				best = m
			}
		}
	}
	return best
}

// joinable returns a start under way that has room for the caller. mu is held.
func (p *Pool) joinable(w *want) *flight {
	for _, g := range p.candidates(w) {
		for _, f := range g.flights {
			if w.control || g.spec.SessionsPerProcess == 0 || f.sessions < g.spec.SessionsPerProcess {
				return f
			}
		}
	}
	return nil
}

// isStarting reports whether a start is under way that the caller cannot join. mu is held.
func (p *Pool) isStarting(w *want) bool {
	g := p.groups[w.key()]
	return g != nil && len(g.flights) > 0
}

func (p *Pool) candidates(w *want) []*group {
	if !w.control || w.where == (root{}) {
		if g := p.groups[w.key()]; g != nil {
			return []*group{g}
		}
		return nil
	}
	var all []*group
	for key, g := range p.groups {
		if key.principal == w.principal && key.agent == w.spec.Name {
			all = append(all, g)
		}
	}
	return all
}

// notYet is the error of an Acquire that would have to wait for too long.
func notYet(agent string, r *restart, pause time.Duration) *sessions.AgentError {
	err := &sessions.AgentError{
		Reason: reasonRestarting, Agent: agent,
		Hint: fmt.Sprintf("it ended or failed to start; the next try is in %v", pause.Round(time.Second)),
	}
	if r.isOpen() {
		err.Reason = reasonStartFailed
	}
	if last := r.last; last != nil {
		err.ExitCode, err.Signal, err.Exited, err.Stderr, err.Err = last.ExitCode, last.Signal, last.Exited, last.Stderr, last.Err
		if last.Hint != "" {
			err.Hint = last.Hint + "; " + err.Hint
		}
	}
	return err
}

// admit checks the limits. When one is reached but a process is idle, that one is stopped and returned: the caller waits
// for its end and comes again. mu is held.
func (p *Pool) admit(principal, agent string) (victim *process, err *sessions.AgentError) {
	own := p.counts[principal] >= p.cfg.MaxPerPrincipal
	if !own && p.total < p.cfg.MaxProcesses {
		return nil, nil
	}
	var oldest *member
	for key, g := range p.groups {
		if own && key.principal != principal {
			continue
		}
		for _, m := range g.members {
			if m.users == 0 && (oldest == nil || m.used.Before(oldest.used)) {
				oldest = m
			}
		}
	}
	if oldest != nil {
		p.retire(oldest, "room is needed")
		return oldest.p, nil
	}
	limit, whose := p.cfg.MaxProcesses, "all users"
	if own {
		limit, whose = p.cfg.MaxPerPrincipal, "one user"
	}
	return nil, &sessions.AgentError{
		Reason: reasonLimit, Agent: agent,
		Hint: fmt.Sprintf("%d agent processes are running, which is the limit for %s; close sessions", limit, whose),
	}
}

// sleep waits for d, less when ctx or the pool ends.
func sleep(ctx context.Context, closing <-chan struct{}, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-closing:
		return errPoolClosed
	}
}

// join counts a caller in. mu is held.
func (m *member) join(control bool) {
	m.users++
	if !control {
		m.sessions++
	}
	m.used = time.Now()
}

// flight is the start of one process, and how many callers it will have. It is guarded by Pool.mu until done is closed.
type flight struct {
	sessions, users int
	done            chan struct{}
	m               *member
	err             *sessions.AgentError
}

func (f *flight) join(control bool) {
	f.users++
	if !control {
		f.sessions++
	}
}

// await waits for a start. A caller that gives up leaves the start to the others, or to the next caller.
func (p *Pool) await(ctx context.Context, f *flight, w *want) (*member, *sessions.AgentError) {
	select {
	case <-f.done:
		return f.m, f.err
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-f.done:
		return f.m, f.err
	default:
	}
	f.users--
	if !w.control {
		f.sessions--
	}
	return nil, asAgentError(context.Cause(ctx), w.spec.Name, reasonStartFailed)
}

// startFlight starts a process for a group; the caller has checked limits and backoff. mu is held.
func (p *Pool) startFlight(g *group, where root) *flight {
	f := &flight{done: make(chan struct{})}
	g.flights = append(g.flights, f)
	p.total++
	p.counts[g.key.principal]++
	p.wg.Go(func() { p.fly(g, f, where) })
	return f
}

// fly is the goroutine of a flight.
func (p *Pool) fly(g *group, f *flight, where root) {
	begun := time.Now()
	proc, err := p.startOne(g.key.principal, g.spec, where)
	p.mu.Lock()
	defer p.mu.Unlock()
	defer close(f.done)
	now := time.Now()
	g.flights = slices.DeleteFunc(g.flights, func(o *flight) bool { return o == f })
	r := p.restartOf(g.key)
	if err == nil {
		if ended := proc.endError(); ended != nil {
			err = exitedEarly(g.spec, ended) // between its answer and now, or the pool closes
		}
	}
	if err != nil {
		p.stats.startFailures.Add(1)
		f.err = err.AgentError
		if !err.isCheap {
			r.failed(now, err.AgentError)
		}
		p.log.Warn("agent did not start", "agent", g.spec.Name, "principal", g.key.principal, "took", now.Sub(begun), "err", err.AgentError)
		p.forget(g.key, r, now)
		return
	}
	r.started()
	f.m = &member{p: proc, g: g, sessions: f.sessions, users: f.users, started: now, used: now}
	g.members = append(g.members, f.m)
	p.infos[g.spec.Name] = proc.info
	p.log.Info("agent process started", "agent", g.spec.Name, "principal", g.key.principal, "process", proc.number, "pid", proc.child.pid, "took", now.Sub(begun))
	p.keepSpare(g)
	p.wakeJanitor()
}
