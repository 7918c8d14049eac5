package gateway

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/acpgate/acpgate/gateway/auth"
)

// maxBody is the largest body of a login or ticket request, in bytes.
const maxBody = 16 << 10

// loginLink serves the one-time link of the terminal: the ticket becomes a cookie. Whatever happens the browser ends up at
// the page, without the ticket in its address bar; after a failure the page says so and asks for the token.
func (s *Server) loginLink(w http.ResponseWriter, r *http.Request) {
	page := s.cfg.BasePath + "/"
	w.Header().Set("Cache-Control", "no-store")
	if ticket := r.URL.Query().Get("ticket"); ticket != "" && s.cfg.Auth.Mode() == auth.ModeToken {
		id, err := s.cfg.Auth.Redeem(r, ticket)
		if err == nil {
			id, err = s.cfg.Auth.SetCookie(w, id, s.isSecure(r))
		}
		s.noteLogin(r, "link", id, err)
		if err != nil {
			page += "?login=failed"
		}
	}
	http.Redirect(w, r, page, http.StatusSeeOther)
}

// login serves POST /api/v1/login {token}: the token becomes a cookie.
func (s *Server) login(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Token string `json:"token"`
	}
	if err := readBody(w, r, &body); err != nil {
		s.writeProblem(w, err)
		return
	}
	id, err := s.cfg.Auth.Login(r, body.Token)
	if err == nil {
		id, err = s.cfg.Auth.SetCookie(w, id, s.isSecure(r))
	}
	s.noteLogin(r, "token", id, err)
	if err != nil {
		s.writeProblem(w, err)
		return
	}
	writeJSON(w, http.StatusOK, map[string]string{"principal": id.Principal})
}

func (s *Server) noteLogin(r *http.Request, how string, id auth.Identity, err error) {
	if err != nil {
		s.metrics.logins.WithLabelValues(reasonOf(err)).Inc()
		s.cfg.Audit.Warn("login failed", "how", how, "reason", reasonOf(err), "remote", r.RemoteAddr)
		return
	}
	s.metrics.logins.WithLabelValues("ok").Inc()
	s.cfg.Audit.Info("login", "how", how, "principal", id.Principal, "remote", r.RemoteAddr)
}

// logout serves POST /api/v1/logout: the cookie is taken away and the sockets of this login are closed.
func (s *Server) logout(w http.ResponseWriter, r *http.Request) {
	id, err := s.cfg.Auth.Authenticate(r)
	s.cfg.Auth.ClearCookie(w, s.isSecure(r))
	if err == nil {
		s.signOut(id.Login)
		s.cfg.Audit.Info("logout", "principal", id.Principal, "remote", r.RemoteAddr)
	}
	w.WriteHeader(http.StatusNoContent)
}

// me serves GET /api/v1/me: who you are, or 401.
func (s *Server) me(w http.ResponseWriter, r *http.Request) {
	id, err := s.cfg.Auth.Authenticate(r)
	if err != nil {
		s.writeProblem(w, err)
		return
	}
	s.cfg.Auth.RenewCookie(w, id, s.isSecure(r))
	writeJSON(w, http.StatusOK, map[string]string{
		"principal": id.Principal, "version": s.cfg.Version, "auth": string(s.cfg.Auth.Mode()), "via": string(id.Via),
	})
}

// tickets serves POST /api/v1/tickets {for?}: a ticket for one WebSocket, or with for "login" for one browser.
func (s *Server) tickets(w http.ResponseWriter, r *http.Request) {
	id, err := s.cfg.Auth.Authenticate(r)
	if err != nil {
		s.writeProblem(w, err)
		return
	}
	body := struct {
		For auth.Purpose `json:"for"`
	}{auth.ForSocket}
	if err := readBody(w, r, &body); err != nil {
		s.writeProblem(w, err)
		return
	}
	if body.For != auth.ForSocket && body.For != auth.ForLogin {
		s.writeProblem(w, errBody("for: must be socket or login"))
		return
	}
	ticket, ttl, err := s.cfg.Auth.IssueTicket(id, body.For)
	if err != nil {
		s.writeProblem(w, err)
		return
	}
	writeJSON(w, http.StatusOK, map[string]any{"ticket": ticket, "expiresIn": int(ttl / time.Second)})
}

// readBody decodes a JSON body strictly; an empty one leaves v as it is. Errors are of type *auth.Error.
func readBody(w http.ResponseWriter, r *http.Request, v any) error {
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	d.DisallowUnknownFields()
	err := d.Decode(v)
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return errBody(err.Error())
	case d.More():
		return errBody("data after the value")
	}
	return nil
}

func errBody(detail string) error {
	return &auth.Error{Status: http.StatusBadRequest, Reason: "bad_request", Message: "The body is not what this route takes: " + clip(detail, 200)}
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	writeBody(w, status, v)
}

// writeBody writes v, which can always be encoded. A client that is gone is no error of ours.
func writeBody(w http.ResponseWriter, status int, v any) {
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}
