package sessions_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Every field and method of ours that the transcripts of testdata/wire and the tests' clients have seen is in the wire
// reference.
func TestDocs_EveryFieldOnTheWireIsDocumented(t *testing.T) {
	doc, err := os.ReadFile("../gateway/README.md")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("testdata/wire/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	fields := map[string]string{}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(b)) {
			who, frame, ok := strings.Cut(strings.TrimSpace(line), "< ")
			if !ok || len(who) != 1 {
				continue
			}
			// Names that the transcripts write in place of numbers and lists.
			frame = epochName.ReplaceAllString(strings.ReplaceAll(frame, "[…]", "[]"), `"epoch":0`)
			var m map[string]any
			if json.Unmarshal([]byte(frame), &m) != nil {
				continue
			}
			ours(m, "", file, fields)
		}
	}
	if len(fields) < 25 {
		t.Fatalf("only %d fields were seen: %v", len(fields), fields)
	}
	for f, file := range fields {
		if !strings.Contains(string(doc), "`"+f+"`") && !strings.Contains(string(doc), f+",") && !strings.Contains(string(doc), f+"?") && !strings.Contains(string(doc), f+":") && !strings.Contains(string(doc), f+"}") {
			t.Errorf("%s, seen in %s, is not in gateway/README.md", f, filepath.Base(file))
		}
	}
}

// ours collects the names of members below _meta.acpgate and of the params of our methods.
func ours(v any, under, file string, out map[string]string) {
	switch x := v.(type) {
	case []any:
		for _, e := range x {
			ours(e, under, file, out)
		}
	case map[string]any:
		method, _ := x["method"].(string)
		for k, e := range x {
			next := under
			switch {
			case k == "acpgate":
				next = "meta"
			case k == "params" && strings.HasPrefix(method, "_acpgate/"):
				out[method] = file
				next = "params"
			case under == "params" && k == "_meta":
				next = ""
			case under != "":
				out[k] = file
				if k == "error" { // of the agent or JSON-RPC
					next = ""
				}
			}
			ours(e, next, file, out)
		}
	}
}
