package demo

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// player plays one script.
type player struct {
	script *script
	stdout io.Writer
	stderr io.Writer
	ctx    context.Context // its cause says why the player ends
	end    context.CancelCauseFunc

	tasks     sync.WaitGroup // the main steps and reactions
	answering lanes          // answers, one after the other

	out sync.Mutex // held for one whole line, or one block of lines

	mu      sync.Mutex
	changed *sync.Cond
	inbox   []*captured // requests and notifications without a reaction
	replies []*captured // responses
	counts  map[string]int
	eof     bool
	done    bool // the main steps are through
}

func newPlayer(s *script, stdout, stderr io.Writer) *player {
	p := &player{script: s, stdout: stdout, stderr: stderr, counts: map[string]int{}}
	p.changed = sync.NewCond(&p.mu)
	p.ctx, p.end = context.WithCancelCause(context.Background())
	context.AfterFunc(p.ctx, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.changed.Broadcast()
	})
	return p
}

// read takes lines of stdin until it ends.
func (p *player) read(stdin io.Reader) {
	lines := newLineReader(stdin)
	for {
		line, err := lines.next()
		if errors.Is(err, errLineTooLong) {
			continue
		}
		if err != nil {
			break
		}
		if c, isResponse, ok := capture(line); ok {
			p.take(c, isResponse)
		}
	}
	p.mu.Lock()
	p.eof = true
	p.changed.Broadcast()
	over := p.done && !p.script.ignoreEOF
	p.mu.Unlock()
	if over {
		p.end(errStdinEnded)
	}
}

// finished is called when the main steps are through: the script goes on to react until stdin ends.
func (p *player) finished() {
	p.mu.Lock()
	p.done = true
	over := p.eof && !p.script.ignoreEOF
	p.mu.Unlock()
	if over {
		p.end(errStdinEnded)
	}
}

// take starts the reaction to a message, or keeps the message for a step that expects it.
func (p *player) take(c *captured, isResponse bool) {
	if t := p.script.answers[c.method]; t != nil && c.id != "" && !isResponse {
		p.mu.Lock()
		p.counts[c.method]++
		v := &vars{last: c, n: p.counts[c.method]}
		p.mu.Unlock()
		p.answering.run("", func() { p.check(p.answer(t, v)) })
		return
	}
	if steps, ok := p.script.reactions[c.method]; ok && !isResponse {
		p.mu.Lock()
		p.counts[c.method]++
		v := &vars{last: c, n: p.counts[c.method]}
		p.mu.Unlock()
		p.tasks.Add(1)
		go func() {
			defer p.tasks.Done()
			p.task(steps, v)
		}()
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if isResponse {
		p.replies = append(p.replies, c)
	} else {
		p.inbox = append(p.inbox, c)
	}
	p.changed.Broadcast()
}

func (p *player) answer(result *template, v *vars) error {
	line := append([]byte(`{"jsonrpc":"2.0","id":`), v.last.id...)
	line = append(line, `,"result":`...)
	line, err := result.expand(line, v)
	if err != nil {
		return err
	}
	return p.write(append(line, "}\n"...))
}

// task runs steps to their end; what goes wrong ends the player.
func (p *player) task(steps []step, v *vars) { p.check(p.run(steps, v)) }

func (p *player) check(err error) {
	if err != nil && p.ctx.Err() == nil {
		p.end(err)
	}
}

func (p *player) run(steps []step, v *vars) error {
	for _, s := range steps {
		if err := context.Cause(p.ctx); err != nil {
			return err
		}
		err := s.run(p, v)
		var exit exitError
		var inner scriptError
		switch {
		case err == nil:
		case p.ctx.Err() != nil, errors.As(err, &exit), errors.As(err, &inner):
			return err
		default:
			return scriptError{s.line, err}
		}
	}
	return nil
}

var errEnded = errors.New("stdin ended before it came")

// await waits until found, called with mu held, is true.
func (p *player) await(found func() bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for !found() {
		if p.ctx.Err() != nil {
			return context.Cause(p.ctx)
		}
		if p.eof && !p.script.ignoreEOF {
			return errEnded
		}
		p.changed.Wait()
	}
	return nil
}

// expect takes the first message with the method that no other step took.
func (p *player) expect(v *vars, method, name string) error {
	return p.await(func() bool {
		return takeFirst(&p.inbox, func(c *captured) bool { return c.method == method }, v, name)
	})
}

// expectResponse takes the response to the script's request id (raw JSON).
func (p *player) expectResponse(v *vars, id, name string) error {
	return p.await(func() bool {
		return takeFirst(&p.replies, func(c *captured) bool { return c.id == id }, v, name)
	})
}

func takeFirst(list *[]*captured, is func(*captured) bool, v *vars, name string) bool {
	for i, c := range *list {
		if is(c) {
			*list = append((*list)[:i:i], (*list)[i+1:]...)
			v.capture(name, c)
			return true
		}
	}
	return false
}

func (p *player) expectEOF() error {
	return p.await(func() bool { return p.eof })
}

// write writes bytes as they are, whole.
func (p *player) write(b []byte) error {
	p.out.Lock()
	defer p.out.Unlock()
	return writeAll(p.stdout, b)
}

func (p *player) send(t *template, v *vars) error {
	line, err := t.expand(nil, v)
	if err != nil {
		return err
	}
	return p.write(append(line, '\n'))
}

// sendBytes writes a line byte by byte.
func (p *player) sendBytes(t *template, v *vars, gap time.Duration) error {
	line, err := t.expand(nil, v)
	if err != nil {
		return err
	}
	line = append(line, '\n')
	p.out.Lock()
	defer p.out.Unlock()
	for i := range line {
		if err := writeAll(p.stdout, line[i:i+1]); err != nil {
			return err
		}
		if err := sleep(p.ctx, gap); err != nil {
			return err
		}
	}
	return nil
}

func (p *player) writeStderr(t *template, v *vars) error {
	line, err := t.expand(nil, v)
	if err != nil {
		return err
	}
	return writeAll(p.stderr, append(line, '\n'))
}

func (p *player) closeStdout() error {
	p.out.Lock()
	defer p.out.Unlock()
	if c, ok := p.stdout.(io.Closer); ok {
		return c.Close()
	}
	return errors.New("stdout cannot be closed")
}

// killSelf ends the process by a signal.
func (p *player) killSelf(sig syscall.Signal) error {
	signal.Reset(sig) // whoever listens to it would only be told
	if err := syscall.Kill(os.Getpid(), sig); err != nil {
		return err
	}
	return p.hang()
}

func (p *player) hang() error {
	<-p.ctx.Done()
	return context.Cause(p.ctx)
}
