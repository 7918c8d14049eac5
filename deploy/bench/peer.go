package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strings"
)

// peer is the client's end of a contender: frames out, frames in.
type peer interface {
	send(frame []byte) error
	// next returns the next frame; it is valid until the following call.
	next() ([]byte, error)
	close() error
}

const readBuffer = 256 << 10

// window is a buffer that is read into at its end and consumed at its front.
type window struct {
	r          io.Reader
	buf        []byte
	start, end int
}

func newWindow(r io.Reader) window { return window{r: r, buf: make([]byte, readBuffer)} }

func (w *window) unread() []byte { return w.buf[w.start:w.end] }

// fill reads more, making room first.
func (w *window) fill() error {
	if w.start == w.end {
		w.start, w.end = 0, 0
	}
	if w.end == len(w.buf) {
		if w.start > len(w.buf)/2 {
			w.end = copy(w.buf, w.unread())
			w.start = 0
		} else {
			w.buf = append(w.buf, make([]byte, len(w.buf))...)
		}
	}
	n, err := w.r.Read(w.buf[w.end:])
	w.end += n
	if n > 0 {
		return nil
	}
	return err
}

// socket is a WebSocket client with just what the benchmark needs: reading a frame costs it a few nanoseconds, so that it
// is not what is measured. Frames that it sends are masked, as they must be, with a key of zeros.
type socket struct {
	nc  net.Conn
	in  window
	out []byte
}

// closeError is a close frame of the server.
type closeError struct {
	code   int
	reason string
}

func (e closeError) Error() string { return fmt.Sprintf("closed: %d %s", e.code, e.reason) }

// dial connects and upgrades. token is sent as a bearer token unless it is empty.
func dial(addr, path, token string, small bool) (*socket, error) {
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	s := &socket{nc: nc, in: newWindow(nc)}
	if small {
		s.in.buf = s.in.buf[: 1<<10 : 1<<10]
	}
	header := ""
	if token != "" {
		header = "Authorization: Bearer " + token + "\r\n"
	}
	_, err = fmt.Fprintf(nc, "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n%s\r\n", path, addr, header)
	for err == nil {
		if i := bytes.Index(s.in.unread(), []byte("\r\n\r\n")); i >= 0 {
			head := string(s.in.unread()[:i])
			s.in.start += i + 4
			if !strings.HasPrefix(head, "HTTP/1.1 101 ") {
				err = fmt.Errorf("upgrade refused: %s", head)
				break
			}
			return s, nil
		}
		err = s.in.fill()
	}
	return nil, errors.Join(err, nc.Close())
}

const (
	opText  = 0x81 // and the last fragment
	opClose = 0x88
	opPing  = 0x89
	opPong  = 0x8A

	maskBit = 0x80
	len16   = 126
	len64   = 127
	keySize = 4
)

func (s *socket) send(frame []byte) error { return s.write(opText, frame) }

func (s *socket) write(op byte, payload []byte) error {
	b := append(s.out[:0], op)
	switch n := len(payload); {
	case n < len16:
		b = append(b, maskBit|byte(n))
	case n < 1<<16:
		b = binary.BigEndian.AppendUint16(append(b, maskBit|len16), uint16(n))
	default:
		b = binary.BigEndian.AppendUint64(append(b, maskBit|len64), uint64(n))
	}
	b = append(b, make([]byte, keySize)...)
	b = append(b, payload...)
	if cap(b) <= readBuffer {
		s.out = b
	}
	_, err := s.nc.Write(b)
	return err
}

func (s *socket) next() ([]byte, error) {
	for {
		op, payload, ok := s.frame()
		switch {
		case !ok:
			if err := s.in.fill(); err != nil {
				return nil, err
			}
		case op == opText:
			return payload, nil
		case op == opPing:
			if err := s.write(opPong, payload); err != nil {
				return nil, err
			}
		case op == opClose && len(payload) >= 2:
			return nil, closeError{int(binary.BigEndian.Uint16(payload)), string(payload[2:])}
		default:
			return nil, fmt.Errorf("frame of type %#x, which no contender sends", op)
		}
	}
}

// frame takes a whole frame out of the buffer.
func (s *socket) frame() (op byte, payload []byte, ok bool) {
	b := s.in.unread()
	if len(b) < 2 {
		return 0, nil, false
	}
	head, n := 2, int(b[1])
	switch {
	case n == len16 && len(b) >= 4:
		head, n = 4, int(binary.BigEndian.Uint16(b[2:]))
	case n == len64 && len(b) >= 10:
		head, n = 10, int(binary.BigEndian.Uint64(b[2:]))
	case n >= len16:
		return 0, nil, false
	}
	if len(b) < head+n {
		return 0, nil, false
	}
	s.in.start += head + n
	return b[0], b[head : head+n], true
}

func (s *socket) close() error {
	_ = s.write(opClose, []byte{3, 232}) // 1000; the peer may have closed already
	return s.nc.Close()
}

// pipes is the agent itself on its stdin and stdout: the limit of what any gateway can reach.
type pipes struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	in    window
}

func start(argv []string) (*pipes, error) {
	p := &pipes{cmd: exec.Command(argv[0], argv[1:]...)}
	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.stdin, p.in = stdin, newWindow(stdout)
	return p, p.cmd.Start()
}

func (p *pipes) send(frame []byte) error {
	_, err := p.stdin.Write(append(frame[:len(frame):len(frame)], '\n'))
	return err
}

func (p *pipes) next() ([]byte, error) {
	scanned := 0
	for {
		b := p.in.unread()
		if i := bytes.IndexByte(b[scanned:], '\n'); i >= 0 {
			p.in.start += scanned + i + 1
			return b[:scanned+i], nil
		}
		scanned = len(b)
		if err := p.in.fill(); err != nil {
			return nil, err
		}
	}
}

func (p *pipes) close() error { return errors.Join(p.stdin.Close(), p.cmd.Wait()) }
