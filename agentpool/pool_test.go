package agentpool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/acpgate/acpgate/sessions"
)

func wantReason(t testing.TB, err error, reason string) *sessions.AgentError {
	t.Helper()
	var e *sessions.AgentError
	if !errors.As(err, &e) || e.Reason != reason {
		t.Fatalf("error %v, want %s", err, reason)
	}
	return e
}

func TestAcquireSharesOneProcess(t *testing.T) {
	starts := startsFile(t)
	p := startPool(t, testConfig(t, fakeSpec("a", "-starts", starts, "-init-delay", "100ms"), fakeSpec("b")))
	var wg sync.WaitGroup
	var mu sync.Mutex
	seen := map[uint64]int{}
	for range 20 {
		wg.Go(func() {
			h, err := p.Acquire(testContext(t), user, "a", "")
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			seen[h.Process()]++
			t.Cleanup(h.Release)
		})
	}
	wg.Wait()
	if len(seen) != 1 || countStarts(t, starts) != 1 {
		t.Errorf("processes %v, %d starts", seen, countStarts(t, starts))
	}
	if got := p.Names(); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("names %v", got)
	}
	st := p.Stats()
	if a := st.Agents[0]; st.Starts != 1 || a.Name != "a" || a.Processes != 1 || a.Handles != 20 || a.Idle != 0 || len(st.Agents) != 2 {
		t.Errorf("stats %+v", st)
	}
}

func TestT3_PrincipalsDoNotShare(t *testing.T) {
	cfg := testConfig(t, fakeSpec("a"))
	cfg.Environ = append(os.Environ(), "ACPGATE_TOKEN=secret", "XDG_CONFIG_HOME=/of/the/gateway", "AWS_KEY=secret")
	p := startPool(t, cfg)
	homes := map[string]bool{}
	for _, principal := range []string{"ann", "bob"} {
		h, err := p.Acquire(testContext(t), principal, "a", "")
		if err != nil {
			t.Fatal(err)
		}
		defer h.Release()
		var env []string
		if err := json.Unmarshal([]byte(request(t, h, "test/env", `{}`)), &env); err != nil {
			t.Fatal(err)
		}
		home := lookEnv(env, "HOME")
		if home != filepath.Join(newRoot(cfg.StateDir).real, "homes", principal) {
			t.Errorf("HOME=%s", home)
		}
		homes[home] = true
		for _, entry := range env {
			if strings.Contains(entry, "secret") || strings.HasPrefix(entry, "XDG_") {
				t.Errorf("%s has %s", principal, entry)
			}
		}
		var dir string
		if err := json.Unmarshal([]byte(request(t, h, "test/cwd", `{}`)), &dir); err != nil || dir != newRoot(cfg.Roots[0]).real {
			t.Errorf("it runs in %s, %v", dir, err)
		}
	}
	if st := p.Stats(); st.Starts != 2 || len(homes) != 2 {
		t.Errorf("stats %+v", st)
	}
}

func TestSessionsPerProcess(t *testing.T) {
	spec := fakeSpec("a", "-init-delay", "50ms")
	spec.SessionsPerProcess = 2
	p := startPool(t, testConfig(t, spec))
	var wg sync.WaitGroup
	handles := make([]sessions.Agent, 6)
	for i := range handles {
		wg.Go(func() {
			h, err := p.Acquire(testContext(t), user, "a", "")
			if err != nil {
				t.Error(err)
				return
			}
			handles[i] = h
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
	per := map[uint64]int{}
	for _, h := range handles {
		per[h.Process()]++
	}
	for n, count := range per {
		if count > 2 {
			t.Errorf("process %d has %d sessions", n, count)
		}
	}
	if len(per) != 3 {
		t.Errorf("%d processes for 6 sessions", len(per))
	}

	// A control handle takes no room, a sibling does.
	control, err := p.Control(testContext(t), user, "a")
	if err != nil || p.Stats().Starts != 3 {
		t.Errorf("control: %v, %d starts", err, p.Stats().Starts)
	}
	if err := control.Bind("s", newRecorder()); err == nil {
		t.Error("a control handle was bound")
	}
	control.Release()
	_, err = handles[0].Sibling()
	wantReason(t, err, "agent_limit")
	i := slices.IndexFunc(handles[1:], func(h sessions.Agent) bool { return h.Process() == handles[0].Process() }) + 1
	handles[i].Release()
	handles[i].Release() // once
	sibling, err := handles[0].Sibling()
	if err != nil || sibling.Process() != handles[0].Process() {
		t.Errorf("sibling: %v", err)
	}
	handles[i] = sibling
	for _, h := range handles {
		h.Release()
	}
	if a := p.Stats().Agents[0]; a.Handles != 0 || a.Idle != 3 {
		t.Errorf("stats %+v", a)
	}
}

func TestDescribeIsCached(t *testing.T) {
	starts := startsFile(t)
	p := startPool(t, testConfig(t, fakeSpec("a", "-starts", starts, "-init", `{"protocolVersion":1,"agentInfo":{"title":"Fake"}}`)))
	for _, principal := range []string{user, user, "other"} {
		info, err := p.Describe(testContext(t), principal, "a")
		if err != nil || info.Title != "Fake" || info.Name != "a" {
			t.Errorf("%+v, %v", info, err)
		}
	}
	acquire(t, p, "a") // uses the process that Describe started
	if n := countStarts(t, starts); n != 1 {
		t.Errorf("%d starts", n)
	}
	_, err := p.Describe(testContext(t), user, "nope")
	wantReason(t, err, "agent_unknown")
}

// W12: what is said without a session reaches the process of the principal.
func TestW12_ControlReachesThePrincipalsProcess(t *testing.T) {
	p := startPool(t, testConfig(t, fakeSpec("a")))
	h := acquire(t, p, "a")
	open(t, h)
	for _, principal := range []string{user, "other"} {
		c, err := p.Control(testContext(t), principal, "a")
		if err != nil {
			t.Fatal(err)
		}
		if same := c.Process() == h.Process(); same != (principal == user) {
			t.Errorf("%s: same process %t", principal, same)
		}
		if got := request(t, c, "test/echo", `{"methodId":"login"}`); !strings.Contains(got, "login") {
			t.Error(got)
		}
		c.Release()
	}
}

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
	cfg.RestartMin, cfg.RestartMax, cfg.RestartWait, cfg.BreakerAfter = 30*time.Millisecond, 2*time.Second, 500*time.Millisecond, 3
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
	cfg.RestartMin, cfg.RestartMax, cfg.RestartWait = 300*time.Millisecond, time.Hour, 600*time.Millisecond
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
	// The third wait is 1.2 s, longer than an Acquire waits.
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

// An ending process is not handed out any more, whoever ends it.
func TestKilledProcessIsNotHandedOut(t *testing.T) {
	p := startPool(t, testConfig(t, fakeSpec("a", "-ignore-eof")))
	h := acquire(t, p, "a")
	h.Kill("")
	other := acquire(t, p, "a")
	if other.Process() == h.Process() {
		t.Error("the killed process was handed out")
	}
	_, err := h.Sibling()
	wantReason(t, err, "agent_restarted")
	_, err = h.Request(frame(t, `{"jsonrpc":"2.0","id":1,"method":"x"}`), nil, nil)
	wantReason(t, err, "agent_restarted")
}

func TestIdleProcessEnds(t *testing.T) {
	cfg := testConfig(t, fakeSpec("a"))
	cfg.IdleTimeout = 200 * time.Millisecond
	p := startPool(t, cfg)
	h := acquire(t, p, "a")
	time.Sleep(400 * time.Millisecond)
	if p.Stats().Agents[0].Processes != 1 {
		t.Fatal("a process in use was stopped")
	}
	h.Release()
	eventually(t, "the end of the idle process", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.processes) == 0 && p.total == 0 && len(p.counts) == 0 && len(p.groups) == 0
	})
	acquire(t, p, "a") // without a backoff
	if st := p.Stats(); st.Crashes != 0 || st.Starts != 2 {
		t.Errorf("stats %+v", st)
	}
}

func TestT6_ProcessLimits(t *testing.T) {
	spec := fakeSpec("a")
	spec.SessionsPerProcess = 1
	cfg := testConfig(t, spec)
	cfg.MaxPerPrincipal, cfg.MaxProcesses = 2, 3
	p := startPool(t, cfg)
	a, b := acquire(t, p, "a"), acquire(t, p, "a")
	_, err := p.Acquire(testContext(t), user, "a", "")
	if e := wantReason(t, err, "agent_limit"); !strings.Contains(e.Hint, "2 agent processes") {
		t.Errorf("hint %s", e.Hint)
	}
	c, err := p.Acquire(testContext(t), "other", "a", "")
	if err != nil {
		t.Fatal(err)
	}
	_, err = p.Acquire(testContext(t), "third", "a", "")
	if e := wantReason(t, err, "agent_limit"); !strings.Contains(e.Hint, "3 agent processes") {
		t.Errorf("hint %s", e.Hint)
	}
	// An idle process makes room for whoever needs it.
	b.Release()
	d, err := p.Acquire(testContext(t), "third", "a", "")
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range []sessions.Agent{a, c, d} {
		h.Release()
	}
	if st := p.Stats(); st.Starts != 4 || st.Agents[0].Processes != 3 {
		t.Errorf("stats %+v", st)
	}
}

func TestPrewarm(t *testing.T) {
	spec := fakeSpec("a")
	spec.SessionsPerProcess, spec.Prewarm = 1, true
	cfg := testConfig(t, spec, fakeSpec("cold"))
	cfg.IdleTimeout = 300 * time.Millisecond
	p := startPool(t, cfg)
	idle := func(n int) func() bool {
		return func() bool { a := p.Stats().Agents[0]; return a.Idle == n && a.Processes-a.Handles == n }
	}
	p.Warm(user)
	eventually(t, "a warm process", idle(1))
	if p.Stats().Agents[1].Processes != 0 {
		t.Error("an agent that is not prewarmed was started")
	}
	first := acquire(t, p, "a")
	eventually(t, "a spare", idle(1))
	begun := p.Stats().Starts
	second := acquire(t, p, "a") // the spare
	if first.Process() == second.Process() {
		t.Error("one process for two")
	}
	eventually(t, "a further spare", idle(1))
	if n := p.Stats().Starts - begun; n != 1 {
		t.Errorf("%d starts", n)
	}
	time.Sleep(600 * time.Millisecond)
	if !idle(1)() {
		t.Errorf("the spare did not stay: %+v", p.Stats().Agents[0])
	}
	first.Release()
	second.Release()
	// Nobody of the principal is left: the spare goes like every idle process.
	eventually(t, "the end of all", func() bool { return p.Stats().Agents[0].Processes == 0 })
}

func TestPrewarmForTheOwner(t *testing.T) {
	spec := fakeSpec("a")
	spec.Prewarm = true
	cfg := testConfig(t, spec)
	cfg.HomeOwner = user
	cfg.IdleTimeout = 50 * time.Millisecond
	p := startPool(t, cfg)
	acquire(t, p, "a").Release()
	time.Sleep(200 * time.Millisecond)
	if a := p.Stats().Agents[0]; a.Idle != 1 {
		t.Errorf("the owner of the gateway has no spare: %+v", a)
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

func TestCloseIsForcedWhenItsTimeIsOver(t *testing.T) {
	mark := tag(t)
	cfg := testConfig(t, tagged(fakeSpec("a", "-ignore-eof", "-ignore-term", "-spawn", "trap '' TERM; sleep 1000; :"), mark))
	cfg.CloseWait, cfg.TermWait = time.Hour, time.Hour
	p, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	h := acquire(t, p, "a")
	_, rec := open(t, h)
	waitAlive(t, mark, 4)
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	if err := p.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Close: %v", err)
	}
	rec.waitFor(t, 1)
	nothingLeft(t, mark)
}
