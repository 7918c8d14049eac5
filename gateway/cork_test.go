package gateway

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/coder/websocket"

	"github.com/acpgate/acpgate/agentpool/wire"
	"github.com/acpgate/acpgate/sessions"
)

// Frames of every header size, and around the size of a batch, come whole and in order, however they are gathered.
func TestCork_FramesOfAllSizes(t *testing.T) {
	sizes := []int{0, 1, 125, 126, 127, 65535, 65536, corkSize - 14, corkSize - 4, corkSize, corkSize + 1, 3*corkSize + 5, 1 << 20, 2, 3}
	left := append(append([]int(nil), sizes...), sizes...)
	h := open(t, func(s *setup) {
		s.gateway.Sessions = &fakeSessions{open: func(_ *conn, f *wire.Frame) (Attachment, error) {
			return &source{handle: "s", reply: f, next: func() []byte {
				if len(left) == 0 {
					return nil
				}
				b := bytes.Repeat([]byte{byte('a' + len(left)%26)}, left[0])
				left = left[1:]
				if b == nil {
					b = []byte{}
				}
				return b
			}}, nil
		}}
	})
	c := h.dial().initialize()
	c.send(`{"jsonrpc":"2.0","id":"n","method":"session/new","params":{}}`)
	c.until(`"n"`)
	n := 2 * len(sizes)
	for i := range n {
		_, b, err := c.ws.Read(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if want := sizes[i%len(sizes)]; len(b) != want || strings.Trim(string(b), string(rune('a'+(n-i)%26))) != "" {
			t.Fatalf("frame %d: %d bytes of %.10q, want %d", i, len(b), b, want)
		}
	}
}

// recorder is a socket that notes each write.
type recorder struct {
	net.Conn
	mu     sync.Mutex
	writes [][]byte
}

func (r *recorder) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.writes = append(r.writes, bytes.Clone(p))
	return len(p), nil
}

func TestCork_GathersWhileHeldOnly(t *testing.T) {
	r := &recorder{}
	c := &cork{Conn: r, pool: newCorkPool()}
	write := func(s string) {
		t.Helper()
		if _, err := c.Write([]byte(s)); err != nil {
			t.Fatal(err)
		}
	}
	write("now")
	c.hold()
	for range 1000 {
		if err := c.frame(opText, []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	write("close frame")
	if len(r.writes) != 1 {
		t.Fatalf("%d writes before the release", len(r.writes))
	}
	n, err := c.release()
	if err != nil || n != 2 { // with the first one
		t.Fatalf("release: %d writes, %v", n, err)
	}
	want := strings.Repeat("\x81\x01x", 1000) + "close frame"
	if len(r.writes) != 2 || string(r.writes[1]) != want {
		t.Errorf("%d writes, the second of %d bytes, want %d", len(r.writes), len(r.writes[1]), len(want))
	}
	write("now")
	if len(r.writes) != 3 || c.batch != nil {
		t.Error("not released")
	}
	// A frame larger than a batch is not copied whole, and leaves in pieces.
	c.hold()
	big := bytes.Repeat([]byte("y"), 10*corkSize+7)
	if err := c.frame(opText, big); err != nil {
		t.Fatal(err)
	}
	if _, err := c.release(); err != nil {
		t.Fatal(err)
	}
	var got []byte
	for _, w := range r.writes[3:] {
		if len(w) > corkSize {
			t.Errorf("a write of %d bytes", len(w))
		}
		got = append(got, w...)
	}
	if !bytes.Equal(got[10:], big) || got[0] != 0x81 || got[1] != 127 {
		t.Errorf("%d bytes came of %d", len(got)-10, len(big))
	}
}

// A client may send its first frames right behind the upgrade request.
func TestCork_WhatCameWithTheUpgradeIsRead(t *testing.T) {
	h := open(t)
	addr := h.srv.cfg.Listener.Addr().String()
	nc, err := net.Dial("tcp", addr)
	h.must(err)
	defer nc.Close()
	f := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`
	var b bytes.Buffer
	fmt.Fprintf(&b, "GET /acp HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"+
		"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nAuthorization: Bearer %s\r\n\r\n", addr, h.token)
	for range 50 { // more than one buffer of the HTTP server
		b.Write(append([]byte{0x81, 0x80 | byte(len(f)), 0, 0, 0, 0}, f...))
	}
	_, err = nc.Write(b.Bytes())
	h.must(err)
	h.eventually(func() bool { return counterValue(t, h.srv.metrics.framesIn) == 50 })
}

// The closing handshake is clean even while the gateway is writing.
func TestW11_ACloseDuringAStreamIsAnswered(t *testing.T) {
	fake := &fakeSessions{open: openEndless([]byte(`{"jsonrpc":"2.0","method":"x"}`))}
	h := open(t, func(s *setup) { s.gateway.Sessions = fake })
	const n = 5
	for range n {
		c := h.dial().initialize()
		c.send(`{"jsonrpc":"2.0","id":"n","method":"session/new","params":{}}`)
		c.until(`"n"`)
		if err := c.ws.Close(websocket.StatusNormalClosure, "bye"); err != nil {
			t.Errorf("close: %v", err)
		}
	}
	h.eventually(func() bool { return counterValue(t, h.srv.metrics.closes.WithLabelValues("normal")) == n })
	h.eventually(func() bool { return gaugeValue(t, h.srv.metrics.attachments) == 0 })
}

func TestW6_AttachmentsTakeTurns(t *testing.T) {
	blob := []byte(`{"jsonrpc":"2.0","method":"endless"}`)
	opened := 0
	small := make(chan *source, 1)
	var conns []*conn
	fake := &fakeSessions{open: func(c *conn, f *wire.Frame) (Attachment, error) {
		opened++
		if opened == 1 {
			return &source{handle: "endless", reply: f, next: func() []byte { return blob }}, nil
		}
		conns = append(conns, c)
		s := &source{handle: "small", reply: f, next: func() []byte { return nil }}
		small <- s
		return s, nil
	}}
	h := open(t, func(s *setup) { s.gateway.Sessions = fake })
	c := h.dial().initialize()
	c.send(`{"jsonrpc":"2.0","id":"e","method":"session/new","params":{}}`)
	c.until(`"e"`)
	c.send(`{"jsonrpc":"2.0","id":"s","method":"session/new","params":{}}`)
	c.until(`"s"`)
	s := <-small
	frames := 0
	s.mu.Lock()
	s.next = func() []byte {
		if frames++; frames%2 == 0 {
			return nil
		}
		return []byte(`{"jsonrpc":"2.0","method":"small"}`)
	}
	s.mu.Unlock()
	for range 20 {
		conns[0].wake(s)
		between := 0
		for c.recv().Method != "small" {
			between++
		}
		// What was on its way when the small one was woken, in kernel buffers too, and one share.
		if limit := (16 << 20) / len(blob); between > limit {
			t.Fatalf("%d frames of the other session came first", between)
		}
	}
	if c.ask("_acpgate/ping", "{}").Error != nil {
		t.Error("ping")
	}
}

func TestDroppedAttachmentsAreEmptiedAndDetached(t *testing.T) {
	var s *source
	var conn1 *conn
	pending := 3
	fake := &fakeSessions{open: func(c *conn, f *wire.Frame) (Attachment, error) {
		conn1 = c
		s = &source{handle: "s", reply: f, next: func() []byte { return nil }}
		return s, nil
	}}
	h := open(t, func(s *setup) { s.gateway.Sessions = fake })
	c := h.dial().initialize()
	c.send(`{"jsonrpc":"2.0","id":"n","method":"session/new","params":{}}`)
	c.until(`"n"`)
	c.send(`{"jsonrpc":"2.0","id":"open","method":"session/prompt","params":{"sessionId":"s"}}`)
	c.ask("_acpgate/ping", "{}")
	s.mu.Lock()
	s.next = func() []byte {
		if pending == 0 {
			return nil
		}
		pending--
		return []byte(`{"jsonrpc":"2.0","method":"last words"}`)
	}
	s.mu.Unlock()
	conn1.drop(s, sessions.ErrClosed)
	for range 3 {
		if m := c.recv(); m.Method != "last words" {
			t.Errorf("got %s", m.raw)
		}
	}
	m, _ := c.until(`"open"`)
	m.wantError(t, -32603, "reattached")
	h.eventually(func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.detached
	})
	conn1.wake(s) // too late, and harmless
	conn1.drop(s, sessions.ErrClosed)
	c.ask("session/prompt", promptParams("s", "x")).wantError(t, -32603, "internal") // Attach of the fake
}
