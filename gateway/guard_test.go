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
