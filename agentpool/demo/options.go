package demo

import (
	"time"

	acp "github.com/coder/acp-go-sdk"
)

// Modes.
const (
	modeAsk      acp.SessionModeId = "ask"
	modeCode     acp.SessionModeId = "code"
	modeReadOnly acp.SessionModeId = "read-only"
)

// Config options and their values; the first value of each is the default.
const (
	optionModel     acp.SessionConfigId = "model"
	optionVerbosity acp.SessionConfigId = "verbosity"

	modelWords   acp.SessionConfigValueId = "demo-words"
	modelFlash   acp.SessionConfigValueId = "demo-flash"
	modelSlow    acp.SessionConfigValueId = "demo-slow"
	verbosityNil acp.SessionConfigValueId = "normal"
	verbosityTho acp.SessionConfigValueId = "thoughtful"
)

// slowFactor is how much longer demo-slow waits between words.
const slowFactor = 5

func defaultOptions() map[acp.SessionConfigId]acp.SessionConfigValueId {
	return map[acp.SessionConfigId]acp.SessionConfigValueId{optionModel: modelWords, optionVerbosity: verbosityNil}
}

func (s *session) modes() *acp.SessionModeState {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &acp.SessionModeState{CurrentModeId: s.mode, AvailableModes: []acp.SessionMode{
		{Id: modeAsk, Name: "Ask", Description: acp.Ptr("Asks before it changes anything")},
		{Id: modeCode, Name: "Code", Description: acp.Ptr("Edits without asking, asks before it runs commands")},
		{Id: modeReadOnly, Name: "Read only", Description: acp.Ptr("Refuses to change anything")},
	}}
}

func (s *session) configOptions() []acp.SessionConfigOption {
	s.mu.Lock()
	defer s.mu.Unlock()
	return []acp.SessionConfigOption{
		selectOption(optionModel, "Model", acp.Ptr(acp.SessionConfigOptionCategoryModel), s.options[optionModel],
			acp.SessionConfigSelectOption{Value: modelWords, Name: "Demo", Description: acp.Ptr("Streams word by word")},
			acp.SessionConfigSelectOption{Value: modelFlash, Name: "Demo flash", Description: acp.Ptr("Streams without a pause")},
			acp.SessionConfigSelectOption{Value: modelSlow, Name: "Demo slow", Description: acp.Ptr("Takes its time")},
		),
		selectOption(optionVerbosity, "Verbosity", nil, s.options[optionVerbosity],
			acp.SessionConfigSelectOption{Value: verbosityNil, Name: "Normal", Description: acp.Ptr("Answers")},
			acp.SessionConfigSelectOption{Value: verbosityTho, Name: "Thoughtful", Description: acp.Ptr("Thinks aloud first")},
		),
	}
}

func selectOption(id acp.SessionConfigId, name string, category *acp.SessionConfigOptionCategory,
	current acp.SessionConfigValueId, values ...acp.SessionConfigSelectOption,
) acp.SessionConfigOption {
	list := acp.SessionConfigSelectOptionsUngrouped(values)
	return acp.SessionConfigOption{Select: &acp.SessionConfigOptionSelect{
		Id: id, Name: name, Category: category, CurrentValue: current, Type: "select",
		Options: acp.SessionConfigSelectOptions{Ungrouped: &list},
	}}
}

func (a *agent) setMode(m message) (any, *session, error) {
	p, err := decode[acp.SetSessionModeRequest](m.Params)
	if err != nil {
		return nil, nil, err
	}
	s := a.session(string(p.SessionId))
	if s == nil {
		return nil, nil, notFound(string(p.SessionId))
	}
	if !s.setMode(p.ModeId) {
		return nil, nil, acp.NewInvalidParams(reason("no such mode: " + string(p.ModeId)))
	}
	return acp.SetSessionModeResponse{}, nil, nil
}

// setMode changes the mode and tells the client. False: there is no such mode.
func (s *session) setMode(id acp.SessionModeId) bool {
	for _, m := range s.modes().AvailableModes {
		if m.Id == id {
			s.mu.Lock()
			s.mode = id
			s.mu.Unlock()
			s.update(acp.SessionUpdate{CurrentModeUpdate: &acp.SessionCurrentModeUpdate{CurrentModeId: id}})
			return true
		}
	}
	return false
}

func (a *agent) setConfigOption(m message) (any, *session, error) {
	p, err := decode[acp.SetSessionConfigOptionRequest](m.Params)
	if err != nil {
		return nil, nil, err
	}
	if p.ValueId == nil {
		return nil, nil, acp.NewInvalidParams(reason("there are no boolean options"))
	}
	s := a.session(string(p.ValueId.SessionId))
	if s == nil {
		return nil, nil, notFound(string(p.ValueId.SessionId))
	}
	for _, o := range s.configOptions() {
		for _, v := range *o.Select.Options.Ungrouped {
			if o.Select.Id == p.ValueId.ConfigId && v.Value == p.ValueId.Value {
				s.mu.Lock()
				s.options[o.Select.Id] = v.Value
				s.mu.Unlock()
				return acp.SetSessionConfigOptionResponse{ConfigOptions: s.configOptions()}, nil, nil
			}
		}
	}
	return nil, nil, acp.NewInvalidParams(reason("no such option or value"))
}

// delay is the pause between streamed words.
func (s *session) delay() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch s.options[optionModel] {
	case modelFlash:
		return 0
	case modelSlow:
		return slowFactor * s.a.cfg.Delay
	default:
		return s.a.cfg.Delay
	}
}

// commands are offered in the slash menu. "/name rest" is the directive NAME in front of the rest.
func commands() []acp.AvailableCommand {
	list := []acp.AvailableCommand{}
	for _, c := range [][3]string{
		{"code", "Show markdown with code, a table and a list", ""},
		{"plan", "Work through a plan", ""},
		{"think", "Think aloud first", "what to answer"},
		{"tool", "Run a tool call with a diff", ""},
		{"ask", "Ask for permission, then write demo.txt", "a line for the file"},
		{"elicit", "Ask a question with a form", ""},
		{"recall", "List every text of yours in the context", ""},
		{"compact", "Replace the context by a summary", ""},
		{"slow", "Stream slowly, to try Stop", "20x500"},
	} {
		cmd := acp.AvailableCommand{Name: c[0], Description: c[1]}
		if c[2] != "" {
			cmd.Input = &acp.AvailableCommandInput{Unstructured: &acp.UnstructuredCommandInput{Hint: c[2]}}
		}
		list = append(list, cmd)
	}
	return list
}
