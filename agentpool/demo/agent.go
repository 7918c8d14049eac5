package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	acp "github.com/coder/acp-go-sdk"
)

// shutdownGrace is how long running turns may take to answer once stdin has ended. They are cancelled; only a client that
// reads no more keeps them.
const shutdownGrace = 500 * time.Millisecond

// errStdinEnded cancels the turns that run when the client is gone.
var errStdinEnded = errors.New("stdin ended")

// exitError ends the process with a code of its own (CRASH).
type exitError struct{ code int }

func (exitError) Error() string { return "told to exit" }

// methodCancelRequest withdraws a request, in both directions.
const methodCancelRequest = "$/cancel_request"

// agent is one running agent process.
type agent struct {
	cfg     config
	log     *slog.Logger
	conn    *conn
	store   store
	list    *lister
	methods map[string]method

	lanes lanes
	ctx   context.Context // of everything that runs; its cause says why the agent ends
	end   context.CancelCauseFunc
	turns sync.WaitGroup // turns and background messages

	mu       sync.Mutex
	sessions map[string]*session // open ones
	requests map[string]string   // lanes of the requests that are not answered, by raw id
	client   clientInfo
	loggedIn bool
}

// clientInfo is what the client said in initialize.
type clientInfo struct {
	form, url  bool // elicitation
	compaction bool
	terminal   bool // login in a terminal
}

func newAgent(cfg config, stdout, stderr io.Writer) *agent {
	a := &agent{
		cfg:      cfg,
		log:      slog.New(slog.NewTextHandler(stderr, nil)),
		store:    store{cfg.Dir},
		sessions: map[string]*session{},
		requests: map[string]string{},
		loggedIn: !cfg.Login,
	}
	a.ctx, a.end = context.WithCancelCause(context.Background())
	a.conn = newConn(stdout, func(err error) { a.end(err) })
	a.list = newLister(a.store)
	a.methods = a.table()
	return a
}

// run serves until stdin ends, ctx is done or the agent is told to exit.
func (a *agent) run(ctx context.Context, stdin io.Reader) int {
	defer a.end(nil)
	ended := make(chan error, 1)
	go func() { ended <- a.read(stdin) }()
	code := exitOK
	select {
	case err := <-ended:
		a.end(errStdinEnded)
		if !errors.Is(err, io.EOF) {
			a.log.Error("stdin failed", "err", err)
			code = exitFailed
		}
	case <-ctx.Done():
		a.end(context.Cause(ctx))
	case <-a.ctx.Done():
		var exit exitError
		if errors.As(context.Cause(a.ctx), &exit) {
			return exit.code
		}
		a.log.Error("stdout failed", "err", context.Cause(a.ctx))
		return exitFailed
	}
	idle := make(chan struct{})
	go func() {
		a.lanes.stop()
		a.turns.Wait()
		close(idle)
	}()
	t := time.NewTimer(shutdownGrace)
	defer t.Stop()
	select {
	case <-idle:
	case <-t.C:
		a.log.Warn("turns left unfinished: the client does not read")
	}
	return code
}

// read takes lines of stdin until it ends. It never writes, so an agent whose client does not read still reads.
func (a *agent) read(stdin io.Reader) error {
	lines := newLineReader(stdin)
	for {
		line, err := lines.next()
		if errors.Is(err, errLineTooLong) {
			a.lanes.run("", func() { a.conn.fail(nil, acp.NewInvalidRequest(reason(errLineTooLong.Error()))) })
			continue
		}
		if err != nil {
			return err
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			a.take(line)
		}
	}
}

// take handles one line: requests and notifications go to the lane of their session, others to the lane of no session.
func (a *agent) take(line []byte) {
	var m message
	if err := json.Unmarshal(line, &m); err != nil || line[0] != '{' {
		bad := acp.NewParseError(nil)
		if json.Valid(line) {
			bad = acp.NewInvalidRequest(reason("not a JSON-RPC message"))
		}
		a.lanes.run("", func() { a.conn.fail(nil, bad) })
		return
	}
	if m.Method == nil {
		a.conn.answered(m)
		return
	}
	var p struct {
		SessionID string
		RequestID json.RawMessage // of $/cancel_request, which belongs behind the request that it names
	}
	_ = json.Unmarshal(m.Params, &p) // params of another shape name no session; the method says what is wrong with them
	lane := p.SessionID
	a.mu.Lock()
	switch {
	case m.ID != nil:
		a.requests[string(m.ID)] = lane
	case *m.Method == methodCancelRequest:
		lane = a.requests[string(p.RequestID)]
	}
	a.mu.Unlock()
	a.lanes.run(lane, func() { a.serve(lane, m) })
}

// method handles one request. Its answer is a result, or an error. A session that it opened is announced to the client after
// the answer. A method that answers later returns errLater.
type method func(m message) (result any, opened *session, err error)

// errLater says that a turn answers the request.
var errLater = errors.New("answered later")

func (a *agent) serve(lane string, m message) {
	name := *m.Method
	if m.ID == nil {
		a.notification(name, m)
		return
	}
	do := a.methods[name]
	if do == nil {
		a.answer(m.ID, nil, acp.NewMethodNotFound(name))
		return
	}
	result, opened, err := do(m)
	var rpc *acp.RequestError
	switch {
	case errors.Is(err, errLater):
	case errors.As(err, &rpc):
		a.answer(m.ID, nil, rpc)
	case err != nil:
		a.answer(m.ID, nil, acp.NewInternalError(reason(err.Error())))
	case opened == nil:
		a.answer(m.ID, result, nil)
	case opened.id == lane:
		a.answer(m.ID, result, nil)
		opened.announce()
	default:
		// The client may prompt as soon as it has the answer: the announcement is in the session's lane before that.
		answered := make(chan struct{})
		a.lanes.run(opened.id, func() {
			<-answered
			opened.announce()
		})
		a.answer(m.ID, result, nil)
		close(answered)
	}
}

// answer answers a request, with err if it is set.
func (a *agent) answer(id json.RawMessage, result any, err *acp.RequestError) {
	a.mu.Lock()
	delete(a.requests, string(id))
	a.mu.Unlock()
	if err != nil {
		a.conn.fail(id, err)
	} else {
		a.conn.result(id, result)
	}
}

func (a *agent) notification(name string, m message) {
	switch name {
	case acp.AgentMethodSessionCancel:
		var p acp.CancelNotification
		if json.Unmarshal(m.Params, &p) != nil {
			return
		}
		if s := a.session(string(p.SessionId)); s != nil {
			s.cancel(errCancelled)
		}
	case methodCancelRequest:
		var p struct{ RequestID json.RawMessage }
		if json.Unmarshal(m.Params, &p) != nil {
			return
		}
		a.mu.Lock()
		open := slices.Collect(maps.Values(a.sessions))
		a.mu.Unlock()
		for _, s := range open {
			s.cancelRequest(p.RequestID)
		}
	}
}

// session returns the open session, nil when it is not open.
func (a *agent) session(id string) *session {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.sessions[id]
}

func (a *agent) update(session string, u acp.SessionUpdate) {
	a.conn.notify(acp.ClientMethodSessionUpdate, acp.SessionNotification{SessionId: acp.SessionId(session), Update: u})
}

func (a *agent) clientInfo() clientInfo {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.client
}

// reason is error data that says what is wrong.
func reason(text string) map[string]string { return map[string]string{"details": text} }

// notFound is the answer for a session that is not there, or not open.
func notFound(id string) *acp.RequestError {
	return &acp.RequestError{Code: -32002, Message: "Resource not found", Data: map[string]string{"sessionId": id}}
}

func decode[T any](params json.RawMessage) (T, error) {
	var p T
	if err := json.Unmarshal(params, &p); err != nil {
		return p, acp.NewInvalidParams(reason(err.Error()))
	}
	if v, ok := any(&p).(interface{ Validate() error }); ok {
		if err := v.Validate(); err != nil {
			return p, acp.NewInvalidParams(reason(err.Error()))
		}
	}
	return p, nil
}
