package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// message is a JSON-RPC message as a client sees it.
type message struct {
	ID     json.RawMessage `json:"id,omitempty"`
	Method string          `json:"method,omitempty"`
	Params json.RawMessage `json:"params,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
	Error  *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error,omitempty"`
}

// acpClient is an ACP client over WebSocket that reads in order. It is used by one goroutine.
type acpClient struct {
	t      *testing.T
	socket *websocket.Conn
	nextID int
	// onRequest answers a request of the agent; nil leaves it open.
	onRequest func(m message) (result string)
	seen      []message // everything that came
}

// dial connects with the gateway's first token, as an editor or bot would.
func dial(t *testing.T, g *gatewayProcess) *acpClient {
	t.Helper()
	token, err := os.ReadFile(filepath.Join(g.cmd.Dir, ".local", "state", "acpgate", "token"))
	if err != nil {
		t.Fatal(err)
	}
	header := http.Header{"Authorization": {"Bearer " + strings.TrimSpace(string(token))}}
	ctx, cancel := context.WithTimeout(context.Background(), processWait)
	defer cancel()
	socket, response, err := websocket.Dial(ctx, strings.Replace(g.url, "http", "ws", 1)+"/acp", &websocket.DialOptions{HTTPHeader: header})
	if err != nil {
		t.Fatal(err)
	}
	if response.Header.Get("Acp-Connection-Id") == "" {
		t.Error("the upgrade has no Acp-Connection-Id")
	}
	socket.SetReadLimit(-1)
	c := &acpClient{t: t, socket: socket}
	t.Cleanup(func() { _ = socket.CloseNow() }) // closed already, or of no more use
	return c
}

// open initializes and starts a session in the gateway's directory; it returns the session's id.
func (c *acpClient) open(g *gatewayProcess) string {
	c.t.Helper()
	c.call("initialize", `{"protocolVersion":1,"clientCapabilities":{}}`)
	var session struct {
		SessionID string `json:"sessionId"`
	}
	result := c.call("session/new", fmt.Sprintf(`{"cwd":%q,"mcpServers":[]}`, g.cmd.Dir))
	if err := json.Unmarshal(result, &session); err != nil || session.SessionID == "" {
		c.t.Fatalf("session/new: %s, %v", result, err)
	}
	return session.SessionID
}

func (c *acpClient) write(format string, args ...any) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), processWait)
	defer cancel()
	if err := c.socket.Write(ctx, websocket.MessageText, fmt.Appendf(nil, format, args...)); err != nil {
		c.t.Fatal(err)
	}
}

// read returns the next message; requests of the agent are answered on the way.
func (c *acpClient) read() (message, error) {
	ctx, cancel := context.WithTimeout(context.Background(), processWait)
	defer cancel()
	_, b, err := c.socket.Read(ctx)
	if err != nil {
		return message{}, err
	}
	var m message
	if err := json.Unmarshal(b, &m); err != nil {
		return message{}, fmt.Errorf("%w: %s", err, b)
	}
	c.seen = append(c.seen, m)
	if m.Method != "" && m.ID != nil && c.onRequest != nil {
		c.write(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, c.onRequest(m))
	}
	return m, nil
}

// send writes a request and returns its id.
func (c *acpClient) send(method, params string) string {
	c.t.Helper()
	c.nextID++
	id := fmt.Sprint(c.nextID)
	c.write(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":%s}`, id, method, params)
	return id
}

// await reads until the response to id comes.
func (c *acpClient) await(id string) message {
	c.t.Helper()
	for {
		m, err := c.read()
		if err != nil {
			c.t.Fatalf("waiting for the response to %s: %v", id, err)
		}
		if m.Method == "" && string(m.ID) == id {
			return m
		}
	}
}

// call is a request that must succeed.
func (c *acpClient) call(method, params string) json.RawMessage {
	c.t.Helper()
	m := c.await(c.send(method, params))
	if m.Error != nil {
		c.t.Fatalf("%s: %d %s", method, m.Error.Code, m.Error.Message)
	}
	return m.Result
}

func (c *acpClient) sendPrompt(session, text string) string {
	c.t.Helper()
	return c.send("session/prompt", fmt.Sprintf(`{"sessionId":%q,"prompt":[{"type":"text","text":%q}]}`, session, text))
}

// prompt runs a turn and returns its stop reason and what the agent said.
func (c *acpClient) prompt(session, text string) (stopReason, said string) {
	c.t.Helper()
	from := len(c.seen)
	m := c.await(c.sendPrompt(session, text))
	return stopReasonOf(c.t, m), c.said(from)
}

func stopReasonOf(t *testing.T, m message) string {
	t.Helper()
	var result struct {
		StopReason string `json:"stopReason"`
	}
	if m.Error != nil {
		t.Fatalf("session/prompt: %d %s", m.Error.Code, m.Error.Message)
	}
	if err := json.Unmarshal(m.Result, &result); err != nil {
		t.Fatal(err)
	}
	return result.StopReason
}

// update is the part of session/update that the tests look at.
type update struct {
	SessionUpdate string          `json:"sessionUpdate"`
	Content       json.RawMessage `json:"content"`
	Status        string          `json:"status"`
}

// updates are those that came since from, in order.
func (c *acpClient) updates(from int) []update {
	c.t.Helper()
	var out []update
	for _, m := range c.seen[from:] {
		if m.Method != "session/update" {
			continue
		}
		var params struct {
			Update update `json:"update"`
		}
		if err := json.Unmarshal(m.Params, &params); err != nil {
			c.t.Fatal(err)
		}
		out = append(out, params.Update)
	}
	return out
}

// said joins the agent's message chunks since from.
func (c *acpClient) said(from int) string {
	c.t.Helper()
	var b strings.Builder
	for _, u := range c.updates(from) {
		var content struct {
			Text string `json:"text"`
		}
		if u.SessionUpdate == "agent_message_chunk" && json.Unmarshal(u.Content, &content) == nil {
			b.WriteString(content.Text)
		}
	}
	return b.String()
}

// awaitUpdate reads until an update of the kind has come since from.
func (c *acpClient) awaitUpdate(from int, kind string) {
	c.t.Helper()
	for !slices.ContainsFunc(c.updates(from), func(u update) bool { return u.SessionUpdate == kind }) {
		if _, err := c.read(); err != nil {
			c.t.Fatalf("waiting for %s: %v", kind, err)
		}
	}
}

// awaitClose reads until the socket ends and returns its close code.
func (c *acpClient) awaitClose() websocket.StatusCode {
	c.t.Helper()
	for deadline := time.Now().Add(processWait); time.Now().Before(deadline); {
		if _, err := c.read(); err != nil {
			return websocket.CloseStatus(err)
		}
	}
	c.t.Fatal("the socket was not closed")
	return 0
}
