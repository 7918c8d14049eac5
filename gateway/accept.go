package gateway

import (
	"context"
	"crypto/rand"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/coder/websocket"
	"github.com/go-chi/chi/v5"
	"golang.org/x/time/rate"

	"github.com/acpgate/acpgate/gateway/auth"
)

const (
	headerConnectionID = "Acp-Connection-Id"
	subprotocol        = "acp.v1"
)

// accept serves /acp: it upgrades the request and leaves the connection to a goroutine of its own, so that everything that
// belongs to the HTTP request can be freed (rules W1, W2, T2).
func (s *Server) accept(w http.ResponseWriter, r *http.Request) {
	if !isUpgrade(r) {
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", "websocket")
		s.writeProblem(w, &auth.Error{
			Status: http.StatusUpgradeRequired, Reason: "not_websocket", Message: "This is a WebSocket endpoint", Hint: "connect with ws:// or wss://",
		})
		return
	}
	c, err := s.prepare(r)
	if err != nil {
		s.metrics.refused.WithLabelValues(reasonOf(err)).Inc()
		s.writeProblem(w, err)
		return
	}
	w.Header().Set(headerConnectionID, c.id)
	hijack := &corkedWriter{ResponseWriter: w, pool: s.corks}
	c.ws, err = websocket.Accept(hijack, r, &websocket.AcceptOptions{
		Subprotocols:       []string{subprotocol},
		InsecureSkipVerify: true, // Origin was checked, against our list
		CompressionMode:    websocket.CompressionDisabled,
		OnPingReceived:     func(_ context.Context, p []byte) bool { c.pinged(p); return false },
		OnPongReceived:     func(context.Context, []byte) { c.ponged() },
	})
	if err != nil { // answered by the library
		s.admission.leave(c.who.Principal)
		s.metrics.refused.WithLabelValues("handshake").Inc()
		return
	}
	c.cork, c.in = hijack.cork, hijack.in
	if err := limitUnsent(c.cork.Conn, maxUnsent); err != nil {
		c.log.Debug("kernel buffer not bounded", "err", err)
	}
	c.ws.SetReadLimit(-1) // readMessage has the limit: it can say which it is
	if !s.add(c) {
		s.admission.leave(c.who.Principal)
		_ = c.ws.Close(websocket.StatusCode(codeRestart), retryHint()) // on its way out anyway
		return
	}
	c.log.Info("connection opened", "principal", c.who.Principal, "via", c.who.Via, "agent", c.agent, "remote", c.remote)
}

// prepare checks an upgrade and returns the connection that it may become. Errors are of type *auth.Error. The order
// matters: the ticket is used up last but for the place that is taken for the connection.
func (s *Server) prepare(r *http.Request) (*conn, error) {
	if s.admission.isClosed() {
		return nil, errDraining()
	}
	noOrigin, err := s.guard.origin(r)
	if err != nil {
		return nil, err
	}
	who, err := s.cfg.Auth.AuthenticateUpgrade(r)
	if err != nil {
		return nil, err
	}
	if noOrigin && who.Ambient() {
		return nil, &auth.Error{
			Status: http.StatusForbidden, Reason: "origin_required", Message: "A login that browsers send by themselves needs an Origin header",
			Hint: "send Origin, or use a token or a ticket",
		}
	}
	agent, err := s.pickAgent(r, who)
	if err != nil {
		return nil, err
	}
	if err := s.admission.admit(who.Principal); err != nil {
		return nil, err
	}
	c := &conn{srv: s, id: rand.Text(), agent: agent, remote: r.RemoteAddr, who: who, started: time.Now()}
	c.log = s.log.With("conn", c.id)
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	lim := s.cfg.Limits
	if lim.FrameRate > 0 {
		c.frameRate = rate.NewLimiter(rate.Limit(lim.FrameRate), lim.FrameRate)
	}
	if lim.ByteRate > 0 {
		c.byteRate = rate.NewLimiter(rate.Limit(lim.ByteRate), int(min(lim.ByteRate, 1<<30)))
	}
	return c, nil
}

// pickAgent is the agent that the path or the query names, else the default one.
func (s *Server) pickAgent(r *http.Request, who auth.Identity) (string, error) {
	name := chi.URLParam(r, "agent")
	if name == "" {
		name = r.URL.Query().Get("agent")
	}
	agents := s.cfg.Agents(who.Principal)
	names := make([]string, 0, len(agents))
	for _, a := range agents {
		names = append(names, a.Name)
	}
	switch {
	case name == "" && len(names) > 0:
		return names[0], nil
	case slices.Contains(names, name):
		return names[slices.Index(names, name)], nil // not a piece of the request
	}
	return "", &auth.Error{
		Status: http.StatusNotFound, Reason: "agent_unknown", Message: "There is no agent " + clip(name, 100),
		Hint: "the agents are: " + strings.Join(names, ", "),
	}
}

func isUpgrade(r *http.Request) bool {
	for _, line := range r.Header.Values("Upgrade") {
		for p := range strings.SplitSeq(line, ",") {
			if r.Method == http.MethodGet && strings.EqualFold(strings.TrimSpace(p), "websocket") {
				return true
			}
		}
	}
	return false
}
