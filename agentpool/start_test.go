//go:build linux

package agentpool

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestCase70_ExitDuringInitialize(t *testing.T) {
	for name, c := range map[string]struct {
		spec   Spec
		code   int
		stderr string
	}{
		"false":      {Spec{Name: "x", Command: "false"}, 1, ""},
		"true":       {Spec{Name: "x", Command: "true"}, 0, ""},
		"with words": {shellSpec("x", "echo no login >&2; exit 3"), 3, "no login\n"},
		"on stdout":  {shellSpec("x", "echo usage: x [file]; exit 64"), 64, "usage: x [file]\n"},
	} {
		t.Run(name, func(t *testing.T) {
			mark := tag(t)
			p := startPool(t, testConfig(t, tagged(c.spec, mark)))
			begun := time.Now()
			_, err := p.Acquire(testContext(t), user, "x", "")
			e := wantReason(t, err, "agent_start_failed")
			if !e.Exited || e.ExitCode != c.code || e.Stderr != c.stderr || e.Hint == "" || time.Since(begun) > 10*time.Second {
				t.Errorf("after %v: %+v", time.Since(begun), e)
			}
			nothingLeft(t, mark)
		})
	}
}

func TestCase73_NeverAnswersInitialize(t *testing.T) {
	mark := tag(t)
	starts := startsFile(t)
	spec := tagged(shellSpec("x", "echo >> "+starts+"; (setsid sleep 1000 &) ; cat >/dev/null; sleep 1000"), mark)
	spec.StartTimeout = 300 * time.Millisecond
	p := startPool(t, testConfig(t, spec))
	for i := range 3 {
		_, err := p.Acquire(testContext(t), user, "x", "")
		e := wantReason(t, err, "agent_start_failed")
		if !strings.Contains(e.Error(), "no answer to initialize within 300ms") || e.Hint == "" {
			t.Errorf("error %+v", e)
		}
		if left := alive(mark); len(left) > 0 {
			t.Errorf("try %d left %q", i+1, left)
		}
		if n := countStarts(t, starts); n != i+1 {
			t.Errorf("%d processes for %d tries", n, i+1)
		}
	}
	if st := p.Stats(); st.Starts != 3 || st.StartFailures != 3 {
		t.Errorf("stats %+v", st)
	}
}

// `cat` sends our own request back, which is no answer.
func TestCase73_Cat(t *testing.T) {
	mark := tag(t)
	spec := tagged(Spec{Name: "cat", Command: "cat", StartTimeout: 300 * time.Millisecond}, mark)
	p := startPool(t, testConfig(t, spec))
	_, err := p.Acquire(testContext(t), user, "cat", "")
	wantReason(t, err, "agent_start_failed")
	nothingLeft(t, mark)
}

// A slow start is within its budget, and a caller that gave up finds its result.
func TestCase73_SlowStart(t *testing.T) {
	starts := startsFile(t)
	p := startPool(t, testConfig(t, fakeSpec("a", "-starts", starts, "-init-delay", "500ms")))
	ctx, cancel := context.WithTimeout(testContext(t), 50*time.Millisecond)
	defer cancel()
	_, err := p.Acquire(ctx, user, "a", "")
	wantReason(t, err, "agent_start_failed")
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
	acquire(t, p, "a")
	if n := countStarts(t, starts); n != 1 {
		t.Errorf("%d starts", n)
	}
	if a := p.Stats().Agents[0]; a.Handles != 1 {
		t.Errorf("stats %+v", a)
	}
}

func TestCase77_CommandNotFound(t *testing.T) {
	for name, c := range map[string]struct{ command, hint string }{
		"name": {"no-such-agent", "the agent's PATH is "}, "path": {"/no/such/agent", "check the path"},
		"with arguments": {"no-such-agent --acp", "arguments belong into args"},
	} {
		p := startPool(t, testConfig(t, Spec{Name: "x", Command: c.command}))
		begun := time.Now()
		for range 3 {
			_, err := p.Acquire(testContext(t), user, "x", "")
			e := wantReason(t, err, "agent_start_failed")
			if !strings.Contains(e.Error(), strings.Fields(c.command)[0]) || !strings.Contains(e.Hint, c.hint) {
				t.Errorf("%s: %v; %s", name, e, e.Hint)
			}
		}
		if time.Since(begun) > 5*time.Second {
			t.Error("what costs nothing to try is tried at once")
		}
		if err := p.CanStart(); err == nil || !strings.Contains(err.Error(), strings.Fields(c.command)[0]) {
			t.Errorf("%s: CanStart %v", name, err)
		}
		if st := p.Stats(); st.Starts != 0 || st.StartFailures != 3 {
			t.Errorf("stats %+v", st)
		}
	}
}

func TestCommandThatCannotBeRun(t *testing.T) {
	file := filepath.Join(t.TempDir(), "not-a-program")
	if err := os.WriteFile(file, []byte("\x7fELF nonsense"), 0o755); err != nil {
		t.Fatal(err)
	}
	p := startPool(t, testConfig(t, Spec{Name: "x", Command: file}))
	_, err := p.Acquire(testContext(t), user, "x", "")
	if e := wantReason(t, err, "agent_start_failed"); !strings.Contains(e.Error(), file) || e.Hint == "" {
		t.Errorf("%v; %s", e, e.Hint)
	}

	cfg := testConfig(t, fakeSpec("a"))
	cfg.Supervisor = []string{"/no/such/supervisor"}
	p = startPool(t, cfg)
	_, err = p.Acquire(testContext(t), user, "a", "")
	if e := wantReason(t, err, "agent_start_failed"); !strings.Contains(e.Error(), "supervisor") {
		t.Error(e)
	}
}

func TestProtocolVersionIsClamped(t *testing.T) {
	for name, c := range map[string]struct{ result, want string }{
		"version 2": {`{"protocolVersion":2,"capabilities":{},"info":{}}`, "it speaks ACP version 2, acpgate speaks version 1"},
		"no object": {`null`, "not an object"},
	} {
		mark := tag(t)
		p := startPool(t, testConfig(t, tagged(fakeSpec("a", "-init", c.result), mark)))
		_, err := p.Acquire(testContext(t), user, "a", "")
		if e := wantReason(t, err, "agent_start_failed"); !strings.Contains(e.Error(), c.want) {
			t.Errorf("%s: %v", name, e)
		}
		nothingLeft(t, mark)
	}
}

func TestAgentRefusesInitialize(t *testing.T) {
	script := `read line; echo '{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"no licence"}}'; cat >/dev/null`
	p := startPool(t, testConfig(t, shellSpec("x", script)))
	_, err := p.Acquire(testContext(t), user, "x", "")
	if e := wantReason(t, err, "agent_start_failed"); !strings.Contains(e.Error(), "no licence") {
		t.Error(e)
	}
}

func TestT5_BackoffAndBreaker(t *testing.T) {
	starts := startsFile(t)
	good := filepath.Join(t.TempDir(), "good")
	spec := shellSpec("x", fmt.Sprintf(`echo >> %s; if [ -e %s ]; then exec %s agent; fi; exit 1`, starts, good, testBinary()))
	cfg := testConfig(t, spec)
	cfg.RestartMin, cfg.RestartMax, cfg.RestartWait, cfg.BreakerAfter = 30*time.Millisecond, 4*time.Second, 500*time.Millisecond, 3
	p := startPool(t, cfg)
	if err := p.CanStart(); err != nil {
		t.Errorf("before anything: %v", err)
	}
	// The first waits are within what an Acquire waits: each is one try.
	for i := range 3 {
		_, err := p.Acquire(testContext(t), user, "x", "")
		wantReason(t, err, "agent_start_failed")
		if n := countStarts(t, starts); n != i+1 {
			t.Errorf("%d starts for %d tries", n, i+1)
		}
	}
	// Now the breaker is open: the last reason is given at once, without a try.
	begun := time.Now()
	_, err := p.Acquire(testContext(t), user, "x", "")
	e := wantReason(t, err, "agent_start_failed")
	if time.Since(begun) > time.Second || !strings.Contains(e.Hint, "next try") || e.ExitCode != 1 || countStarts(t, starts) != 3 {
		t.Errorf("after %v: %+v", time.Since(begun), e)
	}
	if err := p.CanStart(); err == nil || !strings.Contains(err.Error(), "3 starts in a row failed") {
		t.Errorf("CanStart: %v", err)
	}
	if st := p.Stats(); st.Agents[0].Broken != 1 {
		t.Errorf("stats %+v", st)
	}
	// Others are not kept from trying.
	_, err = p.Acquire(testContext(t), "other", "x", "")
	if wantReason(t, err, "agent_start_failed"); countStarts(t, starts) != 4 {
		t.Error("the breaker of one principal stopped another")
	}
	if err := os.WriteFile(good, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the half-open probe", func() bool {
		h, err := p.Acquire(testContext(t), user, "x", "")
		if err == nil {
			h.Release()
		}
		return err == nil
	})
	if st := p.Stats(); st.Agents[0].Broken != 0 || countStarts(t, starts) != 5 || p.CanStart() != nil {
		t.Errorf("stats %+v, %d starts, %v", st, countStarts(t, starts), p.CanStart())
	}
}

func TestT5_AcquireAfterACrash(t *testing.T) {
	cfg := testConfig(t, fakeSpec("a"))
	cfg.RestartMin, cfg.RestartMax, cfg.RestartWait = 400*time.Millisecond, time.Hour, 900*time.Millisecond
	p := startPool(t, cfg)
	crash := func() {
		h := acquire(t, p, "a")
		s, rec := open(t, h)
		send(t, h, "session/prompt", promptParams(s, "exit 1"))
		rec.waitFor(t, 1)
	}
	crash()
	begun := time.Now()
	acquire(t, p, "a").Release() // waits for the backoff
	if took := time.Since(begun); took < 200*time.Millisecond {
		t.Errorf("started after %v", took)
	}
	crash()
	crash()
	// The third wait is 1.6 s, longer than an Acquire waits.
	_, err := p.Acquire(testContext(t), user, "a", "")
	if e := wantReason(t, err, "agent_restarting"); e.Hint == "" || e.ExitCode != 1 {
		t.Errorf("error %+v", e)
	}
	// A Kill that somebody asked for is no crash.
	eventually(t, "the restart", func() bool {
		h, err := p.Acquire(testContext(t), user, "a", "")
		if err != nil {
			return false
		}
		_, rec := open(t, h)
		h.Kill("agent_restarted")
		rec.waitFor(t, 1)
		h.Release()
		return true
	})
	acquire(t, p, "a")
	if st := p.Stats(); st.Crashes != 3 {
		t.Errorf("%d crashes", st.Crashes)
	}
}

func TestCloseWhileStarting(t *testing.T) {
	mark := tag(t)
	p, err := New(testConfig(t, tagged(fakeSpec("a", "-init-delay", "1h"), mark)))
	if err != nil {
		t.Fatal(err)
	}
	failed := make(chan error, 1)
	go func() {
		_, err := p.Acquire(context.Background(), user, "a", "")
		failed <- err
	}()
	waitAlive(t, mark, 2)
	if err := p.Close(testContext(t)); err != nil {
		t.Error(err)
	}
	wantReason(t, await(t, "the failure", failed), "agent_start_failed")
	nothingLeft(t, mark)
	_, err = p.Acquire(testContext(t), user, "a", "")
	if wantReason(t, err, "agent_start_failed"); !errors.Is(err, errPoolClosed) {
		t.Errorf("error %v", err)
	}
	if err := p.Close(testContext(t)); err != nil {
		t.Errorf("a second Close: %v", err)
	}
}
