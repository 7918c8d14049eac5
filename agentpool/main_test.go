//go:build linux

package agentpool

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain lets the test binary stand for every program that a pool has to do with: the supervisor, agents, and a whole
// gateway that is killed.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "supervise":
			os.Exit(Supervise(os.Args[2:], os.NewFile(ControlFD, "control"), os.Stderr))
		case "agent":
			os.Exit(fakeAgent(os.Args[2:]))
		case "gateway":
			os.Exit(fakeGateway(os.Args[2:]))
		}
	}
	// A program under the race detector sleeps for a second when it ends, unless told otherwise.
	if err := os.Setenv("GORACE", "atexit_sleep_ms=0"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}
