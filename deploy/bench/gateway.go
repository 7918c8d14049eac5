package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"slices"
	"syscall"
	"time"

	"github.com/acpgate/acpgate/agentpool"
	"github.com/acpgate/acpgate/gateway"
	"github.com/acpgate/acpgate/gateway/auth"
	"github.com/acpgate/acpgate/sessions"
	"github.com/acpgate/acpgate/sessions/sqlitestore"
)

// Limits of one user that the benchmark, which is one user, needs lifted.
const (
	manyConnections = 20_000
	manyPerSecond   = 1_000_000
	manySessions    = 100_000
)

const gcPercent = 50 // as acpgate has it

// runGateway serves as acpgate does, with its defaults, for what acpgate has no flag for: without a store, which shows what
// the way through the gateway costs, and with profiles, of the processor for its whole life and of the heap at SIGUSR1.
func runGateway(ctx context.Context, args []string, stderr io.Writer) (err error) {
	fs := flag.NewFlagSet("bench gateway", flag.ContinueOnError)
	fs.SetOutput(stderr)
	agents := fs.String("agents", "", "the agents' command lines by name, as `JSON`")
	acpgate := fs.String("acpgate", "", "the built acpgate `FILE`, for its supervisor")
	state := fs.String("state", "", "state `DIR`")
	root := fs.String("root", "", "workspace `DIR`")
	inMemory := fs.Bool("in-memory", false, "keep nothing on disk")
	profile := fs.String("profile", "", "`PREFIX` of the profiles; without one none are written")
	if err := fs.Parse(args); err != nil {
		return err
	}
	var commands map[string][]string
	if err := json.Unmarshal([]byte(*agents), &commands); err != nil {
		return fmt.Errorf("--agents: %w", err)
	}
	var specs []agentpool.Spec
	for _, name := range slices.Sorted(maps.Keys(commands)) {
		specs = append(specs, agentpool.Spec{Name: name, Command: commands[name][0], Args: commands[name][1:]})
	}
	debug.SetGCPercent(gcPercent)
	stop, err := startProfiles(*profile)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()

	log := slog.New(slog.NewTextHandler(stderr, nil))
	authenticator, err := auth.New(auth.Config{StateDir: *state, Logger: log})
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer listener.Close()
	var store sessions.Store
	if !*inMemory {
		file, err := sqlitestore.Open(ctx, sqlitestore.Config{Path: filepath.Join(*state, "acpgate.db"), Logger: log})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		store = file
	}
	pool, err := agentpool.New(agentpool.Config{
		Specs: specs, Supervisor: []string{*acpgate, "supervise"}, Logger: log, Roots: []string{*root}, StateDir: *state, HomeOwner: auth.Local,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, within(pool.Close)) }()
	manager, err := sessions.NewManager(sessions.Config{Agents: pool, Store: store, Logger: log, Roots: []string{*root}, ViewsPerUser: manySessions})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, within(manager.Close)) }()
	var list []gateway.Agent
	for _, s := range specs {
		list = append(list, gateway.Agent{Name: s.Name})
	}
	server, err := gateway.New(gateway.Config{
		Listener: listener, Auth: authenticator, Sessions: gateway.Serving(manager), Roots: []string{*root}, Logger: log,
		Agents: func(string) []gateway.Agent { return list },
		Limits: gateway.Limits{ConnsPerPrincipal: manyConnections, ConnectRate: manyPerSecond, ConnectBurst: manyPerSecond},
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(stderr, "listening on %s\n", server.URL())
	return server.Run(ctx)
}

func within(closeIt func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return closeIt(ctx)
}

// startProfiles starts what writes the profiles, and returns how to end it.
func startProfiles(prefix string) (stop func() error, err error) {
	if prefix == "" {
		return func() error { return nil }, nil
	}
	file, err := os.Create(prefix + ".cpu")
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	heap := make(chan os.Signal, 1)
	signal.Notify(heap, syscall.SIGUSR1)
	ended := make(chan error, 1)
	go func() {
		var err error
		for range heap {
			err = errors.Join(err, writeHeap(prefix+".heap"))
		}
		ended <- err
	}()
	return func() error {
		pprof.StopCPUProfile()
		signal.Stop(heap)
		close(heap)
		return errors.Join(<-ended, file.Close())
	}, nil
}

func writeHeap(path string) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	runtime.GC()
	err = pprof.WriteHeapProfile(file)
	return errors.Join(err, file.Close())
}
