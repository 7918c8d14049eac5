package sqlitestore

import (
	"bytes"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acpgate/acpgate/sessions"
)

// sample makes a database with records, index rows and two journals, and closes it.
func sample(t testing.TB) string {
	t.Helper()
	path := tempPath(t)
	s := openWithConfig(t, config(path))
	var c sessions.Commit
	for i := range 300 {
		c.Writes = append(c.Writes, sessions.Write{Key: fmt.Sprint("key-", i), Value: bytes.Repeat([]byte{byte(i)}, 500)})
		c.Indexes = append(c.Indexes, sessions.IndexWrite{Index: "i", Member: fmt.Sprint("m-", i), Score: int64(i)})
	}
	must(t, s.Commit(t.Context(), "alice", c))
	must(t, fill(t, s, "good", 100, 300))
	must(t, fill(t, s, "bad", 100, 300))
	must(t, s.Close())
	return path
}

// overwrite puts b into the file at off.
func overwrite(t testing.TB, path string, off int64, b []byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	_, err = f.WriteAt(b, off)
	must(t, errors.Join(err, f.Close()))
}

// rootOffset is where the root page of a table or index begins.
func rootOffset(t testing.TB, path, name string) int64 {
	t.Helper()
	db, err := sql.Open("sqlite", dsn(path, nil))
	must(t, err)
	var page int64
	err = db.QueryRow("SELECT rootpage FROM sqlite_schema WHERE name = ?", name).Scan(&page)
	must(t, errors.Join(err, db.Close()))
	return (page - 1) * pageSize
}

// digest is of every file beside path, but for the lock and what SQLite's readers share.
func digest(t testing.TB, path string) string {
	t.Helper()
	names, err := filepath.Glob(path + "*")
	must(t, err)
	out := ""
	for _, name := range names {
		b, err := os.ReadFile(name)
		must(t, err)
		if len(b) > 0 && !strings.HasSuffix(name, ".lock") && !strings.HasSuffix(name, "-shm") {
			out += fmt.Sprintf("%s %x\n", filepath.Base(name), sha256.Sum256(b))
		}
	}
	return out
}

func TestN1_ADatabaseThatIsNotWholeIsRefusedAndLeftAlone(t *testing.T) {
	for _, tc := range []struct {
		name   string
		damage func(t *testing.T, path string)
		want   error
		says   string
	}{
		{"garbage", func(t *testing.T, path string) {
			must(t, os.WriteFile(path, bytes.Repeat([]byte("no database "), 1000), 0o600))
		}, ErrDamaged, "is not a database"},
		{"empty", func(t *testing.T, path string) { must(t, os.Truncate(path, 0)) }, ErrDamaged, "has only 0 bytes"},
		{"a few bytes", func(t *testing.T, path string) { must(t, os.Truncate(path, 50)) }, ErrDamaged, "has only 50 bytes"},
		{"cut in half", func(t *testing.T, path string) { must(t, os.Truncate(path, 20*pageSize)) }, ErrDamaged, "bytes of"},
		{"a directory", func(t *testing.T, path string) {
			must(t, os.Remove(path))
			must(t, os.Mkdir(path, 0o700))
		}, ErrDamaged, "not a regular file"},
		{"another program's", func(t *testing.T, path string) {
			must(t, os.Remove(path))
			db, err := sql.Open("sqlite", dsn(path, nil))
			must(t, err)
			_, err = db.Exec("CREATE TABLE bookmarks (url TEXT)")
			must(t, errors.Join(err, db.Close()))
		}, ErrForeign, "application id"},
		{"the schema zeroed", func(t *testing.T, path string) { overwrite(t, path, 100, make([]byte, pageSize-100)) }, ErrDamaged, ""},
		{"records zeroed", func(t *testing.T, path string) {
			overwrite(t, path, rootOffset(t, path, "records"), make([]byte, pageSize))
		}, ErrDamaged, ""},
		{"an index zeroed", func(t *testing.T, path string) {
			overwrite(t, path, rootOffset(t, path, "members_order"), make([]byte, pageSize))
		}, ErrDamaged, ""},
		{"journals overwritten", func(t *testing.T, path string) {
			overwrite(t, path, rootOffset(t, path, "journals"), bytes.Repeat([]byte{0xee}, pageSize))
		}, ErrDamaged, ""},
		{"gone, but for its log", func(t *testing.T, path string) {
			must(t, os.Rename(path, path+"-wal"))
		}, ErrDamaged, "its log"},
		{"newer", func(t *testing.T, path string) {
			db, err := sql.Open("sqlite", dsn(path, nil))
			must(t, err)
			_, err = db.Exec("PRAGMA user_version = 999")
			must(t, errors.Join(err, db.Close()))
		}, ErrNewer, "has schema 999, this version knows up to"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := sample(t)
			tc.damage(t, path)
			before := ""
			if tc.name != "a directory" {
				before = digest(t, path)
			}
			for range 2 { // the first try must not make it better or worse
				s, err := Open(t.Context(), config(path))
				if err == nil {
					t.Fatal("opened", s.Close())
				}
				if !errors.Is(err, tc.want) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), tc.says) {
					t.Errorf("%v, want %v that names the file and says %q", err, tc.want, tc.says)
				}
			}
			if tc.name != "a directory" && digest(t, path) != before {
				t.Errorf("the files have changed:\n%swere\n%s", digest(t, path), before)
			}
		})
	}
}

// crash leaves at path what a kill leaves there: a database and a log that holds its last commits. It returns what is
// in the log only.
func crash(t testing.TB, path string) (key string) {
	t.Helper()
	s := openWithConfig(t, config(path))
	must(t, put(t, s, "in the log", []byte("v")))
	for _, suffix := range []string{"", "-wal"} {
		b, err := os.ReadFile(path + suffix)
		must(t, err)
		must(t, os.WriteFile(path+".crashed"+suffix, b, 0o600))
	}
	must(t, s.Close())
	for _, suffix := range []string{"", "-wal"} {
		must(t, os.Rename(path+".crashed"+suffix, path+suffix))
	}
	return "in the log"
}

func TestN1_DamageIsSeenAfterACrashToo(t *testing.T) {
	path := sample(t)
	at := rootOffset(t, path, "records_expires") // no row of it is in the log
	key := crash(t, path)
	b, err := os.ReadFile(path)
	must(t, err)
	overwrite(t, path, at, bytes.Repeat([]byte{0xee}, pageSize))
	before := digest(t, path)
	if _, err := Open(t.Context(), config(path)); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), path) {
		t.Errorf("%v, want ErrDamaged that names the file", err)
	}
	if digest(t, path) != before {
		t.Errorf("the files have changed:\n%swere\n%s", digest(t, path), before)
	}
	must(t, os.WriteFile(path, b, 0o600)) // from a backup
	s := openWithConfig(t, config(path))
	got, err := s.Read(t.Context(), "alice", key, "key-1")
	must(t, err)
	if string(got[0].Value) != "v" || got[1].Version == 0 {
		t.Errorf("read %+v", got)
	}
}

// What is damaged in a journal is told by whoever reads it, and the rest of the store works.
func TestN1_ADamagedSegmentIsToldAndHarmsNoOther(t *testing.T) {
	path := sample(t)
	db, err := sql.Open("sqlite", dsn(path, nil))
	must(t, err)
	_, err = db.Exec(`UPDATE segments SET data = CAST(substr(data, 1, 50) || x'ff' || substr(data, 52) AS BLOB)
		WHERE journal = (SELECT id FROM journals WHERE name = 'bad')`)
	must(t, errors.Join(err, db.Close()))

	s := openWithConfig(t, config(path))
	_, err = s.ReadJournal(t.Context(), "alice", "bad", 0, 0)
	if !errors.Is(err, ErrDamaged) || !errors.Is(err, sessions.ErrUnavailable) || !strings.Contains(err.Error(), path) {
		t.Errorf("reading: %v, want ErrDamaged that names the file", err)
	}
	if err := s.Compact(t.Context(), "alice", "bad", 1, 50, nil); !errors.Is(err, ErrDamaged) {
		t.Errorf("compacting in the middle of it: %v, want ErrDamaged", err)
	}
	events, err := s.ReadJournal(t.Context(), "alice", "good", 0, 0)
	must(t, err)
	if len(events) != 100 {
		t.Errorf("%d events of the journal beside it", len(events))
	}
	must(t, fill(t, s, "bad", 1, 10))
	must(t, s.Compact(t.Context(), "alice", "bad", 1, 100, nil)) // without what is damaged it is whole again
	events, err = s.ReadJournal(t.Context(), "alice", "bad", 0, 0)
	must(t, err)
	if len(events) != 1 {
		t.Errorf("%d events after the damaged ones were trimmed", len(events))
	}
}

func TestN1_ADraftThatACrashLeftIsNoDatabase(t *testing.T) {
	path := tempPath(t)
	must(t, os.WriteFile(path+".new", []byte("half a database"), 0o600))
	s := openWithConfig(t, config(path))
	must(t, put(t, s, "x", nil))
	if _, err := os.Stat(path + ".new"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the draft is still there: %v", err)
	}
}
