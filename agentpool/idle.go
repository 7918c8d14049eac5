package agentpool

import (
	"time"
)

// wakeJanitor makes the janitor look again.
func (p *Pool) wakeJanitor() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// janitor is the goroutine that ends idle processes.
func (p *Pool) janitor() {
	timer := time.NewTimer(p.cfg.IdleTimeout)
	defer timer.Stop()
	for {
		select {
		case <-p.closing:
			return
		case <-p.wake:
		case <-timer.C:
		}
		timer.Reset(p.retireIdle(time.Now()))
	}
}

// retireIdle ends the processes that were idle for long enough and returns when to look again.
func (p *Pool) retireIdle(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	next := p.cfg.IdleTimeout
	for _, g := range p.groups {
		for i := len(g.members) - 1; i >= 0; i-- {
			m := g.members[i]
			if m.users > 0 || p.isSpare(m) {
				continue
			}
			left := m.used.Add(p.cfg.IdleTimeout).Sub(now)
			if left > 0 {
				next = min(next, left)
				continue
			}
			p.retire(m, "idle")
		}
	}
	return next
}

// retire ends a process that nobody uses. mu is held.
func (p *Pool) retire(m *member, why string) {
	m.g.remove(m)
	now := time.Now()
	r := p.restartOf(m.g.key)
	r.ended(now, now.Sub(m.started), false, nil)
	p.forget(m.g.key, r, now)
	m.p.log.Info("agent process is stopped", "why", why)
	m.p.stop(m.p.ladder, reasonExited)
}

// isSpare reports whether an idle process is the one to be kept ready for its principal. mu is held.
func (p *Pool) isSpare(m *member) bool {
	if !m.g.spec.Prewarm || !m.hasRoom() {
		return false
	}
	inUse := p.ownsHome(m.g.key.principal) // whose gateway it is may come back any time
	for _, o := range m.g.members {
		if o == m {
			continue
		}
		if o.users == 0 {
			return o.used.Before(m.used) // the newest idle one is the spare
		}
		inUse = true
		if o.hasRoom() {
			return false
		}
	}
	return inUse
}

// keepSpare starts a process for a prewarmed agent when the group has none with room. mu is held.
func (p *Pool) keepSpare(g *group) {
	if p.closed || !g.spec.Prewarm || len(g.flights) > 0 {
		return
	}
	inUse := p.ownsHome(g.key.principal)
	for _, m := range g.members {
		if m.hasRoom() {
			return
		}
		inUse = inUse || m.users > 0
	}
	if inUse {
		p.startSpare(g)
	}
}

// startSpare starts a process that nobody waits for, unless a limit or the backoff is in the way. mu is held.
func (p *Pool) startSpare(g *group) {
	if p.counts[g.key.principal] >= p.cfg.MaxPerPrincipal || p.total >= p.cfg.MaxProcesses {
		return
	}
	if p.restartOf(g.key).wait(time.Now()) > 0 {
		return
	}
	where := root{}
	for _, r := range p.roots {
		if r.real == g.key.root {
			where = r
		}
	}
	p.groups[g.key] = g
	p.startFlight(g, where)
}

// Warm starts a process of every prewarmed agent for a principal that has just come, in the background.
func (p *Pool) Warm(principal string) {
	for _, name := range p.names {
		spec := p.specs[name]
		if !spec.Prewarm {
			continue
		}
		where, err := p.confine(spec, "")
		if err != nil {
			continue // the first Acquire says why
		}
		key := groupKey{principal, name, where.real}
		p.mu.Lock()
		if g := p.groupOf(key, spec); !p.closed && len(g.members)+len(g.flights) == 0 {
			p.startSpare(g)
			p.forget(key, p.restartOf(key), time.Now())
		}
		p.mu.Unlock()
	}
}
