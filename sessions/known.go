package sessions

import (
	"context"
	"encoding/json"
	"sort"
	"strings"
	"sync"
	"time"
)

// known holds what passed through the gateway about sessions: rows for agents that cannot list, proof that a session
// exists, and the sessions that were deleted where the agent cannot delete.
type known struct {
	keeper *keeper
	load   sync.Mutex // before mu
	loaded map[viewKey]bool

	mu   sync.Mutex
	rows map[viewKey]*Row
	gone map[viewKey]bool
}

// Row is a session in a list.
type Row struct {
	SessionID string `json:"sessionId"`
	Cwd       string `json:"cwd"`
	Title     string `json:"title,omitempty"`
	UpdatedAt string `json:"updatedAt,omitempty"`

	Meta *rowMeta `json:"_meta,omitempty"`

	Lineage *lineage `json:"-"` // of a child
	at      time.Time
}

type rowMeta struct {
	Gate json.RawMessage `json:"acpgate"`
}

// setLineage notes where a child comes from, in the form in which lists carry it.
func (r *Row) setLineage(l *lineage) {
	if r.Lineage = l; l != nil {
		gate := map[string]any{}
		l.add(gate)
		r.Meta = &rowMeta{mustJSON(gate)}
	}
}

const (
	maxKnown = 5000 // rows of all principals; the oldest go first
	maxTitle = 80   // of a title made from the first prompt, in bytes
)

func newKnown() *known {
	return &known{loaded: map[viewKey]bool{}, rows: map[viewKey]*Row{}, gone: map[viewKey]bool{}}
}

func keyOf(v *session) viewKey { return viewKey{v.principal, v.agentName, v.bound.Load().id} }

// prompted notes a prompt: from the first one on the session is listed (rule L3). Under View.mu.
func (k *known) prompted(v *session, text string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	key := keyOf(v)
	r := k.rows[key]
	if r == nil {
		if len(k.rows) >= maxKnown {
			k.evict()
		}
		title := v.snap.title
		if title == "" {
			title, _, _ = strings.Cut(strings.TrimSpace(text), "\n")
		}
		r = &Row{SessionID: key.handle, Cwd: v.cwd, Title: clip(title, maxTitle)}
		r.setLineage(v.lineage)
		k.rows[key] = r
	}
	r.stamp()
	k.save(v, r)
}

// save stores the row of s. Under mu.
func (k *known) save(s *session, r *Row) {
	s.m.keeper.put(s.principal, nil, IndexWrite{Index: "rows/" + s.agentName, Member: r.SessionID, Score: r.at.UnixMilli(), Value: mustJSON(r)})
}

func (r *Row) stamp() {
	r.at = time.Now()
	r.UpdatedAt = r.at.UTC().Format(time.RFC3339Nano)
}

func (k *known) touch(v *session) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if r := k.rows[keyOf(v)]; r != nil {
		r.stamp()
		k.save(v, r)
	}
}

func (k *known) title(v *session, title string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if r := k.rows[keyOf(v)]; r != nil && title != "" {
		r.Title = clip(title, 4*maxTitle)
		k.save(v, r)
	}
}

func (k *known) titleOf(s *session) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	if r := k.rows[keyOf(s)]; r != nil {
		return r.Title
	}
	return ""
}

func (k *known) has(v *session) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.rows[keyOf(v)] != nil
}

// drop forgets a session and keeps it out of every list from now on.
func (k *known) drop(principal, agent, id string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	key := viewKey{principal, agent, id}
	delete(k.rows, key)
	k.gone[key] = true
	k.keeper.put(principal, nil,
		IndexWrite{Index: "rows/" + agent, Member: id, Remove: true},
		IndexWrite{Index: "gone/" + agent, Member: id, Score: time.Now().UnixMilli()})
}

// back takes back that a session was deleted.
func (k *known) back(s *session) {
	k.mu.Lock()
	defer k.mu.Unlock()
	key := keyOf(s)
	if k.gone[key] {
		delete(k.gone, key)
		k.keeper.put(s.principal, nil, IndexWrite{Index: "gone/" + s.agentName, Member: key.handle, Remove: true})
	}
}

// rename moves the row of a session that was made anew under another id.
func (k *known) rename(from, to viewKey) {
	k.mu.Lock()
	defer k.mu.Unlock()
	r := k.rows[from]
	if r == nil {
		return
	}
	delete(k.rows, from)
	c := *r
	c.SessionID = to.handle
	k.rows[to] = &c
	k.keeper.put(to.principal, nil,
		IndexWrite{Index: "rows/" + to.agent, Member: from.handle, Remove: true},
		IndexWrite{Index: "rows/" + to.agent, Member: to.handle, Score: c.at.UnixMilli(), Value: mustJSON(&c)})
}

func (k *known) row(key viewKey) *Row {
	k.mu.Lock()
	defer k.mu.Unlock()
	r := k.rows[key]
	if r == nil {
		return nil
	}
	c := *r
	return &c
}

func (k *known) hidden(principal, agent, id string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.gone[viewKey{principal, agent, id}]
}

// list returns the rows of an agent, latest first; cwd "" is all directories.
func (k *known) list(principal, agent, cwd string) []Row {
	k.mu.Lock()
	defer k.mu.Unlock()
	out := []Row{}
	for key, r := range k.rows {
		if key.principal == principal && key.agent == agent && (cwd == "" || r.Cwd == cwd) {
			out = append(out, *r)
		}
	}
	sort.Slice(out, func(i, j int) bool {
		if !out[i].at.Equal(out[j].at) {
			return out[i].at.After(out[j].at)
		}
		return out[i].SessionID < out[j].SessionID
	})
	return out
}

func (k *known) evict() {
	var oldest viewKey
	var at time.Time
	for key, r := range k.rows {
		if at.IsZero() || r.at.Before(at) {
			oldest, at = key, r.at
		}
	}
	delete(k.rows, oldest)
}

// recall reads what the store has of an agent, once.
func (k *known) recall(ctx context.Context, principal, agent string) error {
	if k.keeper == nil {
		return nil
	}
	k.load.Lock()
	defer k.load.Unlock()
	of := viewKey{principal, agent, ""}
	if k.loaded[of] {
		return nil
	}
	for _, index := range []string{"gone/", "rows/"} {
		var after *IndexRow
		for n := 0; n < maxKnown; {
			rows, err := k.keeper.store.Scan(ctx, principal, index+agent, Query{After: after, Limit: MaxScanRows})
			if err != nil {
				return err
			}
			for _, row := range rows {
				k.take(viewKey{principal, agent, row.Member}, index, row)
			}
			if n += len(rows); len(rows) < MaxScanRows {
				break
			}
			after = &rows[len(rows)-1]
		}
	}
	k.loaded[of] = true
	return nil
}

func (k *known) take(key viewKey, index string, row IndexRow) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if index == "gone/" {
		k.gone[key] = true
		return
	}
	var r Row
	if k.rows[key] != nil || json.Unmarshal(row.Value, &r) != nil {
		return
	}
	r.at = time.UnixMilli(row.Score)
	if r.Meta != nil {
		var l lineage
		if json.Unmarshal(r.Meta.Gate, &l) == nil {
			r.Lineage = &l
		}
	}
	k.rows[key] = &r
}
