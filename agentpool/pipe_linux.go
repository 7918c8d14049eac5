package agentpool

import (
	"os"

	"golang.org/x/sys/unix"
)

// stdoutPipe is how many bytes an agent can write ahead. With the usual 64 KiB an agent that writes fast and its reader
// take turns to sleep; with four times as much, the processor time of a line is a fifth less. It stays small enough for
// 160 agents of one unprivileged user, beyond which the kernel makes its new pipes small (pipe-user-pages-soft).
const stdoutPipe = 256 << 10

// growPipe makes room in a pipe. Where the system does not allow it the pipe stays as it is.
func growPipe(f *os.File) {
	raw, err := f.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		_, _ = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, stdoutPipe)
	})
}

// isReadable reports whether a read of the pipe returns at once.
func isReadable(f *os.File) bool {
	n := 0
	raw, err := f.SyscallConn()
	if err == nil {
		_ = raw.Control(func(fd uintptr) { n, err = unix.IoctlGetInt(int(fd), unix.TIOCINQ) })
	}
	return err == nil && n > 0
}
