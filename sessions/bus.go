package sessions

import "context"

// Bus carries messages between the nodes of a cluster: frames of a client to the node that owns its view, and answers to
// them. What a view sends to its clients does not travel here: every node reads it from the journal at a cursor.
//
// Delivery is at most once and in order per (sender, receiver); a sender that needs an answer sets a time limit.
type Bus interface {
	// Send delivers msg to the node's inbox. ErrNoNode when the node has no lease, ErrInboxFull when it does not keep up.
	Send(ctx context.Context, node string, msg []byte) error
	// Receive calls fn with every message for this node, in order, until ctx ends.
	Receive(ctx context.Context, fn func(from string, msg []byte)) error
}
