package sqlitestore

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

// A database of an older version is taken to the newest schema, step by step, with what is in it.
func TestN1_MigrationsRunOnceAndForward(t *testing.T) {
	steps, err := migrations()
	must(t, err)
	path := tempPath(t)
	s := openWithConfig(t, config(path))
	must(t, put(t, s, "x", []byte("1")))
	must(t, s.Close())

	more := append(steps[:len(steps):len(steps)],
		"CREATE TABLE added (a INTEGER) STRICT;\nINSERT INTO added VALUES (1);",
		"UPDATE added SET a = a + 1;\n-- a comment\nCREATE INDEX added_a ON added (a);")
	var log bytes.Buffer
	cfg := config(path)
	cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	for range 2 {
		s, err := openWith(t.Context(), cfg, more)
		must(t, err)
		var a int
		must(t, s.readerDB.QueryRow("SELECT a FROM added").Scan(&a))
		got, err := s.Read(t.Context(), "alice", "x")
		must(t, err)
		if a != 2 || string(got[0].Value) != "1" {
			t.Errorf("a is %d, x is %q", a, got[0].Value)
		}
		must(t, s.Close())
	}
	if n := strings.Count(log.String(), "database migrated"); n != 1 {
		t.Errorf("logged %d migrations:\n%s", n, &log)
	}
	if _, err := openWith(t.Context(), config(path), steps); err == nil {
		t.Error("the older version opens it")
	}
}

// A step that fails leaves the schema where it was.
func TestN1_AFailedMigrationChangesNothing(t *testing.T) {
	steps, err := migrations()
	must(t, err)
	path := tempPath(t)
	must(t, openWithConfig(t, config(path)).Close())
	broken := append(steps[:len(steps):len(steps)], "CREATE TABLE added (a INTEGER);\nINSERT INTO nowhere VALUES (1);")
	if _, err := openWith(t.Context(), config(path), broken); err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "migration") {
		t.Errorf("%v, want one that names the file and the migration", err)
	}
	s := openWithConfig(t, config(path))
	var n int
	must(t, s.readerDB.QueryRow("SELECT count(*) FROM sqlite_schema WHERE name = 'added'").Scan(&n))
	if n != 0 {
		t.Error("half of the step is there")
	}
}
