package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"
)

// script is a parsed script file. README.md describes the format.
type script struct {
	stdinOff  bool // never read
	ignoreEOF bool
	ignored   []os.Signal
	answers   map[string]*template // result by method
	reactions map[string][]step    // on METHOD ... end
	main      []step
}

// step is one step of a script. Its run ends early, with the cause, when the player ends.
type step struct {
	line int // in the file
	run  func(p *player, v *vars) error
}

// scriptError says where a script is wrong or did not come true.
type scriptError struct {
	line int
	err  error
}

func (e scriptError) Error() string { return fmt.Sprintf("line %d: %v", e.line, e.err) }
func (e scriptError) Unwrap() error { return e.err }

// playFile plays a script and returns the exit code.
func playFile(ctx context.Context, path string, stdin io.Reader, stdout, stderr io.Writer) int {
	text, err := os.ReadFile(path)
	if err != nil {
		fmt.Fprintf(stderr, "demo-agent: %v\n", err)
		return exitUsage
	}
	s, err := parseScript(string(text))
	if err != nil {
		fmt.Fprintf(stderr, "demo-agent: script %s:\n%v\n", path, err)
		return exitUsage
	}
	return newPlayer(s, stdout, stderr).play(ctx, stdin)
}

// play runs the script until it exits, fails, or its client is gone.
func (p *player) play(ctx context.Context, stdin io.Reader) int {
	defer p.end(nil)
	if len(p.script.ignored) > 0 {
		signal.Ignore(p.script.ignored...)
	}
	if !p.script.stdinOff {
		go p.read(stdin)
	}
	p.tasks.Add(1)
	go func() {
		defer p.tasks.Done()
		p.task(p.script.main, &vars{})
		p.finished()
	}()
	// A script may wait for nothing. The runtime takes a process in which everything waits, and no timer runs, for a deadlock.
	awake := time.AfterFunc(1<<62, func() {})
	defer awake.Stop()
	select {
	case <-ctx.Done():
		p.end(context.Cause(ctx))
	case <-p.ctx.Done():
	}
	cause := context.Cause(p.ctx)
	var exit exitError
	var wrong scriptError
	switch {
	case errors.As(cause, &exit):
		return exit.code // at once, like os.Exit: other steps may be in the middle of a line
	case errors.As(cause, &wrong):
		fmt.Fprintf(p.stderr, "demo-agent: script %v\n", wrong)
		return exitScript
	}
	p.wait(shutdownGrace)
	return exitOK
}

// wait waits for the tasks that run, at most d: one that writes to a client that reads no more never ends.
func (p *player) wait(d time.Duration) {
	idle := make(chan struct{})
	go func() {
		p.answering.stop()
		p.tasks.Wait()
		close(idle)
	}()
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-idle:
	case <-t.C:
	}
}
