package agenttest

import (
	"encoding/json"
	"fmt"

	"github.com/acpgate/acpgate/agentpool/wire"
)

// Modes is the modes member of the ordinary answers to session/new, load, resume and fork.
const Modes = `{"currentModeId":"ask","availableModes":[{"id":"ask","name":"Ask"},{"id":"code","name":"Code"}]}`

// ordinary is the behaviour of an ordinary agent. Unknown requests are answered -32601, unknown notifications ignored.
func ordinary(method string) Handler {
	switch method {
	case "initialize":
		return func(c *Call) { c.Result(c.p.profile.Initialize) }
	case "session/new":
		return newSession
	case "session/load":
		return loadSession
	case "session/resume":
		return resumeSession
	case "session/fork":
		return forkSession
	case "session/close":
		return func(c *Call) {
			c.p.setOpen(c.Session, false)
			c.Result(`{}`)
		}
	case "session/delete":
		return func(c *Call) {
			c.p.setOpen(c.Session, false)
			c.p.agents.disk.remove(c.Session)
			c.Result(`{}`)
		}
	case "session/list":
		return listSessions
	case "session/set_config_option":
		return Answering(`{"configOptions":[]}`)
	case "session/set_mode", "authenticate", "logout":
		return Answering(`{}`)
	case "session/prompt":
		return prompt
	case "session/cancel":
		return cancel
	default:
		return func(c *Call) { c.Error(-32601, "Method not found", "") }
	}
}

// Store puts a session with a history (user, agent, user, agent... texts) on the disk, as if an earlier process had left it.
func (a *Agents) Store(id, cwd string, texts ...string) {
	a.disk.create(id, cwd)
	for i, t := range texts {
		a.disk.append(id, [2]string{"user", "agent"}[i%2], t)
	}
}

// Stored returns the texts of a session's history, nil when there is no such session.
func (a *Agents) Stored(id string) []string {
	s, ok := a.disk.get(id)
	if !ok {
		return nil
	}
	out := []string{}
	for _, m := range s.history {
		out = append(out, m.text)
	}
	return out
}

// NewSession makes a session for a session/new call, open in the process, and returns its id; the caller answers. It
// honours _meta.sessionId, and answers with an error and returns "" when that id is taken.
func (c *Call) NewSession() string {
	var params struct {
		Cwd  string
		Meta struct{ SessionID string } `json:"_meta"`
	}
	c.Decode(&params)
	id, ok := c.p.agents.disk.create(params.Meta.SessionID, params.Cwd)
	if !ok {
		c.Error(-32602, "session id is in use", "")
		return ""
	}
	c.p.setOpen(id, true)
	return id
}

// MarkOpen notes that the call opened its session in the process, for handlers of session/load and session/resume.
func (c *Call) MarkOpen() { c.p.setOpen(c.Session, true) }

func newSession(c *Call) {
	id := c.NewSession()
	if id == "" {
		return
	}
	for _, u := range c.p.profile.BeforeNew {
		c.p.Emit(id, u)
	}
	c.Result(sessionResult(id))
	for _, u := range c.p.profile.AfterNew {
		c.p.Emit(id, u)
	}
}

func sessionResult(id string) string {
	return string(wire.AppendQuote([]byte(`{"sessionId":`), id)) + `,"modes":` + Modes + `}`
}

func loadSession(c *Call) {
	s, ok := c.p.agents.disk.get(c.Session)
	if !ok {
		notFound(c)
		return
	}
	c.p.setOpen(s.id, true)
	for _, m := range s.history {
		c.Update(chunk(m.role+"_message_chunk", m.text))
	}
	c.Result(`{"modes":` + Modes + `}`)
}

func resumeSession(c *Call) {
	if _, ok := c.p.agents.disk.get(c.Session); !ok {
		notFound(c)
		return
	}
	c.p.setOpen(c.Session, true)
	c.Result(`{"modes":` + Modes + `}`)
}

func forkSession(c *Call) {
	s, ok := c.p.agents.disk.get(c.Session)
	if !ok {
		notFound(c)
		return
	}
	id, _ := c.p.agents.disk.create("", s.cwd)
	c.p.agents.disk.copyTo(id, s)
	c.p.setOpen(id, true)
	c.Result(sessionResult(id))
}

func notFound(c *Call) {
	c.Error(-32002, "Resource not found: "+c.Session, "")
}

func listSessions(c *Call) {
	var params struct{ Cwd string }
	c.Decode(&params)
	type row struct {
		SessionID string `json:"sessionId"`
		Cwd       string `json:"cwd"`
		Title     string `json:"title"`
	}
	rows := []row{}
	for _, s := range c.p.agents.disk.list(params.Cwd) {
		rows = append(rows, row{s.id, s.cwd, s.title})
	}
	b, err := json.Marshal(map[string]any{"sessions": rows})
	if err != nil {
		panic(fmt.Sprintf("agenttest: rows: %v", err)) // strings always marshal
	}
	c.Result(string(b))
}

func prompt(c *Call) {
	if !c.p.Open(c.Session) {
		notFound(c)
		return
	}
	c.Chunk("ECHO[" + c.Text() + "]")
	c.Result(`{"stopReason":"end_turn"}`)
}

func cancel(c *Call) {
	c.p.mu.Lock()
	turn, mode := c.p.turns[c.Session], c.p.cancels
	c.p.mu.Unlock()
	if turn == nil {
		return
	}
	switch mode {
	case CancelAnswers:
		turn.Result(`{"stopReason":"cancelled"}`)
	case CancelEndsTurn:
		turn.Result(`{"stopReason":"end_turn"}`)
	case CancelFails:
		turn.Error(-32603, "Internal error", "")
	case CancelIgnored:
	}
}

// cancelledID is the raw id that a $/cancel_request names: requestId, or id as some agents write it.
func cancelledID(f *wire.Frame) string {
	var p struct{ RequestID, ID json.RawMessage }
	if err := json.Unmarshal(f.Params.Of(f.Raw), &p); err != nil {
		return ""
	}
	if p.RequestID != nil {
		return string(p.RequestID)
	}
	return string(p.ID)
}

func unquote(quoted []byte) string {
	s, err := wire.Unquote(quoted)
	if err != nil {
		panic(fmt.Sprintf("agenttest: %v", err)) // wire.Parse checked it
	}
	return s
}
