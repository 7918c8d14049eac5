// Command bench measures acpgate against the simplest programs that could do its job, side by side on this machine.
// deploy/bench.sh builds and runs it, and deploy/BENCHMARKS.md explains what it measures and what came out.
package main

import "os"

func main() {
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
