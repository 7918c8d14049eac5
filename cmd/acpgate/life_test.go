package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// TestCase67_KillOfTheGatewayLeavesNoProcess kills the gateway with its agent, which a shell wraps and which has started a
// process of its own that left its group.
func TestCase67_KillOfTheGatewayLeavesNoProcess(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has child subreapers and /proc; elsewhere the README promises less")
	}
	acpgate, err := exec.LookPath("acpgate")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	script := filepath.Join(dir, "agent.sh")
	text := "#!/bin/sh\nsetsid sleep 1000 &\necho $! >" + filepath.Join(dir, "pids") + "\nsleep 1001 &\necho $! >>" + filepath.Join(dir, "pids") +
		"\n\"$1\" demo-agent\n:\n"
	if err := os.WriteFile(script, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	g := newGateway(t, "--agent", "wrapped="+script+" "+acpgate)
	c := dial(t, g)
	session := c.open(g)
	from := len(c.seen)
	c.sendPrompt(session, "SLOW:6000x100")
	c.awaitUpdate(from, "agent_message_chunk")

	pids := childrenOf(t, g.cmd.Process.Pid)
	b, err := os.ReadFile(filepath.Join(dir, "pids"))
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range strings.Fields(string(b)) {
		pid, err := strconv.Atoi(word)
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	if len(pids) < 5 { // supervisor, shell, demo agent, and the two sleeps
		t.Errorf("only %d processes hang on the gateway", len(pids))
	}

	if err := g.signal("KILL"); err != nil {
		t.Fatal(err)
	}
	if _, err := g.waitEnded(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(processWait); ; time.Sleep(10 * time.Millisecond) {
		left := pids[:0:0]
		for _, pid := range pids {
			if syscall.Kill(pid, 0) == nil && !isZombie(pid) {
				left = append(left, pid)
			}
		}
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("processes %v outlive the gateway", left)
		}
	}
}

// childrenOf lists the descendants of a process.
func childrenOf(t *testing.T, pid int) []int {
	t.Helper()
	tasks, err := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/children")
	if err != nil {
		t.Fatal(err)
	}
	var out []int
	for _, task := range tasks {
		b, err := os.ReadFile(task)
		if err != nil {
			continue // the thread has ended
		}
		for _, word := range strings.Fields(string(b)) {
			child, err := strconv.Atoi(word)
			if err != nil {
				t.Fatal(err)
			}
			out = append(append(out, child), childrenOf(t, child)...)
		}
	}
	return out
}

func isZombie(pid int) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return true
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	return strings.HasPrefix(rest, "Z")
}

// TestN4_TermLetsTheTurnEnd sends SIGTERM in the middle of a turn: the answer comes whole, then the socket is closed with
// 1012, and the gateway ends well.
func TestN4_TermLetsTheTurnEnd(t *testing.T) {
	g := newGateway(t)
	c := dial(t, g)
	session := c.open(g)
	from := len(c.seen)
	id := c.sendPrompt(session, "SLOW:10x100 the end")
	c.awaitUpdate(from, "agent_message_chunk")
	if err := g.signal("TERM"); err != nil {
		t.Fatal(err)
	}
	if stop := stopReasonOf(t, c.await(id)); stop != "end_turn" {
		t.Errorf("the turn ended with %s", stop)
	}
	if said := c.said(from); !strings.Contains(said, "the end") {
		t.Errorf("the answer was cut: %q", said)
	}
	if code := c.awaitClose(); code != websocket.StatusServiceRestart {
		t.Errorf("closed with %d, want 1012", code)
	}
	if code, err := g.waitEnded(); code != exitOK || err != nil {
		t.Errorf("exit code %d, %v", code, err)
	}
}

// TestN4_SecondSignalForces sends SIGTERM twice in the middle of a turn that would go on for long.
func TestN4_SecondSignalForces(t *testing.T) {
	g := newGateway(t, "--drain-timeout", "10m")
	c := dial(t, g)
	session := c.open(g)
	from := len(c.seen)
	c.sendPrompt(session, "SLOW:6000x100")
	c.awaitUpdate(from, "agent_message_chunk")
	if err := g.signal("TERM"); err != nil {
		t.Fatal(err)
	}
	if err := g.wait("drain", func() bool { return g.stderr.count("msg=draining") == 1 }); err != nil {
		t.Fatal(err)
	}
	if err := g.signal("TERM"); err != nil {
		t.Fatal(err)
	}
	if code := c.awaitClose(); code != websocket.StatusServiceRestart {
		t.Errorf("closed with %d, want 1012", code)
	}
	if code, err := g.waitEnded(); code != exitCut || err != nil {
		t.Errorf("exit code %d, %v", code, err)
	}
	if g.stderr.count("stopped while turns were running: 1") != 1 {
		t.Error("stderr does not say that a turn was cut short")
	}
}

// TestN4_DrainTimeoutCuts waits for a turn only as long as --drain-timeout.
func TestN4_DrainTimeoutCuts(t *testing.T) {
	g := newGateway(t, "--drain-timeout", "200ms")
	c := dial(t, g)
	session := c.open(g)
	from := len(c.seen)
	c.sendPrompt(session, "SLOW:6000x100")
	c.awaitUpdate(from, "agent_message_chunk")
	if err := g.signal("INT"); err != nil {
		t.Fatal(err)
	}
	c.awaitClose()
	if code, err := g.waitEnded(); code != exitCut || err != nil {
		t.Errorf("exit code %d, %v", code, err)
	}
}

// TestN1_ConversationsSurviveARestart ends the gateway, well or by a kill, and goes on with a conversation afterwards: what
// was said is replayed, once, and the agent remembers it.
func TestN1_ConversationsSurviveARestart(t *testing.T) {
	for _, end := range []string{"TERM", "KILL"} {
		t.Run(end, func(t *testing.T) {
			g := newGateway(t)
			c := dial(t, g)
			session := c.open(g)
			c.prompt(session, "remember the turquoise elephant")
			if err := g.signal(end); err != nil {
				t.Fatal(err)
			}
			c.awaitClose()
			if _, err := g.waitEnded(); err != nil {
				t.Fatal(err)
			}

			again := newGatewayIn(t, g.cmd.Dir)
			c = dial(t, again)
			c.call("initialize", `{"protocolVersion":1,"clientCapabilities":{}}`)
			c.call("session/load", fmt.Sprintf(`{"sessionId":%q,"cwd":%q,"mcpServers":[]}`, session, g.cmd.Dir))
			if said := c.said(0); strings.Count(said, "turquoise elephant") != 1 {
				t.Errorf("the replay says %q", said)
			}
			if _, said := c.prompt(session, "RECALL"); !strings.Contains(said, "turquoise elephant") {
				t.Errorf("the agent recalls %q", said)
			}
		})
	}
}
