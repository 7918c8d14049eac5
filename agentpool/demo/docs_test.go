package demo

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

func TestReadme_DirectivesAndExampleAreReal(t *testing.T) {
	b, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	readme := string(b)
	_, table, _ := strings.Cut(readme, "| directive | effect |")
	table, _, _ = strings.Cut(table, "\n\n")
	documented := regexp.MustCompile("`([A-Z]+)[^`]*`").FindAllStringSubmatch(table, -1)
	if len(documented) < 25 {
		t.Errorf("%d directives in the table", len(documented))
	}
	for _, d := range documented {
		if name := d[1]; act(name) == nil && name != "ECHO" {
			t.Errorf("%s is no directive", name)
		}
	}
	_, example, _ := strings.Cut(readme, "    # an agent that streams")
	if _, err := parseScript("# " + strings.ReplaceAll(example, "\n    ", "\n")); err != nil || !strings.Contains(example, "burst") {
		t.Errorf("example script: %v", err)
	}
	for _, c := range commands() {
		if act(strings.ToUpper(c.Name)) == nil {
			t.Errorf("/%s has no directive", c.Name)
		}
	}
}

func TestHelp_NamesRealDirectives(t *testing.T) {
	for _, d := range regexp.MustCompile("`([A-Z]{3,})[^`]*`").FindAllStringSubmatch(helpText+welcome, -1) {
		if act(d[1]) == nil {
			t.Errorf("%s is no directive", d[1])
		}
	}
}
