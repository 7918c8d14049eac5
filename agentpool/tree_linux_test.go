package agentpool

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/acpgate/acpgate/sessions"
)

// tag marks the processes of a test, through the environment that they all inherit.
func tag(t testing.TB) string {
	return "ACP_TEST_TAG=" + strings.NewReplacer("/", "_", " ", "_").Replace(t.Name()) + strconv.FormatInt(time.Now().UnixNano(), 36)
}

func tagged(spec Spec, tag string) Spec {
	name, value, _ := strings.Cut(tag, "=")
	spec.Env = map[string]string{name: value}
	return spec
}

// alive lists the processes that carry a tag, zombies not among them.
func alive(tag string) []string {
	var found []string
	for _, pid := range processes() {
		env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		if err != nil || !bytes.Contains(append([]byte{0}, env...), []byte("\x00"+tag+"\x00")) {
			continue
		}
		cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err != nil {
			continue
		}
		found = append(found, fmt.Sprintf("%d %s", pid, bytes.ReplaceAll(cmdline, []byte{0}, []byte{' '})))
	}
	return found
}

func nothingLeft(t testing.TB, tag string) {
	t.Helper()
	if left := alive(tag); len(left) > 0 {
		t.Errorf("still running: %q", left)
	}
}

func waitAlive(t testing.TB, tag string, n int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d processes", n), func() bool { return len(alive(tag)) >= n })
}

// treeSpecs are agents whose processes are hard to get rid of, with the number of processes, supervisor included.
func treeSpecs() map[string]struct {
	spec Spec
	n    int
} {
	agent := testBinary()
	return map[string]struct {
		spec Spec
		n    int
	}{
		"wrapper":      {shellSpec("wrapper", agent+` agent; :`), 3},
		"wrappers":     {shellSpec("wrappers", `sh -c '`+agent+` agent -spawn "sleep 1000"; :'; :`), 5},
		"ignores all":  {fakeSpec("deaf", "-ignore-eof", "-ignore-term"), 2},
		"child":        {fakeSpec("child", "-spawn", "trap '' TERM; sleep 1000; sleep 1000"), 4},
		"setsid":       {fakeSpec("setsid", "-spawn", "setsid sleep 1000"), 3},
		"daemon":       {fakeSpec("daemon", "-spawn", "(setsid sh -c 'trap \"\" TERM HUP; sleep 1000; sleep 1000' </dev/null >/dev/null 2>&1 &)"), 4},
		"keeps stdout": {fakeSpec("keeper", "-spawn", "(setsid sleep 1000 &)"), 3},
	}
}

func TestCase67_CloseLeavesNothing(t *testing.T) {
	for name, c := range treeSpecs() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mark := tag(t)
			p, err := New(testConfig(t, tagged(c.spec, mark)))
			if err != nil {
				t.Fatal(err)
			}
			h := acquire(t, p, c.spec.Name)
			waitAlive(t, mark, c.n)
			h.Release()
			if err := p.Close(testContext(t)); err != nil {
				t.Error(err)
			}
			nothingLeft(t, mark)
		})
	}
}

func TestCase67_AgentThatEndsLeavesNothing(t *testing.T) {
	mark := tag(t)
	spec := tagged(treeSpecs()["daemon"].spec, mark)
	p := startPool(t, testConfig(t, spec))
	h := acquire(t, p, spec.Name)
	waitAlive(t, mark, 4)
	session, rec := open(t, h)
	if _, err := h.Request(frame(t, `{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":`+promptParams(session, "exit 0")+`}`), nil,
		func(sessions.Reply) {}); err != nil {
		t.Fatal(err)
	}
	if got := rec.waitFor(t, 1); got[0] != "gone agent_exited" {
		t.Errorf("events %q", got)
	}
	eventually(t, "the end of the daemon", func() bool { return len(alive(mark)) == 0 })
}

func TestCase68_IgnoresEOFAndTERM(t *testing.T) {
	mark := tag(t)
	p := startPool(t, testConfig(t, tagged(fakeSpec("deaf", "-ignore-eof", "-ignore-term"), mark)))
	h := acquire(t, p, "deaf")
	_, rec := open(t, h)
	begun := time.Now()
	h.Kill("")
	if got := rec.waitFor(t, 1); got[0] != "gone agent_restarted" {
		t.Errorf("events %q", got)
	}
	if took := time.Since(begun); took < 500*time.Millisecond || took > 10*time.Second {
		t.Errorf("took %v: the ladder has two waits of 300 ms and then KILL", took)
	}
	eventually(t, "the end", func() bool { return len(alive(mark)) == 0 })
}

// An agent that ends on EOF is not sent a signal and not waited for.
func TestT5_LadderStopsAtTheFirstRung(t *testing.T) {
	cfg := testConfig(t, fakeSpec("a"))
	cfg.CloseWait = 20 * time.Second
	p := startPool(t, cfg)
	h := acquire(t, p, "a")
	_, rec := open(t, h)
	h.Kill("agent_restarted")
	rec.waitFor(t, 1)
}

func TestT5_KilledSupervisorLeavesNothing(t *testing.T) {
	for name, c := range treeSpecs() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mark := tag(t)
			p := startPool(t, testConfig(t, tagged(c.spec, mark)))
			h := acquire(t, p, c.spec.Name)
			waitAlive(t, mark, c.n)
			_, rec := open(t, h)
			for proc := range p.processes {
				proc.child.kill()
			}
			if got := rec.waitFor(t, 1); got[0] != "gone agent_exited" {
				t.Errorf("events %q", got)
			}
			nothingLeft(t, mark)
		})
	}
}

func TestT5_RenewalsKeepAgentsAlive(t *testing.T) {
	p := startPool(t, testConfig(t, fakeSpec("a")))
	p.Renew(time.Second)
	h := acquire(t, p, "a") // started after the first renewal, and bound by it
	_, rec := open(t, h)
	for range 12 {
		p.Renew(time.Second)
		time.Sleep(150 * time.Millisecond)
	}
	if got := rec.all(); len(got) > 0 {
		t.Fatalf("ended in spite of renewals: %q", got)
	}
	if got := rec.waitFor(t, 1); got[0] != "gone agent_exited" {
		t.Errorf("events %q", got)
	}
}

// No terminal can be read or written, or fed with input, by an agent, and its standard streams are its own.
func TestT5_AgentHasNoTerminal(t *testing.T) {
	p := startPool(t, testConfig(t, fakeSpec("a")))
	h := acquire(t, p, "a")
	if got := request(t, h, "test/terminal", `{}`); got != "false" {
		t.Error("the agent has a terminal")
	}
	var pids [2]int
	if err := json.Unmarshal([]byte(request(t, h, "test/pids", `{}`)), &pids); err != nil {
		t.Fatal(err)
	}
	pipes := map[string]bool{}
	for fd := range 3 {
		flags, err := os.ReadFile(fmt.Sprintf("/proc/%d/fdinfo/%d", pids[0], fd))
		if err != nil {
			t.Fatal(err)
		}
		const nonblock = 0o4000
		for _, line := range strings.Split(string(flags), "\n") {
			if v, ok := strings.CutPrefix(line, "flags:"); ok {
				n, err := strconv.ParseInt(strings.TrimSpace(v), 8, 64)
				if err != nil || n&nonblock != 0 {
					t.Errorf("fd %d: flags %s: an agent must get blocking pipes", fd, v)
				}
			}
		}
		pipe, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", pids[0], fd))
		if err != nil || !strings.HasPrefix(pipe, "pipe:") {
			t.Errorf("fd %d of the agent is %s, %v", fd, pipe, err)
		}
		pipes[pipe] = true
	}
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pids[1]))
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		target, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", pids[1], fd.Name()))
		if err == nil && pipes[target] {
			t.Errorf("the supervisor holds fd %s of the agent", fd.Name())
		}
	}
	target, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", pids[0], ControlFD))
	if err == nil && strings.HasPrefix(target, "socket:") {
		t.Error("the agent holds the control socket")
	}
}

func TestT5_SupervisorIsSmall(t *testing.T) {
	p := startPool(t, testConfig(t, fakeSpec("a")))
	h := acquire(t, p, "a")
	var pids [2]int
	if err := json.Unmarshal([]byte(request(t, h, "test/pids", `{}`)), &pids); err != nil {
		t.Fatal(err)
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pids[1]))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(string(status), "\n") {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "Private_Dirty:" {
			n, _ := strconv.Atoi(f[1])
			t.Logf("supervisor: %d KiB of its own", n)
			if n > 32<<10 {
				t.Errorf("supervisor takes %d KiB of its own", n)
			}
		}
	}
}

func TestSuperviseRefusesBadArguments(t *testing.T) {
	for _, args := range [][]string{nil, {"--"}, {"-close-wait", "x", "--", "true"}, {"-term-wait", "-1s", "--", "true"}, {"-what"}} {
		var stderr strings.Builder
		if code := Supervise(args, nil, &stderr); code != 2 || stderr.Len() == 0 {
			t.Errorf("%q: status %d, %q", args, code, stderr.String())
		}
	}
}

var _ io.Writer = (*ring)(nil)
