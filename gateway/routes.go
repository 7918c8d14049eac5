package gateway

import (
	"errors"
	"fmt"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/acpgate/acpgate/gateway/auth"
)

// routes builds the handler of everything.
func (s *Server) routes() (http.Handler, error) {
	base := s.cfg.BasePath
	sameOrigin := http.NewCrossOriginProtection()
	for _, o := range s.cfg.AllowOrigins {
		if err := sameOrigin.AddTrustedOrigin(o); err != nil {
			return nil, fmt.Errorf("AllowOrigins: %w", err)
		}
	}
	r := chi.NewRouter()
	r.Use(s.observe, secureHeaders)
	// Probes come under whatever name the prober likes; they tell nothing that a name would protect.
	for _, prefix := range uniq("", base) {
		r.Get(prefix+"/healthz", s.healthz)
		r.Get(prefix+"/readyz", s.readyz)
	}
	r.Group(func(r chi.Router) {
		r.Use(s.checkHost, s.refuseTokenInURL)
		for _, prefix := range uniq("", base) {
			r.Get(prefix+"/metrics", s.serveMetrics)
		}
		r.HandleFunc(base+"/acp", s.accept)
		r.HandleFunc(base+"/acp/{agent}", s.accept)
		r.Get(base+"/login", s.loginLink)
		r.Route(base+"/api", func(r chi.Router) {
			r.Use(s.checkUnsafe(sameOrigin), noStore)
			r.NotFound(s.noRoute)
			r.MethodNotAllowed(s.noMethod)
			r.Post("/v1/login", s.login)
			r.Post("/v1/logout", s.logout)
			r.Get("/v1/me", s.me)
			r.Post("/v1/tickets", s.tickets)
		})
		if base != "" {
			r.Get(base, http.RedirectHandler(base+"/", http.StatusPermanentRedirect).ServeHTTP)
		}
		r.Handle(base+"/*", http.StripPrefix(base, s.cfg.Page))
	})
	r.NotFound(s.noRoute)
	r.MethodNotAllowed(s.noMethod)
	return r, nil
}

func uniq(a, b string) []string {
	if a == b {
		return []string{a}
	}
	return []string{a, b}
}

// observe counts and logs requests. The path is logged without its query, where tickets are (rule T7).
func (s *Server) observe(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		sw := &statusWriter{ResponseWriter: w}
		next.ServeHTTP(sw, r)
		if sw.status == 0 {
			sw.status = http.StatusOK
		}
		route := chi.RouteContext(r.Context()).RoutePattern()
		if route == "" {
			route = "none"
		}
		s.metrics.requests.WithLabelValues(route, strconv.Itoa(sw.status)).Inc()
		s.log.Debug("http request", "method", clip(r.Method, 16), "path", clip(r.URL.Path, 256), "status", sw.status, "remote", r.RemoteAddr, "took", time.Since(start))
	})
}

// statusWriter notes the status.
type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap lets http.ResponseController reach what the server can do.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

const contentSecurityPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data: blob:; " +
	"font-src 'self'; require-trusted-types-for 'script'; trusted-types 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'"

// secureHeaders tells browsers to hold the page to what it needs.
func secureHeaders(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", contentSecurityPolicy)
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		next.ServeHTTP(w, r)
	})
}

func noStore(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

func (s *Server) checkHost(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := s.guard.host(r); err != nil {
			s.writeProblem(w, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// refuseTokenInURL refuses long-lived tokens in URLs, which end up in logs, histories and Referer headers (rule T2).
func (s *Server) refuseTokenInURL(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RawQuery != "" {
			q := r.URL.Query()
			for _, name := range []string{"token", "access_token", "bearer"} {
				if q.Has(name) {
					s.writeProblem(w, &auth.Error{
						Status: http.StatusBadRequest, Reason: "token_in_url", Message: "Tokens are not taken from the URL, which is logged in too many places",
						Hint: "send Authorization: Bearer, offer the subprotocol bearer.<token>, or get a ticket with POST " + s.cfg.BasePath + "/api/v1/tickets and connect with ?ticket=",
					})
					return
				}
			}
		}
		next.ServeHTTP(w, r)
	})
}

// checkUnsafe holds requests that change something to our own pages: browsers send JSON across origins only if they are
// asked first, and say where it comes from (rule T2).
func (s *Server) checkUnsafe(sameOrigin *http.CrossOriginProtection) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch r.Method {
			case http.MethodGet, http.MethodHead, http.MethodOptions:
				next.ServeHTTP(w, r)
				return
			}
			if err := sameOrigin.Check(r); err != nil {
				s.writeProblem(w, &auth.Error{
					Status: http.StatusForbidden, Reason: "origin_not_allowed", Message: "The request comes from a page of another origin",
					Hint: "start the gateway with --allow-origin if it should be let in",
				})
				return
			}
			if t, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || t != "application/json" {
				s.writeProblem(w, &auth.Error{
					Status: http.StatusUnsupportedMediaType, Reason: "not_json", Message: "The body must be JSON", Hint: "send Content-Type: application/json",
				})
				return
			}
			next.ServeHTTP(w, r)
		})
	}
}

func (s *Server) noRoute(w http.ResponseWriter, _ *http.Request) {
	s.writeProblem(w, &auth.Error{Status: http.StatusNotFound, Reason: "no_route", Message: "There is nothing here", Hint: "the endpoint for agents is " + s.cfg.BasePath + "/acp"})
}

func (s *Server) noMethod(w http.ResponseWriter, _ *http.Request) {
	s.writeProblem(w, &auth.Error{Status: http.StatusMethodNotAllowed, Reason: "no_method", Message: "This method is not served here"})
}

// isSecure reports whether the browser reaches us by HTTPS: directly, or through a proxy whose public origin is on the
// allow-list.
func (s *Server) isSecure(r *http.Request) bool {
	if r.TLS != nil {
		return true
	}
	if u, err := url.Parse(r.Header.Get("Origin")); err == nil && u.Scheme == "https" {
		return true // checked before
	}
	for _, o := range s.cfg.AllowOrigins {
		if u, err := url.Parse(o); err == nil && u.Scheme == "https" && u.Host == r.Host {
			return true
		}
	}
	return false
}

// isLocal reports whether r comes from this machine itself and not through a proxy on it.
func isLocal(r *http.Request) bool {
	for _, h := range []string{"Forwarded", "X-Forwarded-For", "X-Real-Ip", "Via"} {
		if r.Header.Get(h) != "" {
			return false
		}
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// reasonOf is the metric label of a refusal: our own words, nothing from outside.
func reasonOf(err error) string {
	var e *auth.Error
	if errors.As(err, &e) {
		return e.Reason
	}
	return "internal"
}
