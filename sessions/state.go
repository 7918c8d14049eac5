package sessions

import (
	"encoding/json"
	"fmt"

	"github.com/acpgate/acpgate/agentpool/wire"
)

// stateData is the params of _acpgate/state but for sessionId and _meta, which each attachment adds. gateway/README.md
// documents the fields.
type stateData struct {
	View      string         `json:"view"`
	Binding   string         `json:"binding"`
	State     string         `json:"state"`
	Turn      *turnData      `json:"turn,omitempty"`
	LastTurn  *turnData      `json:"lastTurn,omitempty"`
	Queue     []queueData    `json:"queue"`
	Requests  []requestData  `json:"requests"`
	Answered  *answeredData  `json:"answered,omitempty"`
	ForceStop *forceStopData `json:"forceStop,omitempty"`
}

type turnData struct {
	Turn       string          `json:"turn"`
	Key        string          `json:"key,omitempty"`
	By         string          `json:"by,omitempty"`
	StartedAt  int64           `json:"startedAt,omitempty"`
	StopReason string          `json:"stopReason,omitempty"`
	Error      json.RawMessage `json:"error,omitempty"`
}

type queueData struct {
	Turn string `json:"turn"`
	Key  string `json:"key,omitempty"`
	Text string `json:"text"`
	By   string `json:"by"`
}

type requestData struct {
	ID     int64  `json:"id"`
	Method string `json:"method"`
}

type answeredData struct {
	ID      int64  `json:"id"`
	By      string `json:"by,omitempty"`
	Outcome string `json:"outcome"`
}

type forceStopData struct {
	OtherSessions int `json:"otherSessions"`
}

// state describes the view now. Under mu.
func (v *View) state() stateData {
	s := stateData{View: v.handle, Binding: v.bound.Load().id, State: "idle", Queue: []queueData{}, Requests: []requestData{}}
	switch {
	case v.closed && !v.stopped:
		s.State = "closed"
	case v.turn != nil && v.turn.cancelled:
		s.State = "stopping"
	case v.turn != nil && v.waking:
		s.State = "waking"
	case v.turn != nil:
		s.State = "running"
	case v.waking:
		s.State = "waking"
	case v.proc == nil:
		s.State = "asleep"
	}
	if t := v.turn; t != nil {
		s.Turn = &turnData{Turn: t.id, Key: t.key, By: t.by, StartedAt: t.started.UnixMilli()}
		if t.forceOffered && v.proc != nil {
			s.ForceStop = &forceStopData{OtherSessions: max(v.proc.Sessions()-1, 0)}
		}
	}
	if t := v.last; t != nil {
		s.LastTurn = &turnData{Turn: t.id, Key: t.key, StopReason: t.stopReason(), Error: t.errObj}
	}
	for _, t := range v.queue {
		s.Queue = append(s.Queue, queueData{Turn: t.id, Key: t.key, Text: clip(t.text, 500), By: t.by})
	}
	for _, id := range v.reqOrder {
		s.Requests = append(s.Requests, requestData{ID: id, Method: v.requests[id].method})
	}
	return s
}

// stateView is the view that a state event belongs to.
func stateView(data []byte) string {
	view, _ := wire.Unquote(wire.Lookup(data, "view").Of(data)) // made by state: always there
	return view
}

// snapshot holds the session's current values for late joiners (rule V21): the latest line of each kind.
type snapshot struct {
	lines map[string][]byte
	mode  string // current mode id, when known
	title string
}

// snapshotKinds are the updates of which only the latest counts, in the order in which a late joiner gets them.
var snapshotKinds = [...]string{
	"session_info_update", "available_commands_update", "current_mode_update", "config_option_update", "plan", "usage_update",
}

func (s *snapshot) take(of *session, f *wire.Frame) {
	tok := f.UpdateKind.Of(f.Raw)
	for _, k := range snapshotKinds {
		if !wire.Equal(tok, k) {
			continue
		}
		if s.lines == nil {
			s.lines = map[string][]byte{}
		}
		switch k {
		case "current_mode_update":
			var u struct {
				ID string `json:"currentModeId"`
			}
			if json.Unmarshal(f.Update.Of(f.Raw), &u) == nil && len(u.ID) <= maxOpenedMember {
				s.mode = u.ID
			}
		case "session_info_update":
			var u struct {
				Title *string `json:"title"`
			}
			if json.Unmarshal(f.Update.Of(f.Raw), &u) != nil || u.Title == nil {
				return // a later update without a title does not take it away
			}
			s.title = clip(*u.Title, maxOpenedMember)
			of.m.known.title(of, s.title)
		}
		if k == commandsUpdate {
			s.lines[k] = of.m.menus.share(f)
		} else {
			s.lines[k] = append(s.lines[k][:0:0], f.Raw...)
		}
		return
	}
}

func byteCount(n int64) string {
	switch {
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%d bytes", n)
}
