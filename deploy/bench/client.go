package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// job is what a client process is to do. It comes as one line of JSON on stdin.
type job struct {
	Load  string   // name in loads
	Addr  string   // of the contender
	Path  string   // of its WebSocket
	Token string   // "" for none
	Argv  []string // of an agent to be started and spoken to directly, instead of a contender

	Dir     string // where sessions work
	Conns   int
	Count   int // of what the load does, on each connection or in all
	Size    int // bytes of an update
	Workers int
	Deaf    bool // the connection that is written to fast does not read
}

// outcome is what a client process says at its end, as one line of JSON on stdout.
type outcome struct {
	Problem string        `json:",omitempty"` // why the run does not count
	Elapsed time.Duration // from the first request to the last answer
	CPU     time.Duration // of the client process meanwhile
	Updates int
	Bytes   int64
	P50     time.Duration `json:",omitempty"`
	P99     time.Duration `json:",omitempty"`
}

const (
	ready = "ready"
	begin = "go"
)

// runClient does one job: it prepares, says ready, waits for go, measures, prints the outcome, and holds its connections
// until stdin ends.
func runClient(stdin io.Reader, stdout io.Writer) error {
	in := bufio.NewReader(stdin)
	line, err := in.ReadBytes('\n')
	if err != nil {
		return err
	}
	c := &client{}
	if err := json.Unmarshal(line, &c.job); err != nil {
		return err
	}
	l, ok := loads()[c.Load]
	if !ok {
		return fmt.Errorf("there is no load %q", c.Load)
	}
	defer c.closeAll()
	if err := l.prepare(c); err != nil {
		return report(stdout, outcome{Problem: "prepare: " + err.Error()})
	}
	if _, err := fmt.Fprintln(stdout, ready); err != nil {
		return err
	}
	if line, err := in.ReadString('\n'); err != nil || line != begin+"\n" {
		return fmt.Errorf("expected %q: %q, %w", begin, line, err)
	}
	before, began := ownCPU(), time.Now()
	err = l.run(c)
	if c.out.Elapsed == 0 {
		c.out.Elapsed = time.Since(began)
	}
	c.out.CPU = ownCPU() - before
	if err != nil {
		c.out.Problem = err.Error()
	}
	c.summarize()
	if err := report(stdout, c.out); err != nil {
		return err
	}
	_, err = in.ReadByte()
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

func report(w io.Writer, o outcome) error { return json.NewEncoder(w).Encode(o) }

// client is the state of a job.
type client struct {
	job
	users     []*user
	out       outcome
	latencies []time.Duration
}

// user is one connection with one session.
type user struct {
	peer
	menus   int  // lists of commands that came
	joined  bool // updates may come as one
	session string
	ids     int
	check   *checker
}

// open connects as many users as the job says, Workers at a time, and gives each a session.
func (c *client) open(small bool) error {
	users := make([]*user, c.Conns)
	err := each(c.Conns, max(1, c.Workers), func(i int) (err error) {
		users[i], err = c.connect(small)
		return err
	})
	for _, u := range users {
		if u != nil {
			c.users = append(c.users, u)
		}
	}
	return err
}

// connect opens one connection with a session.
func (c *client) connect(small bool) (*user, error) {
	u := &user{}
	var err error
	if len(c.Argv) > 0 {
		u.peer, err = start(c.Argv)
	} else {
		u.peer, err = dial(c.Addr, c.Path, c.Token, small)
	}
	if err != nil {
		return nil, err
	}
	if _, err := u.call("initialize", `{"protocolVersion":1,"clientCapabilities":{}}`); err != nil {
		return nil, errors.Join(err, u.close())
	}
	result, err := u.call("session/new", fmt.Sprintf(`{"cwd":%q,"mcpServers":[]}`, c.Dir))
	if err != nil {
		return nil, errors.Join(err, u.close())
	}
	var opened struct{ SessionID string }
	if err := json.Unmarshal(result, &opened); err != nil || len(opened.SessionID) != len(sessionName(1)) {
		return nil, errors.Join(fmt.Errorf("session/new: %s", result), u.close())
	}
	u.session = opened.SessionID
	return u, nil
}

func (c *client) closeAll() {
	for _, u := range c.users {
		_ = u.close() // what was measured is measured
	}
}

// request sends a request and returns its id.
func (u *user) request(method, params string) (id int, err error) {
	u.ids++
	return u.ids, u.send([]byte(`{"jsonrpc":"2.0","id":` + strconv.Itoa(u.ids) + `,"method":"` + method + `","params":` + params + `}`))
}

func (u *user) prompt(text string) (id int, err error) { return u.ask("session/prompt", text) }

// ask sends a request in the form of a prompt.
func (u *user) ask(method, text string) (id int, err error) {
	return u.request(method, `{"sessionId":"`+u.session+`","prompt":[{"type":"text","text":"`+text+`"}]}`)
}

// call sends a request and waits for its response, which must be the next frame.
func (u *user) call(method, params string) (json.RawMessage, error) {
	id, err := u.request(method, params)
	if err != nil {
		return nil, err
	}
	frame, err := u.next()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", method, err)
	}
	return result(frame, id)
}

// result checks that a frame is the response to request id.
func result(frame []byte, id int) (json.RawMessage, error) {
	var m struct {
		ID     json.RawMessage
		Result json.RawMessage
		Error  json.RawMessage
	}
	if err := json.Unmarshal(frame, &m); err != nil || string(m.ID) != strconv.Itoa(id) || m.Error != nil || m.Result == nil {
		return nil, fmt.Errorf("expected the response to request %d: %s", id, clip(frame))
	}
	return append(json.RawMessage(nil), m.Result...), nil
}

const maxMenus = 64 // with the session, with every change of the agent's own commands, and with every load

// next returns the next frame, but for the lists of commands, which the gateway adds.
func (u *user) next() ([]byte, error) {
	for {
		frame, err := u.peer.next()
		if err != nil || !isMenu(frame) {
			return frame, err
		}
		if u.menus++; u.menus > maxMenus {
			return nil, fmt.Errorf("another list of commands: %s", clip(frame))
		}
	}
}

// isMenu reports whether a frame is a list of commands. The agent's own updates are told apart by one byte.
func isMenu(frame []byte) bool {
	const prefix = `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"bench-000000","update":{"`
	return len(frame) > len(prefix) && frame[len(prefix)] == 'a' && bytes.Contains(frame, []byte(`"available_commands_update"`))
}

// updates reads updates until the response to request id, and checks that there were want of them.
func (u *user) updates(id, want int) error {
	for {
		frame, err := u.next()
		if err != nil {
			return fmt.Errorf("%s after %d updates: %w", u.session, u.check.count, err)
		}
		if u.check.isUpdate(frame) {
			if err := u.check.take(frame); err != nil {
				return fmt.Errorf("%s: %w", u.session, err)
			}
			continue
		}
		if u.joined && bytes.Contains(frame[:min(len(frame), len(u.check.prefix))], []byte(`"session/update"`)) {
			if err := u.check.takeJoined(frame); err != nil {
				return fmt.Errorf("%s: %w", u.session, err)
			}
			continue
		}
		if _, err := result(frame, id); err != nil {
			return fmt.Errorf("%s after %d updates: %w", u.session, u.check.count, err)
		}
		return u.check.done(want)
	}
}

// summarize adds up what the users saw.
func (c *client) summarize() {
	for _, u := range c.users {
		if u.check != nil {
			c.out.Updates += u.check.count
			c.out.Bytes += u.check.bytes
			c.latencies = append(c.latencies, u.check.latencies...)
		}
	}
	if n := len(c.latencies); n > 0 {
		slices.Sort(c.latencies)
		c.out.P50, c.out.P99 = c.latencies[n/2], c.latencies[n*99/100]
	}
}

// each calls f for 0 to n-1, at most workers at a time, and returns the first error.
func each(n, workers int, f func(i int) error) error {
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		next  int
		first error
	)
	for range min(n, workers) {
		wg.Go(func() {
			for {
				mu.Lock()
				i := next
				next++
				ended := i >= n || first != nil
				mu.Unlock()
				if ended {
					return
				}
				if err := f(i); err != nil {
					mu.Lock()
					if first == nil {
						first = err
					}
					mu.Unlock()
					return
				}
			}
		})
	}
	wg.Wait()
	return first
}

// ownCPU is the processor time that this process has taken.
func ownCPU() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
