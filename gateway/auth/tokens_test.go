package auth_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/acpgate/acpgate/gateway/auth"
)

func TestT1_NamedTokensAreKeptHashed(t *testing.T) {
	dir := t.TempDir()
	token, err := auth.AddToken(dir, "ci")
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(dir, "tokens.json"))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(b), token) {
		t.Error("the list holds the token itself")
	}
	if info, err := os.Stat(filepath.Join(dir, "tokens.json")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if _, err := auth.AddToken(dir, "ci"); err == nil {
		t.Error("a second token of one name was made")
	}
	list, err := auth.ListTokens(dir)
	if err != nil || len(list) != 1 || list[0].Name != "ci" || list[0].Created.IsZero() {
		t.Errorf("list: %+v, %v", list, err)
	}
	if err := auth.RemoveToken(dir, "nope"); !errors.Is(err, auth.ErrNoToken) {
		t.Errorf("removing an unknown name: %v", err)
	}
	if err := auth.RemoveToken(dir, "ci"); err != nil {
		t.Fatal(err)
	}
	if list, err := auth.ListTokens(dir); err != nil || len(list) != 0 {
		t.Errorf("list after removal: %+v, %v", list, err)
	}
}

func TestT1_TokenNames(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"", "local", ".", "..", "-x", "a/b", "a b", "ä", strings.Repeat("a", 65), "a\n"} {
		if _, err := auth.AddToken(dir, name); err == nil || !strings.HasPrefix(err.Error(), "name: ") {
			t.Errorf("name %q: %v", name, err)
		}
	}
	for _, name := range []string{"a", "ann@example.org", "ci-1_2.3+x"} {
		if _, err := auth.AddToken(dir, name); err != nil {
			t.Errorf("name %q: %v", name, err)
		}
	}
}

func TestT1_TwoCommandsAtOnceLoseNothing(t *testing.T) {
	dir := t.TempDir()
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			if _, err := auth.AddToken(dir, fmt.Sprintf("user%d", i)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if list, err := auth.ListTokens(dir); err != nil || len(list) != 20 {
		t.Errorf("%d tokens, %v; want 20", len(list), err)
	}
}

func TestT1_BadFilesAreNamed(t *testing.T) {
	for _, tt := range []struct{ file, content, want string }{
		{"token", "short\n", "at least 16 characters"},
		{"token", "two words are no token", "no white space"},
		{"tokens.json", "{", "not a token list"},
		{"tokens.json", `{"v":1,"tokens":[],"x":1}`, "not a token list"},
		{"tokens.json", `{"v":2,"tokens":[]}`, "another version"},
		{"tokens.json", `{"v":1,"tokens":[{"name":"a","sha256":"00","created":"2026-01-01T00:00:00Z"}]}`, "no SHA-256"},
		{"tokens.json", `{"v":1,"tokens":[{"name":"local","sha256":"` + strings.Repeat("0", 64) + `","created":"2026-01-01T00:00:00Z"}]}`, "first token"},
		{"cookie.key", "tiny", "must have 32 bytes (got 4)"},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, tt.file)
		if err := os.WriteFile(path, []byte(tt.content), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := auth.New(auth.Config{StateDir: dir})
		if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s with %q: error %v does not name the file and %q", tt.file, tt.content, err, tt.want)
		}
		if b, err := os.ReadFile(path); err != nil || string(b) != tt.content {
			t.Errorf("%s was changed to %q (%v)", tt.file, b, err)
		}
	}
}

func TestT1_ABrokenListKeepsTheLastOne(t *testing.T) {
	dir := t.TempDir()
	a := open(t, auth.Config{StateDir: dir})
	token, err := auth.AddToken(dir, "ann")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Login(request(), token); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "tokens.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Login(request(), token); err != nil {
		t.Errorf("a half-written list locked ann out: %v", err)
	}
}
