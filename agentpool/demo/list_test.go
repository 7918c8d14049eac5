package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

type listRow struct{ SessionID, Cwd, Title, UpdatedAt string }

// list walks all pages.
func list(t *testing.T, c *client, params obj) []listRow {
	t.Helper()
	var rows []listRow
	for {
		page, next := listPage(t, c, params)
		rows = append(rows, page...)
		if next == "" {
			return rows
		}
		params["cursor"] = next
	}
}

func listPage(t *testing.T, c *client, params obj) (rows []listRow, next string) {
	t.Helper()
	m := c.call("session/list", params)
	var r struct {
		Sessions   []listRow
		NextCursor string
	}
	if m.Error != nil || json.Unmarshal(m.Result, &r) != nil || r.Sessions == nil {
		t.Fatalf("no list: %s", m.line)
	}
	return r.Sessions, r.NextCursor
}

// filled is a store of n sessions in the current directory, which Example session n is the newest of.
func filled(t *testing.T, n int) (dir, cwd string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "store")
	if err := fillStore(context.Background(), dir, n); err != nil {
		t.Fatal(err)
	}
	cwd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	return dir, cwd
}

func TestList_PagesOfFiftyNewestFirst(t *testing.T) {
	dir, cwd := filled(t, 120)
	c := start(t, "--dir", dir, "--delay", "0s")
	c.initialize()
	p1, next1 := listPage(t, c, obj{})
	p2, next2 := listPage(t, c, obj{"cursor": next1})
	p3, next3 := listPage(t, c, obj{"cursor": next2})
	if len(p1) != 50 || len(p2) != 50 || len(p3) != 20 || next3 != "" {
		t.Fatalf("pages of %d, %d, %d, then %q", len(p1), len(p2), len(p3), next3)
	}
	for i, r := range append(append(p1, p2...), p3...) {
		at, err := time.Parse(time.RFC3339, r.UpdatedAt)
		if r.Title != fmt.Sprintf("Example session %d", 120-i) || r.Cwd != cwd || err != nil || time.Since(at) > 5*time.Minute {
			t.Fatalf("row %d: %+v", i, r)
		}
	}
	// A session that is prompted moves to the front.
	old := p3[19].SessionID
	if m := c.load(old, cwd); m.Error != nil {
		t.Fatal(m.line)
	}
	c.prompt(old, "again")
	if rows, _ := listPage(t, c, obj{}); rows[0].SessionID != old || rows[0].Title != "Example session 1" {
		t.Errorf("first %+v", rows[0])
	}
}

func TestList_KeepsToTheDirectory(t *testing.T) {
	dir, cwd := filled(t, 60)
	c := start(t, "--dir", dir, "--delay", "0s")
	c.initialize()
	other := t.TempDir()
	s := c.open(other)
	c.open(other) // never prompted: not listed
	c.prompt(s, "elsewhere")
	if rows := list(t, c, obj{"cwd": other}); len(rows) != 1 || rows[0].SessionID != s {
		t.Errorf("rows %+v", rows)
	}
	if rows := list(t, c, obj{"cwd": cwd}); len(rows) != 60 {
		t.Errorf("%d rows", len(rows))
	}
	if rows := list(t, c, obj{"cwd": "/nowhere"}); len(rows) != 0 {
		t.Errorf("rows %+v", rows)
	}
	wantError(t, c.call("session/list", obj{"cwd": "relative"}), -32602)
}

func TestList_AWalkIsStableWhileSessionsChange(t *testing.T) {
	dir, cwd := filled(t, 120)
	c := start(t, "--dir", dir, "--delay", "0s")
	c.initialize()
	p1, next := listPage(t, c, obj{})
	c.prompt(c.open(cwd), "new in the middle of the walk")
	s := store{dir}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	moved, gone := "", ""
	for _, e := range entries { // a session of the third page moves to the front, one is deleted
		id := e.Name()[:36]
		h, err := s.head(id)
		if err != nil {
			t.Fatal(err)
		}
		switch h.Title {
		case "Example session 3":
			moved = id
		case "Example session 5":
			gone = id
		}
	}
	c.load(moved, cwd)
	c.prompt(moved, "again")
	c.call("session/delete", obj{"sessionId": gone})
	seen := map[string]int{}
	for _, r := range append(p1, list(t, c, obj{"cursor": next})...) {
		seen[r.SessionID]++
	}
	if len(seen) != 119 || seen[moved] != 1 || seen[gone] != 0 {
		t.Errorf("%d rows, moved %d times, deleted %d times", len(seen), seen[moved], seen[gone])
	}
	for id, n := range seen {
		if n != 1 {
			t.Errorf("%s %d times", id, n)
		}
	}
}

func TestList_OneDirectoryReadPerWalk(t *testing.T) {
	dir, _ := filled(t, 320)
	l := newLister(store{dir})
	walk := func(from string) (rows int) {
		t.Helper()
		for {
			page, next, err := l.page("", from)
			if err != nil {
				t.Fatal(err)
			}
			if rows += len(page); next == "" {
				return rows
			}
			from = next
		}
	}
	for n := 1; n <= 3; n++ {
		if rows := walk(""); rows != 320 || l.reads != n || len(l.walks) != 0 {
			t.Fatalf("walk %d: %d rows, %d reads, %d walks kept", n, rows, l.reads, len(l.walks))
		}
	}
	// More walks than are kept: the first one goes on behind its last row with a read of its own.
	_, first, err := l.page("", "")
	if err != nil {
		t.Fatal(err)
	}
	for range maxWalks {
		if _, _, err := l.page("", ""); err != nil {
			t.Fatal(err)
		}
	}
	reads := l.reads
	if rows := walk(first); rows != 270 || l.reads != reads+1 || len(l.walks) > maxWalks {
		t.Errorf("%d rows, %d reads, %d walks", rows, l.reads-reads, len(l.walks))
	}
	if rows := func() int { l = newLister(store{dir}); return walk(first) }(); rows != 270 {
		t.Errorf("another process: %d rows", rows)
	}
}

func TestList_LeavesOutWhatIsNoSession(t *testing.T) {
	dir, _ := filled(t, 1)
	for name, text := range map[string]string{
		newUUID() + ".jsonl": "", newUUID() + ".jsonl.bak": "{}\n", "notes.jsonl": "{}\n", newUUID() + ".jsonl ": "x",
		canonicalUUID(newUUID()) + ".jsonl": `{"t":"session","id":"torn`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, newUUID()+".jsonl"), 0o700); err != nil {
		t.Fatal(err)
	}
	page, next, err := newLister(store{dir}).page("", "")
	if err != nil || len(page) != 1 || next != "" {
		t.Errorf("%v %q %v", page, next, err)
	}
}

func TestCursor_RoundTripAndRefusal(t *testing.T) {
	want := cursor{walk: 7, at: 50, modified: 1 << 60, id: newUUID()}
	if got, err := parseCursor(want.String()); err != nil || got != want {
		t.Errorf("%+v %v", got, err)
	}
	for _, s := range []string{"x", "!", "AAAA", cursor{at: -1}.String()} {
		if _, err := parseCursor(s); err == nil {
			t.Errorf("%q was taken", s)
		}
	}
}
