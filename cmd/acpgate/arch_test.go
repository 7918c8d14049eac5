package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The house of acpgate: which folders there are, who may import whom, and where each dependency lives. Every rule says
// why. A rule that stands in the way is changed here, with its reason, and not worked around.

const module = "github.com/acpgate/acpgate"

// layers lists, for each package, the packages of this module that it may import.
var layers = map[string]struct {
	imports []string
	reason  string
}{
	"agentpool/wire":            {nil, "the leaf: frames are parsed below everything else, so anything may use it"},
	"sessions/journal":          {[]string{"agentpool/wire"}, "ordered events know nothing of views, processes or sockets"},
	"sessions":                  {[]string{"agentpool/wire", "sessions/journal"}, "the mind declares the interfaces it needs and is tested without processes, sockets or disks"},
	"sessions/internal/segment": {[]string{"sessions/journal"}, "how journals are packed, for every store"},
	"sessions/internal/watch":   {[]string{"sessions"}, "how watchers are told, for every store"},
	"sessions/storetest":        {storeImports, "one contract for all stores, and the simplest store that keeps it"},
	"sessions/sqlitestore":      {storeImports, "a store implements the interface of sessions and decides nothing: rules are written once, in sessions"},
	"sessions/redisstore":       {storeImports, "a store implements the interface of sessions and decides nothing: rules are written once, in sessions"},
	"agentpool":                 {[]string{"agentpool/wire", "sessions"}, "processes implement the interfaces of sessions and know nothing of HTTP"},
	"agentpool/demo":            {nil, "the demo agent is an agent like any other: a program on stdin and stdout that cannot see inside the gateway"},
	"agentpool/agenttest":       {[]string{"agentpool/wire", "sessions"}, "the in-memory agent stands in for agentpool, so it must not need it"},
	"gateway/auth":              {nil, "who you are is decided without knowing what you want"},
	"gateway":                   {[]string{"agentpool/wire", "sessions", "gateway/auth"}, "the HTTP face speaks to the mind only: a process is somebody else's business"},
	"web":                       {nil, "the page is files; everything it knows comes over the wire"},
	"cmd/acpgate": {
		[]string{"agentpool", "agentpool/demo", "gateway", "gateway/auth", "sessions", "sessions/journal", "sessions/sqlitestore", "sessions/redisstore", "web"},
		"the one place where the parts meet",
	},
	"deploy/bench": {
		[]string{"agentpool", "gateway", "gateway/auth", "sessions", "sessions/sqlitestore", "sessions/redisstore"},
		"the benchmark runs the parts as the command does, beside the simplest programs that could do their job",
	},
}

var storeImports = []string{"sessions", "sessions/journal", "sessions/internal/segment", "sessions/internal/watch"}

// homes says which packages may import a dependency, without their tests. Standard library packages are listed where
// using one means taking on a duty.
var homes = []struct {
	dependency string
	packages   []string
	reason     string
}{
	{"github.com/go-chi/chi", []string{"gateway", "gateway/auth"}, "routing is the HTTP face's business"},
	{"github.com/coder/websocket", []string{"gateway", "deploy/bench"}, "one place knows frames, pings and close codes"},
	{"github.com/coder/acp-go-sdk", []string{"agentpool/demo", "agentpool/agenttest", "gateway"}, "typed ACP only where acpgate itself speaks it: decoding what passes through would lose unknown fields"},
	{"github.com/go-json-experiment/json", []string{"agentpool/wire"}, "one scanner, so that no two parts read a frame differently"},
	{"github.com/goccy/go-yaml", []string{"agentpool"}, "the agents file is the only YAML"},
	{"github.com/redis/go-redis", []string{"sessions/redisstore", "cmd/acpgate"}, "one store speaks Redis; the command opens the connection"},
	{"modernc.org/sqlite", []string{"sessions/sqlitestore"}, "one store speaks SQL"},
	{"github.com/alecthomas/kong", []string{"cmd/acpgate"}, "flags are read once and handed on as Config values"},
	{"github.com/prometheus/client_golang", []string{"gateway", "cmd/acpgate"}, "metrics are exposed by the HTTP face; other parts count and are asked"},
	{"os/exec", []string{"agentpool", "sessions/storetest", "deploy/bench"}, "every process of the product hangs on a supervisor, so that none survives the gateway"},
	{"log", nil, "log/slog carries levels and fields"},
	{"github.com/google/go-cmp", nil, "for tests"},
	{"github.com/rogpeppe/go-internal", nil, "for tests"},
	{"go.uber.org/goleak", nil, "for tests"},
}

// hidden are the dependencies that no exported declaration may mention: whoever uses a package would have to use them too.
var hidden = []string{
	"github.com/go-chi/chi", "github.com/coder/websocket", "github.com/coder/acp-go-sdk", "github.com/go-json-experiment/json",
	"github.com/goccy/go-yaml", "github.com/alecthomas/kong", "modernc.org/sqlite",
}

// topLevel are the folders of the house. A new part belongs into one of them.
var topLevel = []string{"agentpool", "cmd", "deploy", "gateway", "sessions", "web"}

const (
	mainFile  = "cmd/acpgate/main.go"
	mainLines = 30 // main.go starts the program and nothing else
	fileLines = 450
	testLines = 700 // tables are long
)

func TestHouse_TopLevelFolders(t *testing.T) {
	root := repoRoot(t)
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") && !slices.Contains(topLevel, e.Name()) && holdsFiles(t, filepath.Join(root, e.Name())) {
			t.Errorf("%s/: not a folder of the house; the parts live in %s", e.Name(), strings.Join(topLevel, ", "))
		}
	}
	for _, dir := range topLevel {
		if _, err := os.Stat(filepath.Join(root, dir)); err != nil {
			t.Errorf("%s/: missing", dir)
		}
	}
}

func TestHouse_Rules(t *testing.T) {
	files := sources(t)
	for _, rule := range houseRules {
		for _, problem := range rule(files) {
			t.Error(problem)
		}
	}
}

// houseRules are the rules on source files; each returns what it finds wrong.
var houseRules = []func([]source) []string{
	everyPackageHasARule, arrowsRunOneWay, dependenciesHaveAHome, exportedAPIShowsNoDependency, noInit, oneExit, fileSizes,
}

func everyPackageHasARule(files []source) (problems []string) {
	for _, f := range files {
		if _, ok := layers[f.pkg]; !ok && !f.test {
			problems = append(problems, fmt.Sprintf("%s: package %s has no rule in layers", f.path, f.pkg))
		}
	}
	return problems
}

func arrowsRunOneWay(files []source) (problems []string) {
	for _, f := range files {
		if f.test {
			continue
		}
		rule := layers[f.pkg]
		for _, imported := range f.imports() {
			rest, ours := strings.CutPrefix(imported, module+"/")
			if ours && !slices.Contains(rule.imports, rest) {
				problems = append(problems, fmt.Sprintf("%s imports %s: %s may import %v of this module: %s", f.path, rest, f.pkg, rule.imports, rule.reason))
			}
		}
	}
	return problems
}

func dependenciesHaveAHome(files []source) (problems []string) {
	for _, f := range files {
		if f.test {
			continue
		}
		for _, imported := range f.imports() {
			for _, home := range homes {
				if within(imported, home.dependency) && !slices.Contains(home.packages, f.pkg) {
					problems = append(problems, fmt.Sprintf("%s imports %s, which lives in %v: %s", f.path, imported, home.packages, home.reason))
				}
			}
		}
	}
	return problems
}

func exportedAPIShowsNoDependency(files []source) (problems []string) {
	for _, f := range files {
		if f.test || f.pkg == "cmd/acpgate" {
			continue
		}
		f.exported(func(where string, expr ast.Expr) {
			f.selectors(expr, func(imported, name string) {
				for _, dependency := range hidden {
					if within(imported, dependency) {
						problems = append(problems, fmt.Sprintf("%s: exported %s shows %s of %s: an API must not hand on a dependency", f.path, where, name, imported))
					}
				}
			})
		})
	}
	return problems
}

func noInit(files []source) (problems []string) {
	for _, f := range files {
		for _, decl := range f.ast.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
				problems = append(problems, f.path+": has an init function: what happens at start is written in serve.go, in order")
			}
		}
	}
	return problems
}

func oneExit(files []source) (problems []string) {
	for _, f := range files {
		if f.test || f.ast.Name.Name == "main" && path.Base(f.path) == "main.go" {
			continue
		}
		f.selectors(f.ast, func(imported, name string) {
			if imported == "os" && name == "Exit" {
				problems = append(problems, f.path+": calls os.Exit: only main may, since deferred calls are lost")
			}
		})
	}
	return problems
}

func fileSizes(files []source) (problems []string) {
	for _, f := range files {
		limit := fileLines
		if f.test {
			limit = testLines
		}
		if f.path == mainFile {
			limit = mainLines
		}
		if lines := bytes.Count(f.text, []byte("\n")); lines > limit {
			problems = append(problems, fmt.Sprintf("%s: %d lines, at most %d: a file does one thing", f.path, lines, limit))
		}
	}
	return problems
}

// TestHouse_RulesBite breaks every rule once.
func TestHouse_RulesBite(t *testing.T) {
	long := strings.Repeat("\n", fileLines+1)
	for _, tc := range []struct {
		rule       func([]source) []string
		path, text string
		want       string
	}{
		{everyPackageHasARule, "gateway/extra/x.go", "package extra", "package gateway/extra has no rule"},
		{arrowsRunOneWay, "sessions/x.go", `package sessions; import "` + module + `/agentpool"`, "sessions/x.go imports agentpool"},
		{arrowsRunOneWay, "agentpool/wire/x.go", `package wire; import "` + module + `/sessions"`, "imports sessions: agentpool/wire may import []"},
		{dependenciesHaveAHome, "sessions/x.go", `package sessions; import "github.com/go-chi/chi/v5"`, "imports github.com/go-chi/chi/v5, which lives in"},
		{dependenciesHaveAHome, "gateway/x.go", `package gateway; import "os/exec"`, "every process of the product hangs on a supervisor"},
		{dependenciesHaveAHome, "agentpool/x.go", `package agentpool; import "go.uber.org/goleak"`, "for tests"},
		{exportedAPIShowsNoDependency, "gateway/x.go", `package gateway; import "github.com/go-chi/chi/v5"; func F() chi.Router { return nil }`, "exported func F shows Router"},
		{exportedAPIShowsNoDependency, "gateway/x.go", `package gateway; import ws "github.com/coder/websocket"; type T struct { C []*ws.Conn }`, "exported type T shows Conn"},
		{exportedAPIShowsNoDependency, "gateway/x.go", `package gateway; import "github.com/coder/websocket"; type T struct { *websocket.Conn }`, "exported type T shows Conn"},
		{exportedAPIShowsNoDependency, "gateway/x.go", `package gateway; import "github.com/coder/websocket"; type I interface { M() websocket.StatusCode }`, "exported type I shows StatusCode"},
		{exportedAPIShowsNoDependency, "gateway/x.go", `package gateway; import "github.com/coder/websocket"; var V websocket.StatusCode`, "exported var V shows StatusCode"},
		{noInit, "web/x.go", "package web; func init() {}", "has an init function"},
		{oneExit, "web/x.go", `package web; import "os"; func f() { os.Exit(1) }`, "calls os.Exit"},
		{fileSizes, "web/x.go", "package web" + long, "at most 450"},
		{fileSizes, mainFile, "package main" + long[:mainLines+1], "at most 30"},
	} {
		problems := tc.rule([]source{parseSource(t, tc.path, []byte(tc.text))})
		if !slices.ContainsFunc(problems, func(p string) bool { return strings.Contains(p, tc.want) }) {
			t.Errorf("%s: %q gives %q, want %q", tc.path, tc.text[:min(80, len(tc.text))], problems, tc.want)
		}
	}
	// What a rule allows, it lets pass.
	for _, text := range []string{
		`package gateway; import "github.com/coder/websocket"; type T struct { c *websocket.Conn }`,
		`package gateway; import "github.com/coder/websocket"; func (c *conn) Write(m websocket.MessageType) {}`,
		`package gateway; import "` + module + `/sessions"`,
	} {
		for _, rule := range houseRules[1:] {
			if problems := rule([]source{parseSource(t, "gateway/x.go", []byte(text))}); len(problems) > 0 {
				t.Errorf("%q gives %q", text, problems)
			}
		}
	}
}
