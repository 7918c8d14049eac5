package sessions

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/acpgate/acpgate/sessions/journal"
)

// round stores one group: records, then events. The events end where the records were taken: what was put before an event is
// never stored behind it.
func (k *keeper) round(ctx context.Context) error {
	k.mu.Lock()
	dirty := make(map[*session]uint64, len(k.dirty))
	for s := range k.dirty {
		dirty[s] = s.journal.Head().Seq
	}
	records, drops, waiting := k.puts, k.drops, k.waiting
	k.flying = records
	k.dirty, k.puts, k.drops, k.waiting = map[*session]struct{}{}, map[string]*puts{}, map[[2]string]struct{}{}, nil
	k.mu.Unlock()
	err := errors.Join(k.storePuts(ctx, records), k.dropJournals(ctx, drops))
	if err == nil {
		err = k.storeEvents(ctx, dirty)
	} else {
		k.again(dirty)
	}
	k.mu.Lock()
	k.flying = nil
	k.mu.Unlock()
	k.outcome(err, dirty)
	for _, ch := range waiting {
		ch <- err
	}
	return err
}

func (k *keeper) dropJournals(ctx context.Context, drops map[[2]string]struct{}) error {
	var failed error
	for d := range drops {
		if err := k.store.DeleteJournal(ctx, d[0], d[1]); err != nil {
			failed = err
			k.mu.Lock()
			k.drops[d] = struct{}{}
			k.mu.Unlock()
		}
	}
	return failed
}

func (k *keeper) storePuts(ctx context.Context, all map[string]*puts) error {
	var failed error
	for principal, p := range all {
		c := Commit{}
		for _, w := range p.writes {
			c.Writes = append(c.Writes, w)
		}
		for _, x := range p.indexes {
			c.Indexes = append(c.Indexes, x)
		}
		for len(c.Writes) > 0 || len(c.Indexes) > 0 {
			part := Commit{Writes: c.Writes[:min(len(c.Writes), MaxCommitEntries)], Indexes: c.Indexes[:min(len(c.Indexes), MaxCommitEntries)]}
			if err := k.store.Commit(ctx, principal, part); err != nil {
				failed = err
				break
			}
			c.Writes, c.Indexes = c.Writes[len(part.Writes):], c.Indexes[len(part.Indexes):]
		}
		if failed != nil {
			k.putBack(principal, p)
		}
	}
	return failed
}

// putBack keeps records for the next round, but for those that were put anew meanwhile.
func (k *keeper) putBack(principal string, old *puts) {
	k.mu.Lock()
	defer k.mu.Unlock()
	p := k.puts[principal]
	if p == nil {
		k.puts[principal] = old
		return
	}
	for key, w := range old.writes {
		if _, newer := p.writes[key]; !newer {
			p.writes[key] = w
		}
	}
	for key, x := range old.indexes {
		if _, newer := p.indexes[key]; !newer {
			p.indexes[key] = x
		}
	}
}

func (k *keeper) again(dirty map[*session]uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for s := range dirty {
		k.dirty[s] = struct{}{}
	}
}

func (k *keeper) storeEvents(ctx context.Context, dirty map[*session]uint64) error {
	var runs []Run
	var of []*session
	var failed error
	for _, g := range k.gather(ctx, dirty) {
		s, upto, events, err := g.s, g.upto, g.events, g.err
		if err != nil {
			if !k.giveUp(s, err) {
				failed = err
				k.again(map[*session]uint64{s: upto})
			}
			continue
		}
		if len(events) == 0 && s.journal.Head().Seq > upto {
			k.mark(s, true)
		}
		if len(events) > 0 {
			runs = append(runs, Run{Principal: s.principal, Journal: s.storedAs, Fence: s.fence, Events: events})
			of = append(of, s)
		}
	}
	if len(runs) == 0 {
		return failed
	}
	for i, err := range k.store.Append(ctx, runs) {
		s, last := of[i], runs[i].Events[len(runs[i].Events)-1].Seq
		switch {
		case err == nil:
			s.journal.Stored(last)
			k.compact(ctx, s, len(runs[i].Events))
			if s.journal.Head().Seq > last {
				k.mark(s, true)
			}
		case k.giveUp(s, err):
		default:
			failed = err
			k.again(map[*session]uint64{s: last})
		}
	}
	return failed
}

// gathered is what is to be stored of a session, or why that cannot be said.
type gathered struct {
	s      *session
	upto   uint64
	events []journal.Event
	err    error
}

// keepOpening is how many journals are opened at the same time: the store commits those together, and many new sessions do
// not wait for each other.
const keepOpening = 256

// gather calls events for all sessions.
func (k *keeper) gather(ctx context.Context, dirty map[*session]uint64) []gathered {
	all := make([]gathered, 0, len(dirty))
	for s, upto := range dirty {
		all = append(all, gathered{s: s, upto: upto})
	}
	var wg sync.WaitGroup
	room := make(chan struct{}, keepOpening)
	for i := range all {
		g := &all[i]
		if g.s.storedAs != "" {
			g.events, g.err = k.events(ctx, g.s, g.upto)
			continue
		}
		room <- struct{}{}
		wg.Go(func() {
			g.events, g.err = k.events(ctx, g.s, g.upto)
			<-room
		})
	}
	wg.Wait()
	return all
}

// compact trims what is stored of s to what its journal retains, once in a while.
func (k *keeper) compact(ctx context.Context, s *session, appended int) {
	limits := s.m.cfg.Journal
	if s.sinceTrim += appended; s.sinceTrim < limits.MaxEvents/10 {
		return
	}
	s.sinceTrim = 0
	info, err := k.store.JournalInfo(ctx, s.principal, s.storedAs)
	start := s.journal.Start().Seq
	if err == nil && info.First <= start && (info.Events > int64(limits.MaxEvents) || info.Bytes > limits.MaxBytes) {
		err = k.store.Compact(ctx, s.principal, s.storedAs, s.fence, start, nil)
	}
	if err != nil {
		k.log.Warn("journal could not be trimmed", "session", s.bound.Load().id, "err", err)
	}
}

// giveUp reports whether err means that nothing of s will ever be stored again: another owner has its journal, or the
// journal is not what we left. Then the session goes on unstored.
func (k *keeper) giveUp(s *session, err error) bool {
	if !errors.Is(err, ErrFenced) && !errors.Is(err, ErrGap) && !errors.Is(err, ErrNoJournal) && !errors.Is(err, ErrInvalid) {
		return false
	}
	k.log.Error("journal can no longer be stored", "session", s.bound.Load().id, "err", err)
	s.lost.Store(errors.Is(err, ErrFenced))
	s.journal.Persist(nil)
	s.journal.Failed(err)
	return true
}

// errHole says that events were trimmed away while the store was unavailable: what is stored ends before a hole.
var errHole = fmt.Errorf("%w: events were lost while the store was unavailable", ErrGap)

// events returns what is to be stored of s up to seq upto, opening its journal in the store first.
func (k *keeper) events(ctx context.Context, s *session, upto uint64) ([]journal.Event, error) {
	if s.discarded.Load() {
		return nil, nil
	}
	name := s.journalName()
	if s.storedAs != "" && s.storedAs != name { // the session was made anew under another id
		k.drop(s.principal, s.storedAs)
		s.storedAs = ""
		s.journal.Unstore()
	}
	events, gap := s.journal.Unstored(upto, keepRun)
	switch {
	case gap:
		return nil, errHole
	case len(events) == 0:
		return nil, nil
	case s.storedAs != "":
		return events, nil
	}
	info, err := k.store.OpenJournal(ctx, s.principal, name, s.fence, s.journal.Epoch())
	if err != nil {
		return nil, err
	}
	if info.Next != events[0].Seq {
		// A journal of an earlier session of this id, which was deleted at the agent behind our back.
		if err := k.store.DeleteJournal(ctx, s.principal, name); err != nil {
			return nil, err
		}
		if _, err := k.store.OpenJournal(ctx, s.principal, name, s.fence, s.journal.Epoch()); err != nil {
			return nil, err
		}
	}
	s.storedAs = name
	return events, nil
}
