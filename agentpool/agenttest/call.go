package agenttest

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/acpgate/acpgate/agentpool/wire"
	"github.com/acpgate/acpgate/sessions"
)

// Line is one line that reached a process's stdin.
type Line struct {
	Raw     string
	Kind    wire.Kind
	Method  string // of requests and notifications
	ID      string // raw JSON
	Session string // decoded params.sessionId
}

// Call is a request or notification of the gateway, as the agent sees it.
type Call struct {
	Line
	p        *Process
	params   json.RawMessage
	answered bool // guarded by p.mu
}

// Handler is what an agent does with one call. It runs on the server goroutine and must not block: it answers at once, or
// keeps the call and answers later, from any goroutine.
type Handler func(c *Call)

// Manual is the Handler that does nothing: the test answers, or nobody does.
func Manual(*Call) {}

// Failing returns a Handler that answers with an error. data is raw JSON, "" for none.
func Failing(code int, message, data string) Handler {
	return func(c *Call) { c.Error(code, message, data) }
}

// Answering returns a Handler that answers with a raw result.
func Answering(result string) Handler {
	return func(c *Call) { c.Result(result) }
}

// Process is the process that got the call.
func (c *Call) Process() *Process { return c.p }

// Params are the raw params.
func (c *Call) Params() json.RawMessage { return c.params }

// Decode unmarshals the params; a mismatch is a contract violation.
func (c *Call) Decode(v any) {
	if err := json.Unmarshal(c.params, v); err != nil {
		c.p.agents.violation("%s: params: %v", c.Method, err)
	}
}

// Text is the text of a prompt: its text blocks, and the texts of embedded resources, joined by newlines.
func (c *Call) Text() string {
	var p struct {
		Prompt []struct {
			Text     string
			Resource struct{ Text string }
		}
	}
	c.Decode(&p)
	var out []string
	for _, b := range p.Prompt {
		if s := b.Text + b.Resource.Text; s != "" {
			out = append(out, s)
		}
	}
	return strings.Join(out, "\n")
}

// Result answers with a raw result. It reports false, and writes nothing, when the call was answered before.
func (c *Call) Result(raw string) bool {
	return c.answer(wire.AppendResult(nil, []byte(c.ID), []byte(raw)))
}

// Error answers with an error. data is raw JSON, "" for none. It reports false when the call was answered before.
func (c *Call) Error(code int, message, data string) bool {
	var d []byte
	if data != "" {
		d = []byte(data)
	}
	return c.answer(wire.AppendError(nil, []byte(c.ID), code, message, d))
}

func (c *Call) answer(line []byte) bool {
	p := c.p
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.answered || c.Kind != wire.Request {
		return false
	}
	c.answered = true
	if p.turns[c.Session] == c {
		delete(p.turns, c.Session)
	}
	p.emitLocked(event{line: line})
	return true
}

// Answered reports whether the call was answered.
func (c *Call) Answered() bool {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	return c.answered
}

// Chunk writes an agent_message_chunk for the call's session and adds it to the stored history.
func (c *Call) Chunk(text string) { c.p.Chunk(c.Session, text) }

// Update writes a session/update for the call's session; update is the raw update object.
func (c *Call) Update(update string) { c.p.Emit(c.Session, update) }

// Asked is a request of the agent to the gateway.
type Asked struct {
	ID      string // raw JSON
	Session string

	p        *Process
	response *Line // guarded by p.mu
}

// Ask writes a request of the agent. params is a raw object; sessionId is put in front when session is not empty. Ids count
// from 0 per process, as real agents do.
func (p *Process) Ask(session, method, params string) *Asked {
	p.mu.Lock()
	id := strconv.Itoa(p.nextAsk)
	p.nextAsk++
	p.mu.Unlock()
	return p.AskAs(id, session, method, params)
}

// AskAs is Ask with a chosen raw id, which may be one that was used before.
func (p *Process) AskAs(id, session, method, params string) *Asked {
	q := &Asked{ID: id, Session: session, p: p}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = append(p.asked, q)
	p.emitLocked(event{line: wire.AppendRequest(nil, []byte(id), method, withSession(session, params))})
	return q
}

// Permission asks for permission to run a tool call, with the options "ok" (allow_once) and "no" (reject_once).
func (p *Process) Permission(session, toolCall, title, kind string) *Asked {
	tc, err := json.Marshal(map[string]string{"toolCallId": toolCall, "title": title, "kind": kind})
	if err != nil {
		panic(err) // strings always marshal
	}
	return p.Ask(session, "session/request_permission", `{"toolCall":`+string(tc)+
		`,"options":[{"optionId":"ok","name":"Allow","kind":"allow_once"},{"optionId":"no","name":"Reject","kind":"reject_once"}]}`)
}

// Withdraw writes the agent's $/cancel_request for the request.
func (q *Asked) Withdraw() {
	q.p.EmitLine(`{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":` + q.ID + `}}`)
}

// Answered reports whether a response reached the agent.
func (q *Asked) Answered() bool {
	q.p.mu.Lock()
	defer q.p.mu.Unlock()
	return q.response != nil
}

// Wait waits for the response and returns its line. It must run on the test's goroutine: it fails the test when none comes.
func (q *Asked) Wait() Line {
	q.p.agents.tb.Helper()
	if !q.p.agents.await(q.p.cond, func() bool { return q.response != nil }) {
		q.p.agents.tb.Fatalf("agenttest: request %s of the agent was not answered", q.ID)
	}
	return *q.response
}

// resolve gives a response to the request of the agent that it answers.
func (p *Process) resolve(line Line) {
	p.mu.Lock()
	for _, q := range p.asked {
		if q.ID == line.ID && q.response == nil {
			q.response = &line
			p.cond.Broadcast()
			p.mu.Unlock()
			return
		}
	}
	p.mu.Unlock()
	p.agents.violation("answer to a request that is not open: %s", line.Raw)
}

// Gone says why the process ended, nil while it runs.
func (p *Process) Gone() *sessions.AgentError {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.gone
}
