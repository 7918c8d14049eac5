package demo

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// parser reads a script line by line. All mistakes are reported at once.
type parser struct {
	lines []string
	at    int  // index of the line that is read
	began bool // a step was read
	out   *script
	errs  []error
}

func parseScript(text string) (*script, error) {
	p := &parser{
		lines: strings.Split(text, "\n"),
		out:   &script{answers: map[string]*template{}, reactions: map[string][]step{}},
	}
	p.out.main = p.block(true)
	if len(p.errs) > 0 {
		return nil, errors.Join(p.errs...)
	}
	return p.out, nil
}

func (p *parser) fail(line int, format string, args ...any) {
	p.errs = append(p.errs, scriptError{line, fmt.Errorf(format, args...)})
}

// block reads steps up to the end of the file (top) or to the matching "end".
func (p *parser) block(top bool) []step {
	var steps []step
	opened := p.at
	for p.at < len(p.lines) {
		text := strings.TrimLeft(strings.TrimSuffix(p.lines[p.at], "\r"), " \t")
		p.at++
		line := p.at
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		word, rest, _ := strings.Cut(text, " ")
		if word == "end" {
			if top || rest != "" {
				p.fail(line, "end without a beginning, or with something behind it")
				continue
			}
			return steps
		}
		if p.topLevel(word, rest, line, top) {
			continue
		}
		p.began = true
		run, err := p.step(word, rest)
		if err != nil {
			p.fail(line, "%s: %w", word, err)
			continue
		}
		steps = append(steps, step{line, run})
	}
	if !top {
		p.fail(opened, "no end")
	}
	return steps
}

// topLevel reads what is no step: settings, which come first, and reactions. It reports whether the line was one.
func (p *parser) topLevel(word, rest string, line int, top bool) bool {
	switch word {
	case "stdin", "ignore":
		if p.began {
			p.fail(line, "%s: settings come before the first step", word)
			return true
		}
		if err := p.setting(word, rest); err != nil {
			p.fail(line, "%s: %w", word, err)
		}
		return true
	case "answer":
		method, result, _ := strings.Cut(rest, " ")
		t, err := parseTemplate(result)
		switch {
		case !top:
			p.fail(line, "answer: only at the top level")
		case err != nil:
			p.fail(line, "answer: %w", err)
		case method == "" || result == "":
			p.fail(line, "answer: want METHOD RESULT")
		case p.reacts(method):
			p.fail(line, "answer: %s has a reaction already", method)
		default:
			p.out.answers[method] = t
		}
		return true
	case "on":
		taken := p.reacts(rest)
		steps := p.block(false)
		switch {
		case !top:
			p.fail(line, "on: only at the top level")
		case rest == "" || strings.ContainsAny(rest, " \t"):
			p.fail(line, "on: want one METHOD")
		case taken:
			p.fail(line, "on: %s has a reaction already", rest)
		default:
			p.out.reactions[rest] = steps
		}
		return true
	}
	return false
}

func (p *parser) reacts(method string) bool {
	_, on := p.out.reactions[method]
	return on || p.out.answers[method] != nil
}

func (p *parser) setting(word, rest string) error {
	switch word + " " + rest {
	case "stdin off":
		p.out.stdinOff = true
	case "ignore eof":
		p.out.ignoreEOF = true
	default:
		sig, err := signalNamed(rest)
		if word != "ignore" || err != nil || sig == syscall.SIGKILL {
			return fmt.Errorf("unknown setting %q", rest)
		}
		p.out.ignored = append(p.out.ignored, sig)
	}
	return nil
}

// step reads one step.
func (p *parser) step(word, rest string) (func(*player, *vars) error, error) {
	switch word {
	case "expect":
		method, name, err := nameAs(rest)
		return func(pl *player, v *vars) error { return pl.expect(v, method, name) }, err
	case "expect-response":
		id, name, err := nameAs(rest)
		return func(pl *player, v *vars) error { return pl.expectResponse(v, id, name) }, err
	case "expect-eof":
		return func(pl *player, _ *vars) error { return pl.expectEOF() }, nothing(rest)
	case "send":
		t, err := parseTemplate(rest)
		return func(pl *player, v *vars) error { return pl.send(t, v) }, err
	case "bytes":
		gap, text, _ := strings.Cut(rest, " ")
		d, err := time.ParseDuration(gap)
		t, err2 := parseTemplate(text)
		return func(pl *player, v *vars) error { return pl.sendBytes(t, v, d) }, errors.Join(err, err2)
	case "write":
		s, err := strconv.Unquote(rest)
		return func(pl *player, _ *vars) error { return pl.write([]byte(s)) }, err
	case "burst":
		b, err := parseBurst(rest)
		return func(pl *player, v *vars) error { return b.run(pl, v) }, err
	case "stderr":
		t, err := parseTemplate(rest)
		return func(pl *player, v *vars) error { return pl.writeStderr(t, v) }, err
	case "sleep":
		d, err := time.ParseDuration(rest)
		return func(pl *player, _ *vars) error { return sleep(pl.ctx, d) }, err
	case "loop":
		return p.loop(rest)
	case "exit":
		code, err := strconv.Atoi(rest)
		return func(*player, *vars) error { return exitError{code} }, err
	case "kill":
		sig, err := signalNamed(rest)
		return func(pl *player, _ *vars) error { return pl.killSelf(sig) }, err
	case "close-stdout":
		return func(pl *player, _ *vars) error { return pl.closeStdout() }, nothing(rest)
	case "hang":
		return func(pl *player, _ *vars) error { return pl.hang() }, nothing(rest)
	default:
		return nil, errors.New("unknown step")
	}
}

// loop reads "loop N" or "loop forever" and its block.
func (p *parser) loop(rest string) (func(*player, *vars) error, error) {
	n, err := -1, error(nil)
	if rest != "forever" {
		n, err = strconv.Atoi(rest)
	}
	steps := p.block(false)
	return func(pl *player, v *vars) error {
		outer := v.n
		defer func() { v.n = outer }()
		for v.n = 1; n < 0 || v.n <= n; v.n++ {
			if err := pl.run(steps, v); err != nil {
				return err
			}
		}
		return nil
	}, err
}

// nameAs reads "WORD" or "WORD as NAME".
func nameAs(s string) (word, name string, err error) {
	f := strings.Fields(s)
	switch {
	case len(f) == 1:
		return f[0], "", nil
	case len(f) == 3 && f[1] == "as" && !strings.ContainsAny(f[2], ".:{}"):
		return f[0], f[2], nil
	default:
		return "", "", errors.New("want one word, or WORD as NAME")
	}
}

func nothing(rest string) error {
	if rest != "" {
		return fmt.Errorf("unexpected %q", rest)
	}
	return nil
}

// signalNamed finds a signal that can end a process, by its short lower-case name.
func signalNamed(name string) (syscall.Signal, error) {
	switch name {
	case "term":
		return syscall.SIGTERM, nil
	case "int":
		return syscall.SIGINT, nil
	case "hup":
		return syscall.SIGHUP, nil
	case "kill":
		return syscall.SIGKILL, nil
	default:
		return 0, fmt.Errorf("unknown signal %q", name)
	}
}
