package sessions

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/acpgate/acpgate/agentpool/wire"
)

type callResult struct {
	raw  []byte // raw result
	err  error
	late <-chan callResult // set when ctx ended first: the outcome is still to come
}

// call sends f to the agent and waits for the response or for ctx. then, if given, runs on the reader goroutine with a
// successful response, before any later line of the agent is looked at; its error becomes the call's.
func call(ctx context.Context, proc Agent, f *wire.Frame, edits []wire.Edit, then func(Reply) error) callResult {
	ch := make(chan callResult, 1)
	id, err := proc.Request(f, edits, func(r Reply) {
		switch {
		case r.Err != nil:
			ch <- callResult{err: r.Err}
		case r.Frame.Kind == wire.Failure:
			session, _ := wire.Unquote(f.SessionID.Of(f.Raw)) // absent: ""
			ch <- callResult{err: agentFailure(r.Frame.Error.Of(r.Frame.Raw), session)}
		default:
			raw := append([]byte(nil), r.Frame.Result.Of(r.Frame.Raw)...)
			if then != nil {
				if err := then(r); err != nil {
					ch <- callResult{err: err}
					return
				}
			}
			ch <- callResult{raw: raw}
		}
	})
	if err != nil {
		return callResult{err: err}
	}
	select {
	case res := <-ch:
		return res
	case <-ctx.Done():
		proc.CancelRequest(id)
		return callResult{err: callEnded(ctx), late: ch}
	}
}

// callEnded says why a call was given up.
func callEnded(ctx context.Context) *Error {
	if errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		return &Error{Code: CodeInternal, Reason: "agent_timeout", Message: "The agent did not answer in time", Hint: "try again; if it stays so, restart the agent"}
	}
	return errCancelled()
}

// callMethod is call with a frame made of method and params.
func callMethod(ctx context.Context, proc Agent, method string, params []byte) callResult {
	return call(ctx, proc, mustFrame(wire.AppendRequest(nil, []byte("0"), method, params)), nil, nil)
}

const closeTimeout = 10 * time.Second

// closeAtAgent closes a session at its agent, and deletes it there if remove is set, as far as the agent can; then it gives
// the handle back.
func (m *Manager) closeAtAgent(ctx context.Context, proc Agent, id string, remove bool) {
	defer proc.Release()
	ctx, cancel := context.WithTimeout(ctx, closeTimeout)
	defer cancel()
	tell := func(method string, can bool) {
		if !can {
			return
		}
		if res := callMethod(ctx, proc, method, sessionParams(id)); res.err != nil {
			m.log.Info("agent could not end a session", "method", method, "session", id, "agent", proc.Info().Name, "err", res.err)
		}
	}
	tell("session/close", proc.Info().Close)
	tell("session/delete", remove && proc.Info().Delete)
}

func sessionParams(id string) []byte {
	return append(wire.AppendQuote([]byte(`{"sessionId":`), id), '}')
}

// withServers returns f as the agent gets it: without our _meta, with the mcpServers of the agent's config behind those of
// the client, and with an empty list where the client sent none, because agents insist on one.
func withServers(f *wire.Frame, servers []json.RawMessage) *wire.Frame {
	var edits []wire.Edit
	if e, ok := f.StripGateMeta(); ok {
		edits = append(edits, e)
	}
	params := f.Params.Of(f.Raw)
	at := wire.Lookup(params, "mcpServers")
	list := at.Of(params)
	switch {
	case list == nil:
		pos := f.Params.Start + 1
		b := append([]byte(`"mcpServers":`), joinServers(nil, servers)...)
		if len(openMembers(params)) > 0 {
			b = append(b, ',')
		}
		edits = append(edits, wire.Edit{Span: wire.Span{Start: pos, End: pos}, With: b})
	case len(servers) > 0 && list[0] == '[':
		var have []json.RawMessage
		if json.Unmarshal(list, &have) == nil {
			s := wire.Span{Start: f.Params.Start + at.Start, End: f.Params.Start + at.End}
			edits = append(edits, wire.Edit{Span: s, With: joinServers(have, servers)})
		}
	}
	if len(edits) == 0 {
		return f
	}
	return mustFrame(wire.Splice(nil, f.Raw, edits...))
}

func joinServers(a, b []json.RawMessage) []byte {
	out := []byte{'['}
	for i, s := range append(a[:len(a):len(a)], b...) {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, s...)
	}
	return append(out, ']')
}

func openMembers(obj []byte) map[string]json.RawMessage {
	var m map[string]json.RawMessage
	if json.Unmarshal(obj, &m) != nil {
		return nil // never: the frame was parsed
	}
	return m
}

// withMethod returns f under another method name.
func withMethod(f *wire.Frame, method string) *wire.Frame {
	if f.Method == method {
		return f
	}
	return mustFrame(wire.AppendRequest(nil, f.ID.Of(f.Raw), method, f.Params.Of(f.Raw)))
}

func paramsOf(f *wire.Frame) json.RawMessage {
	return append(json.RawMessage(nil), f.Params.Of(f.Raw)...)
}

// paramsFor turns the params that opened a session into those of another session method; session "" leaves the id out.
func paramsFor(open json.RawMessage, session string) []byte {
	m := openMembers(open)
	delete(m, "sessionId")
	if session != "" {
		m["sessionId"] = wire.AppendQuote(nil, session)
	}
	return mustJSON(m)
}

// prefixEdit puts blocks in front of a prompt's own.
func prefixEdit(f *wire.Frame, blocks []json.RawMessage) wire.Edit {
	params := f.Params.Of(f.Raw)
	at := f.Params.Start + wire.Lookup(params, "prompt").Start + 1
	var b []byte
	for _, x := range blocks {
		b = append(append(b, x...), ',')
	}
	return wire.Edit{Span: wire.Span{Start: at, End: at}, With: b}
}
