package gateway

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/acpgate/acpgate/gateway/auth"
)

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
