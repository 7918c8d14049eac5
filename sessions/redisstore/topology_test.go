package redisstore

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/acpgate/acpgate/sessions"
	"github.com/acpgate/acpgate/sessions/journal"
	"github.com/acpgate/acpgate/sessions/storetest"
)

const slots = 16384 // of a cluster

// cluster starts a cluster of three nodes and returns its URL.
func cluster(t *testing.T) string {
	t.Helper()
	const nodes = 3
	var addrs []string
	var clients []*redis.Client
	for range nodes {
		server := storetest.Redis(t, "--cluster-enabled", "yes", "--cluster-node-timeout", "2000")
		c := redis.NewClient(&redis.Options{Addr: server.Addr})
		defer func() { must(t, c.Close()) }()
		addrs, clients = append(addrs, server.Addr), append(clients, c)
	}
	for i, c := range clients {
		must(t, c.ClusterAddSlotsRange(t.Context(), i*slots/nodes, (i+1)*slots/nodes-1).Err())
		host, port, err := net.SplitHostPort(addrs[0])
		must(t, err)
		must(t, c.ClusterMeet(t.Context(), host, port).Err())
	}
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		ready := 0
		for _, c := range clients {
			info, err := c.ClusterInfo(t.Context()).Result()
			must(t, err)
			if strings.Contains(info, "cluster_state:ok") && strings.Contains(info, fmt.Sprint("cluster_known_nodes:", nodes)) {
				ready++
			}
		}
		if ready == nodes {
			return "redis+cluster://" + strings.Join(addrs, ",")
		}
		if time.Now().After(deadline) {
			t.Fatal("the nodes do not become a cluster")
		}
	}
}

func TestN1_AClusterKeepsTheContract(t *testing.T) {
	url := cluster(t)
	contract(t, url)

	// Principals are spread over the nodes, and one Append may be for many of them.
	s := openWith(t, config(url))
	var runs []sessions.Run
	for i := range 60 {
		r := sessions.Run{Principal: fmt.Sprint("user-", i), Journal: "j", Fence: 1}
		_, err := s.OpenJournal(t.Context(), r.Principal, r.Journal, 1, 1)
		must(t, err)
		for seq := range uint64(3) {
			r.Events = append(r.Events, journal.Event{Seq: seq + 1})
		}
		runs = append(runs, r)
	}
	for _, err := range s.Append(t.Context(), runs) {
		must(t, err)
	}
	var used atomic.Int64
	err := s.client.(*redis.ClusterClient).ForEachMaster(t.Context(), func(ctx context.Context, c *redis.Client) error {
		n, err := c.DBSize(ctx).Result()
		if n > 0 {
			used.Add(1)
		}
		return err
	})
	must(t, err)
	if n := used.Load(); n != 3 {
		t.Errorf("the keys are on %d nodes", n)
	}
}

// After a failover the store finds the new master, and what was replicated is there.
func TestN1_SentinelFailover(t *testing.T) {
	master := storetest.Redis(t)
	_, port, err := net.SplitHostPort(master.Addr)
	must(t, err)
	replica := redis.NewClient(&redis.Options{Addr: storetest.Redis(t, "--replicaof", "127.0.0.1 "+port).Addr})
	defer func() { must(t, replica.Close()) }()
	conf := filepath.Join(t.TempDir(), "sentinel.conf")
	must(t, os.WriteFile(conf, fmt.Appendf(nil, `sentinel monitor mymaster 127.0.0.1 %s 1
sentinel down-after-milliseconds mymaster 300
sentinel failover-timeout mymaster 3000
`, port), 0o600))
	sentinel := storetest.Redis(t, conf, "--sentinel")
	cfg := config("redis+sentinel://" + sentinel.Addr + "/mymaster")
	s := openWith(t, cfg)
	c, err := s.Watch(t.Context(), "alice")
	must(t, err)
	must(t, put(t, s, "x", "1"))
	if change := <-c; change.Key != "x" {
		t.Errorf("told %+v", change)
	}
	replicated := func() bool {
		n, err := replica.Exists(t.Context(), s.space("alice").record("x")).Result()
		return err == nil && n == 1 && known(t, sentinel.Addr)
	}
	for deadline := time.Now().Add(20 * time.Second); !replicated(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the replica does not have it")
		}
	}
	master.Kill()
	for deadline := time.Now().Add(30 * time.Second); put(t, s, "y", "2") != nil; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("no new master")
		}
	}
	if got := get(t, s, "x"); got != "1" {
		t.Errorf("x is %q", got)
	}
	lost(t, c)
}

// known reports whether the Sentinel knows of a replica.
func known(t *testing.T, sentinel string) bool {
	t.Helper()
	c := redis.NewSentinelClient(&redis.Options{Addr: sentinel})
	defer func() { must(t, c.Close()) }()
	replicas, err := c.Replicas(t.Context(), "mymaster").Result()
	must(t, err)
	return len(replicas) > 0
}

func TestURL_TLS(t *testing.T) {
	server := storetest.Redis(t)
	cert, pool := certificate(t)
	network := newProxy(t, server.Addr, &tls.Config{Certificates: []tls.Certificate{cert}})
	cfg := config("rediss://" + network.addr())
	_, err := Open(t.Context(), cfg)
	wantUnavailable(t, "a server whose certificate nobody has signed", err)
	cfg.TLS = &tls.Config{RootCAs: pool}
	s := openWith(t, cfg)
	must(t, put(t, s, "x", "1"))
	c, err := s.Watch(t.Context(), "alice")
	must(t, err)
	must(t, put(t, s, "y", "1"))
	if change := <-c; change.Key != "y" {
		t.Errorf("told %+v", change)
	}
}
