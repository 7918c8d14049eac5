package redisstore

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"testing"

	"go.uber.org/goleak"

	"github.com/acpgate/acpgate/sessions"
	"github.com/acpgate/acpgate/sessions/storetest"
)

const victimURL, victimPrefix = "REDISSTORE_VICTIM", "REDISSTORE_VICTIM_PREFIX" // the process is one to be killed, with this store

func TestMain(m *testing.M) {
	if url := os.Getenv(victimURL); url != "" {
		fmt.Fprintln(os.Stderr, victim(url, os.Getenv(victimPrefix)))
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

func victim(url, prefix string) error {
	s, err := Open(context.Background(), Config{URL: url, Prefix: prefix})
	if err != nil {
		return err
	}
	return storetest.Victim(context.Background(), s, os.Stdout)
}

func config(url string) Config {
	return Config{URL: url, Prefix: "test-" + rand.Text(), Logger: slog.New(slog.DiscardHandler)}
}

func openWith(t testing.TB, cfg Config) *Store {
	t.Helper()
	s, err := Open(t.Context(), cfg)
	must(t, err)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("closing: %v", err)
		}
	})
	return s
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func put(t testing.TB, s *Store, key, value string) error {
	t.Helper()
	return s.Commit(t.Context(), "alice", sessions.Commit{Writes: []sessions.Write{{Key: key, Value: []byte(value)}}})
}

func get(t testing.TB, s *Store, key string) string {
	t.Helper()
	records, err := s.Read(t.Context(), "alice", key)
	must(t, err)
	if records[0].Version == 0 {
		return "-"
	}
	return string(records[0].Value)
}

// contract runs the suite on a Redis, each test under a prefix of its own.
func contract(t *testing.T, url string) {
	storetest.Run(t, func(testing.TB) storetest.Backend {
		cfg := config(url)
		return storetest.Backend{Open: func(t testing.TB) sessions.Store { return openWith(t, cfg) }, Shared: true}
	})
}

func TestN1_RedisKeepsTheContract(t *testing.T) {
	contract(t, storetest.Redis(t).URL())
}

func TestN1_NothingAcknowledgedIsLostByKill(t *testing.T) {
	cfg := config(storetest.Redis(t).URL())
	storetest.TestKill(t, func() *exec.Cmd {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), victimURL+"="+cfg.URL, victimPrefix+"="+cfg.Prefix)
		return cmd
	}, func(t testing.TB) sessions.Store { return openWith(t, cfg) })
}

func BenchmarkAppend200Sessions(b *testing.B) {
	redis := storetest.Redis(b)
	storetest.BenchmarkAppend(b, func(t testing.TB) sessions.Store { return openWith(t, config(redis.URL())) })
}
