package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"sync"

	"github.com/acpgate/acpgate/agentpool/wire"
	"github.com/acpgate/acpgate/sessions"
)

// fakeSessions stands in for a Manager where a test wants to be the one that produces frames.
type fakeSessions struct {
	open func(c *conn, f *wire.Frame) (Attachment, error)
	call func(ctx context.Context, f *wire.Frame) ([]byte, error)
}

var errNoFake = errors.New("the test does not expect this")

func (s *fakeSessions) Describe(context.Context, sessions.Client) (*sessions.AgentInfo, error) {
	return &sessions.AgentInfo{Name: "fake", Result: json.RawMessage(`{"protocolVersion":1}`)}, nil
}

func (s *fakeSessions) Open(_ context.Context, c sessions.Client, f *wire.Frame) (Attachment, error) {
	if s.open == nil {
		return nil, errNoFake
	}
	return s.open(c.(*conn), f)
}

func (s *fakeSessions) Attach(sessions.Client, string) (Attachment, error) { return nil, errNoFake }

func (s *fakeSessions) CloseSession(context.Context, sessions.Client, *wire.Frame) ([]byte, error) {
	return []byte("{}"), nil
}

func (s *fakeSessions) DeleteSession(context.Context, sessions.Client, *wire.Frame) ([]byte, error) {
	return []byte("{}"), nil
}

func (s *fakeSessions) ListSessions(ctx context.Context, _ sessions.Client, f *wire.Frame) ([]byte, error) {
	return s.Call(ctx, nil, f)
}

func (s *fakeSessions) Call(ctx context.Context, _ sessions.Client, f *wire.Frame) ([]byte, error) {
	if s.call == nil {
		return nil, errNoFake
	}
	return s.call(ctx, f)
}

func (s *fakeSessions) Notify(sessions.Client, *wire.Frame)      {}
func (s *fakeSessions) Gone(sessions.Client)                     {}
func (s *fakeSessions) Answer(sessions.Client, *wire.Frame) bool { return false }

// source is an attachment that gives out frames made by the test.
type source struct {
	handle string

	mu       sync.Mutex
	reply    *wire.Frame // the request that opened it, to be answered first
	next     func() []byte
	pulls    int
	detached bool
}

func (s *source) Handle() string            { return s.handle }
func (s *source) Request(*wire.Frame) error { return nil }
func (s *source) Notify(*wire.Frame)        {}
func (s *source) CancelRequest([]byte)      {}

func (s *source) Detach() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.detached = true
}

func (s *source) Pull(out sessions.Out) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pulls++
	if f := s.reply; f != nil {
		s.reply = nil
		id := f.ID.Of(f.Raw)
		if !out.Reply(id, wire.AppendResult(nil, id, []byte(`{"sessionId":"`+s.handle+`"}`))) {
			return true
		}
	}
	for {
		b := s.next()
		if b == nil {
			return false
		}
		if !out.Frame(b) {
			return true
		}
	}
}

// openEndless opens sessions that have the frame b for their client without end.
func openEndless(b []byte) func(*conn, *wire.Frame) (Attachment, error) {
	return func(_ *conn, f *wire.Frame) (Attachment, error) {
		return &source{handle: "s", reply: f, next: func() []byte { return b }}, nil
	}
}
