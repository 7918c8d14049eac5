package auth_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/acpgate/acpgate/gateway/auth"
)

func open(t *testing.T, cfg auth.Config) *auth.Authenticator {
	t.Helper()
	a, err := auth.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// firstToken reads the token that New made.
func firstToken(t *testing.T, dir string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "token"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(b))
}

func request(mod ...func(*http.Request)) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1:8080/acp", nil)
	r.RemoteAddr = "127.0.0.1:40000"
	for _, m := range mod {
		m(r)
	}
	return r
}

func header(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Add(name, value) }
}

func query(q string) func(*http.Request) { return func(r *http.Request) { r.URL.RawQuery = q } }

func from(addr string) func(*http.Request) { return func(r *http.Request) { r.RemoteAddr = addr } }

func cookieOf(w *httptest.ResponseRecorder) func(*http.Request) {
	return func(r *http.Request) {
		for _, c := range w.Result().Cookies() {
			r.AddCookie(c)
		}
	}
}

func wantReason(t *testing.T, err error, reason string, status int) {
	t.Helper()
	var e *auth.Error
	if !errors.As(err, &e) || e.Reason != reason || e.Status != status {
		t.Fatalf("got error %v, want reason %s with status %d", err, reason, status)
	}
}

func TestT1_TokenIsMadeOncePrivately(t *testing.T) {
	dir := t.TempDir()
	open(t, auth.Config{StateDir: dir})
	token := firstToken(t, dir)
	if len(token) < 26 {
		t.Errorf("token %q has less than 128 bits", token)
	}
	open(t, auth.Config{StateDir: dir})
	if again := firstToken(t, dir); again != token {
		t.Error("a second start made another token")
	}
	for _, name := range []string{"token", "cookie.key"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v, want 0600", name, info.Mode().Perm())
		}
	}
}

func TestT2_WaysToShowAToken(t *testing.T) {
	dir := t.TempDir()
	a := open(t, auth.Config{StateDir: dir})
	token := firstToken(t, dir)
	ann, err := auth.AddToken(dir, "ann")
	if err != nil {
		t.Fatal(err)
	}

	tests := []struct {
		name      string
		r         *http.Request
		principal string // "" means refused
		via       auth.Via
	}{
		{"bearer", request(header("Authorization", "Bearer "+token)), auth.Local, auth.ViaBearer},
		{"bearer, other case and spaces", request(header("Authorization", "bearer   "+token+" ")), auth.Local, auth.ViaBearer},
		{"named bearer", request(header("Authorization", "Bearer "+ann)), "ann", auth.ViaBearer},
		{"subprotocol", request(header("Sec-WebSocket-Protocol", "acp.v1, bearer."+ann)), "ann", auth.ViaSubprotocol},
		{"subprotocol in a line of its own", request(header("Sec-WebSocket-Protocol", "acp.v1"), header("Sec-WebSocket-Protocol", "Bearer."+token)), auth.Local, auth.ViaSubprotocol},
		{"nothing", request(), "", ""},
		{"wrong bearer", request(header("Authorization", "Bearer "+strings.ToLower(token))), "", ""},
		{"wrong bearer, right subprotocol", request(header("Authorization", "Bearer x"), header("Sec-WebSocket-Protocol", "bearer."+token)), "", ""},
		{"basic", request(header("Authorization", "Basic "+token)), "", ""},
		{"two bearers", request(header("Authorization", "Bearer "+token), header("Authorization", "Bearer "+ann)), "", ""},
		{"wrong subprotocol", request(header("Sec-WebSocket-Protocol", "bearer.")), "", ""},
		{"long-lived token in the URL", request(query("token=" + token)), "", ""},
		{"token as ticket", request(query("ticket=" + token)), "", ""},
		{"proxy header", request(header("X-Forwarded-User", "ann")), "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			id, err := a.AuthenticateUpgrade(tt.r)
			if tt.principal == "" {
				wantReason(t, err, "unauthorized", http.StatusUnauthorized)
				return
			}
			if err != nil || id.Principal != tt.principal || id.Via != tt.via {
				t.Fatalf("got %+v, %v; want %s via %s", id, err, tt.principal, tt.via)
			}
			if id.Ambient() || !a.Valid(id) {
				t.Errorf("identity by token: ambient %v, valid %v", id.Ambient(), a.Valid(id))
			}
		})
	}
	if _, err := a.Authenticate(request(header("Sec-WebSocket-Protocol", "bearer."+token))); err == nil {
		t.Error("a plain request was let in by a WebSocket subprotocol")
	}
}

func TestT1_CookieEndsWithItsToken(t *testing.T) {
	dir := t.TempDir()
	a := open(t, auth.Config{StateDir: dir})
	login := func(token string) func(*http.Request) {
		t.Helper()
		id, err := a.Login(request(), " "+token+"\n")
		if err != nil {
			t.Fatal(err)
		}
		w := httptest.NewRecorder()
		if _, err := a.SetCookie(w, id, true); err != nil {
			t.Fatal(err)
		}
		c := w.Result().Cookies()[0]
		if !c.HttpOnly || !c.Secure || c.SameSite != http.SameSiteStrictMode || c.Path != "/" {
			t.Errorf("cookie attributes: %+v", c)
		}
		if strings.Contains(c.Value, token) {
			t.Error("the cookie holds the token")
		}
		return cookieOf(w)
	}

	token, err := auth.AddToken(dir, "ann")
	if err != nil {
		t.Fatal(err)
	}
	ann, local := login(token), login(firstToken(t, dir))
	annID, err := a.Authenticate(request(ann))
	if err != nil || annID.Principal != "ann" || !annID.Ambient() {
		t.Fatalf("ann by cookie: %+v, %v", annID, err)
	}
	localID, err := a.Authenticate(request(local))
	if err != nil || localID.Principal != auth.Local {
		t.Fatalf("local by cookie: %+v, %v", localID, err)
	}

	if err := auth.RemoveToken(dir, "ann"); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Authenticate(request(ann)); err == nil {
		t.Error("the cookie outlived its token")
	}
	if a.Valid(annID) {
		t.Error("the identity outlived its token")
	}
	if _, err := auth.AddToken(dir, "ann"); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Authenticate(request(ann)); err == nil {
		t.Error("a new token of the same name took the old cookie over")
	}

	// Rotation: the first token is written by hand.
	if err := os.WriteFile(filepath.Join(dir, "token"), []byte("another-token-of-mine\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Authenticate(request(local)); err == nil || a.Valid(localID) {
		t.Error("a cookie outlived the rotation of the first token")
	}
	login("another-token-of-mine")

	if err := os.Remove(filepath.Join(dir, "token")); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Login(request(), "another-token-of-mine"); err == nil {
		t.Error("a token outlived its file")
	}
}

func TestT2_ForgedCookies(t *testing.T) {
	dir := t.TempDir()
	a := open(t, auth.Config{StateDir: dir})
	id, err := a.Login(request(), firstToken(t, dir))
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	if _, err := a.SetCookie(w, id, false); err != nil {
		t.Fatal(err)
	}
	good := w.Result().Cookies()[0]
	parts := strings.Split(good.Value, ".")
	for _, value := range []string{
		"", ".", "v1", good.Value[:len(good.Value)-1], good.Value + "A",
		strings.Join([]string{"v1", parts[1], parts[2], "99999999999", parts[4]}, "."),
		strings.Join([]string{"v1", strings.Repeat("0", 16), parts[2], parts[3], parts[4]}, "."),
		strings.Join([]string{"v1", parts[1], parts[3], parts[4]}, "."),
	} {
		if _, err := a.Authenticate(request(header("Cookie", good.Name+"="+value))); err == nil {
			t.Errorf("forged cookie %q was taken", value)
		}
	}
	// A cookie of a parent path that comes first hides nothing.
	if _, err := a.Authenticate(request(header("Cookie", good.Name+"=stale; "+good.Name+"="+good.Value))); err != nil {
		t.Errorf("a stale cookie hid the good one: %v", err)
	}
	// Another gateway on another port of the host has another name and another key.
	other := open(t, auth.Config{StateDir: t.TempDir()})
	w = httptest.NewRecorder()
	otherTicket, err := other.LocalTicket()
	if err != nil {
		t.Fatal(err)
	}
	otherID, err := other.Redeem(request(), otherTicket)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.SetCookie(w, otherID, false); err != nil {
		t.Fatal(err)
	}
	if w.Result().Cookies()[0].Name == good.Name {
		t.Error("two gateways share a cookie name: logging in at one logs out of the other")
	}
}

func TestT1_CookieRenewedByUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		a := open(t, auth.Config{StateDir: dir, CookieTTL: 10 * time.Hour})
		id, err := a.Login(request(), firstToken(t, dir))
		if err != nil {
			t.Fatal(err)
		}
		w := httptest.NewRecorder()
		if _, err := a.SetCookie(w, id, false); err != nil {
			t.Fatal(err)
		}
		use := func(with func(*http.Request)) *httptest.ResponseRecorder {
			t.Helper()
			id, err := a.Authenticate(request(with))
			if err != nil {
				t.Fatal(err)
			}
			w := httptest.NewRecorder()
			a.RenewCookie(w, id, false)
			return w
		}
		time.Sleep(4 * time.Hour)
		if n := len(use(cookieOf(w)).Result().Cookies()); n != 0 {
			t.Error("a fresh cookie was renewed")
		}
		time.Sleep(2 * time.Hour)
		renewed := use(cookieOf(w))
		before, err1 := a.Authenticate(request(cookieOf(w)))
		after, err2 := a.Authenticate(request(cookieOf(renewed)))
		if err1 != nil || err2 != nil || before.Login != after.Login || before.Login == "" {
			t.Errorf("the renewed cookie is of another login: %+v, %+v (%v, %v)", before, after, err1, err2)
		}
		if n := len(renewed.Result().Cookies()); n != 1 {
			t.Fatal("a cookie past half of its life was not renewed")
		}
		time.Sleep(5 * time.Hour)
		if _, err := a.Authenticate(request(cookieOf(w))); err == nil {
			t.Error("the first cookie did not end")
		}
		use(cookieOf(renewed))
		w = httptest.NewRecorder()
		a.ClearCookie(w, false)
		if c := w.Result().Cookies()[0]; c.MaxAge >= 0 {
			t.Errorf("logout left the cookie: %+v", c)
		}
	})
}

func TestT2_TicketWorksOnceForAShortTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		a := open(t, auth.Config{StateDir: dir, MaxTickets: 2})
		token, err := auth.AddToken(dir, "ann")
		if err != nil {
			t.Fatal(err)
		}
		id, err := a.Login(request(), token)
		if err != nil {
			t.Fatal(err)
		}
		issue := func(p auth.Purpose) string {
			t.Helper()
			text, _, err := a.IssueTicket(id, p)
			if err != nil {
				t.Fatal(err)
			}
			return text
		}
		use := func(text string) error {
			got, err := a.AuthenticateUpgrade(request(query("ticket=" + text)))
			if err == nil && (got.Principal != "ann" || got.Via != auth.ViaTicket || got.Ambient()) {
				t.Errorf("ticket stands for %+v", got)
			}
			return err
		}

		first := issue(auth.ForSocket)
		if err := use(first); err != nil {
			t.Fatal(err)
		}
		wantReason(t, use(first), "unauthorized", http.StatusUnauthorized)

		late := issue(auth.ForSocket)
		link := issue(auth.ForLogin)
		if _, _, err := a.IssueTicket(id, auth.ForSocket); auth.Reason(err) != "ticket_limit" {
			t.Errorf("third open ticket of two: %v", err)
		}
		time.Sleep(30 * time.Second)
		wantReason(t, use(late), "unauthorized", http.StatusUnauthorized)
		if err := use(link); err != nil {
			t.Errorf("login ticket after 30 s: %v", err)
		}

		orphan := issue(auth.ForSocket)
		if err := auth.RemoveToken(dir, "ann"); err != nil {
			t.Fatal(err)
		}
		wantReason(t, use(orphan), "unauthorized", http.StatusUnauthorized)
	})
}

func TestT1_FailedAttemptsAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		a := open(t, auth.Config{StateDir: dir, FailureBurst: 3, FailureEvery: time.Minute})
		token := firstToken(t, dir)
		try := func(addr, token string) error {
			_, err := a.Authenticate(request(from(addr), header("Authorization", "Bearer "+token)))
			return err
		}
		for range 3 {
			wantReason(t, try("[2001:db8::1]:1", "wrong"), "unauthorized", http.StatusUnauthorized)
		}
		err := try("[2001:db8::ffff:1]:2", token)
		wantReason(t, err, "rate_limited", http.StatusTooManyRequests)
		var e *auth.Error
		if errors.As(err, &e); e.RetryAfter <= 0 || e.RetryAfter > time.Minute {
			t.Errorf("retry after %v", e.RetryAfter)
		}
		if err := try("[2001:db8:0:1::1]:1", token); err != nil {
			t.Errorf("another network was limited too: %v", err)
		}
		time.Sleep(e.RetryAfter)
		if err := try("[2001:db8::1]:1", token); err != nil {
			t.Errorf("still limited after the time that was named: %v", err)
		}
		for range 100 {
			if err := try("[2001:db8::1]:1", token); err != nil {
				t.Fatalf("successful attempts were limited: %v", err)
			}
		}
	})
}

func TestT1_ProxyHeaderCountsFromTheProxyOnly(t *testing.T) {
	a := open(t, auth.Config{Mode: auth.ModeProxy, ProxyHeader: "X-User", ProxyFrom: []string{"10.1.0.0/16", "::1"}})
	tests := []struct {
		addr  string
		users []string
		want  string
	}{
		{"10.1.2.3:9", []string{"ann@example.org"}, "ann@example.org"},
		{"[::ffff:10.1.2.3]:9", []string{"Ann Example"}, "Ann Example"},
		{"[::1]:9", []string{"ann"}, "ann"},
		{"10.2.0.1:9", []string{"ann"}, ""},
		{"@", []string{"ann"}, ""},
		{"10.1.2.3:9", nil, ""},
		{"10.1.2.3:9", []string{"ann", "root"}, ""},
		{"10.1.2.3:9", []string{""}, ""},
		{"10.1.2.3:9", []string{"../ann"}, ""},
		{"10.1.2.3:9", []string{".."}, ""},
		{"10.1.2.3:9", []string{"a\x00b"}, ""},
		{"10.1.2.3:9", []string{strings.Repeat("a", 129)}, ""},
		{"10.1.2.3:9", []string{"\xff"}, ""},
	}
	for _, tt := range tests {
		r := request(from(tt.addr))
		r.Header["X-User"] = tt.users
		id, err := a.Authenticate(r)
		if id.Principal != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("%s as %q: got %q, %v; want %q", tt.addr, tt.users, id.Principal, err, tt.want)
		}
		if err == nil && !id.Ambient() {
			t.Error("a proxy's login is sent by browsers from any page: it must count as ambient")
		}
	}
	_, err := a.Login(request(), "whatever")
	wantReason(t, err, "login_unused", http.StatusNotFound)
}

func TestT1_ModeNone(t *testing.T) {
	a := open(t, auth.Config{Mode: auth.ModeNone})
	id, err := a.AuthenticateUpgrade(request(query("ticket=x")))
	if err != nil || id.Principal != auth.Local || id.Ambient() {
		t.Errorf("got %+v, %v", id, err)
	}
	if link, err := a.LocalTicket(); link != "" || err != nil {
		t.Errorf("a login link without login: %q, %v", link, err)
	}
	if _, err := a.SetCookie(httptest.NewRecorder(), id, false); auth.Reason(err) != "login_unused" {
		t.Errorf("a cookie without login: %v", err)
	}
}

func TestT1_LoginLink(t *testing.T) {
	a := open(t, auth.Config{StateDir: t.TempDir()})
	link, err := a.LocalTicket()
	if err != nil {
		t.Fatal(err)
	}
	id, err := a.Redeem(request(), link)
	if err != nil || id.Principal != auth.Local || !a.Valid(id) {
		t.Fatalf("got %+v, %v", id, err)
	}
	if _, err := a.Redeem(request(), link); err == nil {
		t.Error("the link worked twice")
	}
}

func TestConfigValidate(t *testing.T) {
	for _, tt := range []struct {
		cfg  auth.Config
		want []string
	}{
		{auth.Config{}, []string{"StateDir: is required"}},
		{auth.Config{Mode: "ldap"}, []string{"Mode: must be token, proxy or none (got ldap)"}},
		{auth.Config{Mode: "oidc"}, []string{"OpenID Connect is not offered", "mode proxy"}},
		{auth.Config{Mode: auth.ModeProxy}, []string{"ProxyFrom: mode proxy needs"}},
		{auth.Config{Mode: auth.ModeNone, ProxyFrom: []string{"10.0.0.0/99", "proxy.local"}, CookiePath: "x", MaxTickets: -1}, []string{
			`(got "10.0.0.0/99")`, `(got "proxy.local")`, "CookiePath: must begin with / (got x)", "MaxTickets: must not be negative (got -1)",
		}},
	} {
		err := tt.cfg.Validate()
		if err == nil {
			t.Errorf("%+v: accepted", tt.cfg)
			continue
		}
		for _, want := range tt.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%+v: error %q does not say %q", tt.cfg, err, want)
			}
		}
	}
}
