package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"time"
)

// Server is the HTTP face of acpgate. Run serves; Drain and Shutdown end it in two steps (rule N4).
type Server struct {
	cfg       Config
	log       *slog.Logger
	metrics   *metrics
	guard     *guard
	admission *admission
	corks     *corkPool
	scratch   *scratchPool
	http      *http.Server

	mu      sync.Mutex
	conns   map[*conn]struct{}
	stopped bool
	wg      sync.WaitGroup // connections
}

// Times of plain HTTP requests; WebSockets are taken out of them by the upgrade.
const (
	readHeaderTimeout = 10 * time.Second
	readTimeout       = 30 * time.Second
	writeTimeout      = time.Minute
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 64 << 10
)

// New checks cfg and returns a Server that does nothing yet.
func New(cfg Config) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	s := &Server{
		cfg: cfg, log: cfg.Logger,
		guard:     newGuard(cfg.Listener.Addr(), cfg.AllowHosts, cfg.AllowOrigins),
		admission: newAdmission(cfg.Limits),
		corks:     newCorkPool(), scratch: newScratchPool(),
		conns: map[*conn]struct{}{},
	}
	var err error
	if s.metrics, err = newMetrics(cfg.Metrics); err != nil {
		return nil, err
	}
	handler, err := s.routes()
	if err != nil {
		return nil, err
	}
	s.http = &http.Server{
		Handler: handler, TLSConfig: cfg.TLS, ErrorLog: slog.NewLogLogger(cfg.Logger.Handler(), slog.LevelDebug),
		ReadHeaderTimeout: readHeaderTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout,
		IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
	}
	return s, nil
}

// URL is where the gateway is reached from this machine, without a slash at its end. Listening on all addresses it names
// localhost.
func (s *Server) URL() string {
	scheme := "http://"
	if s.cfg.TLS != nil {
		scheme = "https://"
	}
	addr := s.cfg.Listener.Addr().String()
	if host, port, err := net.SplitHostPort(addr); err == nil {
		if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
			addr = net.JoinHostPort("localhost", port)
		}
	}
	return scheme + addr + s.cfg.BasePath
}

// LoginLink makes a one-time link that logs a browser in as the user of the first token; "" in the auth modes without
// login.
func (s *Server) LoginLink() (string, error) {
	ticket, err := s.cfg.Auth.LocalTicket()
	if err != nil || ticket == "" {
		return "", err
	}
	return s.URL() + "/login?ticket=" + ticket, nil
}

// Run serves until ctx ends, then shuts down and returns when the last goroutine has ended. The error is nil unless
// serving failed, or connections did not end in time.
func (s *Server) Run(ctx context.Context) error {
	served := make(chan error, 1)
	go func() { served <- s.serve() }()
	var err error
	select {
	case err = <-served:
		served <- nil
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.Limits.CloseGrace+readTimeout)
	defer cancel()
	err = errors.Join(err, s.Shutdown(grace))
	return errors.Join(err, <-served)
}

func (s *Server) serve() error {
	var err error
	if s.cfg.TLS != nil {
		err = s.http.ServeTLS(s.cfg.Listener, "", "")
	} else {
		err = s.http.Serve(s.cfg.Listener)
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("gateway: serve: %w", err)
}

// Drain refuses new connections and turns readiness red; those that are open go on.
func (s *Server) Drain() { s.admission.close() }

// Shutdown stops accepting, lets every connection write what there is to write, closes it with 1012 and waits for all
// goroutines. The reason of the close tells each client to wait for a different time, so that they do not come back in one
// instant. When ctx ends first the sockets are cut, and the error says how many connections there were.
func (s *Server) Shutdown(ctx context.Context) error {
	s.Drain()
	s.mu.Lock()
	s.stopped = true
	left := make([]*conn, 0, len(s.conns))
	for c := range s.conns {
		left = append(left, c)
	}
	s.mu.Unlock()
	for _, c := range left {
		c.close(closing{code: codeRestart, reason: retryHint(), flush: true})
	}
	err := s.http.Shutdown(ctx)
	ended := make(chan struct{})
	go func() { s.wg.Wait(); close(ended) }()
	select {
	case <-ended:
		return err
	case <-ctx.Done():
	}
	for _, c := range left {
		_ = c.cork.Conn.Close() // cut; the connection's own goroutines report
	}
	<-ended
	return errors.Join(err, fmt.Errorf("gateway: shutdown: connections were cut: %w", ctx.Err()))
}

// retryHint is the reason of a 1012.
func retryHint() string {
	wait := time.Second + rand.N(2*time.Second)
	return "retry in " + wait.Round(100*time.Millisecond).String()
}

// add takes a connection into the server's care and starts it; false once the server is shutting down.
func (s *Server) add(c *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return false
	}
	s.conns[c] = struct{}{}
	s.metrics.connections.Inc()
	s.metrics.connects.Inc()
	s.wg.Add(1) // until remove
	c.schedulePing()
	go c.run()
	return true
}

// remove is the last act of a connection.
func (s *Server) remove(c *conn) {
	s.mu.Lock()
	delete(s.conns, c)
	s.mu.Unlock()
	s.metrics.connections.Dec()
	s.admission.leave(c.who.Principal)
	s.wg.Done()
}

// signOut closes the connections of a login.
func (s *Server) signOut(login string) {
	if login == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		if c.who.Login == login {
			c.close(closing{code: codeSignedOut, reason: "logged out"})
		}
	}
}
