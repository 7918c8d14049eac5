package agentpool

import (
	"bytes"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// seesDescendants says that descendants finds whole trees on this system.
const seesDescendants = true

// becomeSubreaper makes this process the new parent of every orphan among its descendants.
func becomeSubreaper() error {
	return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
}

// agentAttr puts the agent into a group of its own and ends it with the thread that starts it.
func agentAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// releaseStdio points the standard streams to /dev/null, so that only the agent holds its pipes.
func releaseStdio() error {
	null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	for fd := range 3 {
		if err := unix.Dup3(null, fd, 0); err != nil {
			return err
		}
	}
	return unix.Close(null)
}

// descendants lists the living processes below pid, parents before children.
func descendants(pid int) []int {
	children := map[int][]int{}
	for _, p := range processes() {
		if parent, dead := parentOf(p); parent > 0 && !dead {
			children[parent] = append(children[parent], p)
		}
	}
	tree := append([]int(nil), children[pid]...)
	for i := 0; i < len(tree); i++ {
		tree = append(tree, children[tree[i]]...)
	}
	return tree
}

// processes lists the ids of all processes that /proc shows.
func processes() []int {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil
	}
	pids := make([]int, 0, len(names))
	for _, name := range names {
		if n, err := strconv.Atoi(name); err == nil {
			pids = append(pids, n)
		}
	}
	return pids
}

// parentOf reads the parent of a process, 0 when it is gone. dead means that it only waits to be reaped.
func parentOf(pid int) (parent int, dead bool) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, false
	}
	// pid (name) state ppid ...; the name may hold blanks and parentheses.
	i := bytes.LastIndexByte(stat, ')')
	if i < 0 {
		return 0, false
	}
	fields := bytes.Fields(stat[i+1:])
	if len(fields) < 2 {
		return 0, false
	}
	parent, err = strconv.Atoi(string(fields[1]))
	if err != nil {
		return 0, false
	}
	return parent, fields[0][0] == 'Z' || fields[0][0] == 'X'
}

// killMarked kills every process whose environment holds mark (NAME=value), and returns how many it found. It is for the
// tree of a supervisor that was killed itself: nobody is left who knows its orphans.
func killMarked(mark string) int {
	want := []byte("\x00" + mark + "\x00")
	n := 0
	for _, pid := range processes() {
		env, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
		if err != nil || pid == os.Getpid() {
			continue
		}
		if bytes.Contains(append([]byte{0}, env...), want) {
			n++
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	return n
}
