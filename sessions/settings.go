package sessions

import (
	"context"
	"encoding/json"
	"time"

	"github.com/acpgate/acpgate/agentpool/wire"
	"github.com/acpgate/acpgate/sessions/journal"
)

// settings are what a view carries from session to session: the mode and the config options by id (rule V6).
type settings struct {
	mode   string // "" when not known
	config map[string]json.RawMessage
}

// settings are the session's current ones. Under mu.
func (s *session) settings() settings {
	return settings{s.snap.mode, s.configValues()}
}

// openedSettings are those that the session had when the agent opened it. Under mu.
func (s *session) openedSettings() settings {
	var modes struct {
		Current string `json:"currentModeId"`
	}
	if json.Unmarshal(s.opened["modes"], &modes) != nil {
		modes.Current = ""
	}
	return settings{modes.Current, configValues(s.opened["configOptions"])}
}

// setReopened keeps what the agent said when it opened the session again; what it left out stays as it was. Under mu.
func (s *session) setReopened(result []byte) {
	before := s.opened
	s.setOpened(result)
	for k, x := range before {
		if s.opened[k] == nil {
			s.opened[k] = x
		}
	}
}

// configValues returns the current values of the session's config options by id. Under mu.
func (s *session) configValues() map[string]json.RawMessage {
	line := s.snap.lines["config_option_update"]
	if line == nil {
		return configValues(s.opened["configOptions"]) // as they were when it was opened
	}
	f := mustFrame(line)
	return configValues(wire.Lookup(f.Update.Of(line), "configOptions").Of(f.Update.Of(line)))
}

func configValues(options []byte) map[string]json.RawMessage {
	var list []struct {
		ID    string          `json:"id"`
		Value json.RawMessage `json:"currentValue"`
	}
	if json.Unmarshal(options, &list) != nil {
		return nil
	}
	out := map[string]json.RawMessage{}
	for _, o := range list {
		out[o.ID] = o.Value
	}
	return out
}

// offersMode reports whether the session has the mode. Under mu.
func (s *session) offersMode(id string) bool {
	var modes struct {
		Available []struct {
			ID string `json:"id"`
		} `json:"availableModes"`
	}
	if json.Unmarshal(s.opened["modes"], &modes) != nil {
		return false
	}
	for _, x := range modes.Available {
		if x.ID == id {
			return true
		}
	}
	return false
}

// reapply sets the mode and the config options that are wanted where the session has others, and tells the clients. A session
// that does not offer a value keeps its own.
func (m *Manager) reapply(ctx context.Context, s *session, proc Agent, now, want settings) {
	id := s.bound.Load().id
	set := func(method string, members map[string]any) {
		members["sessionId"] = id
		params := mustJSON(members)
		res := callMethod(ctx, proc, method, params)
		if res.err != nil {
			m.log.Info("setting could not be applied again", "session", id, "method", method, "err", res.err)
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.settingChanged(method, params, res.raw)
	}
	s.mu.Lock()
	mode := want.mode != "" && want.mode != now.mode && s.offersMode(want.mode)
	s.mu.Unlock()
	if mode {
		set("session/set_mode", map[string]any{"modeId": want.mode})
	}
	for k, x := range now.config {
		if w := want.config[k]; w != nil && string(w) != string(x) {
			set("session/set_config_option", map[string]any{"configId": k, "value": w})
		}
	}
}

// settingChanged tells the clients of a mode or config option that one of them, or we, set; agents answer only the one that
// asked. Under mu.
func (s *session) settingChanged(method string, params, result []byte) {
	var update []byte
	switch method {
	case "session/set_mode":
		id, err := wire.Unquote(wire.Lookup(params, "modeId").Of(params))
		if err != nil || id == s.snap.mode {
			return
		}
		update = mustJSON(map[string]string{"sessionUpdate": "current_mode_update", "currentModeId": id})
	case "session/set_config_option":
		options := wire.Lookup(result, "configOptions").Of(result)
		if options == nil {
			return
		}
		update = mustJSON(map[string]any{"sessionUpdate": "config_option_update", "configOptions": json.RawMessage(options)})
	default:
		return
	}
	b := append([]byte(`{"sessionId":`), s.bound.Load().tok...)
	b = append(append(append(b, `,"update":`...), update...), '}')
	line := mustFrame(wire.AppendNotification(nil, "session/update", b))
	s.snap.take(s, line)
	s.journal.Append(journal.Update, time.Now(), line.Raw)
}
