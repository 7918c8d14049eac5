package gateway

import (
	"bytes"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/acpgate/acpgate/gateway/auth"
)

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
