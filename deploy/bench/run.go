package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os/signal"
	"strings"
	"syscall"
)

// run is the program: it returns the exit code. The first argument picks one of the roles that the benchmark has itself
// started in, each in a process of its own, so that the processor time of each can be told apart.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	err := errors.New("usage: bench suite|client|pump|gateway")
	if len(args) > 0 {
		switch args[0] {
		case "suite":
			err = runSuite(ctx, args[1:], stdout, stderr)
		case "client":
			err = runClient(stdin, stdout)
		case "pump":
			err = runPump(ctx, args[1:], stderr)
		case "gateway":
			err = runGateway(ctx, args[1:], stderr)
		}
	}
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return 0
	case errors.Is(err, errMissed):
		return 1
	default:
		fmt.Fprintln(stderr, "bench:", err)
		return 2
	}
}

// options are the flags of the suite.
type options struct {
	acpgate string
	quick   bool
	only    string
	rounds  int
	profile string
	strict  bool
}

func parseOptions(args []string, stderr io.Writer) (options, error) {
	var o options
	fs := flag.NewFlagSet("bench", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.StringVar(&o.acpgate, "acpgate", "", "the built acpgate `FILE`")
	fs.BoolVar(&o.quick, "quick", false, "small sizes and one round: a smoke test, the figures mean nothing")
	fs.StringVar(&o.only, "only", "", "run only the rows with these comma-separated `NAMES`: "+strings.Join(rowNames(), ", "))
	fs.IntVar(&o.rounds, "rounds", 0, "`N` rounds (default 5, with --quick 1)")
	fs.StringVar(&o.profile, "profile", "", "write processor and heap profiles of the gateway's runs to `DIR`")
	fs.BoolVar(&o.strict, "strict", false, "exit with status 1 if a target is missed")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	switch {
	case fs.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	case o.acpgate == "":
		return o, errors.New("--acpgate is required")
	case o.rounds < 0:
		return o, fmt.Errorf("--rounds: must be positive (got %d)", o.rounds)
	case o.rounds == 0 && o.quick:
		o.rounds = 1
	case o.rounds == 0:
		o.rounds = 5
	}
	return o, nil
}
