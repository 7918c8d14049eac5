package demo

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// asAgent makes the test binary be the demo agent, as acpgate re-executes itself.
const asAgent = "ACPGATE_TEST_DEMO_AGENT"

func TestMain(m *testing.M) {
	if os.Getenv(asAgent) != "" {
		os.Exit(Main(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	goleak.VerifyTestMain(m)
}

// got is a message of the agent.
type got struct {
	ID     json.RawMessage
	Method string
	Params json.RawMessage
	Result json.RawMessage
	Error  *struct {
		Code    int
		Message string
		Data    json.RawMessage
	}
	line string
}

// client is a client of one agent. It belongs to the test's goroutine: messages are taken in the order of the wire.
type client struct {
	t      *testing.T
	in     io.WriteCloser
	lines  chan string
	exit   func() int // waits for the end
	cmd    *exec.Cmd  // nil in process
	stderr *syncBuffer
	ids    int
	seen   []got                       // everything but responses, in order
	onAsk  func(q got) (result string) // answers requests of the agent; "" leaves them open
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// start runs the agent in this process.
func start(t *testing.T, args ...string) *client {
	t.Helper()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	c := &client{t: t, in: inW, stderr: &syncBuffer{}}
	code := make(chan int, 1)
	go func() {
		code <- Main(context.Background(), args, inR, outW, c.stderr)
		outW.Close()
		inR.Close()
	}()
	c.exit = sync.OnceValue(func() int { return <-code })
	c.collect(outR)
	t.Cleanup(func() {
		inW.Close()
		c.exit()
		for range c.lines { // until the reader has ended
		}
	})
	return c
}

// startProcess runs the agent as a process.
func startProcess(t *testing.T, args ...string) *client {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), asAgent+"=1")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c := &client{t: t, in: in, cmd: cmd, stderr: &syncBuffer{}}
	cmd.Stderr = c.stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c.collect(out)
	c.exit = sync.OnceValue(func() int {
		for range c.lines { // Wait closes the pipe: read it dry first
		}
		cmd.Wait() // the state says more than its error
		return cmd.ProcessState.ExitCode()
	})
	t.Cleanup(func() {
		in.Close()
		cmd.Process.Kill()
		c.exit()
	})
	return c
}

func (c *client) collect(out io.Reader) {
	c.lines = make(chan string, 1<<16)
	go func() {
		defer close(c.lines)
		r := bufio.NewReaderSize(out, 1<<16)
		for {
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			c.lines <- strings.TrimSuffix(line, "\n")
		}
	}()
}

// line takes the next line of the agent; ok is false when there will be none.
func (c *client) line() (line string, ok bool) {
	c.t.Helper()
	select {
	case line, ok = <-c.lines:
		return line, ok
	case <-time.After(20 * time.Second):
		c.t.Fatalf("no line from the agent; stderr: %s", c.stderr)
		return "", false
	}
}

// next takes the next message of the agent. Requests are given to onAsk.
func (c *client) next() got {
	c.t.Helper()
	line, ok := c.line()
	if !ok {
		c.t.Fatalf("the agent is gone; stderr: %s", c.stderr)
	}
	var m got
	if err := json.Unmarshal([]byte(line), &m); err != nil {
		c.t.Fatalf("%q: %v", line, err)
	}
	m.line = line
	if m.Method == "" {
		return m
	}
	c.seen = append(c.seen, m)
	if m.ID != nil && c.onAsk != nil {
		if r := c.onAsk(m); r != "" {
			c.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, r))
		}
	}
	return m
}

func (c *client) write(line string) {
	c.t.Helper()
	if _, err := io.WriteString(c.in, line+"\n"); err != nil {
		c.t.Fatalf("write: %v; stderr: %s", err, c.stderr)
	}
}

// send writes a request and returns its id. params is marshalled.
func (c *client) send(method string, params any) string {
	c.t.Helper()
	c.ids++
	c.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, c.ids, method, encoded(c.t, params)))
	return fmt.Sprint(c.ids)
}

func (c *client) notify(method string, params any) {
	c.t.Helper()
	c.write(fmt.Sprintf(`{"jsonrpc":"2.0","method":%q,"params":%s}`, method, encoded(c.t, params)))
}

func encoded(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// await takes messages up to the response to id.
func (c *client) await(id string) got {
	c.t.Helper()
	for {
		if m := c.next(); m.Method == "" && string(m.ID) == id {
			return m
		}
	}
}

func (c *client) call(method string, params any) got {
	c.t.Helper()
	return c.await(c.send(method, params))
}

type obj = map[string]any

func (c *client) initialize() got {
	c.t.Helper()
	return c.call("initialize", obj{"protocolVersion": 1, "clientCapabilities": obj{
		"elicitation": obj{"form": obj{}, "url": obj{}}, "session": obj{"compaction": obj{}},
	}})
}

// open creates a session in dir.
func (c *client) open(dir string) string {
	c.t.Helper()
	return sessionOf(c.t, c.call("session/new", obj{"cwd": dir, "mcpServers": []any{}}))
}

func sessionOf(t *testing.T, m got) string {
	t.Helper()
	var r struct{ SessionID string }
	if m.Error != nil || json.Unmarshal(m.Result, &r) != nil || r.SessionID == "" {
		t.Fatalf("no session: %s", m.line)
	}
	return r.SessionID
}

func promptOf(session, text string) obj {
	return obj{"sessionId": session, "prompt": []obj{{"type": "text", "text": text}}}
}

// prompt sends a text, and returns the stop reason and what the agent said.
func (c *client) prompt(session, text string) (stop, said string) {
	c.t.Helper()
	c.seen = nil
	return c.stopOf(c.call("session/prompt", promptOf(session, text))), c.said(session)
}

func (c *client) stopOf(m got) string {
	c.t.Helper()
	var r struct{ StopReason string }
	if m.Error != nil || json.Unmarshal(m.Result, &r) != nil {
		c.t.Fatalf("no result: %s", m.line)
	}
	return r.StopReason
}

type update struct {
	SessionUpdate, MessageID, Title, ToolCallID, Status, CurrentModeID, CompactionID string
	Content                                                                          json.RawMessage
	Entries                                                                          []struct{ Status string }
}

func (u update) text() string {
	var b struct{ Text string }
	if json.Unmarshal(u.Content, &b) != nil {
		return ""
	}
	return b.Text
}

// updates are those of the session among what was seen, of the kinds given or of all.
func (c *client) updates(session string, kinds ...string) []update {
	c.t.Helper()
	var out []update
	for _, m := range c.seen {
		var p struct {
			SessionID string
			Update    update
		}
		if m.Method != "session/update" {
			continue
		}
		if err := json.Unmarshal(m.Params, &p); err != nil {
			c.t.Fatal(err)
		}
		if p.SessionID == session && (len(kinds) == 0 || slices.Contains(kinds, p.Update.SessionUpdate)) {
			out = append(out, p.Update)
		}
	}
	return out
}

// said joins the agent's chunks of the session.
func (c *client) said(session string) string {
	c.t.Helper()
	var b strings.Builder
	for _, u := range c.updates(session, "agent_message_chunk") {
		b.WriteString(u.text())
	}
	return b.String()
}

// ready is an initialized agent without pauses, with its store and a session in a directory.
func ready(t *testing.T, args ...string) (c *client, store, session, cwd string) {
	t.Helper()
	store, cwd = filepath.Join(t.TempDir(), "store"), t.TempDir()
	c = start(t, append([]string{"--dir", store, "--delay", "0s"}, args...)...)
	c.initialize()
	return c, store, c.open(cwd), cwd
}

func wantError(t *testing.T, m got, code int) {
	t.Helper()
	if m.Error == nil || m.Error.Code != code {
		t.Errorf("want error %d, got %s", code, m.line)
	}
}

func has(t *testing.T, got string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(got, w) {
			t.Errorf("%q is not in %q", w, got)
		}
	}
}
