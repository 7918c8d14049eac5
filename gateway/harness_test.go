package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/acpgate/acpgate/agentpool/agenttest"
	"github.com/acpgate/acpgate/gateway/auth"
	"github.com/acpgate/acpgate/sessions"
)

// house is a running gateway with in-memory agents.
type house struct {
	t      testing.TB
	srv    *Server
	agents *agenttest.Agents
	dir    string // an allowed root
	state  string
	token  string // of the user "local"
	stop   context.CancelFunc
	ended  chan error
}

type setup struct {
	gateway  Config
	sessions sessions.Config
	agents   agenttest.Config
	auth     auth.Config
}

// open starts a gateway on a free port, or on the listener of the setup.
func open(t testing.TB, mods ...func(*setup)) *house {
	t.Helper()
	h := &house{t: t, dir: t.TempDir(), state: t.TempDir(), ended: make(chan error, 1)}
	s := setup{auth: auth.Config{StateDir: h.state}}
	s.gateway.Limits.CloseGrace = 500 * time.Millisecond
	for _, mod := range mods {
		mod(&s)
	}
	h.agents = agenttest.New(t, s.agents)
	s.sessions.Agents = h.agents
	s.sessions.Roots = []string{h.dir}
	mgr, err := sessions.NewManager(s.sessions)
	h.must(err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		h.must(mgr.Close(ctx))
	})
	if s.gateway.Listener == nil {
		s.gateway.Listener, err = net.Listen("tcp", "127.0.0.1:0")
		h.must(err)
	}
	s.gateway.Auth, err = auth.New(s.auth)
	h.must(err)
	if s.auth.Mode == "" {
		b, err := os.ReadFile(filepath.Join(h.state, "token"))
		h.must(err)
		h.token = strings.TrimSpace(string(b))
	}
	if s.gateway.Sessions == nil {
		s.gateway.Sessions = Serving(mgr)
	}
	if s.gateway.Agents == nil {
		s.gateway.Agents = func(string) []Agent {
			var list []Agent
			for _, n := range h.agents.Names() {
				list = append(list, Agent{Name: n})
			}
			return list
		}
	}
	s.gateway.Roots = []string{h.dir}
	s.gateway.Version = "test"
	h.srv, err = New(s.gateway)
	h.must(err)
	ctx, cancel := context.WithCancel(context.Background())
	h.stop = cancel
	go func() { h.ended <- h.srv.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		h.must(<-h.ended)
		h.ended <- nil
	})
	return h
}

func (h *house) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

// client is a WebSocket client that shows what came, frame by frame.
type client struct {
	t   testing.TB
	h   *house
	ws  *websocket.Conn
	res *http.Response
	id  int
}

type dialOption func(*dialing)

type dialing struct {
	path string
	opts websocket.DialOptions
}

func path(p string) dialOption { return func(d *dialing) { d.path = p } }

func withHeader(name, value string) dialOption {
	return func(d *dialing) { d.opts.HTTPHeader.Set(name, value) }
}

func offering(protocols ...string) dialOption {
	return func(d *dialing) { d.opts.Subprotocols = protocols }
}

func anonymous(d *dialing) { d.opts.HTTPHeader.Del("Authorization") }

// oneShot is an HTTP client that leaves no connection and no goroutine behind. dial may be nil.
func oneShot(dial func(ctx context.Context, network, addr string) (net.Conn, error)) *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
}

// tryDial connects as the user "local" unless told otherwise.
func (h *house) tryDial(mods ...dialOption) (*client, *http.Response, error) {
	d := dialing{path: "/acp"}
	d.opts.HTTPHeader = http.Header{"Authorization": {"Bearer " + h.token}}
	d.opts.HTTPClient = oneShot(nil)
	for _, mod := range mods {
		mod(&d)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	ws, res, err := websocket.Dial(ctx, h.srv.URL()+d.path, &d.opts)
	if err != nil {
		return nil, res, err
	}
	ws.SetReadLimit(-1)
	c := &client{t: h.t, h: h, ws: ws, res: res}
	h.t.Cleanup(func() { _ = ws.CloseNow() })
	return c, res, nil
}

func (h *house) dial(mods ...dialOption) *client {
	h.t.Helper()
	c, _, err := h.tryDial(mods...)
	h.must(err)
	return c
}

func (c *client) send(frames ...string) {
	c.t.Helper()
	for _, f := range frames {
		if err := c.ws.Write(context.Background(), websocket.MessageText, []byte(f)); err != nil {
			c.t.Fatalf("send: %v", err)
		}
	}
}

// message is one frame from the gateway.
type message struct {
	raw    string
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
		Data    struct {
			Reason   string          `json:"reason"`
			Hint     string          `json:"hint"`
			Stderr   string          `json:"stderr"`
			Original json.RawMessage `json:"original"`
		} `json:"data"`
	} `json:"error"`
}

func (m message) text() string {
	var p struct {
		Update struct {
			Content struct {
				Text string `json:"text"`
			} `json:"content"`
		} `json:"update"`
	}
	_ = json.Unmarshal(m.Params, &p)
	return p.Update.Content.Text
}

// recv returns the next frame, but for the list of the gateway's own commands that every session begins with.
func (c *client) recv() message {
	c.t.Helper()
	for {
		if m := c.recvAny(); !strings.Contains(m.raw, "Explain the commands of the gateway") {
			return m
		}
	}
}

func (c *client) recvAny() message {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	typ, b, err := c.ws.Read(ctx)
	if err != nil {
		c.t.Fatalf("receive: %v", err)
	}
	if typ != websocket.MessageText {
		c.t.Fatalf("a binary frame came: %q", b)
	}
	return parse(b)
}

func parse(b []byte) message {
	m := message{raw: string(b)}
	if err := json.Unmarshal(b, &m); err != nil {
		m.Error = nil
		m.raw = "not JSON: " + m.raw
	}
	return m
}

// until receives up to the response to id and returns it, with what came before it.
func (c *client) until(id string) (response message, before []message) {
	c.t.Helper()
	for {
		m := c.recv()
		if m.Method == "" && string(m.ID) == id {
			return m, before
		}
		before = append(before, m)
	}
}

// ask sends a request and returns its response.
func (c *client) ask(method, params string) message {
	c.t.Helper()
	c.id++
	c.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, c.id, method, params))
	m, _ := c.until(fmt.Sprint(c.id))
	return m
}

const plainInitialize = `{"protocolVersion":1,"clientCapabilities":{}}`

func (c *client) initialize() *client {
	c.t.Helper()
	if m := c.ask("initialize", plainInitialize); m.Error != nil {
		c.t.Fatalf("initialize: %s", m.raw)
	}
	return c
}

func (c *client) newSession() string {
	c.t.Helper()
	m := c.ask("session/new", fmt.Sprintf(`{"cwd":%q,"mcpServers":[]}`, c.h.dir))
	var r struct {
		SessionID string `json:"sessionId"`
	}
	if m.Error != nil || json.Unmarshal(m.Result, &r) != nil || r.SessionID == "" {
		c.t.Fatalf("session/new: %s", m.raw)
	}
	return r.SessionID
}

func promptParams(session, text string) string {
	return fmt.Sprintf(`{"sessionId":%q,"prompt":[{"type":"text","text":%q}]}`, session, text)
}

// wantError checks a response.
func (m message) wantError(t testing.TB, code int, reason string) {
	t.Helper()
	if m.Error == nil || m.Error.Code != code || m.Error.Data.Reason != reason {
		t.Errorf("got %s; want error %d with reason %s", m.raw, code, reason)
	}
}

// closed waits for the end of the connection and returns its close code and reason.
func (c *client) closed() (code int, reason string) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for {
		_, _, err := c.ws.Read(ctx)
		if err == nil {
			continue
		}
		var ce websocket.CloseError
		if ok := asCloseError(err, &ce); ok {
			return int(ce.Code), ce.Reason
		}
		if ctx.Err() != nil {
			c.t.Fatal("the connection was not closed")
		}
		return codeAbnormal, err.Error()
	}
}

// refusal is the problem+json of a refused upgrade.
func refusal(t testing.TB, res *http.Response) problem {
	t.Helper()
	if res == nil {
		t.Fatal("no HTTP answer")
	}
	var p problem
	if err := json.NewDecoder(res.Body).Decode(&p); err != nil {
		t.Fatalf("status %d without problem+json: %v", res.StatusCode, err)
	}
	return p
}

// eventually waits for a condition that other goroutines bring about.
func (h *house) eventually(ok func() bool) {
	h.t.Helper()
	for end := time.Now().Add(10 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			h.t.Fatal("this has not come about")
		}
	}
}

func metricValue(t testing.TB, m prometheus.Metric) *dto.Metric {
	t.Helper()
	var out dto.Metric
	if err := m.Write(&out); err != nil {
		t.Fatal(err)
	}
	return &out
}

func counterValue(t testing.TB, c prometheus.Counter) float64 {
	t.Helper()
	return metricValue(t, c).GetCounter().GetValue()
}

func gaugeValue(t testing.TB, g prometheus.Gauge) float64 {
	t.Helper()
	return metricValue(t, g).GetGauge().GetValue()
}
