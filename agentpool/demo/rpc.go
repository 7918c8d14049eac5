package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strconv"
	"sync"

	acp "github.com/coder/acp-go-sdk"
)

// message is a JSON-RPC message as it comes in.
type message struct {
	JSONRPC string            `json:"jsonrpc"`
	ID      json.RawMessage   `json:"id"` // nil when absent
	Method  *string           `json:"method"`
	Params  json.RawMessage   `json:"params"`
	Result  json.RawMessage   `json:"result"`
	Error   *acp.RequestError `json:"error"`
}

// The messages that go out. Their field order is the usual one of JSON-RPC.
type (
	outRequest struct {
		JSONRPC string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id,omitempty"` // notifications have none
		Method  string          `json:"method"`
		Params  any             `json:"params"`
	}
	outResult struct {
		JSONRPC string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Result  any             `json:"result"`
	}
	outError struct {
		JSONRPC string            `json:"jsonrpc"`
		ID      json.RawMessage   `json:"id"`
		Error   *acp.RequestError `json:"error"`
	}
)

// conn is the agent's side of the wire. It is safe for concurrent use.
type conn struct {
	broken func(error) // told when stdout cannot be written

	out sync.Mutex // held for one whole line
	w   io.Writer

	mu      sync.Mutex
	nextID  int
	waiting map[string]chan message // open requests to the client, by raw id
}

func newConn(w io.Writer, broken func(error)) *conn {
	return &conn{broken: broken, w: w, waiting: map[string]chan message{}}
}

// write encodes v and writes it as one line.
func (c *conn) write(v any) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		c.broken(err)
		return
	}
	c.out.Lock()
	defer c.out.Unlock()
	if _, err := c.w.Write(b.Bytes()); err != nil {
		c.broken(err)
	}
}

func (c *conn) notify(method string, params any) {
	c.write(outRequest{JSONRPC: "2.0", Method: method, Params: params})
}

func (c *conn) result(id json.RawMessage, result any) {
	c.write(outResult{JSONRPC: "2.0", ID: id, Result: result})
}

func (c *conn) fail(id json.RawMessage, err *acp.RequestError) {
	if id == nil {
		id = json.RawMessage("null")
	}
	c.write(outError{JSONRPC: "2.0", ID: id, Error: err})
}

// call asks the client and waits for its answer. When ctx ends first the request is withdrawn and the cause returned. Ids
// count from 0, as those of most agents do.
func (c *conn) call(ctx context.Context, method string, params, result any) error {
	answer := make(chan message, 1)
	c.mu.Lock()
	id := strconv.Itoa(c.nextID)
	c.nextID++
	c.waiting[id] = answer
	c.mu.Unlock()
	c.write(outRequest{JSONRPC: "2.0", ID: json.RawMessage(id), Method: method, Params: params})
	select {
	case m := <-answer:
		if m.Error != nil {
			return m.Error
		}
		return json.Unmarshal(m.Result, result)
	case <-ctx.Done():
		c.mu.Lock()
		_, open := c.waiting[id]
		delete(c.waiting, id)
		c.mu.Unlock()
		if open {
			c.notify(methodCancelRequest, map[string]json.RawMessage{"requestId": json.RawMessage(id)})
		}
		return context.Cause(ctx)
	}
}

// answered gives a response of the client to whoever waits for it. One that nobody waits for came late and is dropped.
func (c *conn) answered(m message) {
	c.mu.Lock()
	answer := c.waiting[string(m.ID)]
	delete(c.waiting, string(m.ID))
	c.mu.Unlock()
	if answer != nil {
		answer <- m
	}
}
