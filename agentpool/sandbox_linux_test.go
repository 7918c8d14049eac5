package agentpool

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// sandboxed returns a config whose agent is in a sandbox, on a machine where that works.
func sandboxed(t *testing.T, spec Spec) Config {
	t.Helper()
	var b bubblewrap
	if _, err := b.find(os.Getenv("PATH")); err != nil {
		t.Skipf("bubblewrap is missing or forbidden on this machine: %v", err)
	}
	spec.Sandbox = SandboxBwrap
	return testConfig(t, spec)
}

func TestT3_SandboxHidesTheMachine(t *testing.T) {
	cfg := sandboxed(t, shellSpec("x", `
		say() { printf '{"jsonrpc":"2.0","method":"say","params":{"what":"%s"}}\n' "$1"; }
		[ -e "$STATE/token" ] && say "sees the token"
		[ -e "$STATE/homes/other" ] && say "sees another home"
		[ -e "$OTHER/file" ] && say "sees another workspace"
		[ -e "$WORK/file" ] || say "misses its workspace"
		echo x > "$WORK/new" || say "cannot write its workspace"
		echo x > "$HOME/new" || say "cannot write its home"
		echo x > /tmp/new || say "cannot write /tmp"
		(echo x > /usr/new) 2>/dev/null && say "can write /usr"
		[ "$PWD" = "$WORK" ] || say "runs in $PWD"
		[ "$TMPDIR" = /tmp ] || say "TMPDIR is $TMPDIR"
		[ "$(ls -d /proc/[0-9]* | wc -l)" -lt 8 ] || say "sees other processes"
		read line
		echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}'
		cat >/dev/null`))
	work, other := newRoot(t.TempDir()).real, newRoot(t.TempDir()).real
	cfg.Roots = []string{other, work}
	cfg.Specs[0].Env = map[string]string{"STATE": cfg.StateDir, "WORK": work, "OTHER": other}
	for _, file := range []string{work + "/file", other + "/file", cfg.StateDir + "/token", cfg.StateDir + "/homes/other/x"} {
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	said := make(chan string, 20)
	cfg.OnNotification = func(_, _ string, line []byte) { said <- string(line) }
	p := startPool(t, cfg)
	h, err := p.Acquire(testContext(t), user, "x", work+"/sub/dir")
	if err != nil {
		t.Fatalf("%v%s", err, details(err))
	}
	h.Release()
	for len(said) > 0 {
		t.Error(<-said)
	}
	for _, file := range []string{work + "/new", filepath.Join(newRoot(cfg.StateDir).real, "homes", user, "new")} {
		if _, err := os.Stat(file); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat("/tmp/new"); !errors.Is(err, os.ErrNotExist) {
		t.Error("/tmp is shared")
	}
}

// Sandboxed processes are not shared between workspace roots; a control handle is content with any.
func TestT3_SandboxIsPerWorkspace(t *testing.T) {
	spec := fakeSpec("a")
	spec.SandboxRead = []string{filepath.Dir(testBinary())}
	cfg := sandboxed(t, spec)
	roots := []string{newRoot(t.TempDir()).real, newRoot(t.TempDir()).real}
	cfg.Roots = roots
	p := startPool(t, cfg)
	seen := map[uint64]string{}
	for _, root := range roots {
		for _, cwd := range []string{root, root + "/sub"} {
			h, err := p.Acquire(testContext(t), user, "a", cwd)
			if err != nil {
				t.Fatalf("%v%s", err, details(err))
			}
			defer h.Release()
			if was, ok := seen[h.Process()]; ok && was != root {
				t.Errorf("%s and %s share a process", was, root)
			}
			seen[h.Process()] = root
			var dir string
			if err := json.Unmarshal([]byte(request(t, h, "test/cwd", `{}`)), &dir); err != nil || dir != root {
				t.Errorf("it runs in %s, %v", dir, err)
			}
		}
	}
	if len(seen) != 2 {
		t.Errorf("processes %v", seen)
	}
	c, err := p.Control(testContext(t), user, "a")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Release()
	if seen[c.Process()] != roots[1] {
		t.Error("control did not get the process that was used last")
	}
}

// What a sandboxed agent starts ends with it, by the parent death signal and the pid namespace.
func TestT3_SandboxLeavesNothing(t *testing.T) {
	for _, how := range []string{"close", "supervisor killed"} {
		spec := fakeSpec("a", "-ignore-eof", "-ignore-term", "-spawn", "(setsid sleep 1000 &)")
		spec.SandboxRead = []string{filepath.Dir(testBinary())}
		mark := tag(t)
		cfg := sandboxed(t, tagged(spec, mark))
		p := startPool(t, cfg)
		h := acquire(t, p, "a")
		_, rec := open(t, h)
		waitAlive(t, mark, 4)
		if how == "close" {
			h.Kill("")
		} else {
			for proc := range p.processes {
				proc.child.kill()
			}
		}
		rec.waitFor(t, 1)
		eventually(t, "the end: "+how, func() bool { return len(alive(mark)) == 0 })
	}
}

func TestT3_SandboxThatDoesNotWork(t *testing.T) {
	for _, mode := range []string{SandboxAuto, SandboxBwrap} {
		var log syncBuffer
		spec := fakeSpec("a")
		spec.Sandbox = mode
		cfg := testConfig(t, spec)
		cfg.Logger = textLogger(&log)
		cfg.Environ = append(os.Environ(), "PATH=/nowhere")
		cfg.Environ = slices.DeleteFunc(cfg.Environ, func(s string) bool { return strings.HasPrefix(s, "PATH=") && s != "PATH=/nowhere" })
		p := startPool(t, cfg)
		for range 2 {
			h, err := p.Acquire(testContext(t), user, "a", "")
			if mode == SandboxBwrap {
				if e := wantReason(t, err, "agent_start_failed"); !strings.Contains(e.Error(), "bwrap") || e.Hint == "" {
					t.Errorf("%v; %s", e, e.Hint)
				}
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			h.Release()
		}
		if n := strings.Count(log.String(), "agents run without a sandbox"); mode == SandboxAuto && n != 1 {
			t.Errorf("%d warnings", n)
		}
	}
}

func TestSandboxMounts(t *testing.T) {
	top := newRoot(t.TempDir()).real
	for _, dir := range []string{"/pkg/node_modules/agent/bin", "/pkg/bin", "/real"} {
		if err := os.MkdirAll(top+dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	script := top + "/pkg/node_modules/agent/bin/cli.js"
	if err := os.WriteFile(script, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{"/pkg/bin/agent": script, "/link": top + "/real"} {
		if err := os.Symlink(to, top+link); err != nil {
			t.Fatal(err)
		}
	}
	s := sandbox{
		bwrap: "/bwrap", command: top + "/pkg/bin/agent", path: "/usr/bin:/:rel:/extra/bin", read: []string{"/data"},
		work: newRoot(top + "/link"), home: "/state/homes/u", stateDir: "/state", dir: top + "/real",
	}
	got := s.args()
	text := strings.Join(got, " ")
	order := []string{
		"--bind " + top + "/real " + top + "/link", "--ro-bind-try " + top + "/pkg/bin ", "--ro-bind-try " + top + "/pkg/node_modules ",
		"--bind " + top + "/real " + top + "/real",
	}
	for _, want := range append(order, "--ro-bind-try /data /data", "--ro-bind-try /extra/bin /extra/bin", "--tmpfs /tmp", "--unshare-pid", "--die-with-parent") {
		if !strings.Contains(text, want) {
			t.Errorf("missing %s in %s", want, text)
		}
	}
	if strings.Contains(text, " rel ") || strings.Contains(text, "--ro-bind-try / /") {
		t.Errorf("mounts %s", text)
	}
	// What is inside of something else comes after it, and only one mount is made at a place.
	at := map[string]int{}
	for i, arg := range got {
		if arg == "--tmpfs" || arg == "--proc" || arg == "--dev" {
			at[got[i+1]] = i
		}
		if strings.HasSuffix(arg, "bind") || arg == "--ro-bind-try" {
			if _, ok := at[got[i+2]]; ok {
				t.Errorf("two mounts at %s", got[i+2])
			}
			at[got[i+2]] = i
		}
	}
	if at["/state"] > at["/state/homes/u"] || at["/state"] == 0 {
		t.Errorf("the home must be mounted after what hides the state: %s", text)
	}
	if fmt.Sprint(got[len(got)-3:]) != fmt.Sprint([]string{"--chdir", top + "/real", "--"}) {
		t.Errorf("end %q", got[len(got)-3:])
	}
	s.home, s.work = s.work.real, root{path: "/", real: "/"}
	if text := strings.Join(s.args(), " "); !strings.Contains(text, "--bind / / --ro-bind-try /bin /bin") {
		t.Errorf("a workspace that is everything: %s", text)
	}
}
