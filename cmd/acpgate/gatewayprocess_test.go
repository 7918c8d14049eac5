package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// processWait is how long a gateway may take to listen, or to end after a signal. It is long since the race detector and a
// busy machine slow things down; nothing waits it out but a failing test.
const processWait = 60 * time.Second

// gatewayProcess is a running "acpgate serve".
type gatewayProcess struct {
	cmd    *exec.Cmd
	stderr lockedBuffer
	done   chan struct{} // closed when it has exited

	url  string // http://ADDR, after waitListening
	link string // login link, if it shows one
}

// raceOptions spares each process of a race-enabled test binary the second that it would sleep at its end.
const raceOptions = "GORACE=atexit_sleep_ms=0"

// startGateway runs acpgate with nothing of the test's environment.
func startGateway(dir string, environ []string, args ...string) (*gatewayProcess, error) {
	path, err := exec.LookPath("acpgate")
	if err != nil {
		return nil, err
	}
	g := &gatewayProcess{cmd: exec.Command(path, args...), done: make(chan struct{})}
	g.cmd.Dir, g.cmd.Env, g.cmd.Stderr = dir, append(environ, raceOptions, "ACPGATE_ENV_ALLOW=GORACE"), &g.stderr
	if err := g.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(g.done)
		_ = g.cmd.Wait() // the exit code is in ProcessState
	}()
	return g, nil
}

// newGateway starts a gateway with a state directory and a home of its own, and ends it with the test.
func newGateway(t *testing.T, args ...string) *gatewayProcess {
	t.Helper()
	return newGatewayIn(t, t.TempDir(), args...)
}

// newGatewayIn is newGateway in a directory that an earlier gateway may have used.
func newGatewayIn(t *testing.T, dir string, args ...string) *gatewayProcess {
	t.Helper()
	g, err := startGateway(dir, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir}, append([]string{"--listen", "127.0.0.1:0"}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		g.kill()
		if t.Failed() {
			t.Logf("stderr of the gateway:\n%s", g.stderr.String())
		}
	})
	if err := g.waitListening(); err != nil {
		t.Fatal(err)
	}
	return g
}

var (
	listeningLine = regexp.MustCompile(`(?m)^listening on (https?://\S+)$`)
	linkLine      = regexp.MustCompile(`(?m)^log in: (https?://\S+)`)
)

// waitListening returns once it listens and has shown all that it shows then.
func (g *gatewayProcess) waitListening() error {
	err := g.wait("listen", func() bool {
		m := listeningLine.FindStringSubmatch(g.stderr.String())
		if m != nil {
			g.url = m[1]
		}
		return m != nil
	})
	if err != nil {
		return err
	}
	if m := linkLine.FindStringSubmatch(g.stderr.String()); m != nil {
		g.link = m[1]
	}
	return nil
}

// wait polls until it is true; the error says that the process ended before or that time is up.
func (g *gatewayProcess) wait(what string, is func() bool) error {
	for deadline := time.Now().Add(processWait); !is(); time.Sleep(5 * time.Millisecond) {
		select {
		case <-g.done:
			if is() {
				return nil
			}
			return fmt.Errorf("the gateway ended (%v) before it did: %s", g.cmd.ProcessState, what)
		default:
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the gateway did not within %v: %s", processWait, what)
		}
	}
	return nil
}

// waitEnded returns the exit code.
func (g *gatewayProcess) waitEnded() (int, error) {
	select {
	case <-g.done:
		return g.cmd.ProcessState.ExitCode(), nil
	case <-time.After(processWait):
		return 0, errors.New("the gateway did not end")
	}
}

func (g *gatewayProcess) signal(name string) error {
	signals := map[string]syscall.Signal{"TERM": syscall.SIGTERM, "INT": syscall.SIGINT, "KILL": syscall.SIGKILL, "HUP": syscall.SIGHUP}
	sig, ok := signals[name]
	if !ok {
		return fmt.Errorf("unknown signal %s", name)
	}
	return g.cmd.Process.Signal(sig)
}

// kill ends what is left of the gateway. Its agents end with it (rule T5).
func (g *gatewayProcess) kill() {
	_ = g.cmd.Process.Kill() // it may have ended already
	<-g.done
}

// lockedBuffer can be read while a process writes to it.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *lockedBuffer) count(s string) int { return strings.Count(l.String(), s) }
