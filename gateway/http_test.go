package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"strings"
	"sync"
	"testing"
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
	// Paths that no request could have, and a frame that no client could use.
	for _, p := range []string{"/a//b", "/a/../b", "/./a", "/a b", "/{a}"} {
		if err := (Config{BasePath: p}).Validate(); !strings.Contains(err.Error(), "BasePath: must be a plain path") {
			t.Errorf("base path %s: %v", p, err)
		}
	}
	if err := (Limits{FrameBytes: 1}).Validate(); err == nil || !strings.Contains(err.Error(), "Limits.FrameBytes: must be at least") {
		t.Errorf("a frame limit of 1 byte: %v", err)
	}
}
