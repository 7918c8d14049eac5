package redisstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/acpgate/acpgate/sessions"
)

// told separates what a message tells; no name contains it.
const told = "\x00"

// reconnectAfter is the wait before a lost connection of watchers is made anew.
const reconnectAfter = 200 * time.Millisecond

// listener has one connection on which Redis tells what changes, for all watchers.
type listener struct {
	s            *Store
	resubscribed atomic.Uint64

	turn   chan struct{} // of size 1: full while a subscription is changed
	closed chan struct{}
	wg     sync.WaitGroup

	mu       sync.Mutex
	conn     *redis.PubSub // nil: there is no watcher yet
	channels map[string]*subscription
	waiting  string        // the channel whose subscription is awaited
	answer   chan struct{} // closed when it is there
}

// subscription is a channel that somebody watches.
type subscription struct {
	principal string
	watchers  int
}

func newListener(s *Store) *listener {
	return &listener{s: s, turn: make(chan struct{}, 1), closed: make(chan struct{}), channels: map[string]*subscription{}}
}

// Watch implements sessions.Store.
func (s *Store) Watch(ctx context.Context, principal string) (<-chan sessions.Change, error) {
	if err := sessions.CheckNames(principal); err != nil {
		return nil, err
	}
	p := s.space(principal)
	if err := s.listener.join(ctx, p); err != nil {
		return nil, s.outside(ctx, err)
	}
	c := s.watchers.Watch(ctx, principal, func() { s.listener.leave(p) })
	if c == nil {
		return nil, s.outside(ctx, redis.ErrClosed)
	}
	return c, nil
}

// take takes the turn. The caller gives it back.
func (l *listener) take(ctx context.Context) error {
	select {
	case l.turn <- struct{}{}:
		return nil
	case <-l.closed:
		return redis.ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// join adds a watcher, and returns when Redis has confirmed that it tells what changes from now on.
func (l *listener) join(ctx context.Context, p space) error {
	ctx, cancel := context.WithTimeout(ctx, l.s.cfg.Timeout)
	defer cancel()
	if err := l.take(ctx); err != nil {
		return err
	}
	defer func() { <-l.turn }()

	l.mu.Lock()
	if sub := l.channels[p.channel()]; sub != nil {
		sub.watchers++
		l.mu.Unlock()
		return nil
	}
	select {
	case <-l.closed:
		l.mu.Unlock()
		return redis.ErrClosed
	default:
	}
	if l.conn == nil {
		l.conn = l.s.client.Subscribe(context.WithoutCancel(ctx)) // connects when it has something to say
		l.wg.Go(l.run)
	}
	conn, answer := l.conn, make(chan struct{})
	l.waiting, l.answer = p.channel(), answer
	l.channels[p.channel()] = &subscription{p.principal, 1}
	l.mu.Unlock()

	err := conn.Subscribe(ctx, p.channel())
	if err == nil {
		select {
		case <-answer:
			return nil
		case <-l.closed:
			err = redis.ErrClosed
		case <-ctx.Done():
			err = fmt.Errorf("waiting for a subscription: %w", ctx.Err())
		}
	}
	l.mu.Lock()
	delete(l.channels, p.channel())
	l.waiting = ""
	l.mu.Unlock()
	return errors.Join(err, l.forget(conn, p.channel()))
}

// forget unsubscribes, so that a late confirmation means nothing.
func (l *listener) forget(conn *redis.PubSub, channel string) error {
	ctx, cancel := context.WithTimeout(context.Background(), l.s.cfg.Timeout)
	defer cancel()
	return conn.Unsubscribe(ctx, channel)
}

// leave takes a watcher away. It is called by the watcher's own goroutine.
func (l *listener) leave(p space) {
	select {
	case <-l.closed: // the connection goes as a whole
		return
	default:
	}
	if l.take(context.Background()) != nil {
		return
	}
	defer func() { <-l.turn }()
	l.mu.Lock()
	sub, conn := l.channels[p.channel()], l.conn
	sub.watchers--
	last := sub.watchers == 0
	if last {
		delete(l.channels, p.channel())
	}
	l.mu.Unlock()
	if last {
		// An error is one of the connection, which is then made anew without the channel.
		_ = l.forget(conn, p.channel())
	}
}

// run receives until the listener is closed. A connection that fails is made anew with all its subscriptions; whoever
// watches is told when Redis confirms that.
func (l *listener) run() {
	asked := false // the connection was silent, and was asked whether it works
	for {
		l.mu.Lock()
		conn := l.conn
		l.mu.Unlock()
		message, err := conn.ReceiveTimeout(context.Background(), l.s.cfg.PingEvery)
		select {
		case <-l.closed:
			return
		default:
		}
		var timeout net.Error
		switch {
		case err == nil:
			asked = false
			l.receive(message)
		case errors.As(err, &timeout) && timeout.Timeout() && !asked:
			asked = l.ask(conn)
		default:
			asked = false
			l.renew(conn)
		}
	}
}

func (l *listener) ask(conn *redis.PubSub) bool {
	ctx, cancel := context.WithTimeout(context.Background(), l.s.cfg.Timeout)
	defer cancel()
	return conn.Ping(ctx) == nil
}

// renew puts a new connection in the place of one that failed.
func (l *listener) renew(old *redis.PubSub) {
	_ = old.Close() // it failed already
	select {
	case <-l.closed:
		return
	case <-time.After(reconnectAfter):
	}
	l.mu.Lock()
	var channels []string
	for channel := range l.channels {
		channels = append(channels, channel)
	}
	conn := l.s.client.Subscribe(context.Background())
	l.conn = conn
	l.mu.Unlock()
	if len(channels) > 0 {
		ctx, cancel := context.WithTimeout(context.Background(), l.s.cfg.Timeout)
		defer cancel()
		// If it fails, so does the next receive.
		_ = conn.Subscribe(ctx, channels...)
	}
}

func (l *listener) receive(message any) {
	switch m := message.(type) {
	case *redis.Message:
		if principal, ok := l.principal(m.Channel); ok {
			l.s.watchers.Tell(principal, strings.Split(m.Payload, told)...)
		}
	case *redis.Subscription:
		if m.Kind != "subscribe" {
			return
		}
		l.mu.Lock()
		expected := l.waiting == m.Channel
		if expected {
			l.waiting = ""
			close(l.answer)
		}
		l.mu.Unlock()
		if principal, ok := l.principal(m.Channel); ok && !expected {
			l.resubscribed.Add(1)
			l.s.watchers.Lost(principal)
		}
	}
}

func (l *listener) principal(channel string) (string, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if sub := l.channels[channel]; sub != nil {
		return sub.principal, true
	}
	return "", false
}

// close ends the listener and waits for its goroutine.
func (l *listener) close() error {
	close(l.closed)
	l.mu.Lock()
	conn := l.conn
	l.mu.Unlock()
	var err error
	if conn != nil {
		err = conn.Close()
	}
	l.wg.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn != conn { // it was being renewed
		err = l.conn.Close()
	}
	if errors.Is(err, redis.ErrClosed) {
		err = nil
	}
	return err
}
