package sessions

import (
	"encoding/json"
	"time"

	"github.com/acpgate/acpgate/agentpool/wire"
	"github.com/acpgate/acpgate/sessions/journal"
)

// agentRequest is an open permission or elicitation request: a record of the view, not of a connection (rule V18).
type agentRequest struct {
	id      int64  // the id under which every client gets it
	agentID []byte // raw id of the agent
	method  string
	form    bool   // elicitation in form mode
	url     bool   // elicitation in url mode
	raw     []byte // the line with our id in it
	seq     uint64
	options []permissionOption
}

type permissionOption struct {
	ID   string `json:"optionId"`
	Kind string `json:"kind"`
}

const (
	methodPermission = "session/request_permission"
	methodElicit     = "elicitation/create"
)

// agentRequest takes a request of the agent. Under mu, on the reader goroutine.
func (v *View) agentRequest(f *wire.Frame) {
	id := f.ID.Of(f.Raw)
	switch f.Method {
	case methodPermission, methodElicit:
	case "fs/read_text_file", "fs/write_text_file":
		if f.Method == "fs/write_text_file" && v.gated() {
			v.respond(id, nil, errReadOnly().Object())
			return
		}
		if v.proc != nil && v.proc.Info().GatewayFS {
			v.proc.ServeFS(f)
			return
		}
		fallthrough
	default:
		v.respond(id, nil, errNoMethod(f.Method).Object())
		return
	}
	r := &agentRequest{id: v.m.nextRequest.Add(1), agentID: append([]byte(nil), id...), method: f.Method}
	r.raw = wire.Splice(nil, f.Raw, f.EditID(appendInt(nil, r.id)))
	if r.method == methodPermission {
		var p struct {
			Options []permissionOption `json:"options"`
		}
		if err := json.Unmarshal(f.Params.Of(f.Raw), &p); err != nil || len(p.Options) == 0 {
			v.respond(id, nil, errParams("session/request_permission needs options", "send at least one option").Object())
			return
		}
		r.options = p.Options
	} else {
		mode := wire.Lookup(f.Params.Of(f.Raw), "mode").Of(f.Params.Of(f.Raw))
		r.url = wire.Equal(mode, "url")
		r.form = !r.url
	}
	if r.method == methodPermission && v.gated() && v.changes(f) {
		v.refuseChange(r, f)
		return
	}
	if (v.turn != nil && v.turn.cancelled) || len(v.requests) >= v.m.cfg.RequestsPerView {
		v.respond(id, r.cancelledResult(), nil)
		return
	}
	if v.requests == nil {
		v.requests = map[int64]*agentRequest{}
	}
	v.requests[r.id] = r
	v.reqOrder = append(v.reqOrder, r.id)
	v.m.requests.Store(r.id, v)
	r.seq = v.journal.Append(journal.Request, time.Now(), r.raw)
	v.stateChanged()
	v.checkAnswerable()
	v.watchAlone()
}

// checkAnswerable answers elicitations that none of the attached clients can show (rule V18). Under mu.
func (v *View) checkAnswerable() {
	if len(v.atts) == 0 {
		return
	}
	for _, id := range append([]int64(nil), v.reqOrder...) {
		r := v.requests[id]
		can := false
		for a := range v.atts {
			can = can || a.canAnswer(r)
		}
		if !can {
			v.answerCancelled(r, "cancelled")
			v.notice("The agent asked a question that this client cannot show; it was answered with cancel.")
		}
	}
}

// watchAlone starts the request policy's clock when nobody is attached. Under mu.
func (v *View) watchAlone() {
	if v.alone != nil {
		v.alone.Stop()
		v.alone = nil
	}
	if v.m.cfg.RequestPolicy != PolicyReject || len(v.atts) > 0 || len(v.requests) == 0 {
		return
	}
	v.alone = time.AfterFunc(v.m.cfg.PolicyAfter, func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		if len(v.atts) > 0 {
			return
		}
		for _, id := range append([]int64(nil), v.reqOrder...) {
			v.answerByPolicy(v.requests[id])
		}
	})
}

// answerByPolicy rejects by the option's kind, because agents take a rejection better than a cancel (CASE 43). It never
// approves. Under mu.
func (v *View) answerByPolicy(r *agentRequest) {
	result, outcome := r.rejection()
	v.respond(r.agentID, result, nil)
	v.finishRequest(r, "policy", outcome)
}

// rejection is the answer that picks the option to reject, by its kind, or cancelled when there is none.
func (r *agentRequest) rejection() (result []byte, outcome string) {
	for _, kind := range [...]string{"reject_once", "reject_always"} {
		for _, o := range r.options {
			if o.Kind == kind {
				return mustJSON(map[string]any{"outcome": map[string]string{"outcome": "selected", "optionId": o.ID}}), o.ID
			}
		}
	}
	return r.cancelledResult(), "cancelled"
}

func (r *agentRequest) cancelledResult() []byte {
	if r.method == methodElicit {
		return []byte(`{"action":"cancel"}`)
	}
	return []byte(`{"outcome":{"outcome":"cancelled"}}`)
}

func (v *View) answerCancelled(r *agentRequest, by string) {
	v.respond(r.agentID, r.cancelledResult(), nil)
	v.finishRequest(r, by, "cancelled")
}

func (v *View) respond(id, result, errObj []byte) {
	if v.proc == nil {
		return
	}
	if err := v.proc.Respond(id, result, errObj); err != nil {
		v.m.log.Warn("answer could not be written", "view", v.handle, "err", err)
	}
}

// answer takes a client's response to request id. It reports false when the request is not open or the answer is not a
// valid one; then nothing happened. Under mu.
func (v *View) answer(a *Attachment, id int64, f *wire.Frame) bool {
	r := v.requests[id]
	if r == nil {
		return false
	}
	if f.Kind == wire.Failure {
		// This client cannot answer. If it was the last one that could, the agent must not wait for ever.
		a.refused(r.id)
		v.checkAnswerable()
		return true
	}
	result := f.Result.Of(f.Raw)
	outcome, ok := r.outcome(result)
	if !ok {
		return false
	}
	v.respond(r.agentID, append([]byte(nil), result...), nil)
	v.touch()
	v.m.audit.Info("request answered", "principal", v.principal, "conn", a.c.ID(), "view", v.handle, "method", r.method, "outcome", outcome)
	a.forget(r.id)
	v.finishRequest(r, a.c.ID(), outcome)
	return true
}

// outcome names a valid answer: the option id, cancelled, accept or decline.
func (r *agentRequest) outcome(result []byte) (string, bool) {
	if r.method == methodElicit {
		var e struct {
			Action string `json:"action"`
		}
		if json.Unmarshal(result, &e) != nil {
			return "", false
		}
		return e.Action, e.Action == "accept" || e.Action == "decline" || e.Action == "cancel"
	}
	var p struct {
		Outcome struct {
			Outcome  string `json:"outcome"`
			OptionID string `json:"optionId"`
		} `json:"outcome"`
	}
	if json.Unmarshal(result, &p) != nil {
		return "", false
	}
	if p.Outcome.Outcome == "cancelled" {
		return "cancelled", true
	}
	for _, o := range r.options {
		if p.Outcome.Outcome == "selected" && o.ID == p.Outcome.OptionID {
			return o.ID, true
		}
	}
	return "", false
}

// withdraw takes the agent's $/cancel_request for one of its own requests (CASE 38). Under mu.
func (v *View) withdraw(f *wire.Frame) {
	params := f.Params.Of(f.Raw)
	id := wire.CanonicalID(wire.Lookup(params, "requestId").Of(params))
	for _, n := range v.reqOrder {
		if r := v.requests[n]; wire.CanonicalID(r.agentID) == id {
			v.respond(r.agentID, nil, errCancelled().Object())
			v.finishRequest(r, "", "withdrawn")
			return
		}
	}
}

// finishRequest takes r out of the open ones and tells everybody. Under mu.
func (v *View) finishRequest(r *agentRequest, by, outcome string) {
	for i, id := range v.reqOrder {
		if id == r.id {
			v.reqOrder = append(v.reqOrder[:i:i], v.reqOrder[i+1:]...)
			break
		}
	}
	v.closeRequest(r, by, outcome)
}

// closeRequest forgets r and journals its outcome. Under mu.
func (v *View) closeRequest(r *agentRequest, by, outcome string) {
	delete(v.requests, r.id)
	v.m.requests.Delete(r.id)
	s := v.state()
	s.Answered = &answeredData{ID: r.id, By: by, Outcome: outcome}
	v.journal.Append(journal.RequestDone, time.Now(), mustJSON(s))
}
