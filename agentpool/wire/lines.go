package wire

import (
	"bytes"
	"io"
	"math"
)

// Sizes of a LineReader, in bytes.
const (
	DefaultMaxLine = 64 << 20 // rule W7
	PrefixSize     = 4 << 10  // what is kept of a line that is too long

	lineBuffer    = 64 << 10 // the buffer to begin with, and again after long lines
	keptBuffers   = 16       // a buffer up to so many times that stays while lines need it
	linesToShrink = 64       // after so many shorter lines it goes too
)

// LineReader splits what an agent writes into lines (rule W7). It reads into one buffer of 64 KiB, which doubles as a line
// needs it and becomes small again afterwards; the cost of a byte does not depend on how it arrives. While it waits for a
// line to begin it holds at most 1 MiB; while it collects one, at most the limit and, during a growth, half of that again.
// It is not safe for concurrent use.
type LineReader struct {
	r     io.Reader
	max   int
	small int   // size of the buffer that suffices for most lines
	err   error // of r, sticky; reported once the buffer holds no line any more

	buf        []byte // all of its capacity
	start, end int    // what is read and not yet given out
	scanned    int    // no newline between start and scanned
	short      int    // lines in a row that would have fitted a small buffer
	filled     bool   // the last read took all the room
}

// NewLineReader returns a reader of the lines of r. maxLine is the length of the longest line in bytes without its
// newline; 0 means 64 MiB, and 2 GiB is the most.
func NewLineReader(r io.Reader, maxLine int) *LineReader {
	if maxLine <= 0 {
		maxLine = DefaultMaxLine
	}
	return newLineReader(r, min(maxLine, math.MaxInt32), lineBuffer)
}

func newLineReader(r io.Reader, maxLine, small int) *LineReader {
	return &LineReader{r: r, max: maxLine, small: small, buf: make([]byte, small)}
}

// Next returns the next line without its LF or CR LF. The last line needs no newline. line is valid until the next call.
//
// A line that is longer than the limit is read to its newline and dropped: skipped is then its length (a CR before the
// newline counts) and line its first bytes, 4 KiB or one more than the limit if that is less; SessionOfPrefix and
// ResponseOfPrefix may make something of them. Otherwise skipped is 0.
//
// err is io.EOF after the last line, or the error of the reader; what came before it without a newline is then dropped.
func (l *LineReader) Next() (line []byte, skipped int64, err error) {
	for {
		if nl := l.newline(); nl >= 0 {
			line, skipped = l.cut(l.buf[l.start:nl:nl])
			l.start, l.scanned = nl+1, nl+1
			return line, skipped, nil
		}
		if l.end-l.start >= l.max+2 { // too long even if a CR LF comes next
			return l.skip()
		}
		if l.err != nil {
			if l.err == io.EOF && l.end > l.start {
				line, skipped = l.cut(l.buf[l.start:l.end:l.end])
				l.start, l.scanned = l.end, l.end
				return line, skipped, nil
			}
			return nil, 0, l.err
		}
		l.makeRoom()
		l.fill()
	}
}

// Buffered reports whether the buffer holds a whole line with its newline, so that Next returns without reading.
func (l *LineReader) Buffered() bool { return l.newline() >= 0 }

// Filled reports whether the last read filled all the room there was, so that there may be more to read already.
func (l *LineReader) Filled() bool { return l.filled }

// newline returns the index in buf of the next newline, -1 if it is not there yet.
func (l *LineReader) newline() int {
	if i := bytes.IndexByte(l.buf[l.scanned:l.end], '\n'); i >= 0 {
		l.scanned += i
		return l.scanned
	}
	l.scanned = l.end
	return -1
}

// cut makes of the bytes before a newline what Next returns.
func (l *LineReader) cut(b []byte) (line []byte, skipped int64) {
	if len(b) <= l.small {
		l.short++
	} else {
		l.short = 0
	}
	line = b
	if n := len(b); n > 0 && b[n-1] == '\r' {
		line = b[: n-1 : n-1]
	}
	if len(line) > l.max {
		n := l.prefix()
		return b[:n:n], int64(len(b))
	}
	return line, 0
}

func (l *LineReader) prefix() int { return min(PrefixSize, l.max+1) }

// skip reads on to the newline of a line that is too long, keeping the first bytes at the front of the buffer.
func (l *LineReader) skip() (prefix []byte, skipped int64, err error) {
	keep := l.prefix()
	skipped = int64(l.end - l.start)
	head := l.buf[l.start : l.start+keep]
	if len(l.buf) > l.small {
		l.buf = make([]byte, max(l.small, 2*keep))
	}
	copy(l.buf, head)
	for {
		l.start, l.scanned, l.end = keep, keep, keep
		if l.err != nil {
			if l.err == io.EOF {
				return l.buf[:keep:keep], skipped, nil
			}
			return nil, 0, l.err
		}
		l.fill()
		if nl := l.newline(); nl >= 0 {
			l.start, l.scanned = nl+1, nl+1
			return l.buf[:keep:keep], skipped + int64(nl-keep), nil
		}
		skipped += int64(l.end - keep)
	}
}

// makeRoom makes the buffer have room for more of the line that begins at start: at its end, at its front, or in another
// one: twice as long for a long line, a small one again when lines do not need it any more.
func (l *LineReader) makeRoom() {
	pending, size := l.end-l.start, len(l.buf)
	tooLarge := size > l.small && pending < l.small && (size > keptBuffers*l.small || l.short >= linesToShrink)
	switch {
	case tooLarge:
		size = l.small
	case pending > 0 && l.end < size:
		return
	case pending > size/2 && size < l.max+2:
		size = min(2*size, l.max+2)
	}
	buf := l.buf
	if size != len(buf) {
		buf = make([]byte, size)
	}
	copy(buf, l.buf[l.start:l.end])
	l.buf, l.start, l.scanned, l.end = buf, 0, l.scanned-l.start, pending
}

// fill reads once into the free end of the buffer.
func (l *LineReader) fill() {
	const tries = 100
	for range tries {
		n, err := l.r.Read(l.buf[l.end:])
		l.end += n
		l.filled = l.end == len(l.buf)
		l.err = err
		if n > 0 || err != nil {
			return
		}
	}
	l.err = io.ErrNoProgress
}
