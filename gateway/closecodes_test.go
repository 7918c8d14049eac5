package gateway

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the copies of the close-code table")

// mirror checks that the part of a file between two marks is want, or writes it. Without marks it is the whole file.
func mirror(t *testing.T, file, from, to, want string) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil && !*update {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(b), from)
	have, after, ok2 := strings.Cut(rest, to)
	if from == "" {
		before, have, after, ok, ok2 = "", string(b), "", true, true
	}
	if !ok || !ok2 {
		t.Fatalf("%s: no marks %q and %q", file, from, to)
	}
	if have == want {
		return
	}
	if !*update {
		t.Errorf("%s differs from the table in closecodes.go; run: go test ./gateway -run CloseCodes -update", file)
		return
	}
	if err := os.WriteFile(file, []byte(before+from+want+to+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestW11_CloseCodesAreMirrored(t *testing.T) {
	var md strings.Builder
	md.WriteString("\n| code | name | advice | |\n|---|---|---|---|\n")
	for _, c := range CloseCodes() {
		fmt.Fprintf(&md, "| %d | `%s` | %s | %s |\n", c.Code, c.Name, c.Advice, c.Meaning)
	}
	js, err := json.MarshalIndent(CloseCodes(), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	mirror(t, "README.md", "<!-- close codes: written by go test ./gateway -run CloseCodes -update -->", "<!-- end of close codes -->", md.String())
	mirror(t, filepath.Join("..", "web", "src", "closecodes.json"), "", "", string(js)+"\n")
}

func TestW11_CloseCodesTable(t *testing.T) {
	table := CloseCodes()
	if !slices.IsSortedFunc(table, func(a, b CloseCode) int { return a.Code - b.Code }) {
		t.Error("the table is not in order")
	}
	names := map[string]bool{}
	for _, c := range table {
		if names[c.Name] || c.Name == "" || c.Meaning == "" || (c.Advice != Now && c.Advice != Later && c.Advice != Never) {
			t.Errorf("row %+v", c)
		}
		names[c.Name] = true
		if closeName(c.Code) != c.Name {
			t.Errorf("label of %d: %s", c.Code, closeName(c.Code))
		}
	}
	for _, code := range []int{codeTooBig, codeRestart, codeLagging, codeSignedOut, codePingTimeout} {
		if closeName(code) == "other" {
			t.Errorf("the gateway sends %d, which is not in the table", code)
		}
	}
}

// Every reason word that the code can give is in the reference.
func TestW9_ReasonWordsAreDocumented(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	words := []*regexp.Regexp{
		regexp.MustCompile(`Reason:?\s*[:=]\s*"([a-z_]+)"`), regexp.MustCompile(`errInvalid\("([a-z_]+)"`),
		regexp.MustCompile(`refuse\([A-Za-z.]+, "([a-z_]+)"`), regexp.MustCompile(`reason[A-Z][A-Za-z]*\s*=\s*"([a-z_]+)"`),
		regexp.MustCompile(`return "(b[a-z]+_[a-z0-9]+|too_deep|duplicate_key|batch|not_jsonrpc)"`),
	}
	found := 0
	for _, dir := range []string{".", "auth", "../sessions", "../agentpool", "../agentpool/wire"} {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			src, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, re := range words {
				for _, m := range re.FindAllStringSubmatch(string(src), -1) {
					found++
					if !strings.Contains(string(readme), "`"+m[1]+"`") {
						t.Errorf("%s gives reason %q, which README.md does not explain", file, m[1])
					}
				}
			}
		}
	}
	if found < 50 {
		t.Errorf("only %d reason words were found: the patterns of this test are out of date", found)
	}
}
