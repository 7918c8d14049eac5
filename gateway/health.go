package gateway

import (
	"context"
	"net/http"
	"sync"
	"time"
)

// checkTimeout bounds each Check of readiness.
const checkTimeout = 2 * time.Second

// healthz says that the process serves requests.
func (s *Server) healthz(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
}

// readyz says whether new connections can be served: the gateway does not drain and every Check succeeds, among them that
// an agent can be started. The answer names the checks that failed; why is in the log.
func (s *Server) readyz(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), checkTimeout)
	defer cancel()
	errs := make([]error, len(s.cfg.Checks))
	var wg sync.WaitGroup
	for i, check := range s.cfg.Checks {
		wg.Go(func() { errs[i] = check.Func(ctx) })
	}
	wg.Wait()
	failing := []string{}
	if s.admission.isClosed() {
		failing = append(failing, "draining")
	}
	for i, err := range errs {
		if err != nil {
			failing = append(failing, s.cfg.Checks[i].Name)
			s.log.Warn("not ready", "check", s.cfg.Checks[i].Name, "err", err)
		}
	}
	status := http.StatusOK
	if len(failing) > 0 {
		status = http.StatusServiceUnavailable
	}
	writeJSON(w, status, map[string]any{"ready": len(failing) == 0, "failing": failing})
}

// serveMetrics gives the metrics to this machine, to whoever is logged in, and to all if the Config says so.
func (s *Server) serveMetrics(w http.ResponseWriter, r *http.Request) {
	if !s.cfg.MetricsOpen && !isLocal(r) {
		if _, err := s.cfg.Auth.Authenticate(r); err != nil {
			s.writeProblem(w, err)
			return
		}
	}
	s.metrics.handler().ServeHTTP(w, r)
}
