package sessions

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/acpgate/acpgate/sessions/journal"
)

// keeper stores what views do: records first, then the events of the journals that have news, many sessions in one group.
// It is the only writer of a gateway's store, so what was put before an event is stored when the event is.
type keeper struct {
	store Store
	log   *slog.Logger

	kick chan struct{} // something is dirty
	rush atomic.Bool   // and it must not wait for company

	mu      sync.Mutex // a leaf
	dirty   map[*session]struct{}
	puts    map[string]*puts       // by principal
	flying  map[string]*puts       // those of the round that runs
	drops   map[[2]string]struct{} // principal and name of journals that are to be removed
	waiting []chan error           // flushes, answered by the next round
	failure error                  // of the last round; nil while the store works
	done    chan struct{}
}

// puts are the records of one principal that are to be written, the latest of each.
type puts struct {
	writes  map[string]Write
	indexes map[[2]string]IndexWrite
}

const (
	keepLinger   = 10 * time.Millisecond // for which raw updates wait for company: a crash loses no more than these
	keepRetry    = 250 * time.Millisecond
	keepRetryMax = 5 * time.Second
	keepRun      = 4 << 20 // payload of one session in one group
)

func newKeeper(store Store, log *slog.Logger) *keeper {
	return &keeper{
		store: store, log: log, kick: make(chan struct{}, 1), dirty: map[*session]struct{}{}, puts: map[string]*puts{},
		drops: map[[2]string]struct{}{}, done: make(chan struct{}),
	}
}

// follow stores the events of s from now on.
func (k *keeper) follow(s *session) {
	if k == nil {
		return
	}
	s.journal.Persist(func(urgent bool) { k.mark(s, urgent) })
	k.mark(s, false)
}

func (k *keeper) mark(s *session, urgent bool) {
	k.mu.Lock()
	k.dirty[s] = struct{}{}
	k.mu.Unlock()
	k.poke(urgent)
}

func (k *keeper) poke(urgent bool) {
	if urgent {
		k.rush.Store(true)
	}
	select {
	case k.kick <- struct{}{}:
	default:
	}
}

// put writes records some time, before any event that is appended later. What no store takes is left out, and said: it
// would be tried for ever, and everything else would wait for it.
func (k *keeper) put(principal string, writes []Write, indexes ...IndexWrite) {
	if k == nil {
		return
	}
	k.mu.Lock()
	p := k.puts[principal]
	if p == nil {
		p = &puts{map[string]Write{}, map[[2]string]IndexWrite{}}
		k.puts[principal] = p
	}
	for _, w := range writes {
		if k.takes(Commit{Writes: []Write{w}}) {
			p.writes[w.Key] = w
		}
	}
	for _, x := range indexes {
		if k.takes(Commit{Indexes: []IndexWrite{x}}) {
			p.indexes[[2]string{x.Index, x.Member}] = x
		}
	}
	k.mu.Unlock()
	k.poke(false)
}

func (k *keeper) takes(c Commit) bool {
	err := c.Check()
	if err != nil {
		k.log.Error("record cannot be stored", "err", err)
	}
	return err == nil
}

// drop removes a journal some time, before any event that is appended later.
func (k *keeper) drop(principal, name string) {
	k.mu.Lock()
	k.drops[[2]string{principal, name}] = struct{}{}
	k.mu.Unlock()
	k.poke(false)
}

// read is Store.Read as of now: with what was put and is not stored yet.
func (k *keeper) read(ctx context.Context, principal string, keys ...string) ([]Record, error) {
	out := make([]Record, len(keys))
	var ask []string
	var at []int
	k.mu.Lock()
	for i, key := range keys {
		w, ok := k.pending(principal, key)
		switch {
		case !ok:
			ask, at = append(ask, key), append(at, i)
		case !w.Delete:
			out[i] = Record{Key: key, Version: 1, Value: w.Value}
		}
	}
	k.mu.Unlock()
	if len(ask) == 0 {
		return out, nil
	}
	recs, err := k.store.Read(ctx, principal, ask...)
	if err != nil {
		return nil, err
	}
	for i, r := range recs {
		out[at[i]] = r
	}
	return out, nil
}

// pending is the write of key that is not stored yet. Under mu.
func (k *keeper) pending(principal, key string) (Write, bool) {
	for _, all := range [...]map[string]*puts{k.puts, k.flying} {
		if p := all[principal]; p != nil {
			if w, ok := p.writes[key]; ok {
				return w, true
			}
		}
	}
	return Write{}, false
}

// flush waits until everything that was put is stored. Error: why it could not be.
func (k *keeper) flush(ctx context.Context) error {
	if k == nil {
		return nil
	}
	ch := make(chan error, 1)
	k.mu.Lock()
	k.waiting = append(k.waiting, ch)
	k.mu.Unlock()
	k.poke(true)
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-k.done:
		return ErrUnavailable
	case err := <-ch:
		return err
	}
}

// run is the keeper's goroutine. When ctx ends it stores what is left and returns.
func (k *keeper) run(ctx context.Context) {
	defer close(k.done)
	retry := keepRetry
	for {
		select {
		case <-ctx.Done():
			k.last()
			return
		case <-k.kick:
		}
		if !k.rush.Swap(false) {
			k.linger(ctx)
		}
		if k.round(context.WithoutCancel(ctx)) == nil {
			retry = keepRetry
			continue
		}
		select {
		case <-ctx.Done():
		case <-time.After(retry):
		}
		retry = min(2*retry, keepRetryMax)
		k.poke(true)
	}
}

func (k *keeper) linger(ctx context.Context) {
	t := time.NewTimer(keepLinger)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			return
		case <-k.kick:
			if k.rush.Swap(false) {
				return
			}
		}
	}
}

// last stores what is left when the gateway stops. A store that is away is given up: it was said to be away.
func (k *keeper) last() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	for k.hasNews() {
		if err := k.round(ctx); err != nil {
			k.log.Error("last events could not be stored", "err", err)
			return
		}
	}
}

func (k *keeper) hasNews() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.dirty) > 0 || len(k.puts) > 0 || len(k.drops) > 0
}

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
	for s, upto := range dirty {
		events, err := k.events(ctx, s, upto)
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

// outcome notes whether the store works. While it does not, nobody is kept waiting for it: turns go on, readers see what is
// there, and what wanted to be sure is told (rule N5).
func (k *keeper) outcome(err error, dirty map[*session]uint64) {
	k.mu.Lock()
	was := k.failure
	k.failure = err
	k.mu.Unlock()
	switch {
	case err != nil && was == nil:
		k.log.Error("store is unavailable", "err", err)
	case err == nil && was != nil:
		k.log.Info("store is available again")
	}
	if err != nil {
		for s := range dirty {
			s.journal.Failed(err)
		}
	}
}

// down returns why the store does not work, nil while it does.
func (k *keeper) down() error {
	if k == nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.failure == nil {
		return nil
	}
	return errStore(k.failure)
}

// errStore tells a client that what it asked for could not be stored.
func errStore(err error) *Error {
	if errors.Is(err, ErrFenced) {
		return &Error{
			Code: CodeInternal, Reason: "owner_lost", Message: "Another gateway has taken this conversation over",
			Hint: "reconnect and send the prompt again with the same key",
		}
	}
	return &Error{
		Code: CodeInternal, Reason: "store_unavailable", Message: fmt.Sprintf("What you say cannot be stored now: %v", err),
		Hint: "try again in a moment; the operator sees the cause in the log and at /readyz",
	}
}

// closeStored stores what is left of the sessions and closes their journals cleanly, so that cursors into them stay valid.
func (m *Manager) closeStored(held map[viewKey]*session) {
	if m.keeper == nil {
		return
	}
	for _, s := range held {
		s.mu.Lock()
		s.save()
		s.mu.Unlock()
	}
	m.stopKeeper()
	<-m.keeper.done
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	for _, s := range held {
		if s.storedAs == "" || !s.journal.AllStored() {
			continue // readers have seen what is not stored: the next owner begins another epoch (rule N3)
		}
		if err := m.keeper.store.CloseJournal(ctx, s.principal, s.storedAs, s.fence); err != nil {
			m.log.Warn("journal could not be closed", "session", s.bound.Load().id, "err", err)
		}
	}
}

// Ready returns why the manager cannot take new prompts, nil when it can.
func (m *Manager) Ready() error { return m.keeper.down() }
