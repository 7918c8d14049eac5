package sessions

import (
	"context"
	"encoding/json"
	"path/filepath"
	"sort"
	"time"

	"github.com/acpgate/acpgate/agentpool/wire"
)

// maxPages bounds a walk over an agent's list.
const maxPages = 2000

// ListSessions serves session/list: a page of the agent's own list, or what passed through the gateway where the agent has
// none. Sessions that were deleted but could only be hidden are left out.
func (m *Manager) ListSessions(ctx context.Context, c Client, f *wire.Frame) ([]byte, error) {
	var p struct {
		Cwd *string `json:"cwd"`
	}
	if params := f.Params.Of(f.Raw); params != nil {
		if err := json.Unmarshal(params, &p); err != nil {
			return nil, errParams("bad params of session/list: "+err.Error(), `send {"cwd"?, "cursor"?}`)
		}
	}
	if p.Cwd != nil && !filepath.IsAbs(*p.Cwd) {
		return nil, errParams("cwd must be absolute: "+clip(*p.Cwd, 200), "send an absolute path, or leave it out")
	}
	ctx, cancel := context.WithTimeout(ctx, m.cfg.CallTimeout)
	defer cancel()
	info, err := m.cfg.Agents.Describe(ctx, c.Principal(), c.Agent())
	if err != nil {
		return nil, err
	}
	if err := m.known.recall(ctx, c.Principal(), c.Agent()); err != nil {
		return nil, err
	}
	if !info.List {
		cwd := ""
		if p.Cwd != nil {
			cwd = filepath.Clean(*p.Cwd)
		}
		return mustJSON(map[string]any{"sessions": m.known.list(c.Principal(), c.Agent(), cwd)}), nil
	}
	if f.Params.Of(f.Raw) == nil {
		f = mustFrame(wire.AppendRequest(nil, []byte("0"), f.Method, []byte("{}")))
	}
	raw, err := m.Call(ctx, c, f)
	if err != nil {
		return nil, err
	}
	return m.withoutHidden(c, raw), nil
}

// withoutHidden takes the tombstoned rows out of a page and adds the lineage of children. A page without any passes as the
// agent wrote it.
func (m *Manager) withoutHidden(c Client, raw []byte) []byte {
	rows := wire.Lookup(raw, "sessions")
	var list []json.RawMessage
	if !rows.Present() || json.Unmarshal(rows.Of(raw), &list) != nil {
		return raw
	}
	changed := false
	keep := make([]json.RawMessage, 0, len(list))
	for _, r := range list {
		id, err := wire.Unquote(wire.Lookup(r, "sessionId").Of(r))
		if err == nil && m.known.hidden(c.Principal(), c.Agent(), id) {
			changed = true
			continue
		}
		if own := m.known.row(sessKey(c, id)); err == nil && own != nil && own.Lineage != nil {
			changed = true
			r = own.Lineage.inRow(r, own.Title)
		}
		keep = append(keep, r)
	}
	if !changed {
		return raw
	}
	return wire.Splice(nil, raw, wire.Edit{Span: rows, With: mustJSON(keep)})
}

// rows lists the sessions of the client's agent, latest activity first: those of the agent's own list and what passed
// through the gateway. cwd "" is all directories.
func (m *Manager) rows(ctx context.Context, c Client, cwd string) ([]Row, error) {
	info, err := m.cfg.Agents.Describe(ctx, c.Principal(), c.Agent())
	if err != nil {
		return nil, err
	}
	if err := m.known.recall(ctx, c.Principal(), c.Agent()); err != nil {
		return nil, err
	}
	own := m.known.list(c.Principal(), c.Agent(), cwd)
	if !info.List {
		return own, nil
	}
	proc, err := m.cfg.Agents.Control(ctx, c.Principal(), c.Agent())
	if err != nil {
		return nil, err
	}
	defer proc.Release()
	var out []Row
	seen := map[string]int{}
	err = walkList(ctx, proc, cwd, func(r Row) bool {
		_, twice := seen[r.SessionID]
		other := cwd != "" && filepath.Clean(r.Cwd) != cwd
		if twice || other || r.SessionID == "" || m.known.hidden(c.Principal(), c.Agent(), r.SessionID) {
			return true
		}
		if t, err := time.Parse(time.RFC3339, r.UpdatedAt); err == nil {
			r.at = t
		}
		seen[r.SessionID] = len(out)
		out = append(out, r)
		return true
	})
	if err != nil {
		return nil, err
	}
	for _, r := range own {
		i, listed := seen[r.SessionID]
		switch {
		case !listed:
			out = append(out, r)
		case r.at.After(out[i].at):
			out[i].at = r.at
			if out[i].Title == "" {
				out[i].Title = r.Title
			}
		}
	}
	sort.SliceStable(out, func(i, j int) bool { return out[i].at.After(out[j].at) })
	return out, nil
}

// walkList calls fn with every row of the agent's list for cwd until fn returns false. It stops at a repeated cursor and
// after 2,000 pages.
func walkList(ctx context.Context, proc Agent, cwd string, fn func(Row) bool) error {
	cursor := ""
	seen := map[string]bool{}
	for range maxPages {
		params := map[string]any{}
		if cwd != "" {
			params["cwd"] = cwd
		}
		if cursor != "" {
			params["cursor"] = cursor
		}
		res := callMethod(ctx, proc, "session/list", mustJSON(params))
		if res.err != nil {
			return res.err
		}
		var page struct {
			Sessions   []Row  `json:"sessions"`
			NextCursor string `json:"nextCursor"`
		}
		if err := json.Unmarshal(res.raw, &page); err != nil {
			return err
		}
		for _, r := range page.Sessions {
			if !fn(r) {
				return nil
			}
		}
		if page.NextCursor == "" || seen[page.NextCursor] {
			return nil
		}
		cursor = page.NextCursor
		seen[cursor] = true
	}
	return nil
}

// inRow puts the lineage, and the title that we gave the child, into the agent's row of it.
func (l *lineage) inRow(row json.RawMessage, title string) json.RawMessage {
	m := openMembers(row)
	if m == nil {
		return row
	}
	gate := map[string]any{}
	l.add(gate)
	meta := openMembers(m["_meta"])
	if meta == nil {
		meta = map[string]json.RawMessage{}
	}
	meta["acpgate"] = mustJSON(gate)
	m["_meta"] = mustJSON(meta)
	if title != "" && l.Side {
		m["title"] = mustJSON(title)
	}
	return mustJSON(m)
}
