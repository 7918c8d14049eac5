//go:build !linux && !darwin

package gateway

import "net"

// limitUnsent does nothing here: the kernel has no such bound.
func limitUnsent(net.Conn, int) error { return nil }
