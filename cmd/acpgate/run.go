package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/acpgate/acpgate/agentpool"
	"github.com/acpgate/acpgate/agentpool/demo"
)

// Exit codes; the manual lists them.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
	exitListen = 3
	exitLocked = 4
	exitCut    = 5
)

// usageError is an error in what the user wrote: flags, variables, agents file.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }
func (e usageError) exitCode() int { return exitUsage }

// run is the program: it returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) > 0 {
		// These two are agent processes' own programs, one for each: they start without reading a command line.
		switch args[0] {
		case "supervise":
			return agentpool.Supervise(args[1:], os.NewFile(agentpool.ControlFD, "control"), stderr)
		case "demo-agent":
			return demo.Main(ctx, args[1:], os.Stdin, stdout, stderr)
		}
	}
	err := runCommand(ctx, args, os.Environ(), stdout, stderr)
	if err == nil {
		return exitOK
	}
	for line := range strings.Lines(err.Error()) {
		fmt.Fprintln(stderr, "acpgate: "+strings.TrimRight(line, "\n"))
	}
	var coded interface{ exitCode() int }
	if errors.As(err, &coded) {
		return coded.exitCode()
	}
	return exitFailed
}

// runCommand parses the command line and runs the command that it names.
func runCommand(ctx context.Context, args, environ []string, stdout, stderr io.Writer) error {
	var c cli
	env := newEnvironment(environ)
	helped := false
	parser, err := kong.New(&c,
		kong.Name("acpgate"),
		kong.Writers(stdout, stderr),
		kong.Exit(func(int) { helped = true }), // --help exits; nothing else does while parsing
		kong.Help(manual),
		kong.ConfigureHelp(kong.HelpOptions{WrapUpperBound: helpWidth}),
		kong.ExplicitGroups(flagGroups),
		kong.Resolvers(env),
	)
	if err != nil {
		return err
	}
	command, err := parser.Parse(args)
	if helped {
		return nil
	}
	if err != nil {
		if name := env.origin(err, args); name != "" {
			err = fmt.Errorf("%w (from %s)", err, name)
		}
		return usageError{fmt.Errorf("%w\nrun acpgate --help for the manual", err)}
	}
	switch command.Command() {
	case "serve":
		if c.Serve.CheckOnly {
			return checkConfig(c.Serve.settings, stdout)
		}
		return serve(ctx, c.Serve.settings, stderr)
	case "check-config":
		return checkConfig(c.CheckConfig.settings, stdout)
	case "token add <name>":
		return tokenAdd(c.Token.State, c.Token.Add.Name, stdout)
	case "token list":
		return tokenList(c.Token.State, stdout)
	case "token remove <name>":
		return tokenRemove(c.Token.State, c.Token.Remove.Name, stdout)
	case "token link":
		return tokenLink(ctx, c.Token.State, stdout)
	case "healthcheck":
		return healthcheck(ctx, c.Healthcheck.State)
	case "version":
		_, err := fmt.Fprintln(stdout, "acpgate "+version())
		return err
	}
	return fmt.Errorf("command %q is not implemented", command.Command())
}
