package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// stateDir is the folder of one gateway: its tokens, its lock, the demo agent's sessions. It is for its owner only,
// because whoever reads it can log in.
type stateDir string

// errNotRunning means that no gateway holds the state directory's lock.
var errNotRunning = errors.New("no gateway runs on this state directory")

// openStateDir makes the directory (mode 0700) if it is missing. One that others may enter is closed to them when it is
// empty and refused when it is not: what is in it may have been read, or may be somebody else's.
func openStateDir(path string) (stateDir, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return "", fmt.Errorf("state directory: %w", err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("state directory: %w", err)
	}
	if !info.IsDir() {
		return "", fmt.Errorf("state directory %s: not a directory", path)
	}
	if info.Mode().Perm()&0o077 == 0 {
		return stateDir(path), nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return "", fmt.Errorf("state directory: %w", err)
	}
	if len(entries) > 0 || os.Chmod(path, 0o700) != nil {
		return "", fmt.Errorf("state directory %s is open to others (mode %04o): run chmod 700 on it, or name a folder inside it that does not exist yet",
			path, info.Mode().Perm())
	}
	return stateDir(path), nil
}

func (d stateDir) join(name string) string { return filepath.Join(string(d), name) }

// stateLock is the held lock of a state directory. The lock file stays when it is released; only the lock matters.
type stateLock struct{ file *os.File }

// lockHolder is what the lock file says about the gateway that holds it.
type lockHolder struct {
	PID       int    `json:"pid"`
	URL       string `json:"url,omitempty"`       // where it is reached, once it listens
	Address   string `json:"address,omitempty"`   // the same as an address of this machine, which needs no look-up
	TokenFile string `json:"tokenFile,omitempty"` // absolute, like the next
	TLSCert   string `json:"tlsCert,omitempty"`
}

// lock takes the directory for this process. The error names the gateway that has it.
func (d stateDir) lock() (*stateLock, error) {
	file, err := os.OpenFile(d.join("lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("state directory: %w", err)
	}
	if err := lockFile(file); err != nil {
		defer file.Close()
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("state directory %s: lock: %w", d, err)
		}
		return nil, stateLockedError{dir: d, holder: readHolder(file.Name())}
	}
	l := &stateLock{file: file}
	if err := l.publish(lockHolder{}); err != nil {
		file.Close()
		return nil, err
	}
	return l, nil
}

// lockFile takes the lock. It tries for a moment, since holder holds it for an instant.
func lockFile(file *os.File) error {
	const tries, pause = 5, 20 * time.Millisecond
	for i := 1; ; i++ {
		err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil || i == tries {
			return err
		}
		time.Sleep(pause)
	}
}

// publish writes down what "token link" and "healthcheck" need to know of this gateway.
func (l *stateLock) publish(h lockHolder) error {
	h.PID = os.Getpid()
	b, err := json.Marshal(h)
	if err != nil {
		return err
	}
	if err := l.file.Truncate(0); err != nil {
		return fmt.Errorf("state directory: %w", err)
	}
	if _, err := l.file.WriteAt(append(b, '\n'), 0); err != nil {
		return fmt.Errorf("state directory: %w", err)
	}
	return nil
}

func (l *stateLock) release() error { return l.file.Close() }

// holder finds the gateway that runs on the directory; errNotRunning if none does.
func (d stateDir) holder() (lockHolder, error) {
	file, err := os.Open(d.join("lock"))
	if errors.Is(err, fs.ErrNotExist) {
		return lockHolder{}, errNotRunning
	}
	if err != nil {
		return lockHolder{}, fmt.Errorf("state directory: %w", err)
	}
	defer file.Close()
	switch err := unix.Flock(int(file.Fd()), unix.LOCK_SH|unix.LOCK_NB); {
	case err == nil:
		return lockHolder{}, errNotRunning // the lock ends with the file
	case !errors.Is(err, unix.EWOULDBLOCK):
		return lockHolder{}, fmt.Errorf("state directory %s: lock: %w", d, err)
	}
	return readHolder(file.Name()), nil
}

// readHolder reads a lock file; the zero value if the holder has not written it yet.
func readHolder(path string) lockHolder {
	var h lockHolder
	if b, err := os.ReadFile(path); err == nil {
		_ = json.Unmarshal(b, &h)
	}
	return h
}

// stateLockedError says that another gateway has the state directory.
type stateLockedError struct {
	dir    stateDir
	holder lockHolder
}

func (e stateLockedError) Error() string {
	who := "another gateway"
	if e.holder.PID != 0 {
		who += fmt.Sprintf(" (process %d", e.holder.PID)
		if e.holder.URL != "" {
			who += ", " + e.holder.URL
		}
		who += ")"
	}
	return fmt.Sprintf("state directory %s is in use by %s: stop that one, or give this one its own --state", e.dir, who)
}

func (e stateLockedError) exitCode() int { return exitLocked }

// defaultStateDir is $XDG_STATE_HOME/acpgate, else ~/.local/state/acpgate; empty when there is no home directory.
func defaultStateDir() string {
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "acpgate")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return filepath.Join(home, ".local", "state", "acpgate")
}
