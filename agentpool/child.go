package agentpool

import (
	"bufio"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// markEnv names the environment variable that marks the processes of one agent's tree. Its value is random.
const markEnv = "ACPGATE_TREE"

const (
	supervisorSlack = 5 * time.Second // beyond the ladder, before a supervisor that does not end is killed
	sweepLimit      = 5 * time.Second // for killing what a killed supervisor left behind
)

// launch says what to run.
type launch struct {
	supervisor []string // argv prefix of `acpgate supervise`
	argv       []string // of the agent; argv[0] is an absolute path
	env        []string
	dir        string
	ladder     ladder
}

// ladder is how an agent is ended: its stdin is closed, then these waits, TERM and KILL.
type ladder struct{ closeWait, termWait time.Duration }

// exitStatus is how an agent ended.
type exitStatus struct {
	code   int
	signal string
	err    error // set when nobody could tell: the supervisor itself was killed
}

// child is a supervised agent process as the gateway sees it: the gateway's ends of its pipes, and what the supervisor
// says about it. One goroutine, watch, owns the supervisor; gone is closed when it ends.
type child struct {
	stdin, stdout, stderr *os.File

	cmd    *exec.Cmd
	ladder ladder
	mark   string

	mu       sync.Mutex
	control  *os.File
	watchdog *time.Timer

	started  chan struct{} // closed when the agent runs, or cannot be started
	startErr error         // valid once started is closed
	pid      int           // of the agent, likewise; 0 when it was not started

	exited chan struct{} // closed when the agent ended; status is valid then
	status exitStatus
	gone   chan struct{} // closed when the supervisor ended too and nothing of the tree is left
}

// start runs a supervisor with the agent below it.
func (l launch) start() (*child, error) {
	c := &child{
		ladder: l.ladder, mark: markEnv + "=" + rand.Text(),
		started: make(chan struct{}), exited: make(chan struct{}), gone: make(chan struct{}),
	}
	var theirs []*os.File
	defer func() {
		for _, f := range theirs {
			_ = f.Close()
		}
	}()
	fail := func(err error) (*child, error) {
		c.closePipes()
		return nil, err
	}
	for _, p := range []struct {
		mine **os.File
		out  bool
		make func() (r, w *os.File, err error)
	}{{&c.stdin, true, os.Pipe}, {&c.stdout, false, blockingPipe}, {&c.stderr, false, os.Pipe}} {
		r, w, err := p.make()
		if err != nil {
			return fail(fmt.Errorf("pipe: %w", err))
		}
		if p.out {
			*p.mine, theirs = w, append(theirs, r)
		} else {
			*p.mine, theirs = r, append(theirs, w)
		}
	}
	growPipe(c.stdout)
	mine, other, err := socketPair()
	if err != nil {
		return fail(fmt.Errorf("control socket: %w", err))
	}
	c.control, theirs = mine, append(theirs, other)

	args := append(append([]string(nil), l.supervisor[1:]...),
		"-close-wait", l.ladder.closeWait.String(), "-term-wait", l.ladder.termWait.String(), "--")
	c.cmd = exec.Command(l.supervisor[0], append(args, l.argv...)...) //nolint:gosec // the command is the operator's
	c.cmd.Env = append(append([]string(nil), l.env...), c.mark)
	c.cmd.Dir = l.dir
	c.cmd.Stdin, c.cmd.Stdout, c.cmd.Stderr = theirs[0], theirs[1], theirs[2]
	c.cmd.ExtraFiles = []*os.File{other}
	// A session of its own: no terminal to read from or write to, and no Ctrl-C meant for the gateway.
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := c.cmd.Start(); err != nil {
		return fail(fmt.Errorf("start the supervisor: %w", err))
	}
	go c.watch()
	return c, nil
}

// blockingPipe returns a pipe whose reads block a thread instead of only a goroutine. What watches many files at once is
// told of every single line that an agent writes, even while its reader is busy with lines before it; that cost an agent
// that writes line by line, and us, half of their processor time. A thread is cheap beside an agent process.
func blockingPipe() (r, w *os.File, err error) {
	fds, err := closeOnExec(func(fds []int) error { return unix.Pipe(fds) })
	if err != nil {
		return nil, nil, err
	}
	return os.NewFile(uintptr(fds[0]), "|0"), os.NewFile(uintptr(fds[1]), "|1"), nil
}

// closeOnExec calls open for two descriptors that no process started meanwhile inherits.
func closeOnExec(open func(fds []int) error) (fds [2]int, err error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := open(fds[:]); err != nil {
		return fds, err
	}
	unix.CloseOnExec(fds[0])
	unix.CloseOnExec(fds[1])
	return fds, nil
}

// socketPair returns a connected pair of stream sockets; the first one is for this process and does not block a thread.
func socketPair() (mine, other *os.File, err error) {
	fds, err := closeOnExec(func(fds []int) error {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		copy(fds, pair[:])
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	if err := unix.SetNonblock(fds[0], true); err != nil {
		return nil, nil, errors.Join(err, unix.Close(fds[0]), unix.Close(fds[1]))
	}
	return os.NewFile(uintptr(fds[0]), "control"), os.NewFile(uintptr(fds[1]), "control"), nil
}

func (c *child) closePipes() {
	for _, f := range []*os.File{c.stdin, c.stdout, c.stderr, c.control} {
		if f != nil {
			_ = f.Close()
		}
	}
}

// watch follows what the supervisor says until it has ended.
func (c *child) watch() {
	defer close(c.gone)
	isStarted, isExited := false, false
	lines := bufio.NewScanner(c.control)
	for lines.Scan() {
		verb, rest, _ := strings.Cut(lines.Text(), " ")
		switch {
		case verb == "started" && !isStarted:
			c.pid, _ = strconv.Atoi(rest)
			isStarted = true
			close(c.started)
		case verb == "failed" && !isStarted:
			c.startErr = errors.New(rest)
			isStarted = true
			close(c.started)
		case verb == "exit" && !isExited:
			c.status = parseExit(rest)
			isExited = true
			close(c.exited)
		}
	}
	err := c.cmd.Wait()
	c.mu.Lock()
	if c.watchdog != nil {
		c.watchdog.Stop()
	}
	_ = c.control.Close()
	c.control = nil
	c.mu.Unlock()
	if !isStarted {
		c.startErr = fmt.Errorf("the supervisor ended early: %w", orUnknown(err))
		close(c.started)
	}
	if err != nil {
		c.sweep()
	}
	if !isExited {
		c.status = exitStatus{code: -1, err: fmt.Errorf("the supervisor ended: %w", orUnknown(err))}
		if c.startErr != nil {
			c.status.err = c.startErr
		}
		close(c.exited)
	}
}

func orUnknown(err error) error {
	if err == nil {
		return errors.New("unknown reason")
	}
	return err
}

func parseExit(rest string) exitStatus {
	code, signal, _ := strings.Cut(rest, " ")
	n, err := strconv.Atoi(code)
	if err != nil {
		return exitStatus{code: -1, err: fmt.Errorf("exit status %q", rest)}
	}
	if signal == "-" {
		signal = ""
	}
	return exitStatus{code: n, signal: signal}
}

// sweep ends what is left when the supervisor could not do it: the agent died with it (parent death signal), its
// descendants are found by their group and their mark.
func (c *child) sweep() {
	if c.pid > 0 {
		_ = syscall.Kill(-c.pid, syscall.SIGKILL)
	}
	for end := time.Now().Add(sweepLimit); killMarked(c.mark) > 0 && time.Now().Before(end); {
		time.Sleep(killInterval)
	}
}

// stop asks the supervisor to end the agent, the caller having closed its stdin or being about to. It returns at once; a
// supervisor that does not end in time is killed.
func (c *child) stop(l ladder) {
	c.send(fmt.Sprintf("stop %d %d", l.closeWait.Milliseconds(), l.termWait.Milliseconds()))
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.control != nil && c.watchdog == nil {
		c.watchdog = time.AfterFunc(l.closeWait+l.termWait+supervisorSlack, c.kill)
	}
}

// kill ends the supervisor; watch then sweeps what is left.
func (c *child) kill() { _ = c.cmd.Process.Kill() }

// renew lets the supervisor end the agent unless it is called again within d.
func (c *child) renew(d time.Duration) { c.send("renew " + strconv.FormatInt(d.Milliseconds(), 10)) }

// send writes one line. A supervisor that does not read any more is found out by the watchdog or by its own end.
func (c *child) send(line string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.control == nil {
		return
	}
	_ = c.control.SetWriteDeadline(time.Now().Add(time.Second))
	_, _ = c.control.WriteString(line + "\n")
}
