package demo

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// Exit codes of Main beyond those that prompts and scripts ask for.
const (
	exitOK     = 0
	exitFailed = 1 // stdout or the session directory cannot be written
	exitUsage  = 2 // bad flags or a script with mistakes
	exitScript = 3 // a step of a script did not come true
)

// Main runs the agent until stdin ends, ctx is done, or a prompt or script says otherwise, and returns the exit code. It
// returns without waiting for a Read of stdin that is still blocked: the caller is expected to exit.
func Main(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	var (
		cfg    config
		script string
		fill   int
	)
	fs := flag.NewFlagSet("acpgate demo-agent", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.StringVar(&cfg.Dir, "dir", "", "session store `DIR` (default: acpgate/demo-agent under XDG_STATE_HOME or ~/.local/state)")
	fs.StringVar(&cfg.Name, "name", "demo", "`NAME` of the agent in its initialize result")
	fs.DurationVar(&cfg.Delay, "delay", 15*time.Millisecond, "`DURATION` between streamed words")
	fs.BoolVar(&cfg.Off.List, "no-list", false, "do not offer session/list")
	fs.BoolVar(&cfg.Off.Load, "no-load", false, "do not offer session/load")
	fs.BoolVar(&cfg.Off.Resume, "no-resume", false, "do not offer session/resume")
	fs.BoolVar(&cfg.Off.Fork, "no-fork", false, "do not offer session/fork")
	fs.BoolVar(&cfg.Off.Close, "no-close", false, "do not offer session/close")
	fs.BoolVar(&cfg.Off.Delete, "no-delete", false, "do not offer session/delete")
	fs.BoolVar(&cfg.Off.Embedded, "no-embedded", false, "do not take embedded resources in prompts")
	fs.BoolVar(&cfg.Login, "login", false, "refuse sessions until the client authenticates")
	fs.StringVar(&script, "script", "", "play `FILE` instead of being an agent")
	fs.IntVar(&fill, "fill", 0, "write `N` example sessions into the store and exit, for load tests")
	switch err := fs.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		return exitUsage
	case fs.NArg() > 0:
		fmt.Fprintf(stderr, "demo-agent: unexpected argument %q\n", fs.Arg(0))
		return exitUsage
	}
	if script != "" {
		return playFile(ctx, script, stdin, stdout, stderr)
	}
	if cfg.Dir == "" {
		dir, err := defaultDir()
		if err != nil {
			fmt.Fprintf(stderr, "demo-agent: %v; use --dir\n", err)
			return exitUsage
		}
		cfg.Dir = dir
	}
	if err := cfg.Validate(); err != nil {
		fmt.Fprintf(stderr, "demo-agent: %v\n", err)
		return exitUsage
	}
	if fill > 0 {
		if err := fillStore(ctx, cfg.Dir, fill); err != nil {
			fmt.Fprintf(stderr, "demo-agent: %v\n", err)
			return exitFailed
		}
		return exitOK
	}
	return newAgent(cfg, stdout, stderr).run(ctx, stdin)
}

// config is what the flags say.
type config struct {
	Dir   string
	Name  string
	Delay time.Duration
	Off   capabilitiesOff
	Login bool
}

// capabilitiesOff are the capabilities that are not offered; their methods answer -32601.
type capabilitiesOff struct{ List, Load, Resume, Fork, Close, Delete, Embedded bool }

// Validate reports every problem as `field: problem (got value)`.
func (c config) Validate() error {
	var errs []error
	if !filepath.IsAbs(c.Dir) {
		errs = append(errs, fmt.Errorf("dir: must be absolute (got %q)", c.Dir))
	}
	if c.Name == "" {
		errs = append(errs, errors.New(`name: must not be empty (got "")`))
	}
	if c.Delay < 0 {
		errs = append(errs, fmt.Errorf("delay: must not be negative (got %v)", c.Delay))
	}
	return errors.Join(errs...)
}

func defaultDir() (string, error) {
	state := os.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(state) { // the specification: a relative path is invalid and ignored
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("no home directory: %w", err)
		}
		state = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(state, "acpgate", "demo-agent"), nil
}
