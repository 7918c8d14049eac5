package agentpool

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"time"

	"golang.org/x/time/rate"
)

// Rates of the log of what agents write to stderr. The text is logged at debug level only (rule T7), each line cut at
// loggedLine bytes; how much there was is said at info level, at most once in summaryEvery.
const (
	loggedLine   = 1 << 10
	loggedRate   = 10 // lines a second
	loggedBurst  = 50
	summaryEvery = time.Minute
)

// readStderr drains stderr until it ends (rule W7): what is not kept in the ring is dropped, whatever the log does.
func (p *process) readStderr() {
	l := stderrLog{log: p.log, limit: rate.NewLimiter(loggedRate, loggedBurst), summary: rate.NewLimiter(rate.Every(summaryEvery), 1)}
	buf := make([]byte, 8<<10)
	for {
		n, err := p.child.stderr.Read(buf)
		if n > 0 {
			_, _ = p.stderr.Write(buf[:n])
			p.stats.stderrBytes.Add(uint64(n))
			l.write(buf[:n])
		}
		if err != nil {
			l.flush()
			return
		}
	}
}

// stderrLog logs lines at a bounded rate.
type stderrLog struct {
	log     *slog.Logger
	limit   *rate.Limiter
	summary *rate.Limiter

	line              []byte // the line that has not ended yet, up to loggedLine bytes
	lines, suppressed int    // since the last summary
}

func (l *stderrLog) write(b []byte) {
	for {
		i := bytes.IndexByte(b, '\n')
		part := b
		if i >= 0 {
			part = b[:i]
		}
		if room := loggedLine - len(l.line); room > 0 {
			l.line = append(l.line, part[:min(room, len(part))]...)
		}
		if i < 0 {
			return
		}
		l.endLine()
		b = b[i+1:]
	}
}

func (l *stderrLog) endLine() {
	l.lines++
	switch {
	case !l.log.Enabled(context.Background(), slog.LevelDebug):
	case l.limit.Allow():
		l.log.Debug("agent stderr", "line", strings.ToValidUTF8(string(l.line), "\uFFFD"))
	default:
		l.suppressed++
	}
	l.line = l.line[:0]
	if l.summary.Allow() {
		l.summarize()
	}
}

func (l *stderrLog) summarize() {
	l.log.Info("agent wrote to stderr", "lines", l.lines, "suppressed", l.suppressed)
	l.lines, l.suppressed = 0, 0
}

// flush logs what has not been logged when stderr ends.
func (l *stderrLog) flush() {
	if len(l.line) > 0 {
		l.endLine()
	}
	if l.lines > 0 {
		l.summarize()
	}
}
