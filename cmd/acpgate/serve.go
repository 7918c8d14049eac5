package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"runtime/debug"
	"time"

	"github.com/acpgate/acpgate/agentpool"
	"github.com/acpgate/acpgate/gateway"
	"github.com/acpgate/acpgate/gateway/auth"
	"github.com/acpgate/acpgate/sessions"
	"github.com/acpgate/acpgate/sessions/redisstore"
	"github.com/acpgate/acpgate/sessions/sqlitestore"
	"github.com/acpgate/acpgate/web"
)

const (
	loginTTL     = 15 * time.Minute // of the link that is shown at start
	closeTimeout = 15 * time.Second // for each part to end what it has; then it is cut
)

// serve is the gateway, from its settings to its end. It reads in the order in which things happen; what is deferred
// happens at the end, the other way round.
func serve(ctx context.Context, s settings, stderr io.Writer) (err error) {
	if os.Getenv("GOGC") == "" {
		// Most of what the gateway holds is text that the collector does not look into. Collecting twice as often as usual costs
		// next to nothing and saves a fifth of the memory of idle connections.
		debug.SetGCPercent(50)
	}
	cfg, err := s.resolve()
	if err != nil {
		return err
	}
	log := newLogger(stderr, cfg.LogFormat, cfg.level)

	state, err := openStateDir(cfg.state)
	if err != nil {
		return err
	}
	lock, err := state.lock()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.release()) }()

	store, err := cfg.openStore(ctx, state, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()

	audit, closeAudit, err := openAuditLog(cfg.AuditLog, state)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeAudit()) }()

	authenticator, err := auth.New(cfg.authConfig(state, log))
	if err != nil {
		return err
	}
	listener, err := listen(ctx, cfg.Listen)
	if err != nil {
		return err
	}
	defer listener.Close() // the server closes it too, if it comes to that

	stop := newStopping(ctx, log)
	defer stop.end()
	defer log.Info("gateway stopped")

	var manager *sessions.Manager // set before the first process can have been started
	pool, err := agentpool.New(cfg.poolConfig(state, log, func(principal, agent string, line []byte) {
		manager.AgentNotification(principal, agent, line)
	}))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop.within(closeTimeout, pool.Close)) }()

	manager, err = sessions.NewManager(cfg.managerConfig(pool, store, log, audit))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop.within(closeTimeout, manager.Close)) }()

	page, err := web.New(web.Config{})
	if err != nil {
		return err
	}
	server, err := gateway.New(cfg.gatewayConfig(gatewayParts{
		listener: listener, auth: authenticator, pool: pool, store: store, manager: manager, page: page, log: log, audit: audit,
	}))
	if err != nil {
		return err
	}
	if err := lock.publish(lockHolder{
		URL: server.URL(), Address: localAddress(listener.Addr()), TokenFile: cfg.tokenFile(state), TLSCert: cfg.TLSCert,
	}); err != nil {
		return err
	}
	if err := announce(server, cfg, stderr); err != nil {
		return err
	}
	log.Info("gateway started", "version", version(), "url", server.URL(), "agents", pool.Names(), "state", string(state), "auth", cfg.Auth)
	return runUntilStopped(stop, server, manager, cfg.DrainTimeout, log)
}

// runUntilStopped serves until the first signal, lets turns end, and shuts the server down (rule N4).
func runUntilStopped(stop *stopping, server *gateway.Server, manager *sessions.Manager, drainTimeout time.Duration, log *slog.Logger) error {
	serving, cease := context.WithCancel(context.Background())
	defer cease()
	served := make(chan error, 1)
	go func() { served <- server.Run(serving) }()

	select {
	case err := <-served:
		return err // it could not go on
	case <-stop.asked.Done():
	}
	log.Info("draining", "running", manager.Stats().Running, "timeout", drainTimeout)
	server.Drain()
	left := 0
	_ = stop.within(drainTimeout, func(ctx context.Context) error {
		left = manager.Drain(ctx)
		return nil
	})
	cease()
	err := <-served
	if left > 0 {
		err = errors.Join(cutError{turns: left}, err)
	}
	log.Info("connections closed", "cut", left)
	return err
}

// openStore opens what outlives the process: the database in the state directory, or Redis.
func (c *config) openStore(ctx context.Context, state stateDir, log *slog.Logger) (sessions.Store, error) {
	if c.Redis != "" {
		return redisstore.Open(ctx, redisstore.Config{URL: c.Redis, Logger: log})
	}
	return sqlitestore.Open(ctx, sqlitestore.Config{Path: state.join("acpgate.db"), Logger: log})
}

// announce says on stderr where the gateway listens and how to log in. The link goes to whoever sits at this machine. Where
// stderr is neither a terminal nor that of a gateway that only this machine can reach, it is likely collected, and the link
// is left out.
func announce(server *gateway.Server, cfg *config, stderr io.Writer) error {
	text := "listening on " + server.URL() + "\n"
	switch {
	case cfg.Auth != string(auth.ModeToken):
	case cfg.loopback || isTerminal(stderr):
		link, err := server.LoginLink()
		if err != nil {
			return err
		}
		text += fmt.Sprintf("log in: %s (works once, within %d minutes; for a new one: acpgate token link)\n", link, int(loginTTL.Minutes()))
	default:
		text += "log in: run acpgate token link on this machine for a link\n"
	}
	_, err := io.WriteString(stderr, text)
	return err
}

// listen takes the address.
func listen(ctx context.Context, address string) (net.Listener, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, listenError{err}
	}
	return listener, nil
}

// listenError says that the address cannot be had.
type listenError struct{ error }

func (e listenError) Error() string {
	return fmt.Sprintf("%v: choose another address with --listen; port 0 picks a free one", e.error)
}
func (e listenError) Unwrap() error { return e.error }
func (e listenError) exitCode() int { return exitListen }

// cutError says that turns were cut short.
type cutError struct{ turns int }

func (e cutError) Error() string { return fmt.Sprintf("stopped while turns were running: %d", e.turns) }
func (e cutError) exitCode() int { return exitCut }

// openAuditLog opens the audit log that the setting means, and returns how to close it.
func openAuditLog(setting string, state stateDir) (*slog.Logger, func() error, error) {
	switch setting {
	case "none":
		return slog.New(slog.DiscardHandler), func() error { return nil }, nil
	case "":
		setting = state.join("audit.jsonl")
	}
	file, err := openAudit(setting, auditBytes)
	if err != nil {
		return nil, nil, err
	}
	return newAuditLogger(file), file.Close, nil
}
