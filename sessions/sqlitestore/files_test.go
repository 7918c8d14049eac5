package sqlitestore

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// N1: nobody else may read what is said here.
func TestN1_FilesAreTheOwnersAlone(t *testing.T) {
	path := tempPath(t)
	s := openWithConfig(t, config(path))
	must(t, put(t, s, "x", []byte("1")))
	_, err := s.Read(t.Context(), "alice", "x") // makes readers, and so the shared memory
	must(t, err)
	check := func() {
		t.Helper()
		names, err := filepath.Glob(path + "*")
		must(t, err)
		if len(names) < 4 {
			t.Errorf("files %v: want the database, -wal, -shm and .lock", names)
		}
		for _, name := range names {
			info, err := os.Stat(name)
			must(t, err)
			if info.Mode().Perm() != 0o600 {
				t.Errorf("%s has mode %v", name, info.Mode())
			}
		}
	}
	check()
	must(t, s.Close())
	must(t, os.Chmod(path, 0o644)) // as a careless copy leaves it
	s = openWithConfig(t, config(path))
	must(t, put(t, s, "x", []byte("2")))
	check()
}

func TestN1_OneProcessAtATime(t *testing.T) {
	path := tempPath(t)
	s := openWithConfig(t, config(path))
	_, err := Open(t.Context(), config(path))
	if !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), path) {
		t.Errorf("opening it twice: %v, want ErrInUse that names the file", err)
	}
	must(t, put(t, s, "x", nil))
	must(t, s.Close())
	must(t, openWithConfig(t, config(path)).Close())
}

func TestN1_AnyPathWillDo(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a b?c=d&e#f%20g", "ünï;code")
	must(t, os.MkdirAll(dir, 0o700))
	path := filepath.Join(dir, "acp gate?mode=memory.db")
	s := openWithConfig(t, config(path))
	must(t, put(t, s, "x", []byte("1")))
	must(t, s.Close())
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
	s = openWithConfig(t, config(path))
	if got, err := s.Read(t.Context(), "alice", "x"); err != nil || string(got[0].Value) != "1" {
		t.Errorf("%v, %v", got, err)
	}
}

func TestN1_AMissingDirectoryIsNamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "none", "acpgate.db")
	if _, err := Open(t.Context(), config(path)); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), path) {
		t.Errorf("%v, want one that names the file", err)
	}
}

func TestConfig_Validate(t *testing.T) {
	if err := config("/x/acpgate.db").Validate(); err != nil {
		t.Error(err)
	}
	err := Config{Path: "x.db", MaxBytes: 5, GroupOps: -1, GroupBytes: -2, Readers: -3, PurgeEvery: -time.Second}.Validate()
	const want = `Path: must be absolute (got "x.db")
MaxBytes: must be 0 or at least 1048576 (got 5)
GroupOps: must not be negative (got -1)
GroupBytes: must not be negative (got -2)
Readers: must not be negative (got -3)
PurgeEvery: must not be negative (got -1s)`
	if err == nil || err.Error() != want {
		t.Errorf("%v\nwant\n%s", err, want)
	}
	if _, err := Open(t.Context(), Config{}); err == nil {
		t.Error("opened without a path")
	}
}
