package main

import (
	"slices"
	"testing"
	"time"

	"github.com/acpgate/acpgate/agentpool"
	"github.com/acpgate/acpgate/gateway"
	"github.com/acpgate/acpgate/gateway/auth"
	"github.com/acpgate/acpgate/sessions"
	"github.com/acpgate/acpgate/sessions/journal"
)

// TestT6_FlagsReachTheParts gives every limit and time a value of its own and looks for it where it counts.
func TestT6_FlagsReachTheParts(t *testing.T) {
	root, state := t.TempDir(), stateDir(t.TempDir())
	s, err := parse(t, nil, "--frame-limit=11KiB", "--line-limit=70KiB", "--queue=13", "--max-connections=14", "--connect-rate=15",
		"--max-frame-rate=16", "--max-byte-rate=17KiB", "--ping=18s", "--journal-max-events=19", "--journal-max-bytes=20KiB",
		"--journal-max-age=21h", "--journal-memory=22KiB", "--sleep-after=23m", "--max-views=24", "--max-processes=25",
		"--request-policy=reject", "--adopt", "--slot-ttl=26m", "--no-side-gate", "--base-path=gate/", "--allow-host=a.example", "--allow-origin=https://b.example",
		"--metrics-open", "--env-allow=KEY_*", "--root", root, "--agent=x=cat", "--agent=y=cat", "--default-agent=y",
		"--auth=proxy", "--proxy-from=::1", "--proxy-header=X-User")
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := s.resolve()
	if err != nil {
		t.Fatal(err)
	}

	face := cfg.gatewayConfig(gatewayParts{})
	if want := (gateway.Limits{
		FrameBytes: 11 << 10, LineBytes: 70 << 10, Queue: 13, Conns: maxAllConnections, ConnsPerPrincipal: 14, ConnectRate: 15,
		ConnectBurst: 60, FrameRate: 16, ByteRate: 17 << 10, Ping: 18 * time.Second, Pong: 18 * time.Second,
	}); face.Limits != want {
		t.Errorf("gateway limits\n got %+v\nwant %+v", face.Limits, want)
	}
	if face.BasePath != "/gate" || !face.MetricsOpen || !slices.Equal(face.AllowHosts, []string{"a.example"}) ||
		!slices.Equal(face.AllowOrigins, []string{"https://b.example"}) || !slices.Equal(face.Roots, []string{root}) {
		t.Errorf("gateway: %+v", face)
	}

	mind := cfg.managerConfig(nil, nil, nil, nil)
	if want := (journal.Limits{MaxEvents: 19, MaxBytes: 20 << 10, MaxAge: 21 * time.Hour}); mind.Journal != want {
		t.Errorf("journal %+v, want %+v", mind.Journal, want)
	}
	if mind.JournalMemory != 22<<10 || mind.Queue != 13 || mind.SleepAfter != 23*time.Minute || mind.ViewsPerUser != 24 ||
		mind.RequestPolicy != sessions.PolicyReject || !mind.Adopt || mind.SlotTTL != 26*time.Minute || !mind.SideGateOff || !slices.Equal(mind.Roots, []string{root}) {
		t.Errorf("sessions: %+v", mind)
	}

	pool := cfg.poolConfig(state, nil, nil)
	if pool.MaxPerPrincipal != 25 || pool.MaxProcesses != maxAllProcesses || pool.HomeOwner != auth.Local ||
		pool.StateDir != string(state) || !slices.Equal(pool.EnvAllow, []string{"KEY_*"}) {
		t.Errorf("agentpool: %+v", pool)
	}
	names := []string{pool.Specs[0].Name, pool.Specs[1].Name}
	if !slices.Equal(names, []string{"y", "x"}) || pool.Specs[0].LineLimit != 70<<10 {
		t.Errorf("agents: %+v", pool.Specs)
	}

	who := cfg.authConfig(state, nil)
	if who.Mode != auth.ModeProxy || who.ProxyHeader != "X-User" || who.CookiePath != "/gate/" || !slices.Equal(who.ProxyFrom, []string{"::1"}) {
		t.Errorf("auth: %+v", who)
	}
}

// TestT6_OneUserMayHaveMoreThanTheUsualBoundOfAll raises the bounds of everybody with those of one.
func TestT6_OneUserMayHaveMoreThanTheUsualBoundOfAll(t *testing.T) {
	s, err := parse(t, nil, "--max-connections=50000", "--max-processes=1000", "--root", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := s.resolve()
	if err != nil {
		t.Fatal(err)
	}
	if n := cfg.gatewayConfig(gatewayParts{}).Limits.Conns; n != 50000 {
		t.Errorf("%d connections of all", n)
	}
	if n := cfg.poolConfig("/", nil, nil).MaxProcesses; n != 1000 {
		t.Errorf("%d processes of all", n)
	}
}

// TestW7_AnAgentsOwnLineLimitCounts lets the agents file overrule --line-limit.
func TestW7_AnAgentsOwnLineLimitCounts(t *testing.T) {
	specs, err := agentpool.ParseFile("agents.yaml", []byte("agents:\n  x: {command: cat, limits: {line: 1MiB}}\n  y: {command: cat}\n"))
	if err != nil {
		t.Fatal(err)
	}
	cfg := &config{settings: settings{LineLimit: 2 * mib}, specs: specs}
	var p problems
	cfg.resolveAgents(&p)
	if err := p.err(); err != nil {
		t.Fatal(err)
	}
	if cfg.specs[0].LineLimit != int64(mib) || cfg.specs[1].LineLimit != int64(2*mib) {
		t.Errorf("line limits %d and %d", cfg.specs[0].LineLimit, cfg.specs[1].LineLimit)
	}
}
