package redisstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/acpgate/acpgate/sessions"
	"github.com/acpgate/acpgate/sessions/journal"
	"github.com/acpgate/acpgate/sessions/storetest"
)

// do runs a command on the store's Redis.
func do(t testing.TB, s *Store, args ...any) any {
	t.Helper()
	v, err := s.client.Do(t.Context(), args...).Result()
	must(t, err)
	return v
}

// fill appends a run of n events to a journal, which it opens.
func fill(t testing.TB, s *Store, name string, n int) error {
	t.Helper()
	info, err := s.OpenJournal(t.Context(), "alice", name, 1, 1)
	if err != nil {
		return err
	}
	r := sessions.Run{Principal: "alice", Journal: name, Fence: 1}
	for i := range n {
		r.Events = append(r.Events, journal.Event{Seq: info.Next + uint64(i), Type: journal.Update, Data: []byte("event")})
	}
	return s.Append(t.Context(), []sessions.Run{r})[0]
}

// everything calls each method once and returns what it says.
func everything(t *testing.T, s *Store) map[string]error {
	t.Helper()
	_, read := s.Read(t.Context(), "alice", "x")
	_, scan := s.Scan(t.Context(), "alice", "i", sessions.Query{})
	_, open := s.OpenJournal(t.Context(), "alice", "j", 1, 1)
	_, events := s.ReadJournal(t.Context(), "alice", "j", 0, 0)
	_, info := s.JournalInfo(t.Context(), "alice", "j")
	watching, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, watch := s.Watch(watching, "bob")
	return map[string]error{
		"read": read, "scan": scan, "open": open, "events": events, "info": info, "watch": watch,
		"check": s.Check(t.Context()), "commit": put(t, s, "x", "2"), "append": fill(t, s, "j", 1),
		"compact": s.Compact(t.Context(), "alice", "j", 1, 1, nil), "close": s.CloseJournal(t.Context(), "alice", "j", 1),
		"delete": s.DeleteJournal(t.Context(), "alice", "gone"),
	}
}

// writes are the calls of everything that fail on a Redis that can only be read.
var writes = []string{"open", "check", "commit", "append", "compact", "close"}

func wantUnavailable(t *testing.T, what string, err error) {
	t.Helper()
	if !errors.Is(err, sessions.ErrUnavailable) {
		t.Errorf("%s: %v, want ErrUnavailable", what, err)
	}
}

func TestN5_RedisGoneAndBack(t *testing.T) {
	server := storetest.Redis(t)
	s := openWith(t, config(server.URL()))
	must(t, put(t, s, "x", "1"))
	must(t, fill(t, s, "j", 50))
	watching, err := s.Watch(t.Context(), "alice")
	must(t, err)
	server.Kill()
	begin := time.Now()
	for what, err := range everything(t, s) {
		wantUnavailable(t, what, err)
	}
	if d := time.Since(begin); d > 10*time.Second {
		t.Errorf("12 calls to a Redis that is gone took %v", d)
	}
	if _, err := Open(t.Context(), config(server.URL())); !errors.Is(err, sessions.ErrUnavailable) || !strings.Contains(err.Error(), server.Addr) {
		t.Errorf("opening: %v, want ErrUnavailable that names the server", err)
	}
	server.Start()
	begin = time.Now()
	for s.Check(t.Context()) != nil { // the client tries at most once in a second
		if time.Since(begin) > 5*time.Second {
			t.Fatal("Redis is back, but not for the store")
		}
		time.Sleep(10 * time.Millisecond)
	}
	if got := get(t, s, "x"); got != "1" {
		t.Errorf("x is %q", got)
	}
	events, err := s.ReadJournal(t.Context(), "alice", "j", 0, 0)
	must(t, err)
	if len(events) != 50 {
		t.Errorf("%d events of 50", len(events))
	}
	// Whoever watched is told, and then of changes again.
	for c := range watching {
		if c.Lost {
			break
		}
	}
	must(t, put(t, s, "y", "1"))
	for c := range watching {
		if c.Key == "y" {
			break
		}
	}
	for what, err := range everything(t, s) {
		if err != nil {
			t.Errorf("%s, with Redis back: %v", what, err)
		}
	}
	if s.Stats().Resubscribed == 0 || s.Stats().Connections == 0 {
		t.Errorf("%+v", s.Stats())
	}
}

// With an append-only file, a Redis that is killed has everything that it acknowledged.
func TestN5_NothingAcknowledgedIsLostWhenRedisIsKilled(t *testing.T) {
	server := storetest.Redis(t)
	s := openWith(t, config(server.URL()))
	const writers = 4
	for round := range 2 {
		var acked [writers]atomic.Int64
		var seqs [writers]atomic.Uint64
		done := make(chan error, writers)
		for g := range writers {
			go func() {
				key, name := fmt.Sprint("key-", g), fmt.Sprint("round-", round, "-", g)
				info, err := s.OpenJournal(t.Context(), "alice", name, 1, 1)
				for n := int64(1); err == nil; n++ {
					if err = put(t, s, key, strconv.FormatInt(n, 10)); err != nil {
						break
					}
					acked[g].Store(n)
					run := sessions.Run{Principal: "alice", Journal: name, Fence: 1, Events: []journal.Event{{Seq: info.Next, Data: []byte(key)}}}
					if err = s.Append(t.Context(), []sessions.Run{run})[0]; err == nil {
						seqs[g].Store(info.Next)
						info.Next++
					}
				}
				done <- err
			}()
		}
		for acked[0].Load() < 50 || seqs[writers-1].Load() < 50 {
			time.Sleep(time.Millisecond)
		}
		server.Kill()
		for range writers {
			wantUnavailable(t, "writing", <-done)
		}
		server.Start()
		for s.Check(t.Context()) != nil {
			time.Sleep(10 * time.Millisecond)
		}
		for g := range writers {
			n, err := strconv.ParseInt(get(t, s, fmt.Sprint("key-", g)), 10, 64)
			must(t, err)
			if n < acked[g].Load() || n > acked[g].Load()+1 {
				t.Errorf("key %d is %d, acknowledged %d", g, n, acked[g].Load())
			}
			info, err := s.JournalInfo(t.Context(), "alice", fmt.Sprint("round-", round, "-", g))
			must(t, err)
			if last := info.Next - 1; last < seqs[g].Load() || last > seqs[g].Load()+1 {
				t.Errorf("journal %d ends with %d, acknowledged %d", g, last, seqs[g].Load())
			}
		}
	}
}

// A Redis that was started anew, or told to forget, does not know our scripts.
func TestN5_ScriptsAreSentAgain(t *testing.T) {
	s := openWith(t, config(storetest.Redis(t).URL()))
	var runs []sessions.Run
	for i := range 20 {
		name := fmt.Sprint("j-", i)
		_, err := s.OpenJournal(t.Context(), "alice", name, 1, 1)
		must(t, err)
		runs = append(runs, sessions.Run{Principal: "alice", Journal: name, Fence: 1, Events: []journal.Event{{Seq: 1}}})
	}
	do(t, s, "script", "flush")
	must(t, put(t, s, "x", "1"))
	do(t, s, "script", "flush")
	for _, err := range s.Append(t.Context(), runs) {
		must(t, err)
	}
	for i := range runs {
		runs[i].Events[0].Seq = 2
	}
	before := do(t, s, "info", "commandstats").(string)
	for _, err := range s.Append(t.Context(), runs) {
		must(t, err)
	}
	if after := do(t, s, "info", "commandstats").(string); calls(before, "eval") != calls(after, "eval") {
		t.Error("the script was sent although Redis knows it")
	}
}

// calls is how often INFO commandstats says that a command was called.
func calls(stats, command string) string {
	_, rest, _ := strings.Cut(stats, "cmdstat_"+command+":calls=")
	n, _, _ := strings.Cut(rest, ",")
	return n
}

func TestN5_ARedisThatTakesNoWrites(t *testing.T) {
	for name, tc := range map[string]struct{ on, off []any }{
		"full":    {[]any{"config", "set", "maxmemory", "1"}, []any{"config", "set", "maxmemory", "0"}},
		"replica": {[]any{"replicaof", "127.0.0.1", "1"}, []any{"replicaof", "no", "one"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := openWith(t, config(storetest.Redis(t).URL()))
			must(t, put(t, s, "x", "1"))
			must(t, fill(t, s, "j", 5))
			do(t, s, tc.on...)
			said := everything(t, s)
			for _, what := range writes {
				if name == "full" && what == "close" {
					continue // it needs no memory
				}
				wantUnavailable(t, what, said[what])
			}
			do(t, s, tc.off...)
			if got := get(t, s, "x"); got != "1" {
				t.Errorf("x is %q: a write that failed was carried out", got)
			}
			info, err := s.JournalInfo(t.Context(), "alice", "j")
			must(t, err)
			if info.Events != 5 {
				t.Errorf("the journal has %d events", info.Events)
			}
			for what, err := range everything(t, s) {
				if err != nil {
					t.Errorf("%s, when it takes writes again: %v", what, err)
				}
			}
		})
	}
}

// A Redis that is slow costs a caller its own patience, or Timeout, and the next one nothing.
func TestN5_SlowRedis(t *testing.T) {
	cfg := config(storetest.Redis(t).URL())
	cfg.Timeout = 300 * time.Millisecond
	s := openWith(t, cfg)
	must(t, put(t, s, "x", "1"))
	do(t, s, "client", "pause", "1200", "all")
	begin := time.Now()
	wantUnavailable(t, "committing", put(t, s, "x", "2"))
	if d := time.Since(begin); d < 200*time.Millisecond || d > time.Second {
		t.Errorf("waited %v", d)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	begin = time.Now()
	_, err := s.Read(ctx, "alice", "x")
	wantUnavailable(t, "reading", err)
	if d := time.Since(begin); !errors.Is(err, context.DeadlineExceeded) || d > 250*time.Millisecond {
		t.Errorf("%v after %v", err, d)
	}
	time.Sleep(1200 * time.Millisecond)
	must(t, put(t, s, "x", "3"))
	if got := get(t, s, "x"); got != "3" {
		t.Errorf("x is %q", got)
	}
}

// When Redis has lost its data, what owners remember from before is nothing that holds by chance.
func TestN5_VersionsDoNotRepeatAfterALossOfData(t *testing.T) {
	s := openWith(t, config(storetest.Redis(t).URL()))
	must(t, put(t, s, "x", "1"))
	records, err := s.Read(t.Context(), "alice", "x")
	must(t, err)
	do(t, s, "flushall")
	must(t, put(t, s, "x", "another"))
	err = s.Commit(t.Context(), "alice", sessions.Commit{
		Expect: []sessions.Expect{{Key: "x", Version: records[0].Version}}, Writes: []sessions.Write{{Key: "x", Value: []byte("late")}},
	})
	if !errors.Is(err, sessions.ErrConflict) {
		t.Errorf("%v, want ErrConflict", err)
	}
}

func lost(t *testing.T, c <-chan sessions.Change) {
	t.Helper()
	select {
	case change := <-c:
		if !change.Lost {
			t.Fatalf("told %+v, want that changes were lost", change)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("not told that changes were lost")
	}
}

func TestN5_WatchersAreToldWhenTheirConnectionBreaks(t *testing.T) {
	server := storetest.Redis(t)
	network := newProxy(t, server.Addr, nil)
	cfg := config("redis://" + network.addr())
	cfg.PingEvery = 100 * time.Millisecond
	s := openWith(t, cfg)
	alice, err := s.Watch(t.Context(), "alice")
	must(t, err)
	bob, err := s.Watch(t.Context(), "bob")
	must(t, err)
	time.Sleep(500 * time.Millisecond) // quiet, but alive
	select {
	case c := <-alice:
		t.Errorf("told %+v although nothing happened", c)
	default:
	}
	do(t, s, "client", "kill", "type", "pubsub")
	lost(t, alice)
	lost(t, bob)
	must(t, put(t, s, "x", "1"))
	if c := <-alice; c.Key != "x" {
		t.Errorf("told %+v, want x", c)
	}
	network.cutAll() // nobody says that the connection is gone
	lost(t, alice)
	lost(t, bob)
	must(t, put(t, openWith(t, Config{URL: server.URL(), Prefix: cfg.Prefix, Logger: cfg.Logger}), "y", "1"))
	if c := <-alice; c.Key != "y" {
		t.Errorf("told %+v, want y", c)
	}
}

func TestConfig_SecretsAreNotShown(t *testing.T) {
	server := storetest.Redis(t, "--requirepass", "s3cret/word")
	var log bytes.Buffer
	cfg := config("redis://:s3cret%2Fword@" + server.Addr + "/0")
	cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	s := openWith(t, cfg)
	must(t, put(t, s, "x", "1"))
	do(t, s, "config", "set", "appendonly", "no", "maxmemory", "100mb", "maxmemory-policy", "allkeys-lru")
	openWith(t, cfg)
	if text := log.String(); !strings.Contains(text, "append-only") || !strings.Contains(text, "evict") || strings.Contains(text, "s3cret") {
		t.Errorf("logged:\n%s", text)
	}
	_, err := Open(t.Context(), config("redis://:s3cret@"+server.Addr))
	wantUnavailable(t, "a wrong password", err)
	if strings.Contains(err.Error(), "s3cret") || !strings.Contains(err.Error(), "WRONGPASS") {
		t.Errorf("says %v", err)
	}
	server.Kill()
	wantUnavailable(t, "reading", everything(t, s)["read"])
	if err := everything(t, s)["commit"]; strings.Contains(err.Error(), "s3cret") {
		t.Errorf("says %v", err)
	}
}

// README.md says what a user of Redis needs who may touch nothing but our keys.
func TestConfig_AUserWithFewRights(t *testing.T) {
	server := storetest.Redis(t)
	admin := openWith(t, config(server.URL()))
	do(t, admin, "acl", "setuser", "gateway", "on", ">pw", "~acpgate:*", "&acpgate:*",
		"+@read", "+@write", "+@pubsub", "+@transaction", "+@scripting", "+@connection", "-@dangerous", "+info")
	s := openWith(t, Config{URL: "redis://gateway:pw@" + server.Addr, Logger: slog.New(slog.DiscardHandler)})
	for what, err := range everything(t, s) {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// A command whose answer was lost is not sent again: had it been carried out, it would now fail, or be done twice.
func TestN5_WritesAreSentOnce(t *testing.T) {
	server := storetest.Redis(t)
	network := newProxy(t, server.Addr, nil)
	cfg := config("redis://" + network.addr())
	cfg.Timeout = 200 * time.Millisecond
	s := openWith(t, cfg)
	must(t, fill(t, s, "j", 1))
	before := do(t, s, "info", "commandstats").(string)
	network.dropAnswers()
	wantUnavailable(t, "an append whose answer is lost", s.Append(t.Context(), []sessions.Run{
		{Principal: "alice", Journal: "j", Fence: 1, Events: []journal.Event{{Seq: 2}}},
	})[0])
	direct := openWith(t, Config{URL: server.URL(), Prefix: cfg.Prefix, Logger: cfg.Logger})
	after := do(t, direct, "info", "commandstats").(string)
	b, err := strconv.Atoi(calls(before, "evalsha"))
	must(t, err)
	a, err := strconv.Atoi(calls(after, "evalsha"))
	must(t, err)
	if a != b+1 {
		t.Errorf("sent %d times", a-b)
	}
	info, err := direct.JournalInfo(t.Context(), "alice", "j")
	must(t, err)
	if info.Next != 3 {
		t.Errorf("%+v: it was carried out", info)
	}
}
