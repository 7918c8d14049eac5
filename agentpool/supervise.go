package agentpool

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// ControlFD is the file descriptor on which a supervisor finds its control socket.
const ControlFD = 3

const (
	orphanWait   = 500 * time.Millisecond // from TERM to KILL for what an agent left behind when it exited by itself
	killInterval = 20 * time.Millisecond  // between two looks for what is still alive
	killLimit    = 10 * time.Second       // after which a process that KILL does not end is given up
)

// Supervise is the body of `acpgate supervise`: it runs one agent and ends when nothing of the agent's process tree is
// left (rule T5). args are `[-close-wait D] [-term-wait D] -- PATH [ARG...]`; the agent gets the standard streams, the
// environment and the working directory of this process. control is one end of a socket pair, lines both ways:
//
//	gateway:    stop CLOSE_MS TERM_MS   end the agent: wait for it (its stdin is closed by then), TERM, wait, KILL
//	            renew MS                end it (TERM, wait, KILL) unless the next renew comes within MS
//	supervisor: started PID             the agent runs; its process group is PID
//	            failed TEXT             it could not be started
//	            exit CODE SIGNAL        it ended; SIGNAL is - unless a signal ended it
//
// The end of control means stop. The result is the exit status: 0 when nothing is left, 1 when the agent could not be
// started, 2 for bad arguments, 3 when a process survived KILL for 10 s.
//
// Supervise never returns the thread it runs on, because the agent dies with that thread; call it in main, once.
func Supervise(args []string, control *os.File, stderr io.Writer) int {
	opt, err := parseSuperviseArgs(args)
	if err != nil {
		fmt.Fprintln(stderr, "acpgate supervise:", err)
		return 2
	}
	// A supervisor idles beside every agent, in a binary that has much more to do: give back what start-up took.
	runtime.LockOSThread()
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(20)

	s := &supervisor{opt: opt, control: control}
	if err := s.start(); err != nil {
		s.say("failed " + strings.ReplaceAll(err.Error(), "\n", " "))
		return 1
	}
	debug.FreeOSMemory()
	return s.run()
}

type superviseOptions struct {
	closeWait, termWait time.Duration
	argv                []string
}

func parseSuperviseArgs(args []string) (superviseOptions, error) {
	var opt superviseOptions
	fs := flag.NewFlagSet("supervise", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.DurationVar(&opt.closeWait, "close-wait", defaultCloseWait, "")
	fs.DurationVar(&opt.termWait, "term-wait", defaultTermWait, "")
	if err := fs.Parse(args); err != nil {
		return opt, err
	}
	opt.argv = fs.Args()
	switch {
	case opt.closeWait < 0 || opt.termWait < 0:
		return opt, errors.New("waits must not be negative")
	case len(opt.argv) == 0:
		return opt, errors.New("no command; this is started by acpgate serve, not by hand")
	}
	return opt, nil
}

// stage is how far the ladder has come. It only grows.
type stage int

const (
	stageRunning stage = iota
	stageClosing       // stop was asked; the agent may still end by itself
	stageTerming       // TERM was sent
	stageKilling       // KILL is sent until nothing is left
)

type supervisor struct {
	opt     superviseOptions
	control *os.File

	agent   int  // pid and process group
	reaped  bool // the agent itself has ended
	stage   stage
	rung    *time.Timer // ends the current stage
	killEnd time.Time   // when to give up
	renewal *time.Timer // nil until the first renew
}

type childExit struct {
	pid    int
	status syscall.WaitStatus
}

// start runs the agent in a process group of its own, dying with this thread.
func (s *supervisor) start() error {
	syscall.CloseOnExec(int(s.control.Fd()))
	if err := becomeSubreaper(); err != nil {
		return fmt.Errorf("subreaper: %w", err)
	}
	pid, err := syscall.ForkExec(s.opt.argv[0], s.opt.argv, &syscall.ProcAttr{
		Env:   os.Environ(),
		Files: []uintptr{0, 1, 2},
		Sys:   agentAttr(),
	})
	if err != nil {
		return fmt.Errorf("start %s: %w", s.opt.argv[0], err)
	}
	s.agent = pid
	if err := releaseStdio(); err != nil {
		_ = syscall.Kill(-pid, syscall.SIGKILL)
		return fmt.Errorf("release pipes: %w", err)
	}
	s.say("started " + strconv.Itoa(pid))
	return nil
}

func (s *supervisor) run() int {
	exits := make(chan childExit)
	commands := make(chan string)
	go reapAll(exits)
	go readCommands(s.control, commands)

	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)

	s.rung = time.NewTimer(time.Hour)
	s.rung.Stop()
	s.renewal = time.NewTimer(time.Hour)
	s.renewal.Stop()
	for {
		select {
		case e, ok := <-exits:
			if !ok {
				if !seesDescendants {
					_ = syscall.Kill(-s.agent, syscall.SIGKILL)
				}
				return 0
			}
			s.childEnded(e)
		case line, ok := <-commands:
			if !ok {
				commands = nil
				line = "stop"
			}
			s.command(line)
		case <-signals:
			s.stop(s.opt.closeWait, s.opt.termWait)
		case <-s.renewal.C:
			// The gateway is stopped or cut off, so nobody closes the agent's stdin.
			s.stop(0, s.opt.termWait)
		case <-s.rung.C:
			if s.stage == stageKilling && time.Now().After(s.killEnd) {
				return 3
			}
			s.climb()
		}
	}
}

func (s *supervisor) command(line string) {
	words := strings.Fields(line)
	if len(words) == 0 {
		return
	}
	ms := func(i int, or time.Duration) time.Duration {
		if i < len(words) {
			if n, err := strconv.ParseInt(words[i], 10, 64); err == nil && n >= 0 {
				return time.Duration(n) * time.Millisecond
			}
		}
		return or
	}
	switch words[0] {
	case "stop":
		s.stop(ms(1, s.opt.closeWait), ms(2, s.opt.termWait))
	case "renew":
		if d := ms(1, 0); d > 0 {
			s.renewal.Reset(d)
		}
	}
}

// stop begins the ladder; on it, nothing more is asked for.
func (s *supervisor) stop(closeWait, termWait time.Duration) {
	if s.stage != stageRunning {
		return
	}
	s.stage = stageClosing
	s.opt.termWait = termWait
	s.rung.Reset(closeWait)
}

// climb goes to the next stage, or sends the next KILL.
func (s *supervisor) climb() {
	if s.stage < stageTerming {
		s.stage = stageTerming
		s.signalTree(syscall.SIGTERM)
		s.rung.Reset(s.opt.termWait)
		return
	}
	if s.stage < stageKilling {
		s.stage = stageKilling
		s.killEnd = time.Now().Add(killLimit)
	}
	s.signalTree(syscall.SIGKILL)
	s.rung.Reset(killInterval)
}

func (s *supervisor) childEnded(e childExit) {
	if e.pid != s.agent || s.reaped {
		return
	}
	s.reaped = true
	if e.status.Signaled() {
		s.say("exit -1 " + e.status.Signal().String())
	} else {
		s.say("exit " + strconv.Itoa(e.status.ExitStatus()) + " -")
	}
	if s.stage < stageTerming {
		// What it left behind has nobody to talk to any more.
		s.opt.termWait = min(s.opt.termWait, orphanWait)
		s.climb()
	}
}

// signalTree signals the agent's group and everything that descends from it, whatever group or session it moved to.
func (s *supervisor) signalTree(sig syscall.Signal) {
	if !s.reaped || !seesDescendants {
		// Once the agent is reaped its pid may name another group; its descendants are found one by one then.
		_ = syscall.Kill(-s.agent, sig)
	}
	for _, pid := range descendants(os.Getpid()) {
		if pid != s.agent || !s.reaped {
			_ = syscall.Kill(pid, sig)
		}
	}
}

// say sends one line. A gateway that is gone misses it; the end of control says the rest.
func (s *supervisor) say(line string) {
	_, _ = s.control.WriteString(line + "\n")
}

// reapAll waits for children, the agent and whatever was re-parented to this process, until there are none: then no
// descendant is left at all, as an orphan becomes a child here before its parent can be reaped.
func reapAll(exits chan<- childExit) {
	defer close(exits)
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return
		default:
			exits <- childExit{pid, status}
		}
	}
}

func readCommands(control io.Reader, commands chan<- string) {
	defer close(commands)
	lines := bufio.NewScanner(control)
	for lines.Scan() {
		commands <- lines.Text()
	}
}
