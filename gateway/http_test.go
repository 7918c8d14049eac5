package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/cookiejar"
	"strings"
	"sync"
	"testing"

	"github.com/acpgate/acpgate/gateway/auth"
)

// browser is an HTTP client with cookies that does not follow redirects.
func browser(t *testing.T) *http.Client {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	b := oneShot(nil)
	b.Jar, b.CheckRedirect = jar, func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return b
}

type requestOption func(*http.Request)

func header(name, value string) requestOption {
	return func(r *http.Request) {
		if name == "Host" {
			r.Host = value
		}
		r.Header.Set(name, value)
	}
}

// do sends a request; with a body it is JSON.
func (h *house) do(b *http.Client, method, path, body string, mods ...requestOption) (*http.Response, string) {
	h.t.Helper()
	r, err := http.NewRequest(method, h.srv.URL()+path, strings.NewReader(body))
	h.must(err)
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
	}
	for _, mod := range mods {
		mod(r)
	}
	res, err := b.Do(r)
	h.must(err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	h.must(err)
	return res, string(text)
}

func (h *house) login(b *http.Client) {
	h.t.Helper()
	res, body := h.do(b, http.MethodPost, "/api/v1/login", fmt.Sprintf(`{"token":%q}`, h.token))
	if res.StatusCode != 200 || body != "{\"principal\":\"local\"}\n" {
		h.t.Fatalf("login: %d %s", res.StatusCode, body)
	}
}

// cookies are the browser's cookies for the gateway, as a header.
func (h *house) cookies(b *http.Client) string {
	h.t.Helper()
	r, err := http.NewRequest(http.MethodGet, h.srv.URL(), nil)
	h.must(err)
	for _, c := range b.Jar.Cookies(r.URL) {
		r.AddCookie(c)
	}
	return r.Header.Get("Cookie")
}

func wantProblem(t *testing.T, res *http.Response, body string, status int, reason string) {
	t.Helper()
	var p problem
	if ct := res.Header.Get("Content-Type"); ct != "application/problem+json" || json.Unmarshal([]byte(body), &p) != nil {
		t.Fatalf("status %d %s %s, want problem+json %d %s", res.StatusCode, ct, body, status, reason)
	}
	if res.StatusCode != status || p.Status != status || p.Reason != reason || p.Title == "" {
		t.Errorf("got %d %+v, want %d %s", res.StatusCode, p, status, reason)
	}
}

func TestT1_LoginLinkAndToken(t *testing.T) {
	h := open(t)
	b := browser(t)
	res, body := h.do(b, http.MethodGet, "/api/v1/me", "")
	wantProblem(t, res, body, 401, "unauthorized")

	link, err := h.srv.LoginLink()
	h.must(err)
	path := strings.TrimPrefix(link, h.srv.URL())
	if res, _ := h.do(b, http.MethodHead, path, ""); len(res.Cookies()) != 0 { // a link preview must not use it up
		t.Errorf("HEAD of the login link: %d, %v", res.StatusCode, res.Cookies())
	}
	res, _ = h.do(b, http.MethodGet, path, "")
	if res.StatusCode != http.StatusSeeOther || res.Header.Get("Location") != "/" || res.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("login link: %d to %q", res.StatusCode, res.Header.Get("Location"))
	}
	if c := res.Cookies(); len(c) != 1 || !c[0].HttpOnly || c[0].SameSite != http.SameSiteStrictMode || c[0].Secure {
		t.Errorf("cookie: %v", c)
	}
	res, body = h.do(b, http.MethodGet, "/api/v1/me", "")
	if res.StatusCode != 200 || body != "{\"auth\":\"token\",\"principal\":\"local\",\"version\":\"test\",\"via\":\"cookie\"}\n" {
		t.Errorf("me: %d %s", res.StatusCode, body)
	}
	res, _ = h.do(browser(t), http.MethodGet, path, "")
	if res.Header.Get("Location") != "/?login=failed" || len(res.Cookies()) != 0 {
		t.Errorf("the link again: %q, %v", res.Header.Get("Location"), res.Cookies())
	}

	other := browser(t)
	res, body = h.do(other, http.MethodPost, "/api/v1/login", `{"token":"wrong"}`)
	wantProblem(t, res, body, 401, "unauthorized")
	h.login(other)
	// A login ticket for another browser, as "acpgate token link" gets one.
	res, body = h.do(other, http.MethodPost, "/api/v1/tickets", `{"for":"login"}`)
	var ticket struct {
		Ticket    string `json:"ticket"`
		ExpiresIn int    `json:"expiresIn"`
	}
	if json.Unmarshal([]byte(body), &ticket) != nil || ticket.ExpiresIn != 900 {
		t.Fatalf("ticket: %d %s", res.StatusCode, body)
	}
	if res, _ := h.do(browser(t), http.MethodGet, "/login?ticket="+ticket.Ticket, ""); res.Header.Get("Location") != "/" {
		t.Errorf("login ticket: %q", res.Header.Get("Location"))
	}
	for _, bad := range []string{`{"token":7}`, `{"tok":"x"}`, `{"token":"x"} 1`, `{`, strings.Repeat(" ", 20<<10) + "{}"} {
		res, body := h.do(other, http.MethodPost, "/api/v1/login", bad)
		wantProblem(t, res, body, 400, "bad_request")
	}
}

func TestT2_LogoutEndsTheSocketsOfThatBrowser(t *testing.T) {
	h := open(t)
	one, two := browser(t), browser(t)
	h.login(one)
	h.login(two)
	sockets := func(b *http.Client) *client {
		return h.dial(anonymous, withHeader("Cookie", h.cookies(b)), withHeader("Origin", h.srv.URL())).initialize()
	}
	a, b := sockets(one), sockets(two)
	res, body := h.do(one, http.MethodPost, "/api/v1/tickets", "{}")
	var ticket struct {
		Ticket string `json:"ticket"`
	}
	if json.Unmarshal([]byte(body), &ticket) != nil {
		t.Fatalf("ticket: %d %s", res.StatusCode, body)
	}
	byTicket := h.dial(anonymous, path("/acp?ticket="+ticket.Ticket))
	if res, _ := h.do(one, http.MethodPost, "/api/v1/logout", ""); res.StatusCode != http.StatusNoContent {
		t.Errorf("logout: %d", res.StatusCode)
	}
	for _, c := range []*client{a, byTicket} {
		if code, _ := c.closed(); code != codeSignedOut {
			t.Errorf("closed with %d", code)
		}
	}
	if res, _ := h.do(one, http.MethodGet, "/api/v1/me", ""); res.StatusCode != 401 {
		t.Errorf("me after logout: %d", res.StatusCode)
	}
	if m := b.ask("_acpgate/ping", "{}"); m.Error != nil {
		t.Errorf("the other browser: %s", m.raw)
	}
}

func TestT2_Case78_OriginAndHost(t *testing.T) {
	h := open(t, func(s *setup) {
		s.gateway.AllowHosts = []string{"chat.example.org", "proxy.example.org:8443"}
		s.gateway.AllowOrigins = []string{"https://app.example.org"}
	})
	b := browser(t)
	h.login(b)
	cookie := h.cookies(b)
	addr := h.srv.cfg.Listener.Addr().String()
	_, port, err := net.SplitHostPort(addr)
	h.must(err)
	for _, tt := range []struct {
		host, origin string
		cookie       bool
		reason       string // "" means let in
	}{
		{addr, "", false, ""},
		{addr, "", true, "origin_required"},
		{addr, "http://" + addr, true, ""},
		{addr, "http://localhost:" + port, true, ""},
		{"localhost:" + port, "http://localhost:" + port, true, ""},
		{"LOCALHOST:" + port, "http://localhost:" + port, true, ""},
		{"[::1]:" + port, "http://[::1]:" + port, true, ""},
		{addr, "http://localhost:1", true, "origin_not_allowed"},
		{addr, "https://evil.example", true, "origin_not_allowed"},
		{addr, "https://evil.example", false, "origin_not_allowed"},
		{addr, "null", true, "origin_not_allowed"},
		{addr, "http://" + addr + ".evil.example", true, "origin_not_allowed"},
		{addr, "http://" + addr + "/", true, "origin_not_allowed"},
		{addr, "file://", true, "origin_not_allowed"},
		{addr, "https://app.example.org", true, ""},
		{addr, "https://app.example.org:443", true, ""},
		{addr, "http://app.example.org", true, "origin_not_allowed"},
		{"chat.example.org", "https://chat.example.org", true, ""},
		{"chat.example.org:9", "https://chat.example.org:9", true, ""},
		{"proxy.example.org:8443", "https://proxy.example.org:8443", true, ""},
		{"proxy.example.org", "", false, "host_not_allowed"},
		{"evil.example:" + port, "http://evil.example:" + port, true, "host_not_allowed"},
		{"evil.example:" + port, "", false, "host_not_allowed"},
		{"127.0.0.1:1", "", false, "host_not_allowed"},
		{"127.0.0.1", "", false, "host_not_allowed"},
		{"192.0.2.1:" + port, "", false, "host_not_allowed"},
	} {
		name := fmt.Sprintf("host %s origin %s cookie %v", tt.host, tt.origin, tt.cookie)
		mods := []dialOption{func(d *dialing) { d.opts.Host = tt.host }}
		if tt.origin != "" {
			mods = append(mods, withHeader("Origin", tt.origin))
		}
		if tt.cookie {
			mods = append(mods, anonymous, withHeader("Cookie", cookie))
		}
		c, res, err := h.tryDial(mods...)
		switch {
		case tt.reason == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case tt.reason == "":
			c.initialize()
		case err == nil:
			t.Errorf("%s: let in", name)
		default:
			if p := refusal(t, res); p.Status != 403 || p.Reason != tt.reason || (p.Hint == "" && tt.reason != "no_route") {
				t.Errorf("%s: got %+v, want %s", name, p, tt.reason)
			}
		}
	}
	// Every route but the probes looks at Host.
	for path, want := range map[string]int{"/": 403, "/api/v1/me": 403, "/login?ticket=x": 403, "/metrics": 403, "/healthz": 200, "/readyz": 200} {
		if res, _ := h.do(b, http.MethodGet, path, "", header("Host", "evil.example")); res.StatusCode != want {
			t.Errorf("%s under a foreign name: %d, want %d", path, res.StatusCode, want)
		}
	}
}

func TestT2_ListeningOnAllAddressesEachIsOurName(t *testing.T) {
	ln, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	h := open(t, func(s *setup) { s.gateway.Listener = ln })
	_, port, err := net.SplitHostPort(ln.Addr().String())
	h.must(err)
	if want := "http://localhost:" + port; h.srv.URL() != want {
		t.Errorf("URL %s, want %s", h.srv.URL(), want)
	}
	for host, want := range map[string]int{
		"localhost:" + port: 401, "127.0.0.1:" + port: 401, "127.0.0.2:" + port: 403, "192.0.2.7:" + port: 403, "evil.example:" + port: 403,
	} {
		r, err := http.NewRequest(http.MethodGet, "http://127.0.0.1:"+port+"/api/v1/me", nil)
		h.must(err)
		r.Host = host
		res, err := browser(t).Do(r)
		h.must(err)
		res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("%s: %d, want %d", host, res.StatusCode, want)
		}
	}
	// The same by another local address: its own name counts there.
	res, err := browser(t).Get("http://127.0.0.2:" + port + "/api/v1/me")
	if err != nil {
		t.Logf("no second loopback address here: %v", err)
		return
	}
	res.Body.Close()
	if res.StatusCode != 401 {
		t.Errorf("by 127.0.0.2: %d", res.StatusCode)
	}
}

func TestT2_Case80_UnsafeRequestsNeedJSONFromOurOrigin(t *testing.T) {
	h := open(t)
	b := browser(t)
	body := fmt.Sprintf(`{"token":%q}`, h.token)
	for _, ct := range []string{"text/plain", "text/plain; charset=utf-8", "application/x-www-form-urlencoded", "multipart/form-data", "", "application/jsonp", ";"} {
		for _, path := range []string{"/api/v1/login", "/api/v1/tickets", "/api/v1/logout"} {
			res, text := h.do(b, http.MethodPost, path, body, func(r *http.Request) { r.Header.Set("Content-Type", ct) })
			wantProblem(t, res, text, 415, "not_json")
		}
	}
	res, text := h.do(b, http.MethodPost, "/api/v1/login", body, header("Origin", "https://evil.example"))
	wantProblem(t, res, text, 403, "origin_not_allowed")
	res, text = h.do(b, http.MethodPost, "/api/v1/login", body, header("Sec-Fetch-Site", "cross-site"))
	wantProblem(t, res, text, 403, "origin_not_allowed")
	res, _ = h.do(b, http.MethodPost, "/api/v1/login", body, header("Content-Type", "application/json; charset=utf-8"), header("Sec-Fetch-Site", "same-origin"))
	if res.StatusCode != 200 {
		t.Errorf("a good login: %d", res.StatusCode)
	}
}

func TestT2_Case81_TokensAndTicketsInURLs(t *testing.T) {
	h := open(t)
	for _, q := range []string{"token=" + h.token, "access_token=" + h.token, "agent=fake&token=", "bearer=x"} {
		_, res, err := h.tryDial(path("/acp?" + q))
		if err == nil {
			t.Fatalf("?%s was let in", q)
		}
		if p := refusal(t, res); p.Status != 400 || p.Reason != "token_in_url" || !strings.Contains(p.Hint, "ticket") {
			t.Errorf("?%s: %+v", q, p)
		}
		if res, body := h.do(browser(t), http.MethodGet, "/?"+q, ""); res.StatusCode != 400 {
			t.Errorf("/?%s: %d %s", q, res.StatusCode, body)
		}
	}
	res, body := h.do(browser(t), http.MethodPost, "/api/v1/tickets", "{}", header("Authorization", "Bearer "+h.token))
	var ticket struct {
		Ticket    string `json:"ticket"`
		ExpiresIn int    `json:"expiresIn"`
	}
	if res.StatusCode != 200 || json.Unmarshal([]byte(body), &ticket) != nil || ticket.ExpiresIn != 30 || ticket.Ticket == "" {
		t.Fatalf("ticket: %d %s", res.StatusCode, body)
	}
	// A refusal for another reason does not use it up.
	if _, _, err := h.tryDial(anonymous, path("/acp?ticket="+ticket.Ticket), withHeader("Origin", "https://evil.example")); err == nil {
		t.Fatal("a foreign page was let in by a ticket")
	}
	h.dial(anonymous, path("/acp?ticket="+ticket.Ticket)).initialize()
	_, res, err := h.tryDial(anonymous, path("/acp?ticket="+ticket.Ticket))
	if err == nil {
		t.Fatal("the ticket worked twice")
	}
	if p := refusal(t, res); p.Status != 401 || p.Reason != "unauthorized" || res.Header.Get("WWW-Authenticate") == "" {
		t.Errorf("ticket used twice: %+v", p)
	}
	res, body = h.do(browser(t), http.MethodPost, "/api/v1/tickets", "{}")
	wantProblem(t, res, body, 401, "unauthorized")
	res, body = h.do(browser(t), http.MethodPost, "/api/v1/tickets", `{"for":"fun"}`, header("Authorization", "Bearer "+h.token))
	wantProblem(t, res, body, 400, "bad_request")
}

func TestT3_Case82_AForeignSessionIsAnUnknownOne(t *testing.T) {
	h := open(t)
	token, err := auth.AddToken(h.state, "bob")
	h.must(err)
	a := h.dial().initialize()
	b := h.dial(anonymous, offering("acp.v1", "bearer."+token)).initialize()
	s := a.newSession()
	unknown := strings.Repeat("u", len(s))
	for _, f := range []string{
		`"session/prompt","params":{"sessionId":%q,"prompt":[]}`, `"session/set_mode","params":{"sessionId":%q,"modeId":"x"}`,
		`"_acpgate/force_stop","params":{"sessionId":%q}`, `"x/y","params":{"sessionId":%q}`,
	} {
		answer := func(id string) string {
			b.send(`{"jsonrpc":"2.0","id":1000,"method":` + fmt.Sprintf(f, id) + `}`)
			m, _ := b.until("1000")
			return strings.ReplaceAll(m.raw, id, "ID")
		}
		if foreign, none := answer(s), answer(unknown); foreign != none || !strings.Contains(foreign, "-32002") {
			t.Errorf("%s: foreign %s, unknown %s", f, foreign, none)
		}
	}
	b.send(fmt.Sprintf(`{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":%q}}`, s))
	if m := a.ask("session/prompt", promptParams(s, "mine")); m.Error != nil {
		t.Errorf("its owner: %s", m.raw)
	}
}

// logs collects log records as text.
type logs struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func TestT7_Case17_TokensTicketsAndPayloadsAreNotLogged(t *testing.T) {
	var log, audit logs
	h := open(t, func(s *setup) {
		s.gateway.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		s.gateway.Audit = slog.New(slog.NewJSONHandler(&audit, nil))
		s.sessions.Logger, s.sessions.Audit = s.gateway.Logger, s.gateway.Audit
		s.auth.Logger = s.gateway.Logger
	})
	token, err := auth.AddToken(h.state, "bob")
	h.must(err)
	b := browser(t)
	h.login(b)
	link, err := h.srv.LoginLink()
	h.must(err)
	_, ticket, _ := strings.Cut(link, "=")
	h.do(b, http.MethodGet, strings.TrimPrefix(link, h.srv.URL()), "")
	h.do(b, http.MethodGet, "/?token="+h.token, "")
	h.do(b, http.MethodPost, "/api/v1/login", `{"token":"not-the-token-at-all"}`)
	secret := "a secret text"
	for _, mods := range [][]dialOption{{}, {anonymous, offering("acp.v1", "bearer."+token)}} {
		c := h.dial(mods...).initialize()
		s := c.newSession()
		c.ask("session/prompt", promptParams(s, secret))
		c.send(`{"jsonrpc":"2.0","id":7,"method":"`+secret, `{"jsonrpc":"2.0","id":7,"result":"`+secret+`"}`)
	}
	h.eventually(func() bool { return strings.Contains(audit.String(), `"bob"`) })
	for _, word := range []string{h.token, token, ticket, "not-the-token-at-all", secret, "_acpgate_", "SameSite"} {
		if strings.Contains(log.String(), word) || strings.Contains(audit.String(), word) {
			t.Errorf("%q is in the logs", word)
		}
	}
	for _, want := range []string{`"msg":"login"`, `"msg":"login failed"`, `"how":"link"`, `"principal":"local"`, `"msg":"session opened"`, `"principal":"bob"`} {
		if !strings.Contains(audit.String(), want) {
			t.Errorf("the audit log lacks %s:\n%s", want, audit.String())
		}
	}
	if !strings.Contains(log.String(), "path=/login ") {
		t.Errorf("the access log lacks the request:\n%s", log.String())
	}
}

func TestT1_SecureCookies(t *testing.T) {
	h := open(t, func(s *setup) {
		s.gateway.AllowHosts = []string{"chat.example.org"}
		s.gateway.AllowOrigins = []string{"https://chat.example.org"}
	})
	body := fmt.Sprintf(`{"token":%q}`, h.token)
	for _, tt := range []struct {
		host, origin string
		secure       bool
	}{
		{"", "", false},
		{"chat.example.org", "", true},
		{"chat.example.org", "https://chat.example.org", true},
	} {
		mods := []requestOption{func(r *http.Request) {
			if tt.host != "" {
				r.Host = tt.host
			}
			if tt.origin != "" {
				r.Header.Set("Origin", tt.origin)
			}
		}}
		res, _ := h.do(browser(t), http.MethodPost, "/api/v1/login", body, mods...)
		if c := res.Cookies(); len(c) != 1 || c[0].Secure != tt.secure {
			t.Errorf("host %q origin %q: %v, want secure %v", tt.host, tt.origin, c, tt.secure)
		}
	}
}

func TestT1_WithoutLoginOnLoopbackOnly(t *testing.T) {
	ln, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	none, err := auth.New(auth.Config{Mode: auth.ModeNone})
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{Listener: ln, Auth: none, Sessions: &fakeSessions{}, Agents: func(string) []Agent { return nil }}
	if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), "127.0.0.1") || !strings.Contains(err.Error(), "auth mode token") {
		t.Errorf("mode none on all addresses: %v", err)
	}
	h := open(t, func(s *setup) { s.auth = auth.Config{Mode: auth.ModeNone} })
	h.dial(anonymous).initialize()
	if _, _, err := h.tryDial(anonymous, withHeader("Origin", "https://evil.example")); err == nil {
		t.Error("a foreign page was let in")
	}
	if link, err := h.srv.LoginLink(); link != "" || err != nil {
		t.Errorf("login link %q, %v", link, err)
	}
	if res, _ := h.do(browser(t), http.MethodGet, "/login?ticket=x", ""); res.Header.Get("Location") != "/" {
		t.Errorf("login without login: %q", res.Header.Get("Location"))
	}
}

func TestT2_SecurityHeadersAndPage(t *testing.T) {
	page := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "page ", r.URL.Path) })
	h := open(t, func(s *setup) {
		s.gateway.Page = page
		s.gateway.BasePath = "/gate/"
	})
	b := browser(t)
	root := strings.TrimSuffix(h.srv.URL(), "/gate")
	get := func(path string) (*http.Response, string) {
		r, err := http.NewRequest(http.MethodGet, root+path, nil)
		h.must(err)
		res, err := b.Do(r)
		h.must(err)
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		h.must(err)
		return res, string(body)
	}
	for path, want := range map[string]string{
		"/gate/": "200 page /", "/gate/assets/app.js": "200 page /assets/app.js", "/gate": "308", "/": "404", "/healthz": "200", "/gate/readyz": "200",
		"/gate/api/v1/nope": "404", "/gate/api/": "404", "/api/v1/me": "404", "/gate/api/v1/me": "401", "/gate/acp": "426", "/acp": "404",
	} {
		res, body := get(path)
		got := fmt.Sprint(res.StatusCode)
		if strings.HasPrefix(body, "page") {
			got += " " + body
		}
		if got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
		csp := res.Header.Get("Content-Security-Policy")
		for _, part := range []string{"default-src 'none'", "script-src 'self'", "trusted-types 'none'", "frame-ancestors 'none'"} {
			if !strings.Contains(csp, part) {
				t.Errorf("%s: policy %q lacks %s", path, csp, part)
			}
		}
		if res.Header.Get("X-Content-Type-Options") != "nosniff" || res.Header.Get("Referrer-Policy") != "no-referrer" {
			t.Errorf("%s: headers %v", path, res.Header)
		}
	}
	link, err := h.srv.LoginLink()
	h.must(err)
	if res, _ := get(strings.TrimPrefix(link, root)); res.Header.Get("Location") != "/gate/" {
		t.Errorf("login link leads to %q", res.Header.Get("Location"))
	}
	for path, want := range map[string]int{"/gate/acp": 426, "/gate/api/v1/me": 405} {
		res, err := b.Post(root+path, "application/json", nil)
		h.must(err)
		h.must(res.Body.Close())
		if res.StatusCode != want {
			t.Errorf("POST %s: %d, want %d", path, res.StatusCode, want)
		}
	}
}

func TestHealthAndMetrics(t *testing.T) {
	var failing sync.Map
	h := open(t, func(s *setup) {
		s.gateway.Checks = []Check{{Name: "agent", Func: func(ctx context.Context) error {
			if err, ok := failing.Load("agent"); ok {
				return err.(error)
			}
			return ctx.Err()
		}}}
		s.gateway.Metrics = []Metric{{Name: "noise_lines_total", Help: "Noise.", Counter: true, Value: func() float64 { return 7 }}}
	})
	b := browser(t)
	if res, body := h.do(b, http.MethodGet, "/readyz", ""); res.StatusCode != 200 || body != "{\"failing\":[],\"ready\":true}\n" {
		t.Errorf("ready: %d %s", res.StatusCode, body)
	}
	failing.Store("agent", fmt.Errorf("secret path"))
	if res, body := h.do(b, http.MethodGet, "/readyz", ""); res.StatusCode != 503 || body != "{\"failing\":[\"agent\"],\"ready\":false}\n" {
		t.Errorf("not ready: %d %s", res.StatusCode, body)
	}
	h.dial().initialize()
	res, body := h.do(b, http.MethodGet, "/metrics", "")
	for _, want := range []string{"acpgate_noise_lines_total 7", "acpgate_connections 1", "acpgate_frames_received_total 1", `route="/acp"`, "go_goroutines"} {
		if !strings.Contains(body, want) {
			t.Errorf("metrics (%d) lack %s", res.StatusCode, want)
		}
	}
	res, body = h.do(b, http.MethodGet, "/metrics", "", header("X-Forwarded-For", "203.0.113.9"))
	wantProblem(t, res, body, 401, "unauthorized")
	if res, _ := h.do(b, http.MethodGet, "/metrics", "", header("X-Forwarded-For", "203.0.113.9"), header("Authorization", "Bearer "+h.token)); res.StatusCode != 200 {
		t.Errorf("metrics with a token: %d", res.StatusCode)
	}
}

func TestConfigValidate(t *testing.T) {
	err := Config{
		BasePath: "gate", AllowHosts: []string{"a b", "x/y", "*.example.org"}, AllowOrigins: []string{"*", "https://x/", "ftp://x"},
		Limits: Limits{Requests: -1, FrameRate: -2, FrameBytes: 2 << 30},
	}.Validate()
	for _, want := range []string{
		"Listener: is required", "Auth: is required", "Sessions: is required", "Agents: is required", "BasePath: must be a plain path like /acpgate (got gate)",
		"AllowHosts: must be HOST or HOST:PORT (got a b)", "(got x/y)", "(got *.example.org)", "AllowOrigins: must be scheme://host[:port] (got *)", "(got https://x/)", "(got ftp://x)",
		"Limits.Requests: must not be negative (got -1)", "Limits.FrameRate: must be positive", "Limits.FrameBytes: must be at most 1 GiB",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error lacks %q:\n%v", want, err)
		}
	}
}
