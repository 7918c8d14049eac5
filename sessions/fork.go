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
	src, err := m.live(ctx, c, withMethod(f, "session/load"), p, cwd)
	if err != nil {
		return nil, err
	}
	if err := m.room(c.Principal()); err != nil {
		return nil, err
	}
	src.mu.Lock()
	events := src.completed()
	var sibling Agent
	if src.proc != nil && src.turn == nil && src.prompted && src.proc.Info().Fork {
		sibling, err = src.proc.Sibling()
	}
	bound := src.bound.Load()
	src.mu.Unlock()
	if err != nil {
		return nil, err
	}
	child := m.newView(c.Principal(), c.Agent(), cwd)
	for _, e := range events {
		child.journal.Append(e.Type, time.UnixMilli(e.Time), e.Data)
	}
	var raw []byte
	if sibling != nil {
		g := mustFrame(wire.Splice(nil, f.Raw, f.EditSession(bound.tok)))
		child.prompted, child.muted = true, true
		child, raw, err = m.createIn(ctx, child, sibling, g)
	} else {
		child, raw, err = m.seedNew(ctx, child, f, events)
	}
	if err != nil {
		return nil, err
	}
	child.mu.Lock()
	child.muted = false
	child.mu.Unlock()
	return m.enterAt(child, c, f, raw)
}

// seedNew is the second rung.
func (m *Manager) seedNew(ctx context.Context, child *View, f *wire.Frame, events []journal.Event) (*View, []byte, error) {
	proc, err := m.cfg.Agents.Acquire(ctx, child.principal, child.agentName, child.cwd)
	if err != nil {
		return nil, nil, err
	}
	if text := historyText(events); text != "" {
		child.prefix = []json.RawMessage{historyBlock(text, proc.Info().EmbeddedContext)}
		child.notice("This agent cannot fork; it gets the conversation so far as text with the next prompt.")
	}
	g := mustFrame(wire.AppendRequest(nil, f.ID.Of(f.Raw), "session/new", paramsFor(paramsOf(f), "")))
	return m.createIn(ctx, child, proc, g)
}

// enterAt attaches the client to a child at its head: what it inherited is in the journal for whoever loads it.
func (m *Manager) enterAt(v *View, c Client, f *wire.Frame, raw []byte) (*Attachment, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	head := v.journal.Head()
	a, err := v.newAttachment(c, v.handle, head)
	if err != nil {
		return nil, err
	}
	a.anchorAt(head.Seq, waiter{a, f.ID.Of(f.Raw)}, reply{result: raw, meta: v.openedMeta(head, "")})
	a.snapshotFrames(head.Seq, true)
	m.audit.Info("session opened", "principal", v.principal, "conn", c.ID(), "view", v.handle, "agent", v.agentName, "method", f.Method, "cwd", v.cwd)
	return a, nil
}

// completed returns copies of the events of turns that have ended, prompts and the agent's messages. Under mu.
func (v *View) completed() []journal.Event {
	var out []journal.Event
	v.each(func(e journal.Event) bool {
		switch e.Type {
		case journal.Prompt:
			var p journal.PromptData
			if v.turn != nil && json.Unmarshal(e.Data, &p) == nil && p.Turn == v.turn.id {
				return false // the turn that runs is left out whole
			}
			out = append(out, e)
		case journal.Update:
			if f, err := wire.Parse(e.Data, wire.Limits{}); err == nil && isMessage(&f) {
				out = append(out, e)
			}
		}
		return true
	})
	return out
}

// each walks the retained events until fn returns false.
func (v *View) each(fn func(journal.Event) bool) {
	r, err := v.journal.NewReader(v.journal.Start(), func() {}, nil)
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

func (v *View) eachUpdate(fn func(*wire.Frame) bool) {
	v.each(func(e journal.Event) bool {
		if e.Type != journal.Update {
			return true
		}
		f, err := wire.Parse(e.Data, wire.Limits{})
		return err != nil || fn(&f)
	})
}

const (
	historyTag   = "acpgate-history"
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
			"uri": "acpgate://history", "mimeType": "text/plain", "text": text,
		}})
	}
	return mustJSON(map[string]string{"type": "text", "text": "<" + historyTag + ">\n" + text + "\n</" + historyTag + ">"})
}
