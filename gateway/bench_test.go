package gateway

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/acpgate/acpgate/agentpool/wire"
)

var update200 = []byte(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"` + strings.Repeat("x", 45) + `"}}}}`)

// BenchmarkStream is how fast one connection's frames leave when there are always more: the corked write loop against one
// write per frame.
func BenchmarkStream(b *testing.B) {
	b.Run("corked", func(b *testing.B) {
		left := b.N
		h := openBench(b, func() []byte {
			if left == 0 {
				return nil
			}
			left--
			return update200
		})
		stream(b, h, b.N)
	})
	b.Run("one write per frame", func(b *testing.B) {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ws, err := websocket.Accept(w, r, nil)
			if err != nil {
				b.Error(err)
				return
			}
			for range b.N {
				if ws.Write(context.Background(), websocket.MessageText, update200) != nil {
					break
				}
			}
			_ = ws.CloseNow()
		})}
		go func() { _ = srv.Serve(ln) }()
		defer srv.Close()
		nc := dialRaw(b, ln.Addr().String(), "/", "")
		defer nc.Close()
		b.SetBytes(int64(len(update200)))
		b.ResetTimer()
		if _, err := io.CopyN(io.Discard, nc, int64(b.N)*int64(len(update200)+4)); err != nil {
			b.Fatal(err)
		}
	})
}

// stream opens the session and reads n frames as raw bytes.
func stream(b *testing.B, h *house, n int) {
	b.Helper()
	nc := dialRaw(b, h.srv.cfg.Listener.Addr().String(), "/acp", h.token)
	defer nc.Close()
	for _, f := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`, `{"jsonrpc":"2.0","id":2,"method":"session/new","params":{}}`,
	} {
		frame := append([]byte{0x81, 0x80 | byte(len(f)), 0, 0, 0, 0}, f...)
		if _, err := nc.Write(frame); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(int64(len(update200)))
	b.ResetTimer()
	if _, err := io.CopyN(io.Discard, nc, int64(n)*int64(len(update200)+4)); err != nil {
		b.Fatal(err)
	}
}

func openBench(b *testing.B, next func() []byte) *house {
	b.Helper()
	fake := &fakeSessions{open: func(_ *conn, f *wire.Frame) (Attachment, error) {
		return &source{handle: "s", reply: f, next: next}, nil
	}}
	return open(b, func(s *setup) { s.gateway.Sessions = fake })
}

// dialRaw upgrades a TCP connection by hand, so that reading costs the benchmark next to nothing.
func dialRaw(tb testing.TB, addr, path, token string) net.Conn {
	tb.Helper()
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		tb.Fatal(err)
	}
	fmt.Fprintf(nc, "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"+
		"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nAuthorization: Bearer %s\r\n\r\n", path, addr, token)
	head := []byte{}
	one := make([]byte, 1)
	for !bytes.HasSuffix(head, []byte("\r\n\r\n")) {
		if _, err := io.ReadFull(nc, one); err != nil {
			tb.Fatal(err)
		}
		head = append(head, one[0])
	}
	if !bytes.HasPrefix(head, []byte("HTTP/1.1 101")) {
		tb.Fatalf("upgrade: %s", head)
	}
	_ = nc.SetDeadline(time.Now().Add(2 * time.Minute))
	return nc
}

// BenchmarkRoundTrip is a request that the gateway answers itself, against a WebSocket that echoes.
func BenchmarkRoundTrip(b *testing.B) {
	ask := []byte(`{"jsonrpc":"2.0","id":1,"method":"_acpgate/ping"}`)
	turn := func(b *testing.B, nc net.Conn, answer int) {
		b.Helper()
		frame := append([]byte{0x81, 0x80 | byte(len(ask)), 0, 0, 0, 0}, ask...)
		in := make([]byte, 2+answer)
		b.ResetTimer()
		for range b.N {
			if _, err := nc.Write(frame); err != nil {
				b.Fatal(err)
			}
			if _, err := io.ReadFull(nc, in); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.Run("gateway", func(b *testing.B) {
		h := open(b, func(s *setup) { s.gateway.Sessions = &fakeSessions{}; s.gateway.Limits.FrameRate = -1 })
		c := h.dial()
		c.initialize()
		nc := dialRaw(b, h.srv.cfg.Listener.Addr().String(), "/acp", h.token)
		defer nc.Close()
		f := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`
		if _, err := nc.Write(append([]byte{0x81, 0x80 | byte(len(f)), 0, 0, 0, 0}, f...)); err != nil {
			b.Fatal(err)
		}
		head := make([]byte, 4)
		if _, err := io.ReadFull(nc, head); err != nil {
			b.Fatal(err)
		}
		if _, err := io.CopyN(io.Discard, nc, int64(head[2])<<8|int64(head[3])); err != nil {
			b.Fatal(err)
		}
		turn(b, nc, len(`{"jsonrpc":"2.0","id":1,"result":{}}`))
	})
	b.Run("echo", func(b *testing.B) {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ws, err := websocket.Accept(w, r, nil)
			if err != nil {
				b.Error(err)
				return
			}
			for {
				typ, msg, err := ws.Read(context.Background())
				if err != nil || ws.Write(context.Background(), typ, msg) != nil {
					break
				}
			}
			_ = ws.CloseNow()
		})}
		go func() { _ = srv.Serve(ln) }()
		defer srv.Close()
		nc := dialRaw(b, ln.Addr().String(), "/", "")
		defer nc.Close()
		turn(b, nc, len(ask))
	})
}
