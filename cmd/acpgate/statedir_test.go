package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestT1_StateDirIsForItsOwnerOnly(t *testing.T) {
	mode := func(path string) os.FileMode {
		t.Helper()
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return info.Mode().Perm()
	}

	fresh := filepath.Join(t.TempDir(), "a", "b")
	if _, err := openStateDir(fresh); err != nil {
		t.Fatal(err)
	}
	if got := mode(fresh); got != 0o700 {
		t.Errorf("a new directory has mode %o", got)
	}

	empty := t.TempDir()
	if err := os.Chmod(empty, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := openStateDir(empty); err != nil {
		t.Fatal(err)
	}
	if got := mode(empty); got != 0o700 {
		t.Errorf("an empty open directory got mode %o", got)
	}

	open := t.TempDir()
	if err := os.WriteFile(filepath.Join(open, "x"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o750); err != nil {
		t.Fatal(err)
	}
	if _, err := openStateDir(open); err == nil || !strings.Contains(err.Error(), "open to others (mode 0750)") {
		t.Errorf("an open directory with files: %v", err)
	}
	if got := mode(open); got != 0o750 {
		t.Errorf("a refused directory was changed to mode %o", got)
	}

	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openStateDir(file); err == nil {
		t.Error("a file was taken for a directory")
	}
}

func TestStateLock(t *testing.T) {
	dir, err := openStateDir(filepath.Join(t.TempDir(), "state"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := dir.holder(); !errors.Is(err, errNotRunning) {
		t.Fatalf("holder of a directory never locked: %v", err)
	}

	lock, err := dir.lock()
	if err != nil {
		t.Fatal(err)
	}
	if err := lock.publish(lockHolder{URL: "http://127.0.0.1:4711"}); err != nil {
		t.Fatal(err)
	}
	holder, err := dir.holder()
	if err != nil || holder.PID != os.Getpid() || holder.URL != "http://127.0.0.1:4711" {
		t.Fatalf("holder = %+v, %v", holder, err)
	}

	_, err = dir.lock()
	var locked stateLockedError
	if !errors.As(err, &locked) || locked.exitCode() != exitLocked || !strings.Contains(err.Error(), "http://127.0.0.1:4711") {
		t.Fatalf("second lock: %v", err)
	}

	if err := lock.release(); err != nil {
		t.Fatal(err)
	}
	if _, err := dir.holder(); !errors.Is(err, errNotRunning) {
		t.Fatalf("holder after release: %v", err)
	}
	again, err := dir.lock()
	if err != nil {
		t.Fatalf("lock after release: %v", err)
	}
	if holder := readHolder(dir.join("lock")); holder.URL != "" {
		t.Errorf("the old address %q outlived its gateway", holder.URL)
	}
	if err := again.release(); err != nil {
		t.Fatal(err)
	}
}
