package sessions

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/acpgate/acpgate/agentpool/wire"
	"github.com/acpgate/acpgate/sessions/journal"
)

// fork serves session/fork (rule W13) by the first rung of the ladder that works: the agent's own session/fork in the
// process of a source that rests; else a new session that gets the source's transcript in front of its first prompt. The
// child's journal starts with a copy of the source's completed turns either way, so both look alike (CASE 64).
func (m *Manager) fork(ctx context.Context, c Client, f *wire.Frame, p openParams, cwd string) (*Attachment, error) {
	if err := m.known.recall(ctx, c.Principal(), c.Agent()); err != nil {
		return nil, err
	}
	if m.lookup(c, p.SessionID) == nil {
		if _, err := m.restoreView(ctx, c, p.SessionID); err != nil {
			return nil, err
		}
	}
	if m.known.hidden(c.Principal(), c.Agent(), p.SessionID) {
		return nil, errNotFound(p.SessionID)
	}
	src, err := m.acquire(ctx, m.bindingOf(c, p.SessionID), withMethod(f, "session/load"), cwd)
	if err != nil {
		return nil, err
	}
	src.mu.Lock()
	events := src.completed()
	resting := src.view == nil || src.view.turn == nil
	var sibling Agent
	if src.proc != nil && resting && src.prompted && src.proc.Info().Fork {
		if sibling, err = src.proc.Sibling(); err != nil { // no room there: the second rung
			m.log.Info("session cannot be forked in its process", "session", src.bound.Load().id, "agent", src.agentName, "err", err)
			sibling = nil
		}
	}
	bound := src.bound.Load()
	src.mu.Unlock()
	child := m.newSession(c.Principal(), c.Agent(), cwd)
	child.lineage = &lineage{Parent: bound.id, ParentHandle: p.SessionID, Rung: "seed"}
	for _, e := range events {
		child.journal.Append(e.Type, time.UnixMilli(e.Time), e.Data)
	}
	child.seed = child.journal.Head().Seq
	child.lineage.SeedLength = countMessages(child)
	var raw []byte
	if sibling != nil {
		child.lineage.Rung = "fork"
		g := mustFrame(wire.Splice(nil, f.Raw, f.EditSession(bound.tok)))
		child.prompted, child.muted = true, true
		raw, err = m.makeIn(ctx, child, sibling, g)
	} else {
		raw, err = m.seedNew(ctx, child, f, events)
	}
	if err != nil {
		child.journal.Close()
		return nil, err
	}
	child.mu.Lock()
	child.muted = false
	from := child.journal.Head()
	child.mu.Unlock()
	v, err := m.viewOn(child)
	if err != nil {
		return nil, err
	}
	if sibling == nil && len(events) > 0 {
		v.mu.Lock()
		v.notice("This agent cannot fork; it gets the conversation so far as text with the next prompt.")
		v.mu.Unlock()
	}
	return v.enter(c, f, raw, from)
}

// bindingOf names the session that a handle stands for.
func (m *Manager) bindingOf(c Client, handle string) viewKey {
	k := sessKey(c, handle)
	if m.session(k) == nil {
		if v := m.lookup(c, handle); v != nil {
			v.mu.Lock()
			defer v.mu.Unlock()
			return v.session.key()
		}
	}
	return k
}

// seedNew is the second rung.
func (m *Manager) seedNew(ctx context.Context, child *session, f *wire.Frame, events []journal.Event) ([]byte, error) {
	proc, err := m.cfg.Agents.Acquire(ctx, child.principal, child.agentName, child.cwd)
	if err != nil {
		return nil, err
	}
	if text := historyText(events); text != "" {
		child.addPrefix(prefixBlock{Kind: "history", Block: historyBlock(text, proc.Info().EmbeddedContext)})
	}
	return m.makeIn(ctx, child, proc, mustFrame(wire.AppendRequest(nil, f.ID.Of(f.Raw), "session/new", paramsFor(paramsOf(f), ""))))
}

// completedUpTo is completed, of what lies before the end of a turn at cut. Under mu.
func (s *session) completedUpTo(cut uint64) []journal.Event {
	var out []journal.Event
	for _, e := range s.completed() {
		if e.Seq <= cut {
			out = append(out, e)
		}
	}
	return out
}

// completed returns copies of the events of turns that have ended, prompts and the agent's messages. Under mu.
func (s *session) completed() []journal.Event {
	var out []journal.Event
	v := s.view
	s.each(func(e journal.Event) bool {
		switch e.Type {
		case journal.Prompt:
			var p journal.PromptData
			if json.Unmarshal(e.Data, &p) != nil || p.View != "" {
				return true // a command of the gateway
			}
			if v != nil && v.turn != nil && p.Turn == v.turn.id {
				return false // the turn that runs is left out whole
			}
			out = append(out, e)
		case journal.Update:
			if f, err := wire.Parse(e.Data, journal.LineLimits()); err == nil && isMessage(&f) {
				out = append(out, e)
			}
		}
		return true
	})
	return out
}

// each walks the retained events until fn returns false.
func (s *session) each(fn func(journal.Event) bool) {
	r, err := s.journal.NewReader(s.journal.Start(), func() {}, nil)
	if err != nil {
		return // trimmed between the two calls: only by an append, which mu excludes
	}
	defer r.Close()
	for {
		chunk, ok, err := r.Next()
		if err != nil || !ok {
			return
		}
		for i := range chunk.Len() {
			e := chunk.At(i)
			if !fn(e) {
				return
			}
			r.Advance(e)
		}
	}
}

func (s *session) eachUpdate(fn func(*wire.Frame) bool) {
	s.each(func(e journal.Event) bool {
		if e.Type != journal.Update {
			return true
		}
		f, err := wire.Parse(e.Data, journal.LineLimits())
		return err != nil || fn(&f)
	})
}

const (
	historyTag   = "acpgate-history"
	historyURI   = "acpgate://history"
	historyBytes = 256 << 10 // the end of the conversation that a seeded child gets
)

// historyText is the conversation as text: who said what, without thoughts and tool output.
func historyText(events []journal.Event) string {
	var sb strings.Builder
	who := ""
	say := func(name, text string) {
		if who != name {
			if sb.Len() > 0 {
				sb.WriteString("\n\n")
			}
			sb.WriteString(name + ": ")
			who = name
		}
		sb.WriteString(text)
	}
	for _, e := range events {
		if e.Type == journal.Prompt {
			var p journal.PromptData
			if json.Unmarshal(e.Data, &p) == nil {
				who = "" // every prompt is a message of its own
				say("User", blocksText([]json.RawMessage{p.Content}))
			}
			continue
		}
		var u struct {
			Params struct {
				Update struct {
					Kind    string          `json:"sessionUpdate"`
					Content json.RawMessage `json:"content"`
				} `json:"update"`
			} `json:"params"`
		}
		if json.Unmarshal(e.Data, &u) != nil {
			continue
		}
		switch u.Params.Update.Kind {
		case "user_message_chunk":
			say("User", blocksText([]json.RawMessage{u.Params.Update.Content}))
		case "agent_message_chunk":
			say("Assistant", blocksText([]json.RawMessage{u.Params.Update.Content}))
		}
	}
	text := sb.String()
	if len(text) > historyBytes {
		cut := len(text) - historyBytes
		for cut < len(text) && text[cut]&0xC0 == 0x80 {
			cut++
		}
		text = "[earlier messages left out]\n" + text[cut:]
	}
	return text
}

// historyBlock wraps the transcript for the agent: an embedded resource where it takes those, else tagged text.
func historyBlock(text string, embedded bool) json.RawMessage {
	if embedded {
		return mustJSON(map[string]any{"type": "resource", "resource": map[string]string{
			"uri": historyURI, "mimeType": "text/plain", "text": text,
		}})
	}
	return mustJSON(map[string]string{"type": "text", "text": "<" + historyTag + ">\n" + text + "\n</" + historyTag + ">"})
}
