package agentpool

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// fakeGateway owns a pool until it is killed. Its arguments are the state directory and the specs.
func fakeGateway(args []string) int {
	var specs []Spec
	if err := json.Unmarshal([]byte(args[1]), &specs); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	p, err := New(Config{
		Specs: specs, Supervisor: []string{testBinary(), "supervise"}, Roots: []string{args[0]}, StateDir: args[0],
		EnvAllow: []string{"GORACE"},
		Logger:   slog.New(slog.NewTextHandler(os.Stderr, nil)), CloseWait: 300 * time.Millisecond, TermWait: 300 * time.Millisecond,
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	for _, s := range specs {
		h, err := p.Acquire(context.Background(), user, s.Name, "")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 2
		}
		defer h.Release()
	}
	renews := len(args) > 2
	if renews {
		p.Renew(2 * time.Second)
	}
	fmt.Println("ready")
	for {
		time.Sleep(200 * time.Millisecond)
		if renews {
			p.Renew(2 * time.Second)
		}
	}
}

// startGateway runs a gateway in a process of its own, with an agent of each kind.
func startGateway(t *testing.T, mark string, args ...string) *exec.Cmd {
	t.Helper()
	var specs []Spec
	n := 1
	for _, c := range treeSpecs() {
		specs = append(specs, tagged(c.spec, mark))
		n += c.n
	}
	config, err := json.Marshal(specs)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(testBinary(), append([]string{"gateway", t.TempDir(), string(config)}, args...)...)
	cmd.Env = append(os.Environ(), mark)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		for _, pid := range alive(mark) {
			n, _ := strconv.Atoi(strings.Fields(pid)[0])
			_ = syscall.Kill(n, syscall.SIGKILL)
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if line != "ready\n" {
		t.Fatalf("gateway: %q %v\n%s", line, err, stderr.String())
	}
	waitAlive(t, mark, n)
	return cmd
}

func TestT5_KilledGatewayLeavesNothing(t *testing.T) {
	mark := tag(t)
	cmd := startGateway(t, mark)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the end of all agents", func() bool { return len(alive(mark)) == 0 })
}

// A gateway that is stopped holds its pipes, and cannot renew: only the supervisors can end the agents (rule N3).
func TestT5_MissedRenewalEndsAgents(t *testing.T) {
	mark := tag(t)
	cmd := startGateway(t, mark, "renew")
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the end of all agents", func() bool { return len(alive(mark)) == 1 }) // the gateway itself
}
