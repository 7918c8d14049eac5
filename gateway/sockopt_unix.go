//go:build linux || darwin

package gateway

import (
	"crypto/tls"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// limitUnsent bounds what the kernel takes of us before it has sent it, in bytes. What a slow client has not read then
// waits in the journal, where it costs nothing more, and a ping or a close frame waits behind little. A connection that
// is no TCP socket stays as it is.
func limitUnsent(nc net.Conn, bytes int) error {
	if t, ok := nc.(*tls.Conn); ok {
		nc = t.NetConn()
	}
	sc, ok := nc.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return err
	}
	var optErr error
	err = raw.Control(func(fd uintptr) {
		optErr = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, bytes)
	})
	if err != nil {
		return err
	}
	return optErr
}
