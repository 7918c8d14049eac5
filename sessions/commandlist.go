package sessions

import (
	"encoding/json"
	"sync"
	"time"

	"github.com/acpgate/acpgate/agentpool/wire"
	"github.com/acpgate/acpgate/sessions/journal"
)

const commandsUpdate = "available_commands_update"

// withOurCommands puts our slash commands in front of those in an available_commands_update. Where the agent has one of the
// same name ours wins, and //name reaches the agent's (rule V15).
func withOurCommands(f *wire.Frame) *wire.Frame {
	body := f.Update.Of(f.Raw)
	at := wire.Lookup(body, "availableCommands")
	var theirs []json.RawMessage
	if !at.Present() || json.Unmarshal(at.Of(body), &theirs) != nil {
		return f
	}
	list := ourCommands()
	for _, c := range theirs {
		name, err := wire.Unquote(wire.Lookup(c, "name").Of(c))
		if err != nil || find(name) == nil {
			list = append(list, c)
		}
	}
	span := wire.Span{Start: f.Update.Start + at.Start, End: f.Update.Start + at.End}
	return mustFrame(wire.Splice(nil, f.Raw, wire.Edit{Span: span, With: mustJSON(list)}))
}

func ourCommands() []json.RawMessage {
	var out []json.RawMessage
	for _, c := range commands() {
		m := map[string]any{"name": c.name, "description": c.description}
		if c.hint != "" {
			m["input"] = map[string]string{"hint": c.hint}
		}
		out = append(out, mustJSON(m))
	}
	return out
}

// offerCommands tells the clients of our commands, for agents that never send an update of theirs. Under mu.
func (s *session) offerCommands() {
	if s.snap.lines[commandsUpdate] != nil {
		return
	}
	b := append([]byte(`{"sessionId":`), s.bound.Load().tok...)
	b = append(b, `,"update":`...)
	b = append(b, mustJSON(map[string]any{"sessionUpdate": commandsUpdate, "availableCommands": ourCommands()})...)
	line := mustFrame(wire.AppendNotification(nil, "session/update", append(b, '}')))
	s.snap.take(s, line)
	s.journal.Append(journal.Update, time.Now(), line.Raw)
}

// menus keeps one copy of each list of commands, without the session's id: most sessions of an agent have the same one, and
// it would be a tenth of the memory of an idle session.
type menus struct {
	mu    sync.Mutex // a leaf
	lines map[string][]byte
}

const maxMenus = 64 // different ones that are remembered

// share returns the line of an available_commands_update. It must not be changed.
func (m *menus) share(f *wire.Frame) []byte {
	line := wire.Splice(nil, f.Raw, f.EditSession([]byte(`""`)))
	m.mu.Lock()
	defer m.mu.Unlock()
	if same := m.lines[string(line)]; same != nil {
		return same
	}
	if m.lines == nil || len(m.lines) >= maxMenus {
		m.lines = map[string][]byte{}
	}
	m.lines[string(line)] = line
	return line
}
