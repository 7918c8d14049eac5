package agentpool

import (
	"os"
	"path/filepath"
	"testing"
)

func TestT3_OnlyItsOwnerHasTheGatewaysHome(t *testing.T) {
	cfg := testConfig(t, shellSpec("x", "cat"))
	cfg.HomeOwner = "local"
	cfg.Environ = []string{"HOME=/home/of-the-gateway", "XDG_CONFIG_HOME=/home/of-the-gateway/config", "PATH=" + os.Getenv("PATH")}
	p := startPool(t, cfg)
	env := func(principal string) []string {
		t.Helper()
		l, err := p.prepare(principal, &p.cfg.Specs[0], root{})
		if err != nil {
			t.Fatal(err)
		}
		return l.env
	}
	if owner := env("local"); lookEnv(owner, "HOME") != "/home/of-the-gateway" || lookEnv(owner, "XDG_CONFIG_HOME") == "" {
		t.Errorf("the owner's agents get %v", owner)
	}
	homes := map[string]bool{}
	for _, principal := range []string{"ann", "bob", "Local", "../local"} {
		other := env(principal)
		home := lookEnv(other, "HOME")
		if homes[home] || filepath.Dir(home) != filepath.Join(p.stateDir, "homes") || lookEnv(other, "XDG_CONFIG_HOME") != "" {
			t.Errorf("agents of %s get %v", principal, other)
		}
		homes[home] = true
	}
}

func TestT3_WithoutAnOwnerNobodyHasTheGatewaysHome(t *testing.T) {
	cfg := testConfig(t, shellSpec("x", "cat"))
	cfg.Environ = []string{"HOME=/home/of-the-gateway", "PATH=" + os.Getenv("PATH")}
	p := startPool(t, cfg)
	for _, principal := range []string{"", "local"} {
		l, err := p.prepare(principal, &p.cfg.Specs[0], root{})
		if err != nil {
			t.Fatal(err)
		}
		if home := lookEnv(l.env, "HOME"); home == "/home/of-the-gateway" {
			t.Errorf("agents of %q have it", principal)
		}
	}
}

func TestKnownStartsNothing(t *testing.T) {
	p := startPool(t, testConfig(t, fakeSpec("x")))
	if info := p.Known("x"); info != nil {
		t.Errorf("known before any process ran: %+v", info)
	}
	if n := p.Stats().Starts; n != 0 {
		t.Errorf("%d processes were started", n)
	}
	acquire(t, p, "x")
	if info := p.Known("x"); info == nil || info.Name != "x" {
		t.Errorf("known afterwards: %+v", info)
	}
}
