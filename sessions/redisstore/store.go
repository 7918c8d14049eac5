package redisstore

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/acpgate/acpgate/sessions"
	"github.com/acpgate/acpgate/sessions/internal/watch"
)

var _ sessions.Store = (*Store)(nil)

// Store is a sessions.Store in Redis.
type Store struct {
	cfg    Config
	client redis.UniversalClient
	commit script
	append script

	watchers watch.Hub
	listener *listener

	closeOnce sync.Once
	closeErr  error
}

// Open connects to Redis and looks whether it can be used. It logs what makes Redis lose data: a policy that evicts
// keys, and that it writes no append-only file. Errors: ErrUnavailable; a Redis older than 6.2.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	at, err := parseURL(cfg.URL)
	if err != nil {
		return nil, err
	}
	s := &Store{cfg: cfg, client: newClient(cfg, at), commit: newScript(commitSource), append: newScript(appendSource)}
	if err := s.inspect(ctx); err != nil {
		return nil, errors.Join(err, s.client.Close())
	}
	s.listener = newListener(s)
	return s, nil
}

func newClient(cfg Config, at place) redis.UniversalClient {
	options := &redis.UniversalOptions{
		Addrs:            at.addrs,
		DB:               at.db,
		Username:         at.user,
		Password:         at.password,
		MasterName:       at.master,
		SentinelUsername: at.sentinelUser,
		SentinelPassword: at.sentinelPassword,
		IsClusterMode:    at.cluster,

		Protocol:              2,
		DialTimeout:           cfg.DialTimeout,
		DialerRetries:         1, // a call rather fails than waits for a Redis that is not there
		ReadTimeout:           cfg.Timeout,
		WriteTimeout:          cfg.Timeout,
		PoolTimeout:           cfg.Timeout,
		ContextTimeoutEnabled: true,
		PoolSize:              cfg.PoolSize,
		PipelinePoolSize:      -1,
		DisableIdentity:       true, // CLIENT SETINFO is of Redis 7.2

		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	if at.tls {
		options.TLSConfig = cfg.TLS.Clone()
		if options.TLSConfig == nil {
			options.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
		}
	}
	return redis.NewUniversalClient(options)
}

const (
	oldestMajor, oldestMinor = 6, 2
)

// inspect asks a server who it is.
func (s *Store) inspect(ctx context.Context) error {
	info, err := s.client.Info(ctx).Result()
	if err != nil {
		return s.outside(ctx, err)
	}
	fields := map[string]string{}
	for line := range strings.Lines(info) {
		if name, value, found := strings.Cut(strings.TrimSpace(line), ":"); found {
			fields[name] = value
		}
	}
	major, minor, err := version(fields["redis_version"])
	if err != nil {
		return fmt.Errorf("%s: %w", redact(s.cfg.URL), err)
	}
	if major < oldestMajor || major == oldestMajor && minor < oldestMinor {
		return fmt.Errorf("%s: Redis %s is too old (at least %d.%d)", redact(s.cfg.URL), fields["redis_version"], oldestMajor, oldestMinor)
	}
	log := s.cfg.Logger.With("redis", redact(s.cfg.URL))
	if policy := fields["maxmemory_policy"]; policy != "" && policy != "noeviction" && fields["maxmemory"] != "0" {
		log.WarnContext(ctx, "Redis may evict what the gateway has stored: set maxmemory-policy noeviction", "policy", policy)
	}
	if fields["aof_enabled"] == "0" {
		log.WarnContext(ctx, "Redis writes no append-only file: what it has not saved is lost when it ends")
	}
	return nil
}

func version(text string) (major, minor int, err error) {
	parts := strings.SplitN(text, ".", 3)
	if len(parts) < 2 {
		return 0, 0, fmt.Errorf("the server does not say its Redis version (got %q)", text)
	}
	major, err = strconv.Atoi(parts[0])
	minor, err2 := strconv.Atoi(parts[1])
	return major, minor, errors.Join(err, err2)
}

// outside makes an error of Redis one of the contract.
func (s *Store) outside(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(ctx.Err(), context.Canceled):
		return ctx.Err()
	}
	return fmt.Errorf("%w: %s: %w", sessions.ErrUnavailable, redact(s.cfg.URL), err)
}

// Check implements sessions.Store: it writes a key that lives for a minute.
func (s *Store) Check(ctx context.Context) error {
	return s.outside(ctx, s.client.Set(ctx, s.cfg.Prefix+":check", "1", time.Minute).Err())
}

// Stats are counters for metrics.
type Stats struct {
	Connections  int    // to all nodes, but for the one of watchers
	PoolTimeouts uint64 // calls that gave up waiting for a connection
	Resubscribed uint64 // subscriptions that were made anew, whose watchers were told that changes may have been lost
}

// Stats returns the counters now.
func (s *Store) Stats() Stats {
	pool := s.client.PoolStats()
	return Stats{int(pool.TotalConns), uint64(pool.Timeouts), s.listener.resubscribed.Load()}
}

// Close implements sessions.Store.
func (s *Store) Close() error {
	s.closeOnce.Do(func() {
		s.closeErr = s.listener.close()
		s.watchers.Close()
		s.closeErr = errors.Join(s.closeErr, s.client.Close())
	})
	return s.closeErr
}
