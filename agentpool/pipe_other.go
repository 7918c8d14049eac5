//go:build !linux

package agentpool

import "os"

// growPipe does nothing: only Linux lets the size of a pipe be set.
func growPipe(*os.File) {}
