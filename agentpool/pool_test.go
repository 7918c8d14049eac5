//go:build linux

package agentpool

import (
	"context"
	"encoding/json"
	"errors"
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
