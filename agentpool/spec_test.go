package agentpool

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParseFlag(t *testing.T) {
	for _, c := range []struct {
		in   string
		want Spec
		err  string
	}{
		{in: `opencode=opencode acp`, want: Spec{Name: "opencode", Command: "opencode", Args: []string{"acp"}}},
		{in: ` x = /bin/a `, want: Spec{Name: "x", Command: "/bin/a", Args: []string{}}},
		{
			in:   `c=A=1 B="two words" npx -y '@scope/agent' a\ b "q\"\$\x" ''`,
			want: Spec{Name: "c", Env: map[string]string{"A": "1", "B": "two words"}, Command: "npx", Args: []string{"-y", "@scope/agent", "a b", `q"$\x`, ""}},
		},
		{in: `c=run X=1 $HOME *`, want: Spec{Name: "c", Command: "run", Args: []string{"X=1", "$HOME", "*"}}},
		{in: `c=./a=b`, want: Spec{Name: "c", Command: "./a=b", Args: []string{}}},
		{in: `opencode`, err: `agent "opencode": must be NAME=COMMAND`},
		{in: `c=`, err: "agents.c.command: must not be empty"},
		{in: `c=A=1`, err: "agents.c.command: must not be empty"},
		{in: `=x`, err: "agents..name: must match"},
		{in: `C=x`, err: `agents.C.name: must match ^[a-z0-9][a-z0-9._-]{0,63}$ (got "C")`},
		{in: `c=x "y`, err: `agent c: a " quote has no end`},
		{in: `c=x 'y`, err: `agent c: a ' quote has no end`},
		{in: `c=x \`, err: "agent c: ends with a backslash"},
		{in: `c=ACPGATE_TOKEN=1 x`, err: `agents.c.env: not a name that an agent can have (got "ACPGATE_TOKEN")`},
	} {
		got, err := ParseFlag(c.in)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: error %v, want %s", c.in, err, c.err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.in, err)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", c.in, diff)
		}
	}
}

func TestParseFile(t *testing.T) {
	want := []Spec{
		{
			Name: "b", Title: "Bee", Command: "/opt/b", Args: []string{"--x", "1", "true"}, Env: map[string]string{"K": "v", "N": "1"},
			EnvAllow: []string{"ANTHROPIC_*"}, Dir: "/srv", FS: "gateway", FSMaxBytes: 1 << 20, SessionsPerProcess: 3, Sandbox: "auto",
			SandboxRead: []string{"/data"}, StartTimeout: 2 * time.Minute, Prewarm: true,
			LineLimit: 1 << 20, StdinLimit: 2 << 20, PendingLimit: 512 << 10,
			MCPServers: []json.RawMessage{
				json.RawMessage(`{"name":"files","command":"npx","args":["-y","a \u003cb\u003e"],"env":[{"name":"Z","value":"1"},{"name":"A","value":"2"}],"n":12345678901234567890}`),
				json.RawMessage(`{"type":"http","name":"web","url":"https://example.org/","headers":[]}`),
			},
		},
		{Name: "a", Command: "a"},
		{Name: "z.1", Command: "z"},
	}
	for name, text := range map[string]string{
		"agents.yaml": `
# the agents
default: b
agents:
  a: {command: a}
  b:
    title: Bee
    command: /opt/b
    args: [--x, 1, true]
    env: {K: v, N: 1}
    envAllow: [ANTHROPIC_*]
    dir: /srv
    fs: gateway
    fsMaxBytes: 1MiB
    sessionsPerProcess: 3
    sandbox: auto
    sandboxRead: [/data]
    startTimeout: 2m
    prewarm: true
    limits: {line: 1 MiB, stdin: 2097152, pending: 512KiB}
    mcpServers:
      - name: files
        command: npx
        args: [-y, "a <b>"]
        env: [{name: Z, value: "1"}, {name: A, value: "2"}]
        n: 12345678901234567890
      - {type: http, name: web, url: "https://example.org/", headers: []}
  z.1:
    command: z
`,
		"agents.json": `{
	"default": "b",
	"agents": {
		"a": {"command": "a"},
		"b": {
			"title": "Bee", "command": "/opt/b", "args": ["--x", "1", "true"], "env": {"K": "v", "N": "1"},
			"envAllow": ["ANTHROPIC_*"], "dir": "/srv", "fs": "gateway", "fsMaxBytes": 1048576, "sessionsPerProcess": 3,
			"sandbox": "auto", "sandboxRead": ["/data"], "startTimeout": "2m", "prewarm": true,
			"limits": {"line": "1MiB", "stdin": "2MiB", "pending": "512KiB"},
			"mcpServers": [
				{"name": "files", "command": "npx", "args": ["-y", "a \u003cb>"], "env": [{"name": "Z", "value": "1"}, {"name": "A", "value": "2"}], "n": 12345678901234567890},
				{"type": "http", "name": "web", "url": "https:\/\/example.org/", "headers": []}
			]
		},
		"z.1": {"command": "z"}
	}
}`,
	} {
		got, err := ParseFile(name, []byte(text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// Every problem is reported, with its file, line and field.
func TestParseFileProblems(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "f:1: must be one document with agents"},
		{"agents: {}\n", "f:1: agents: must name at least one agent"},
		{"agents:\n", "f:1: agents: must not be empty"},
		{"- a\n", "f:1: must be a mapping"},
		{"agents: {a: {command: x}}\n---\nagents: {}\n", "f:1: must be one document with agents"},
		{"agents:\n  a: {command: x}\n  a: {command: y}\n", "f:3: mapping key \"a\" already defined at [2:3]"},
		{"agents:\n  a:\n    command: x\n    command: y\n", "f:4: mapping key \"command\" already defined at [3:5]"},
		{`{"agents":{"a":{"command":"x","command":"y"}}}`, "f:1: mapping key \"command\" already defined at [1:17]"},
		{"agents:\n  a: {command: x\n", "f:2: "},
		{"default: b\nagents:\n  a: {command: x}\n", "f:1: default: names no agent of this file (got \"b\")"},
		{"agents:\n  a: &x {command: x}\n  b: *x\n", "f:2: agents.a: anchors and aliases are not supported\nf:3: agents.b: anchors and aliases are not supported"},
		{
			"agents:\n  a:\n    command: x\n    comand: y\n    limits: {lines: 1}\nother: 1\n",
			"f:4: agents.a.comand: unknown field\nf:5: agents.a.limits.lines: unknown field\nf:6: other: unknown field",
		},
		{
			"agents:\n  a:\n    args: x\n    startTimeout: 90\n    fsMaxBytes: lots\n    prewarm: maybe\n    mcpServers: {a: b}\n    sessionsPerProcess: -x\n",
			"f:3: agents.a.args: ",
		},
		{
			"agents:\n  a:\n    startTimeout: 90\n    fsMaxBytes: lots\n    limits:\n      line: -1\n",
			"f:3: agents.a.startTimeout: must be a time with a unit such as 90s (got 90)\n" +
				"f:4: agents.a.fsMaxBytes: must be a number of bytes such as 64MiB (got \"lots\")\n" +
				"f:6: agents.a.limits.line: must be a number of bytes such as 64MiB (got -1)",
		},
		{
			"agents:\n  Bad:\n    args: [x]\n    sandbox: chroot\n    fs: client\n    dir: here\n    envAllow: [ACPGATE_*, '*']\n    env: {A B: 1}\n" +
				"    mcpServers: [{name: x}, {command: y}, {type: ws, name: z}, 7]\n    sandboxRead: [x]\n    limits: {line: 1}\n    sessionsPerProcess: -1\n",
			"f:2: agents.Bad.name: must match ^[a-z0-9][a-z0-9._-]{0,63}$ (got \"Bad\")\n" +
				"f:2: agents.Bad.command: must not be empty\n" +
				"f:8: agents.Bad.env: not a name that an agent can have (got \"A B\")\n" +
				"f:7: agents.Bad.envAllow: variables of the gateway are never copied (got \"ACPGATE_*\")\n" +
				"f:7: agents.Bad.envAllow: must be a variable name or PREFIX_* (got \"*\")\n" +
				"f:6: agents.Bad.dir: must be absolute (got \"here\")\n" +
				"f:9: agents.Bad.mcpServers: entry 1: command must not be empty\n" +
				"f:9: agents.Bad.mcpServers: entry 2: name must not be empty\n" +
				"f:9: agents.Bad.mcpServers: entry 3: type must be stdio, http or sse (got \"ws\")\n" +
				"f:9: agents.Bad.mcpServers: entry 4: must be an object with name, and command or type and url, as texts\n" +
				"f:5: agents.Bad.fs: must be \"gateway\" or absent (got \"client\")\n" +
				"f:4: agents.Bad.sandbox: must be none, auto or bwrap (got \"chroot\")\n" +
				"f:10: agents.Bad.sandboxRead: must be absolute (got \"x\")\n" +
				"f:12: agents.Bad.sessionsPerProcess: must not be negative (got -1)\n" +
				"f:11: agents.Bad.limits.line: must be 65536 to 1073741824 bytes (got 1)",
		},
	} {
		specs, err := ParseFile("f", []byte(c.text))
		if err == nil {
			t.Errorf("%s: accepted as %+v", c.text, specs)
			continue
		}
		if got := err.Error(); got != c.want && !(strings.HasSuffix(c.want, ": ") && strings.HasPrefix(got, c.want)) {
			t.Errorf("%s:\ngot  %s\nwant %s", c.text, got, c.want)
		}
	}
}

func TestReadFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "agents.yaml")
	if _, err := ReadFile(file); err == nil || !strings.Contains(err.Error(), "agents file") {
		t.Errorf("missing file: %v", err)
	}
	if err := os.WriteFile(file, []byte("agents: {a: {command: x}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if specs, err := ReadFile(file); err != nil || len(specs) != 1 {
		t.Errorf("%v, %v", specs, err)
	}
}

func TestParseSize(t *testing.T) {
	for in, want := range map[string]int64{"0": 0, "17": 17, "17B": 17, "3KiB": 3072, "64 MiB": 64 << 20, "1GiB": 1 << 30, "8589934591GiB": 8589934591 << 30} {
		if got, err := ParseSize(in); err != nil || got != want {
			t.Errorf("%s: %d, %v", in, got, err)
		}
	}
	for _, in := range []string{"", "-1", "1.5MiB", "1MB", "MiB", "8589934592GiB", "9223372036854775808", "0x10"} {
		if got, err := ParseSize(in); err == nil {
			t.Errorf("%s: accepted as %d", in, got)
		}
	}
}

func TestConfigValidate(t *testing.T) {
	good := Config{Specs: []Spec{{Name: "a", Command: "x"}}, Supervisor: []string{"x"}, Roots: []string{"/"}, StateDir: "/s"}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	bad := Config{
		Specs: []Spec{{Name: "a", Command: "x"}, {Name: "a"}}, Roots: []string{"rel"}, EnvAllow: []string{"A-B"},
		MaxProcesses: -1, IdleTimeout: -1, RestartMin: time.Hour,
	}
	want := `agents.a.command: must not be empty
Specs: two agents have one name (got "a")
Supervisor: must not be empty
Roots: must be absolute (got "rel")
StateDir: must be absolute (got "")
EnvAllow: must be a variable name or PREFIX_* (got "A-B")
MaxProcesses: must not be negative (got -1)
IdleTimeout: must not be negative (got -1ns)
RestartMin: must not be over RestartMax (got 1h0m0s over 1m0s)`
	if err := bad.Validate(); err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
	if _, err := New(bad); err == nil {
		t.Error("New accepted it")
	}
	if err := (Config{}).Validate(); err == nil || !strings.Contains(err.Error(), "Specs: must name at least one agent") {
		t.Errorf("empty config: %v", err)
	}
}

func TestT3_Environment(t *testing.T) {
	gateway := []string{
		"PATH=/p", "HOME=/gw", "LC_ALL=C", "LC_=x", "XDG_CONFIG_HOME=/gw/.config", "TERM=xterm", "https_proxy=p", "SSL_CERT_FILE=/c",
		"ACPGATE_TOKEN=secret", "ACPGATE_TREE=old", "AWS_SECRET=s", "ANTHROPIC_API_KEY=k", "ANTHROPIC_MODEL=m", "NODE_EXTRA_CA_CERTS=/n", "BAD",
	}
	usual := []string{"LC_=x", "LC_ALL=C", "NODE_EXTRA_CA_CERTS=/n", "PATH=/p", "SSL_CERT_FILE=/c", "TERM=xterm", "https_proxy=p"}
	for name, c := range map[string]struct {
		allow []string
		set   map[string]string
		home  string
		want  []string
	}{
		"own home":    {home: "/h", want: append([]string{"HOME=/h"}, usual...)},
		"shared home": {want: append([]string{"HOME=/gw", "XDG_CONFIG_HOME=/gw/.config"}, usual...)},
		"allowed": {
			allow: []string{"ANTHROPIC_*", "ACPGATE_*"}, set: map[string]string{"TERM": "dumb", "NEW": "1"}, home: "/h",
			want: []string{
				"ANTHROPIC_API_KEY=k", "ANTHROPIC_MODEL=m", "HOME=/h", "LC_=x", "LC_ALL=C", "NEW=1", "NODE_EXTRA_CA_CERTS=/n", "PATH=/p",
				"SSL_CERT_FILE=/c", "TERM=dumb", "https_proxy=p",
			},
		},
	} {
		got := agentEnv(gateway, c.allow, c.set, c.home)
		less := func(a, b string) bool { return a < b }
		if diff := cmp.Diff(sorted(c.want, less), got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	if got := agentEnv(nil, nil, nil, "/h"); lookEnv(got, "PATH") != defaultPath || lookEnv(got, "NONE") != "" {
		t.Errorf("no PATH: %q", got)
	}
}

func sorted(in []string, less func(a, b string) bool) []string {
	out := append([]string(nil), in...)
	for i := range out {
		for j := i; j > 0 && less(out[j], out[j-1]); j-- {
			out[j], out[j-1] = out[j-1], out[j]
		}
	}
	return out
}

func TestT3_HomesOfPrincipals(t *testing.T) {
	seen := map[string]bool{}
	for _, principal := range []string{"ann", "bob@example.org", "..", ".", "", "a/b", "Ann", ".hidden", "~x", "a\x00b", strings.Repeat("l", 200), "ünï"} {
		name := fileName(principal)
		if seen[strings.ToLower(name)] || name != filepath.Base(name) || strings.HasPrefix(name, ".") || len(name) > 64 {
			t.Errorf("%q: %q", principal, name)
		}
		seen[strings.ToLower(name)] = true
	}
	if fileName("ann") != "ann" || fileName("bob@example.org") != "bob@example.org" {
		t.Error("plain names stay")
	}
	dir := t.TempDir()
	home, err := homeDir(dir, "../x")
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(home); err != nil || info.Mode().Perm() != 0o700 || filepath.Dir(home) != filepath.Join(dir, "homes") {
		t.Errorf("%s: %v, %v", home, info.Mode(), err)
	}
}

func TestLookCommand(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"tool": 0o755, "data": 0o644} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	for _, c := range []struct{ command, path, want string }{
		{"tool", "/nope:" + dir, filepath.Join(dir, "tool")},
		{"./tool", "", filepath.Join(dir, "tool")},
		{filepath.Join(dir, "tool"), "", filepath.Join(dir, "tool")},
		{"data", dir, ""},
		{"./data", "", ""},
		{"./", "", ""},
		{"tool", ".:", ""}, // relative entries are not searched
		{"none", dir, ""},
	} {
		got, err := lookCommand(c.command, c.path)
		if (err == nil) != (c.want != "") || err == nil && got != c.want {
			t.Errorf("%s in %s: %s, %v", c.command, c.path, got, err)
		}
	}
}
