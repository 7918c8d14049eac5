package sessions

// Client is one connection, as sessions sees it. Package gateway implements it. No method blocks; all may be called while
// locks of this package are held, so an implementation must not call back into sessions from them.
type Client interface {
	// ID is the connection's Acp-Connection-Id, unique in the cluster.
	ID() string
	// Principal is the authenticated user. Every lookup is scoped by it.
	Principal() string
	// Agent is the configured agent that the connection picked.
	Agent() string
	// Features is what the client said in initialize; fixed from then on.
	Features() Features

	// Wake says that a has something to Pull. It is called at most once after each Pull that returned false.
	Wake(a *Attachment)
	// Drop says that a must end and why; the gateway detaches it. With code ErrLagging the cursor left what the journal
	// retains: the connection is closed with 1013 and the client resumes.
	Drop(a *Attachment, cause error)
	// Notify queues a connection-level notification (a whole frame) of an agent, one that names no session. It is
	// dropped, and counted, when the connection's queue is full.
	Notify(frame []byte)
}

// Features is what a client can do.
type Features struct {
	OptedIn    bool // clientCapabilities._meta.acpgate = {"v":1} (DESIGN W10)
	ElicitForm bool // clientCapabilities.elicitation.form
	ElicitURL  bool // clientCapabilities.elicitation.url
}

// Out takes the frames of a Pull. The bytes are valid during the call only. A false result means that the frame was taken
// and that the next one should wait for the next Pull (send buffer full, 256 KiB).
type Out interface {
	// Frame takes a notification or a request of the agent.
	Frame(b []byte) bool
	// Reply takes the response to the client's request id (raw JSON, as the client wrote it).
	Reply(id, b []byte) bool
}
