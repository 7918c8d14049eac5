package gateway

import (
	"context"

	"github.com/acpgate/acpgate/agentpool/wire"
	"github.com/acpgate/acpgate/sessions"
)

// Sessions is what the gateway needs of package sessions; Serving makes one of a Manager. Frames that are handed over
// belong to it from then on.
type Sessions interface {
	Describe(ctx context.Context, c sessions.Client) (*sessions.AgentInfo, error)
	Open(ctx context.Context, c sessions.Client, f *wire.Frame) (Attachment, error)
	Attach(c sessions.Client, handle string) (Attachment, error)
	CloseSession(ctx context.Context, c sessions.Client, f *wire.Frame) (result []byte, err error)
	DeleteSession(ctx context.Context, c sessions.Client, f *wire.Frame) (result []byte, err error)
	ListSessions(ctx context.Context, c sessions.Client, f *wire.Frame) (result []byte, err error)
	Call(ctx context.Context, c sessions.Client, f *wire.Frame) (result []byte, err error)
	Notify(c sessions.Client, f *wire.Frame)
	Answer(c sessions.Client, f *wire.Frame) bool
	Gone(c sessions.Client) // the connection has ended
}

// Attachment is one connection's use of a session, see sessions.Attachment. Implementations are pointers.
type Attachment interface {
	Handle() string // always the same; takes no lock
	Request(f *wire.Frame) error
	Notify(f *wire.Frame)
	CancelRequest(id []byte)
	Pull(out sessions.Out) (more bool)
	Detach()
}

var _ Attachment = (*sessions.Attachment)(nil)

// Serving returns the Sessions of m.
func Serving(m *sessions.Manager) Sessions { return manager{m} }

type manager struct{ *sessions.Manager }

func (m manager) Open(ctx context.Context, c sessions.Client, f *wire.Frame) (Attachment, error) {
	a, err := m.Manager.Open(ctx, c, f)
	if err != nil {
		return nil, err // not a nil *sessions.Attachment in an interface
	}
	return a, nil
}

func (m manager) Attach(c sessions.Client, handle string) (Attachment, error) {
	a, err := m.Manager.Attach(c, handle)
	if err != nil {
		return nil, err
	}
	return a, nil
}
