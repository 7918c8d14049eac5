package gateway

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/acpgate/acpgate/agentpool/agenttest"
	"github.com/acpgate/acpgate/gateway/auth"
)

func TestN4_Case65_DrainThenShutdown(t *testing.T) {
	h := open(t)
	c := h.dial().initialize()
	s := c.newSession()
	p := h.agents.Started(t, 1)
	p.Handle("session/prompt", agenttest.Manual)
	c.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":"p","method":"session/prompt","params":%s}`, promptParams(s, "x")))
	call := p.Await("session/prompt")

	h.srv.Drain()
	if res, body := h.do(browser(t), http.MethodGet, "/readyz", ""); res.StatusCode != 503 || !strings.Contains(body, "draining") {
		t.Errorf("ready: %d %s", res.StatusCode, body)
	}
	_, res, err := h.tryDial()
	if err == nil {
		t.Fatal("a new connection was accepted")
	}
	if p := refusal(t, res); p.Status != 503 || p.Reason != "draining" || res.Header.Get("Retry-After") == "" {
		t.Errorf("refusal: %+v", p)
	}
	call.Result(`{"stopReason":"end_turn"}`)
	if m, _ := c.until(`"p"`); m.Error != nil {
		t.Errorf("the turn that ran: %s", m.raw)
	}

	other := h.srv
	h.stop()
	code, reason := c.closed()
	if code != codeRestart || !strings.HasPrefix(reason, "retry in ") {
		t.Errorf("closed with %d %q", code, reason)
	}
	h.must(<-h.ended)
	h.ended <- nil
	if _, err := net.Dial("tcp", other.cfg.Listener.Addr().String()); err == nil {
		t.Error("the listener is still open")
	}
}

func TestN4_RetryHintsAreSpread(t *testing.T) {
	seen := map[string]bool{}
	for range 100 {
		hint := retryHint()
		d, err := time.ParseDuration(strings.TrimPrefix(hint, "retry in "))
		if err != nil || d < time.Second || d > 3*time.Second || len(hint) > 123 {
			t.Fatalf("hint %q", hint)
		}
		seen[hint] = true
	}
	if len(seen) < 10 {
		t.Errorf("only %d different hints of 100", len(seen))
	}
}

// A peer that does not answer the close frame, or does not read at all, does not hold the shutdown up.
func TestN4_ShutdownCutsWhoDoesNotAnswer(t *testing.T) {
	blob := []byte(`{"jsonrpc":"2.0","method":"x","params":"` + strings.Repeat("x", 1<<20) + `"}`)
	fake := &fakeSessions{}
	fake.open = openEndless(blob)
	h := open(t, func(s *setup) { s.gateway.Sessions = fake })
	silent := dialRaw(t, h.srv.cfg.Listener.Addr().String(), "/acp", h.token)
	defer silent.Close()
	blocked := h.dial(withSmallBuffers).initialize()
	blocked.send(`{"jsonrpc":"2.0","id":"n","method":"session/new","params":{}}`)
	blocked.until(`"n"`)
	start := time.Now()
	h.stop()
	h.must(<-h.ended)
	h.ended <- nil
	if took := time.Since(start); took > 3*time.Second {
		t.Errorf("the shutdown took %v with a grace of 500ms", took)
	}
	b, err := io.ReadAll(silent)
	if err != nil || len(b) < 4 || b[0] != 0x88 {
		t.Errorf("the silent peer got %q, %v; want a close frame", b, err)
	}
}

// Somebody who always has something to read is told to come back all the same.
func TestN4_ShutdownEndsAnEndlessStream(t *testing.T) {
	blob := []byte(`{"jsonrpc":"2.0","method":"x","params":"` + strings.Repeat("x", 64<<10) + `"}`)
	fake := &fakeSessions{}
	fake.open = openEndless(blob)
	h := open(t, func(s *setup) { s.gateway.Sessions, s.gateway.Limits.CloseGrace = fake, 4*time.Second })
	c := h.dial(withSmallBuffers).initialize()
	c.send(`{"jsonrpc":"2.0","id":"n","method":"session/new","params":{}}`)
	c.until(`"n"`)
	end := make(chan int, 1)
	go func() {
		code, _ := c.closed()
		end <- code
	}()
	h.stop()
	if code := <-end; code != codeRestart {
		t.Errorf("closed with %d", code)
	}
}

func TestT6_Limits(t *testing.T) {
	h := open(t, func(s *setup) {
		s.gateway.Limits.Conns, s.gateway.Limits.ConnsPerPrincipal = 3, 2
		s.gateway.Limits.Requests, s.gateway.Limits.Attachments = 2, 2
	})
	token, err := auth.AddToken(h.state, "bob")
	h.must(err)
	bob := withHeader("Authorization", "Bearer "+token)
	a := h.dial().initialize()
	b := h.dial()
	refused := func(status int, mods ...dialOption) {
		t.Helper()
		_, res, err := h.tryDial(mods...)
		if err == nil {
			t.Fatal("one connection too many")
		}
		if p := refusal(t, res); p.Status != status || p.Reason != "connection_limit" || res.Header.Get("Retry-After") == "" {
			t.Errorf("refusal: %+v", p)
		}
	}
	refused(429)
	h.dial(bob)
	refused(503, bob)
	h.must(b.ws.Close(websocket.StatusNormalClosure, ""))
	h.eventually(func() bool { return gaugeValue(t, h.srv.metrics.connections) == 2 })
	h.dial()

	s1 := a.newSession()
	a.newSession()
	a.ask("session/new", fmt.Sprintf(`{"cwd":%q,"mcpServers":[]}`, h.dir)).wantError(t, -32603, "attachment_limit")
	if m := a.ask("session/load", fmt.Sprintf(`{"sessionId":%q,"cwd":%q,"mcpServers":[]}`, s1, h.dir)); m.Error != nil {
		t.Errorf("loading one of them again: %s", m.raw)
	}
	p := h.agents.Started(t, 1)
	p.Handle("x/slow", agenttest.Manual)
	for i := range 3 {
		a.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":"r%d","method":"x/slow","params":{"sessionId":%q}}`, i, s1))
	}
	m, _ := a.until(`"r2"`)
	m.wantError(t, -32603, "too_many_requests")
	p.Await("x/slow").Result("1")
	if m, _ := a.until(`"r0"`); m.Error != nil {
		t.Errorf("r0: %s", m.raw)
	}
	if m := a.ask("_acpgate/ping", "{}"); m.Error != nil {
		t.Errorf("with room again: %s", m.raw)
	}
}

func TestCase62_ConnectRate(t *testing.T) {
	h := open(t, func(s *setup) { s.gateway.Limits.ConnectRate, s.gateway.Limits.ConnectBurst = 1, 20 })
	c := h.dial().initialize()
	s := c.newSession()
	let, refused := 0, 0
	for range 60 {
		r, res, err := h.tryDial()
		if err != nil {
			if p := refusal(t, res); p.Status != 429 || p.Reason != "rate_limited" || res.Header.Get("Retry-After") == "" {
				t.Fatalf("refusal: %+v", p)
			}
			refused++
			continue
		}
		let++
		r.initialize()
		h.must(r.ws.CloseNow())
	}
	if let < 15 || let > 30 || refused == 0 {
		t.Errorf("%d let in, %d refused", let, refused)
	}
	if n := len(h.agents.Processes()); n != 1 {
		t.Errorf("%d processes were started", n)
	}
	if m := c.ask("session/prompt", promptParams(s, "still here")); m.Error != nil {
		t.Error(m.raw)
	}
}

func TestT6_FastClientsAreSlowedDown(t *testing.T) {
	for _, tt := range []struct {
		bound string
		mod   func(*Limits)
	}{
		{"frame_rate", func(l *Limits) { l.FrameRate = 100 }},
		{"byte_rate", func(l *Limits) { l.ByteRate = 8 << 10 }},
	} {
		h := open(t, func(s *setup) { tt.mod(&s.gateway.Limits) })
		c := h.dial().initialize()
		start := time.Now()
		for i := range 120 {
			c.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"_acpgate/ping","params":{"x":"0123456789"}}`, i+10))
		}
		for range 120 {
			if m := c.recv(); m.Error != nil {
				t.Fatalf("%s: %s", tt.bound, m.raw)
			}
		}
		if took := time.Since(start); took < 100*time.Millisecond {
			t.Errorf("%s: not slowed down: %v", tt.bound, took)
		}
		if counterValue(t, h.srv.metrics.pauses.WithLabelValues(tt.bound)) == 0 {
			t.Errorf("%s: not counted", tt.bound)
		}
	}
}

func TestT1_TLS(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	cert := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, cert, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	h := open(t, func(s *setup) {
		s.gateway.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, MinVersion: tls.VersionTLS12}
	})
	if !strings.HasPrefix(h.srv.URL(), "https://127.0.0.1:") {
		t.Errorf("URL %s", h.srv.URL())
	}
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	res, _ := h.do(&http.Client{Transport: transport}, http.MethodPost, "/api/v1/login", fmt.Sprintf(`{"token":%q}`, h.token))
	if c := res.Cookies(); len(c) != 1 || !c[0].Secure || res.ProtoMajor != 2 {
		t.Errorf("login over %s: %v", res.Proto, c)
	}
	c := h.dial(func(d *dialing) {
		d.opts.HTTPClient = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, DisableKeepAlives: true}}
	}, withHeader("Origin", h.srv.URL()))
	c.initialize()
	c.newSession()
}

func TestW11_CloseCodesOfClients(t *testing.T) {
	h := open(t)
	for code, label := range map[int]string{1000: "normal", 1001: "going_away", 4999: "other", 3000: "other"} {
		c := h.dial()
		h.must(c.ws.Close(websocket.StatusCode(code), ""))
		count := h.srv.metrics.closes.WithLabelValues(label)
		before := counterValue(t, count)
		h.eventually(func() bool { return counterValue(t, count) > 0 && counterValue(t, count) >= before })
	}
	c := h.dial()
	h.must(c.ws.CloseNow())
	h.eventually(func() bool { return counterValue(t, h.srv.metrics.closes.WithLabelValues("abnormal")) == 1 })
	h.eventually(func() bool { return gaugeValue(t, h.srv.metrics.connections) == 0 })
}

// An idle connection has one goroutine, and what belonged to its HTTP request is gone.
func TestIdleConnectionsAreSmall(t *testing.T) {
	const n = 300
	h := open(t, func(s *setup) { s.sessions.ViewsPerUser, s.gateway.Limits.ConnectRate = n+1, -1 })
	h.dial().initialize().newSession()
	measure := func() (heap uint64, goroutines int) {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc + m.StackInuse, runtime.NumGoroutine()
	}
	heap, goroutines := measure()
	conns := make([]net.Conn, n)
	for i := range conns {
		nc := dialRaw(t, h.srv.cfg.Listener.Addr().String(), "/acp", h.token)
		defer nc.Close()
		for _, f := range []string{
			`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`,
			fmt.Sprintf(`{"jsonrpc":"2.0","id":2,"method":"session/new","params":{"cwd":%q}}`, h.dir),
		} {
			if _, err := nc.Write(append([]byte{0x81, 0x80 | byte(len(f)), 0, 0, 0, 0}, f...)); err != nil {
				t.Fatal(err)
			}
		}
		conns[i] = nc
	}
	h.eventually(func() bool { return gaugeValue(t, h.srv.metrics.attachments) == n+1 })
	time.Sleep(100 * time.Millisecond)
	heapAfter, goroutinesAfter := measure()
	perConn := int64(heapAfter-heap) / n
	t.Logf("%d bytes and %.2f goroutines for each connection with a session, the client's end included", perConn, float64(goroutinesAfter-goroutines)/n)
	if perConn > 20<<10 && !raceEnabled { // the race detector needs more than what it watches
		t.Errorf("%d bytes for each idle connection with a session, want 20 KiB at most", perConn)
	}
	if goroutinesAfter-goroutines > n+5 {
		t.Errorf("%d goroutines for %d connections", goroutinesAfter-goroutines, n)
	}
}
