package gateway

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/acpgate/acpgate/agentpool/agenttest"
	"github.com/acpgate/acpgate/gateway/auth"
)

// pipes is a listener whose connections are in memory, for tests that own the clock.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), done: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.done) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8080} }

func (p *pipes) dial(context.Context, string, string) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case p.conns <- far:
		return near, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

// bubble runs f with a gateway in a synctest bubble. dialPipe connects a client that answers pings or not.
func bubble(t *testing.T, f func(t *testing.T, h *house, dialPipe func(answersPings bool) (*client, *atomic.Int64))) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := newPipes()
		h := open(t, func(s *setup) { s.gateway.Listener = p })
		f(t, h, func(answersPings bool) (*client, *atomic.Int64) {
			pings := new(atomic.Int64)
			c := h.dial(func(d *dialing) {
				d.opts.HTTPClient = oneShot(p.dial)
				d.opts.OnPingReceived = func(context.Context, []byte) bool {
					pings.Add(1)
					return answersPings
				}
			})
			return c, pings
		})
	})
}

// ending reads in the background and gives the close code.
func (c *client) ending() <-chan string {
	ch := make(chan string, 1)
	go func() {
		for {
			if _, _, err := c.ws.Read(context.Background()); err != nil {
				ch <- fmt.Sprint(int(websocket.CloseStatus(err)))
				return
			}
		}
	}()
	return ch
}

func TestW11_Case56_ASilentTurnIsKeptAliveByPings(t *testing.T) {
	bubble(t, func(t *testing.T, h *house, dialPipe func(bool) (*client, *atomic.Int64)) {
		c, pings := dialPipe(true)
		c.initialize()
		s := c.newSession()
		p := h.agents.Started(t, 1)
		p.Handle("session/prompt", agenttest.Manual)
		c.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":"p","method":"session/prompt","params":%s}`, promptParams(s, "think")))
		call := p.Await("session/prompt")
		answered := make(chan message)
		go func() {
			m := c.recv2()
			for strings.Contains(m.raw, "Explain the commands of the gateway") {
				m = c.recv2()
			}
			answered <- m
		}()
		time.Sleep(3*time.Minute + time.Second)
		synctest.Wait()
		if n := pings.Load(); n != 9 {
			t.Errorf("%d pings in three minutes, want 9", n)
		}
		call.Result(`{"stopReason":"end_turn"}`)
		if m := <-answered; string(m.ID) != `"p"` || m.Error != nil {
			t.Errorf("got %s", m.raw)
		}
	})
}

// recv2 is recv without a time limit.
func (c *client) recv2() message {
	_, b, err := c.ws.Read(context.Background())
	if err != nil {
		return message{raw: err.Error()}
	}
	return parse(b)
}

func TestW11_AClientThatDoesNotAnswerPingsIsClosed(t *testing.T) {
	bubble(t, func(t *testing.T, h *house, dialPipe func(bool) (*client, *atomic.Int64)) {
		c, pings := dialPipe(false)
		start := time.Now()
		if how := <-c.ending(); how != fmt.Sprint(codePingTimeout) {
			t.Errorf("closed with %s", how)
		}
		if after := time.Since(start); after != 40*time.Second || pings.Load() != 1 {
			t.Errorf("closed after %v and %d pings, want 40s and 1", after, pings.Load())
		}
		if n := counterValue(t, h.srv.metrics.pingTimeouts); n != 1 {
			t.Errorf("counted %v", n)
		}
	})
}

func TestW11_WhoeverSendsIsAliveEvenWithoutPongs(t *testing.T) {
	bubble(t, func(t *testing.T, _ *house, dialPipe func(bool) (*client, *atomic.Int64)) {
		c, _ := dialPipe(false)
		end := c.ending()
		for range 20 {
			time.Sleep(15 * time.Second)
			c.send(`{"jsonrpc":"2.0","method":"$/ping"}`)
		}
		start := time.Now()
		if how := <-end; how != fmt.Sprint(codePingTimeout) || time.Since(start) < 20*time.Second {
			t.Errorf("closed with %s after %v of silence", how, time.Since(start))
		}
	})
}

func TestW11_APeerThatNeitherReadsNorAnswersIsCut(t *testing.T) {
	bubble(t, func(t *testing.T, h *house, dialPipe func(bool) (*client, *atomic.Int64)) {
		dialPipe(false) // and never reads: over a pipe, not one byte of the ping can be written
		time.Sleep(41 * time.Second)
		synctest.Wait()
		if n := gaugeValue(t, h.srv.metrics.connections); n != 0 {
			t.Errorf("%v connections are left", n)
		}
	})
}

// A client that takes 16 KiB in five seconds and cannot even see the pings in front of it is slow, not gone.
func TestW6_ASlowReaderIsNotGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPipes()
		fake := &fakeSessions{open: openEndless([]byte(`{"jsonrpc":"2.0","method":"x","params":"` + strings.Repeat("x", 2000) + `"}`))}
		h := open(t, func(s *setup) { s.gateway.Listener, s.gateway.Sessions = p, fake })
		nc, err := p.dial(context.Background(), "", "")
		h.must(err)
		defer nc.Close()
		go fmt.Fprintf(nc, "GET /acp HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"+
			"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nAuthorization: Bearer %s\r\n\r\n", h.token)
		in := make([]byte, 16<<10)
		_, err = nc.Read(in)
		h.must(err)
		for _, f := range []string{`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`, `{"jsonrpc":"2.0","id":2,"method":"session/new","params":{}}`} {
			_, err := nc.Write(append([]byte{0x81, 0x80 | byte(len(f)), 0, 0, 0, 0}, f...))
			h.must(err)
		}
		for range 60 {
			_, err := io.ReadFull(nc, in)
			h.must(err)
			time.Sleep(5 * time.Second)
		}
		if n := gaugeValue(t, h.srv.metrics.connections); n != 1 {
			t.Error("the slow reader was closed")
		}
		time.Sleep(time.Minute) // now it has stopped reading
		synctest.Wait()
		if n := gaugeValue(t, h.srv.metrics.connections); n != 0 {
			t.Error("a peer that takes nothing any more was kept")
		}
	})
}

func TestW11_PingsOfTheClientAreAnswered(t *testing.T) {
	bubble(t, func(t *testing.T, _ *house, dialPipe func(bool) (*client, *atomic.Int64)) {
		c, _ := dialPipe(true)
		c.ending()
		for range 3 {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			if err := c.ws.Ping(ctx); err != nil {
				t.Error(err)
			}
			cancel()
		}
	})
}

func TestT1_AConnectionEndsWithItsToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPipes()
		h := open(t, func(s *setup) { s.gateway.Listener = p })
		token, err := auth.AddToken(h.state, "ann")
		h.must(err)
		c := h.dial(withHeader("Authorization", "Bearer "+token), func(d *dialing) {
			d.opts.HTTPClient = oneShot(p.dial)
		})
		end := c.ending()
		time.Sleep(time.Minute)
		h.must(auth.RemoveToken(h.state, "ann"))
		start := time.Now()
		if how := <-end; how != fmt.Sprint(codeSignedOut) {
			t.Errorf("closed with %s", how)
		}
		if after := time.Since(start); after > 20*time.Second {
			t.Errorf("closed after %v, want 20s at most", after)
		}
	})
}
