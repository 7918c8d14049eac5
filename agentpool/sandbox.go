package agentpool

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

const sandboxProbeTime = 10 * time.Second

// systemDirs is what every sandboxed agent can read: programs, libraries, configuration, name resolution.
func systemDirs() []string {
	return []string{
		"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/nix", "/sys",
		"/run/systemd/resolve", "/run/resolvconf", "/run/nscd",
	}
}

// isolation is what a sandbox takes away: other processes, their shared memory, the host's name. It dies with its parent,
// the supervisor, and with it everything in it, whatever session or group that moved to.
func isolation() []string {
	return []string{"--unshare-pid", "--unshare-ipc", "--unshare-uts", "--die-with-parent"}
}

// bubblewrap finds out, once, whether bwrap works on this machine; containers often forbid it.
type bubblewrap struct {
	once sync.Once
	path string
	err  error
}

// find returns the path of a bwrap that works. searchPath is the gateway's PATH.
func (b *bubblewrap) find(searchPath string) (string, error) {
	b.once.Do(func() {
		if runtime.GOOS != "linux" {
			b.err = fmt.Errorf("bubblewrap needs Linux (this is %s)", runtime.GOOS)
			return
		}
		if b.path, b.err = lookCommand("bwrap", searchPath); b.err != nil {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), sandboxProbeTime)
		defer cancel()
		args := append(isolation(), "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--", "true")
		var stderr bytes.Buffer
		cmd := exec.CommandContext(ctx, b.path, args...)
		cmd.Stderr = &stderr
		if err := cmd.Run(); err != nil {
			b.err = fmt.Errorf("bwrap does not work here: %w: %s", err, strings.TrimSpace(stderr.String()))
		}
	})
	return b.path, b.err
}

// sandbox says what an agent sees of the machine.
type sandbox struct {
	bwrap    string
	command  string   // absolute
	path     string   // PATH of the agent
	read     []string // further paths to read
	work     root     // the workspace, writable
	home     string   // writable; "" if it has none
	stateDir string   // of the gateway, hidden
	dir      string   // working directory
}

// mount kinds, weakest first: of two at one path the later one counts.
const (
	mountRead = iota
	mountHidden
	mountWrite
)

type mount struct {
	kind     int
	from, at string
}

// args is the command line that runs the agent in the sandbox, without the agent's own.
func (s sandbox) args() []string {
	var mounts []mount
	read := func(paths ...string) {
		for _, p := range paths {
			if p != "/" && filepath.IsAbs(p) {
				mounts = append(mounts, mount{mountRead, p, p})
			}
		}
	}
	read(systemDirs()...)
	read(filepath.SplitList(s.path)...)
	read(installation(s.command)...)
	read(s.read...)
	mounts = append(mounts, mount{mountHidden, "", "/tmp"}, mount{mountHidden, "", "/var/tmp"})
	mounts = append(mounts, mount{mountHidden, "", s.stateDir}, mount{mountWrite, s.work.real, s.work.real})
	if s.home != "" {
		mounts = append(mounts, mount{mountWrite, s.home, s.home})
	}
	if s.work.path != s.work.real {
		mounts = append(mounts, mount{mountWrite, s.work.real, s.work.path})
	}
	// What lies inside of something else is mounted after it.
	slices.SortStableFunc(mounts, func(a, b mount) int {
		if c := strings.Compare(a.at, b.at); c != 0 {
			return c
		}
		return a.kind - b.kind
	})
	args := append([]string{s.bwrap}, isolation()...)
	for i, m := range mounts {
		if i+1 < len(mounts) && mounts[i+1].at == m.at {
			continue
		}
		switch m.kind {
		case mountRead:
			args = append(args, "--ro-bind-try", m.from, m.at)
		case mountHidden:
			args = append(args, "--tmpfs", m.at)
		case mountWrite:
			args = append(args, "--bind", m.from, m.at)
		}
	}
	return append(args, "--proc", "/proc", "--dev", "/dev", "--setenv", "TMPDIR", "/tmp", "--chdir", s.dir, "--")
}

// installation is what a command needs to run: its directory, that of the file behind its links, and for a program in
// a node_modules directory the whole of that.
func installation(command string) []string {
	dirs := []string{filepath.Dir(command)}
	real, err := filepath.EvalSymlinks(command)
	if err != nil {
		return dirs
	}
	if before, _, ok := strings.Cut(real, "/node_modules/"); ok {
		return append(dirs, before+"/node_modules")
	}
	return append(dirs, filepath.Dir(real))
}

// homeDir makes the home of a principal below stateDir, mode 0700.
func homeDir(stateDir, principal string) (string, error) {
	home := filepath.Join(stateDir, "homes", fileName(principal))
	if err := os.MkdirAll(home, 0o700); err != nil {
		return "", fmt.Errorf("home of the principal: %w", err)
	}
	return home, nil
}
