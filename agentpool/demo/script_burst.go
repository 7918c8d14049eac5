package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// burst writes many lines that differ in their counter only.
type burst struct {
	count  *template
	line   *template
	every  time.Duration // between lines, on an absolute schedule; 0 for as fast as the client reads
	block  int           // bytes per write; 0 for one write per line
	stderr bool
}

// parseBurst reads "N [every DURATION] [block BYTES] [stderr] | LINE".
func parseBurst(s string) (*burst, error) {
	head, line, ok := strings.Cut(s, " | ")
	if !ok {
		return nil, errors.New(`want N [every DURATION] [block BYTES] [stderr] | LINE`)
	}
	f := strings.Fields(head)
	if len(f) == 0 {
		return nil, errors.New("want the number of lines")
	}
	b := &burst{}
	var err error
	if b.count, err = parseTemplate(f[0]); err != nil {
		return nil, err
	}
	if b.line, err = parseTemplate(line); err != nil {
		return nil, err
	}
	for f = f[1:]; len(f) > 0; {
		switch {
		case f[0] == "stderr":
			b.stderr = true
			f = f[1:]
		case f[0] == "every" && len(f) > 1:
			if b.every, err = time.ParseDuration(f[1]); err != nil {
				return nil, err
			}
			f = f[2:]
		case f[0] == "block" && len(f) > 1:
			if b.block, err = strconv.Atoi(f[1]); err != nil {
				return nil, err
			}
			f = f[2:]
		default:
			return nil, fmt.Errorf("unexpected %q", f[0])
		}
	}
	if b.every > 0 && b.block > 0 {
		return nil, errors.New("every and block exclude each other")
	}
	return b, nil
}

// run writes the lines. The counter runs from 1. In blocks, what stays the same is filled in once, and a block is written
// under one lock, so that millions of lines a second leave and other tasks' lines come between blocks only.
func (b *burst) run(p *player, v *vars) error {
	text, err := b.count.expand(nil, v)
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(string(text))
	if err != nil {
		return fmt.Errorf("the number of lines is %q", text)
	}
	line, err := b.line.fix(v)
	if err != nil {
		return err
	}
	write := p.write
	if b.stderr {
		write = func(out []byte) error { return writeAll(p.stderr, out) }
	}
	var (
		buf   = make([]byte, 0, b.block+1024)
		count = vars{}
		began = time.Now()
	)
	for count.n = 1; count.n <= n; count.n++ {
		if b.every > 0 {
			if err := sleep(p.ctx, time.Until(began.Add(time.Duration(count.n-1)*b.every))); err != nil {
				return err
			}
		}
		size := len(buf)
		if buf, err = line.expand(buf, &count); err != nil {
			return err
		}
		buf = append(buf, '\n')
		if len(buf) <= b.block {
			continue
		}
		if size == 0 {
			size = len(buf) // a line that is larger than a block
		}
		if err := context.Cause(p.ctx); err != nil {
			return err
		}
		if err := write(buf[:size]); err != nil {
			return err
		}
		buf = buf[:copy(buf, buf[size:])]
	}
	if len(buf) == 0 {
		return nil
	}
	return write(buf)
}

func writeAll(w io.Writer, b []byte) error {
	_, err := w.Write(b)
	return err
}
