package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	testscript.Main(leakChecked{m}, map[string]func(){
		// The test binary is acpgate when it is called by that name: on PATH in tests, and when it starts itself again as
		// supervisor or demo agent.
		"acpgate": func() { os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr)) },
	})
}

// leakChecked fails a run that leaves goroutines behind.
type leakChecked struct{ m *testing.M }

func (l leakChecked) Run() int {
	code := l.m.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// TestScripts runs testdata/script, which uses the binary as a user does. Beside the commands of testscript there are:
//
//	code N COMMAND...     run a command that must exit with N
//	gateway NAME ARG...   start "acpgate ARG..." and wait until it listens; sets $URL, and $LINK if it shows a login link
//	signal NAME TERM      send it a signal
//	ended NAME N          wait until it has exited, with N; its stderr is then in NAME.log
//	mode OCTAL FILE       check the permissions of a file
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "script"),
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			home := filepath.Join(env.WorkDir, "home")
			env.Setenv("HOME", home)
			env.Setenv("XDG_STATE_HOME", filepath.Join(env.WorkDir, "xdg"))
			env.Vars = append(env.Vars, raceOptions)
			env.Values[gatewaysKey{}] = map[string]*gatewayProcess{}
			return os.MkdirAll(home, 0o700)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"code": scriptCode, "gateway": scriptGateway, "signal": scriptSignal, "ended": scriptEnded, "mode": scriptMode,
		},
	})
}

type gatewaysKey struct{}

func scriptCode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code N COMMAND...")
	}
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if strconv.Itoa(got) != args[0] {
		ts.Fatalf("exit code %d, want %s", got, args[0])
	}
}

func scriptGateway(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: gateway NAME ARG...")
	}
	var environ []string
	for _, name := range []string{"PATH", "HOME", "XDG_STATE_HOME"} {
		environ = append(environ, name+"="+ts.Getenv(name))
	}
	g, err := startGateway(ts.MkAbs("."), environ, args[1:]...)
	ts.Check(err)
	ts.Defer(func() { g.kill() })
	ts.Value(gatewaysKey{}).(map[string]*gatewayProcess)[args[0]] = g
	if err := g.waitListening(); err != nil {
		ts.Fatalf("%v\n%s", err, g.stderr.String())
	}
	ts.Setenv("URL", g.url)
	ts.Setenv("LINK", g.link)
}

// scriptNamed is the gateway that a script has started by this name.
func scriptNamed(ts *testscript.TestScript, name string) *gatewayProcess {
	g := ts.Value(gatewaysKey{}).(map[string]*gatewayProcess)[name]
	if g == nil {
		ts.Fatalf("no gateway %s was started", name)
	}
	return g
}

func scriptSignal(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: signal NAME TERM|INT|KILL")
	}
	ts.Check(scriptNamed(ts, args[0]).signal(args[1]))
}

func scriptEnded(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: ended NAME N")
	}
	g := scriptNamed(ts, args[0])
	code, err := g.waitEnded()
	ts.Check(os.WriteFile(ts.MkAbs(args[0]+".log"), []byte(g.stderr.String()), 0o600))
	if err != nil || strconv.Itoa(code) != args[1] {
		ts.Fatalf("exit code %d, %v; want %s\n%s", code, err, args[1], g.stderr.String())
	}
}

func scriptMode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: mode OCTAL FILE")
	}
	info, err := os.Stat(ts.MkAbs(args[1]))
	ts.Check(err)
	if got := fmt.Sprintf("%04o", info.Mode().Perm()); got != args[0] {
		ts.Fatalf("%s has mode %s, want %s", args[1], got, args[0])
	}
}

// TestT6_ManualIsComplete compares the guide with what the binary says.
func TestT6_ManualIsComplete(t *testing.T) {
	var help strings.Builder
	if code := run(context.Background(), []string{"--help"}, &help, &help); code != exitOK {
		t.Fatalf("exit code %d", code)
	}
	guide, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	var documented []string
	for line := range strings.Lines(string(guide)) {
		if rest, ok := strings.CutPrefix(line, "| `--"); ok {
			name, _, _ := strings.Cut(rest, "`")
			name, _, _ = strings.Cut(name, " ")
			documented = append(documented, name)
		}
	}
	var shown []string
	for line := range strings.Lines(help.String()) {
		if rest, ok := strings.CutPrefix(line, "  --"); ok {
			name, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
			shown = append(shown, name)
			if !strings.Contains(help.String(), " "+envName(name)+"\n") && !strings.Contains(help.String(), " "+envName(name)+", default ") {
				t.Errorf("--help does not show %s", envName(name))
			}
		}
		if n := len(strings.TrimRight(line, "\n")); n > helpWidth+8 {
			t.Errorf("a line of %d columns: %s", n, line)
		}
	}
	if len(shown) < 20 {
		t.Fatalf("--help shows only %v", shown)
	}
	if !slices.Equal(documented, shown) {
		t.Errorf("README.md documents %v\n--help shows %v", documented, shown)
	}
}
