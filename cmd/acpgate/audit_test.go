package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestT6_AuditLogIsJSONLinesForItsOwner(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	for _, user := range []string{"ann", "bob"} { // a restart appends
		f, err := openAudit(path, auditBytes)
		if err != nil {
			t.Fatal(err)
		}
		newAuditLogger(f).Info("login", "principal", user)
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	if len(lines) != 2 {
		t.Fatalf("%d lines: %s", len(lines), b)
	}
	for i, user := range []string{"ann", "bob"} {
		var got map[string]any
		if err := json.Unmarshal([]byte(lines[i]), &got); err != nil {
			t.Fatal(err)
		}
		if got["msg"] != "login" || got["principal"] != user || got["time"] == nil || got["level"] != nil {
			t.Errorf("line %d: %v", i, got)
		}
	}
}

func TestT6_AuditLogIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	f, err := openAudit(path, 100)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	line := strings.Repeat("x", 39) + "\n"
	for range 7 { // 2 fit in a file, so 3 files and a line
		if n, err := f.Write([]byte(line)); n != len(line) || err != nil {
			t.Fatal(n, err)
		}
	}
	for name, want := range map[string]int{path: 1, path + ".1": 2} {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Count(string(b), "\n"); got != want {
			t.Errorf("%s has %d lines, want %d", filepath.Base(name), got, want)
		}
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 2 {
		t.Errorf("%d files, %v", len(entries), err)
	}
}

func TestT6_AuditLogGrowsOnWhenItCannotBeSetAside(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	if err := os.MkdirAll(filepath.Join(path+".1", "in-the-way"), 0o700); err != nil {
		t.Fatal(err)
	}
	f, err := openAudit(path, 10)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for range 3 {
		if _, err := f.Write([]byte("123456789\n")); err != nil {
			t.Fatal(err)
		}
	}
	if b, err := os.ReadFile(path); err != nil || strings.Count(string(b), "\n") != 3 {
		t.Errorf("%q, %v", b, err)
	}
}
