package main

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"

	"github.com/acpgate/acpgate/agentpool"
	"github.com/acpgate/acpgate/gateway"
	"github.com/acpgate/acpgate/gateway/auth"
	"github.com/acpgate/acpgate/sessions"
	"github.com/acpgate/acpgate/sessions/journal"
)

// Bounds of all users together, unless one may have more.
const (
	maxAllProcesses   = 256
	maxAllConnections = 20_000
)

// connectBurst is how many seconds' worth of connections may come at once.
const connectBurst = 4

// authFlags, poolFlags and gatewayFlags say which flag sets a field of a part's Config.
var (
	authFlags = map[string]string{"Mode": "--auth", "ProxyFrom": "--proxy-from", "ProxyHeader": "--proxy-header"}
	poolFlags = map[string]string{"EnvAllow": "--env-allow"}

	gatewayFlags = map[string]string{
		"BasePath": "--base-path", "AllowHosts": "--allow-host", "AllowOrigins": "--allow-origin", "Limits.FrameBytes": "--frame-limit",
	}
)

func (c *config) authConfig(state stateDir, log *slog.Logger) auth.Config {
	return auth.Config{
		Mode: auth.Mode(c.Auth), StateDir: string(state), TokenFile: c.TokenFile,
		ProxyHeader: c.ProxyHeader, ProxyFrom: c.ProxyFrom, CookiePath: c.BasePath + "/", LoginTTL: loginTTL, Logger: log,
	}
}

// tokenFile is where the first token is.
func (c *config) tokenFile(state stateDir) string {
	if c.TokenFile != "" {
		return c.TokenFile
	}
	return state.join("token")
}

func (c *config) poolConfig(state stateDir, log *slog.Logger, onNotification func(principal, agent string, line []byte)) agentpool.Config {
	return agentpool.Config{
		Specs: c.specs, Supervisor: []string{c.self, "supervise"}, Logger: log, Version: version(),
		Roots: c.roots, StateDir: string(state), HomeOwner: auth.Local, Environ: os.Environ(), EnvAllow: c.EnvAllow,
		MaxProcesses: max(maxAllProcesses, c.MaxProcesses), MaxPerPrincipal: c.MaxProcesses, OnNotification: onNotification,
	}
}

func (c *config) managerConfig(agents sessions.Agents, store sessions.Store, log, audit *slog.Logger) sessions.Config {
	return sessions.Config{
		Agents: agents, Store: store, Logger: log, Audit: audit, Roots: c.roots,
		Journal:       journal.Limits{MaxEvents: c.JournalMaxEvents, MaxBytes: int64(c.JournalMaxBytes), MaxAge: c.JournalMaxAge},
		JournalMemory: int64(c.JournalMemory), Queue: c.Queue, RequestPolicy: sessions.Policy(c.RequestPolicy),
		SleepAfter: c.SleepAfter, ViewsPerUser: c.MaxViews, Adopt: c.Adopt, SlotTTL: c.SlotTTL, SideGateOff: c.NoSideGate,
	}
}

// gatewayParts are what the HTTP face stands on.
type gatewayParts struct {
	listener   net.Listener
	auth       *auth.Authenticator
	pool       *agentpool.Pool
	store      sessions.Store
	manager    *sessions.Manager
	page       http.Handler
	log, audit *slog.Logger
}

func (c *config) gatewayConfig(parts gatewayParts) gateway.Config {
	var serverTLS *tls.Config
	if c.TLSCert != "" {
		serverTLS = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: newCertificateFiles(c.TLSCert, c.TLSKey, parts.log).get}
	}
	return gateway.Config{
		Listener: parts.listener, TLS: serverTLS, BasePath: c.BasePath, AllowHosts: c.AllowHost, AllowOrigins: c.AllowOrigin,
		Auth: parts.auth, Sessions: gateway.Serving(parts.manager), Page: parts.page,
		Agents: c.agentsFor(parts.pool), Roots: c.roots, Version: version(),
		Checks: []gateway.Check{
			{Name: "agent", Func: func(context.Context) error { return parts.pool.CanStart() }},
			{Name: "store", Func: func(ctx context.Context) error { return errors.Join(parts.manager.Ready(), parts.store.Check(ctx)) }},
		},
		Metrics: metrics(parts.pool, parts.manager), MetricsOpen: c.MetricsOpen,
		Limits: gateway.Limits{
			FrameBytes: int64(c.FrameLimit), LineBytes: int64(c.LineLimit), Queue: c.Queue,
			Conns: max(maxAllConnections, c.MaxConnections), ConnsPerPrincipal: c.MaxConnections,
			ConnectRate: c.ConnectRate, ConnectBurst: connectBurst * c.ConnectRate,
			FrameRate: c.MaxFrameRate, ByteRate: int64(c.MaxByteRate), Ping: c.Ping, Pong: c.Ping,
		},
		Logger: parts.log, Audit: parts.audit,
	}
}

// agentsFor lists the configured agents, with the titles that they gave themselves once they are known.
func (c *config) agentsFor(pool *agentpool.Pool) func(string) []gateway.Agent {
	return func(string) []gateway.Agent {
		agents := make([]gateway.Agent, 0, len(c.specs))
		for _, spec := range c.specs {
			title := spec.Title
			if info := pool.Known(spec.Name); info != nil {
				title = info.Title
			}
			agents = append(agents, gateway.Agent{Name: spec.Name, Title: title})
		}
		return agents
	}
}
