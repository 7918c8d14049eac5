package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// The contenders.
const (
	direct  = "direct"  // the agent's own stdin and stdout
	naive   = "naive"   // a pump: one process a connection, one write a line
	corked  = "corked"  // the same, with one write for all lines at hand
	memory  = "memory"  // the gateway without a store
	product = "acpgate" // the gateway as it is shipped, with its store
)

const (
	startLimit = 20 * time.Second
	stopLimit  = 15 * time.Second
	runLimit   = 3 * time.Minute // of one client
)

func isGateway(contender string) bool { return contender == memory || contender == product }

// server is a contender that runs, in a process of its own.
type server struct {
	cmd   *exec.Cmd
	addr  string
	path  string // of the WebSocket of the agent that the row is about
	token string
	log   *os.File
	ended chan error
}

// serve starts a contender. Every run has a new one, so that no run inherits another's memory.
func (s *suite) serve(ctx context.Context, name, agent string) (*server, error) {
	s.runs++
	dir := filepath.Join(s.dir, fmt.Sprintf("run-%d", s.runs))
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	agents, err := json.Marshal(s.agents)
	if err != nil {
		return nil, err
	}
	v := &server{ended: make(chan error, 1)}
	var argv []string
	switch {
	case name == memory, name == product && s.profile != "":
		argv = []string{
			s.self, "gateway", "--agents", string(agents), "--acpgate", s.acpgate, "--state", dir, "--root", s.dir, fmt.Sprintf("--in-memory=%t", name == memory),
		}
		if s.profile != "" {
			argv = append(argv, "--profile", filepath.Join(s.profile, fmt.Sprintf("%s-%s-%d", s.row, name, s.runs)))
		}
	case name == product:
		argv = []string{
			s.acpgate, "serve", "--listen", "127.0.0.1:0", "--state", dir, "--root", s.dir, "--drain-timeout", "1s",
			"--max-connections", strconv.Itoa(manyConnections), "--connect-rate", strconv.Itoa(manyPerSecond), "--max-views", strconv.Itoa(manySessions),
		}
		for _, agent := range slices.Sorted(maps.Keys(s.agents)) {
			argv = append(argv, "--agent", agent+"='"+strings.Join(s.agents[agent], "' '")+"'")
		}
	default:
		argv = []string{s.self, "pump", "--agents", string(agents), fmt.Sprintf("--corked=%t", name == corked)}
	}
	v.path = "/acp?agent=" + agent
	if v.log, err = os.Create(filepath.Join(dir, "log")); err != nil {
		return nil, err
	}
	v.cmd = exec.CommandContext(ctx, argv[0], argv[1:]...)
	v.cmd.Cancel = func() error { return v.cmd.Process.Signal(syscall.SIGTERM) }
	v.cmd.WaitDelay = stopLimit
	v.cmd.Stderr = v.log
	if err := v.cmd.Start(); err != nil {
		return nil, errors.Join(err, v.log.Close())
	}
	go func() { v.ended <- v.cmd.Wait() }()
	if err := v.awaitAddress(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", name, err), v.stop())
	}
	if isGateway(name) {
		token, err := os.ReadFile(filepath.Join(dir, "token"))
		if err != nil {
			return nil, errors.Join(err, v.stop())
		}
		v.token = string(bytes.TrimSpace(token))
	}
	return v, nil
}

// awaitAddress reads the log until it says where the contender listens.
func (v *server) awaitAddress(ctx context.Context) error {
	const says = "listening on http://"
	for end := time.Now().Add(startLimit); time.Now().Before(end) && ctx.Err() == nil; time.Sleep(5 * time.Millisecond) {
		text, err := os.ReadFile(v.log.Name())
		if err != nil {
			return err
		}
		if _, rest, ok := strings.Cut(string(text), says); ok {
			if addr, _, ok := strings.Cut(rest, "\n"); ok {
				v.addr = addr
				return nil
			}
		}
		select {
		case err := <-v.ended:
			v.ended <- err
			return fmt.Errorf("ended at its start: %w: %s", err, text)
		default:
		}
	}
	return errors.Join(errors.New("does not say where it listens"), ctx.Err())
}

// complaint returns what a gateway has logged as an error: then it has not done its job, however fast it was.
func (v *server) complaint() error {
	text, err := os.ReadFile(v.log.Name())
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, " level=ERROR ") {
			return errors.New(strings.TrimSpace(line))
		}
	}
	return nil
}

// stop ends the contender and waits for it.
func (v *server) stop() error {
	defer v.log.Close()
	_ = v.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	select {
	case err := <-v.ended:
		v.ended <- err
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			return nil // how it ends is no benchmark's business
		}
		return err
	case <-time.After(stopLimit):
		return errors.Join(errors.New("does not stop"), v.cmd.Process.Kill())
	}
}

// visitor is a client process.
type visitor struct {
	cmd    *exec.Cmd
	cancel context.CancelFunc
	stdin  io.WriteCloser
	stdout *bufio.Reader
	errors bytes.Buffer
}

// visit starts a client process and waits until it is ready.
func (s *suite) visit(ctx context.Context, v *server, j job) (*visitor, error) {
	j.Dir = s.dir
	if v != nil {
		j.Addr, j.Path, j.Token = v.addr, v.path, v.token
	}
	text, err := json.Marshal(j)
	if err != nil {
		return nil, err
	}
	c := &visitor{}
	ctx, c.cancel = context.WithTimeout(ctx, runLimit)
	c.cmd = exec.CommandContext(ctx, s.self, "client")
	c.cmd.Stderr = &c.errors
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.stdout = bufio.NewReader(stdout)
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	if _, err := c.stdin.Write(append(text, '\n')); err != nil {
		return nil, errors.Join(err, c.leave())
	}
	line, err := c.stdout.ReadBytes('\n')
	if err != nil || string(line) != ready+"\n" {
		return nil, fmt.Errorf("the client does not get ready: %w", errors.Join(err, problemOf(line), c.leave()))
	}
	return c, nil
}

// measure lets the client go and waits for its outcome.
func (c *visitor) measure() (outcome, error) {
	if _, err := io.WriteString(c.stdin, begin+"\n"); err != nil {
		return outcome{}, err
	}
	line, err := c.stdout.ReadBytes('\n')
	if err != nil {
		return outcome{}, fmt.Errorf("the client ended early: %w", errors.Join(err, c.leave()))
	}
	var o outcome
	if err := json.Unmarshal(line, &o); err != nil {
		return outcome{}, err
	}
	return o, problemOf(line)
}

func problemOf(line []byte) error {
	var o outcome
	if json.Unmarshal(line, &o) != nil || o.Problem == "" {
		return nil
	}
	return errors.New(o.Problem)
}

// leave ends the client.
func (c *visitor) leave() error {
	defer c.cancel()
	_ = c.stdin.Close() // it may have ended
	if err := c.cmd.Wait(); err != nil {
		return fmt.Errorf("client: %w: %s", err, bytes.TrimSpace(c.errors.Bytes()))
	}
	return nil
}
