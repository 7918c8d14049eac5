package sessions

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
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
