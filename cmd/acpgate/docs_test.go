package main

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/acpgate/acpgate/agentpool"
)

// fencedBlocks are the blocks of a language in a Markdown text, in order.
func fencedBlocks(text, language string) []string {
	var out []string
	for _, m := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```$").FindAllStringSubmatch(text, -1) {
		out = append(out, m[1])
	}
	return out
}

func readRepoFile(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(repoRoot(t), name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestReadme_FirstCommands(t *testing.T) {
	blocks := fencedBlocks(readRepoFile(t, "README.md"), "sh")
	if len(blocks) == 0 || blocks[0] != "go run ./cmd/acpgate\nsh deploy/check.sh\n" {
		t.Errorf("the first shell block of README.md must hold the two commands to run and to test, got %q", blocks)
	}
}

func TestReadme_AgentsFileIsValid(t *testing.T) {
	blocks := fencedBlocks(readRepoFile(t, "README.md"), "yaml")
	if len(blocks) == 0 {
		t.Fatal("README.md has no agents file")
	}
	for _, block := range blocks {
		if _, err := agentpool.ParseFile("README.md", []byte(block)); err != nil {
			t.Error(err)
		}
	}
}

// TestReadme_AgentFlagsAreValid checks every --agent value of the tables and examples.
func TestReadme_AgentFlagsAreValid(t *testing.T) {
	values := regexp.MustCompile(`\b[a-z]+="[^"\n]+"`).FindAllString(readRepoFile(t, "README.md"), -1)
	if len(values) < 5 {
		t.Fatalf("found only %q", values)
	}
	for _, value := range values {
		if _, err := agentpool.ParseFlag(strings.ReplaceAll(value, `"`, "")); err != nil {
			t.Errorf("%s: %v", value, err)
		}
	}
}

// TestReadme_FlagsExist looks for flags in every guide that the command does not have.
func TestReadme_FlagsExist(t *testing.T) {
	var help strings.Builder
	if code := run(context.Background(), []string{"--help"}, &help, &help); code != exitOK {
		t.Fatalf("exit code %d", code)
	}
	flags := regexp.MustCompile("(?m)`(?:--|acpgate )[^`\n]*`|^    acpgate .*$")
	quoted := regexp.MustCompile(`"[^"]*"`) // commands of agents have flags of their own
	name := regexp.MustCompile("[\\s`]--([a-z][a-z-]*)")
	for _, guide := range []string{"README.md", "cmd/acpgate/README.md"} {
		found := 0
		for _, code := range flags.FindAllString(readRepoFile(t, guide), -1) {
			for _, m := range name.FindAllStringSubmatch(quoted.ReplaceAllString(code, ""), -1) {
				found++
				if !strings.Contains(help.String(), "  --"+m[1]) && m[1] != "help" {
					t.Errorf("%s: there is no flag --%s", guide, m[1])
				}
			}
		}
		if found == 0 {
			t.Errorf("%s mentions no flag", guide)
		}
	}
}

// TestReadme_LinksLeadSomewhere follows the relative links of all guides.
func TestReadme_LinksLeadSomewhere(t *testing.T) {
	root := repoRoot(t)
	link := regexp.MustCompile(`\]\(([^)\s#]+)[^)]*\)`)
	guides := 0
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (slices.Contains([]string{"node_modules", "testdata", "dist"}, d.Name()) || p != root && strings.HasPrefix(d.Name(), ".")) {
			return fs.SkipDir
		}
		if d.IsDir() || filepath.Ext(p) != ".md" {
			return nil
		}
		guides++
		text, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			if strings.Contains(m[1], ":") {
				continue
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(p), m[1])); err != nil {
				rel, _ := filepath.Rel(root, p)
				t.Errorf("%s: the link %s leads nowhere", rel, m[1])
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if guides < 3 {
		t.Errorf("only %d guides found", guides)
	}
}
