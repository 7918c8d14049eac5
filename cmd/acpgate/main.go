// Command acpgate puts ACP agents behind an HTTP/WebSocket gateway. README.md in this folder is its guide, and
// "acpgate --help" its manual.
package main

import (
	"context"
	"os"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
}
