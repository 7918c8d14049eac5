package demo

import (
	"bufio"
	"errors"
	"io"
)

// maxLine bounds a line of stdin in bytes. The gateway's default frame limit is 32 MiB.
const maxLine = 64 << 20

var errLineTooLong = errors.New("line longer than 64 MiB")

// lineReader reads lines of any length up to maxLine.
type lineReader struct {
	r   *bufio.Reader
	buf []byte
}

func newLineReader(r io.Reader) *lineReader {
	return &lineReader{r: bufio.NewReaderSize(r, 64<<10)}
}

// next returns the next line without its newline, valid until the next call. A line over the limit is skipped to its end and
// gives errLineTooLong; the reader can go on. A last line without newline is not a message and gives io.EOF.
func (l *lineReader) next() ([]byte, error) {
	if cap(l.buf) > 1<<20 {
		l.buf = nil // one large prompt must not cost its size for ever
	}
	l.buf = l.buf[:0]
	tooLong := false
	for {
		part, err := l.r.ReadSlice('\n')
		if len(l.buf)+len(part) > maxLine {
			tooLong = true
			l.buf = l.buf[:0]
		}
		if !tooLong {
			l.buf = append(l.buf, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil:
			return nil, err
		case tooLong:
			return nil, errLineTooLong
		default:
			return l.buf[:len(l.buf)-1], nil
		}
	}
}
