//go:build unix && !linux

package agentpool

import (
	"os"
	"syscall"
)

// seesDescendants says that only the agent's process group is known here: this system has no child subreaper, so a
// process that leaves the group and its parent is out of reach.
const seesDescendants = false

func becomeSubreaper() error { return nil }

// agentAttr puts the agent into a group of its own. It does not end with a killed supervisor here; the gateway then ends
// the group.
func agentAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// releaseStdio points the standard streams to /dev/null, so that only the agent holds its pipes.
func releaseStdio() error {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	for fd := range 3 {
		if err := syscall.Dup2(int(null.Fd()), fd); err != nil {
			return err
		}
	}
	return null.Close()
}

func descendants(int) []int { return nil }

func killMarked(string) int { return 0 }
