package journal

import (
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"github.com/acpgate/acpgate/agentpool/wire"
)

// PromptData is the payload of a Prompt event: one content block.
type PromptData struct {
	Turn    string          `json:"turn"`
	Key     string          `json:"key,omitempty"`
	By      string          `json:"by"`             // connection that sent it
	Index   int             `json:"index"`          // of the block in the prompt
	View    string          `json:"view,omitempty"` // set on slash commands: no part of the transcript
	Content json.RawMessage `json:"content"`
}

// TurnEndData is the payload of a TurnEnd event.
type TurnEndData struct {
	Turn    string          `json:"turn"`
	Key     string          `json:"key,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   json.RawMessage `json:"error,omitempty"`
	Command bool            `json:"command,omitempty"` // of the gateway: no turn of the agent
}

// ContextData is the payload of a Context event. With Role it is a new entry; without one it tells the new state of the entry ID.
type ContextData struct {
	ID     string        `json:"id"`
	Role   string        `json:"role,omitempty"` // framing or note
	State  string        `json:"state"`          // pending or delivered
	Text   string        `json:"text,omitempty"`
	Source ContextSource `json:"source,omitzero"`
}

// ContextSource says where a context entry comes from.
type ContextSource struct {
	Kind    string `json:"kind"`
	Plugin  string `json:"plugin"`
	Session string `json:"session,omitempty"`
	Title   string `json:"title,omitempty"`
}

// EntryKind is what a transcript entry is.
type EntryKind string

const (
	User    EntryKind = "user"
	Agent   EntryKind = "agent"
	Thought EntryKind = "thought"
	Tool    EntryKind = "tool"
	Note    EntryKind = "note"  // a context entry
	Other   EntryKind = "other" // an update of a kind that we do not know, as it came
)

// Entry is one entry of a transcript: a message, a thought or a tool call, whole.
type Entry struct {
	Kind  EntryKind
	ID    string // u3, a4, th4, t4-1: stable for the same entry as long as the journal's epoch lasts
	Turn  string // of the prompt, on User entries that came through us
	Key   string
	First uint64 // seq of its first event
	Time  int64  // of that, Unix milliseconds

	Text    []byte                     // of a message or thought: its text blocks, joined; of 1 MiB and more the beginning and the end
	Blocks  []json.RawMessage          // of a message or thought: its other content blocks, in order
	Members map[string]json.RawMessage // of a tool call: the members of tool_call and its updates, the latest of each
	Raw     []byte                     // of an Other: the line
	omitted int                        // bytes that Text leaves out
	marker  int                        // length of the line that says so
	Context ContextData                // of a Note
	closed  bool                       // nothing without its messageId joins it any more
	message string                     // messageId of the chunks
	call    string                     // toolCallId
	bytes   int
}

// FoldLimits bound what a Fold keeps. Zero values are the defaults.
type FoldLimits struct {
	Entries int // default 5,000
	Bytes   int // default 16 MiB
	Head    int // entries at the beginning that are kept whatever comes; default 10
}

// Fold is a transcript under construction: the events of a journal, one entry per message, thought, tool call. When it
// grows over its limits it drops entries behind the first Head ones and counts them. Not safe for concurrent use.
type Fold struct {
	limits  FoldLimits
	entries []*Entry
	byCall  map[string]*Entry
	dropped int
	bytes   int
	seq     uint64 // of the last event taken

	n     int // number of the last user message or agent step
	tools int
	step  map[EntryKind]bool // kinds that the current agent step has; nil: no step
}

// NewFold returns an empty fold.
func NewFold(l FoldLimits) *Fold {
	if l.Entries <= 0 {
		l.Entries = 5000
	}
	if l.Bytes <= 0 {
		l.Bytes = 16 << 20
	}
	if l.Head <= 0 {
		l.Head = 10
	}
	return &Fold{limits: l, byCall: map[string]*Entry{}}
}

// Seq is the last event taken.
func (f *Fold) Seq() uint64 { return f.seq }

// Entries returns the entries in order and how many were dropped behind the first head ones. The slice and its entries
// must not be changed, and are valid until the next Add.
func (f *Fold) Entries() (entries []*Entry, head, dropped int) {
	return f.entries, min(f.limits.Head, len(f.entries)), f.dropped
}

// Add takes the next event. Events that belong to no transcript are skipped.
func (f *Fold) Add(e Event) {
	f.seq = e.Seq
	switch e.Type {
	case Prompt:
		var p PromptData
		if json.Unmarshal(e.Data, &p) == nil && p.View == "" {
			f.prompt(e, p)
		}
	case TurnEnd:
		var t TurnEndData
		if json.Unmarshal(e.Data, &t) == nil && !t.Command {
			f.endStep()
		}
	case Context:
		var c ContextData
		if json.Unmarshal(e.Data, &c) == nil {
			f.context(e, c)
		}
	case Update:
		if at := wire.Lookup(e.Data, "params", "update"); at.Present() {
			f.update(e, at.Of(e.Data))
		}
	}
	f.bound()
}

func (f *Fold) prompt(e Event, p PromptData) {
	last := f.last()
	if p.Index == 0 || last == nil || last.Kind != User || last.Turn != p.Turn {
		f.endStep()
		f.n++
		last = f.push(&Entry{Kind: User, ID: fmt.Sprintf("u%d", f.n), Turn: p.Turn, Key: p.Key, First: e.Seq, Time: e.Time})
	}
	f.grow(last, p.Content)
}

// context adds a context entry, or notes its new state.
func (f *Fold) context(e Event, c ContextData) {
	if c.Role == "" {
		for _, x := range f.entries {
			if x.Kind == Note && x.Context.ID == c.ID {
				x.Context.State = c.State
			}
		}
		return
	}
	f.n++
	f.step = nil
	entry := f.push(&Entry{Kind: Note, ID: fmt.Sprintf("n%d", f.n), First: e.Seq, Time: e.Time, Context: c})
	f.account(entry, len(c.Text))
}

func (f *Fold) update(e Event, body []byte) {
	var kind, message, content []byte
	for name, value := range wire.Members(body) {
		switch {
		case wire.Equal(name, "sessionUpdate"):
			kind = value
		case wire.Equal(name, "messageId"):
			message = value
		case wire.Equal(name, "content"):
			content = value
		}
	}
	switch {
	case wire.Equal(kind, "agent_message_chunk"):
		f.chunk(e, message, content, Agent)
	case wire.Equal(kind, "agent_thought_chunk"):
		f.chunk(e, message, content, Thought)
	case wire.Equal(kind, "user_message_chunk"):
		f.chunk(e, message, content, User)
	case wire.Equal(kind, "tool_call"), wire.Equal(kind, "tool_call_update"):
		f.tool(e, body)
	case !isValue(kind):
		f.n++
		f.step = nil
		entry := f.push(&Entry{Kind: Other, ID: fmt.Sprintf("x%d", f.n), First: e.Seq, Time: e.Time, Raw: append([]byte(nil), e.Data...)})
		f.account(entry, len(entry.Raw))
	}
}

// isValue reports whether an update is a current value of the session, of which only the latest counts.
func isValue(kind []byte) bool {
	for _, k := range [...]string{
		"available_commands_update", "current_mode_update", "config_option_update", "session_info_update", "usage_update", "plan",
	} {
		if wire.Equal(kind, k) {
			return true
		}
	}
	return false
}

// chunk appends to the last entry if it is of the same message: the same kind and messageId (CASE 89), or without one in
// the same turn.
func (f *Fold) chunk(e Event, message, content []byte, kind EntryKind) {
	if len(message) <= len(`""`) || message[0] != '"' {
		message = nil
	}
	last := f.last()
	same := last != nil && last.Kind == kind && (last.message == "" || message == nil || wire.Equal(message, last.message))
	if !same || (last.closed && (message == nil || !wire.Equal(message, last.message))) {
		id, _ := wire.Unquote(message) // absent: ""
		last = f.push(&Entry{Kind: kind, ID: f.number(kind), First: e.Seq, Time: e.Time, message: id})
	}
	f.grow(last, content)
}

// number gives the next id of a kind. A user message and an agent step have numbers of their own; thoughts and tool calls
// have that of the step they are in.
func (f *Fold) number(kind EntryKind) string {
	if kind == User {
		f.endStep()
		f.n++
		return fmt.Sprintf("u%d", f.n)
	}
	if f.step == nil || f.step[kind] || (kind == Thought && f.step[Agent]) {
		f.n++
		f.tools = 0
		f.step = map[EntryKind]bool{}
	}
	f.step[kind] = true
	if kind == Thought {
		return fmt.Sprintf("th%d", f.n)
	}
	return fmt.Sprintf("a%d", f.n)
}

func (f *Fold) tool(e Event, body []byte) {
	call, _ := wire.Unquote(wire.Lookup(body, "toolCallId").Of(body))
	var m map[string]json.RawMessage
	if json.Unmarshal(body, &m) != nil {
		return
	}
	entry := f.byCall[call]
	if entry == nil {
		if f.step == nil {
			f.n++
			f.tools = 0
			f.step = map[EntryKind]bool{}
		}
		f.tools++
		entry = f.push(&Entry{Kind: Tool, ID: fmt.Sprintf("t%d-%d", f.n, f.tools), First: e.Seq, Time: e.Time, call: call, Members: map[string]json.RawMessage{}})
		f.byCall[call] = entry
	}
	for k, v := range m {
		if k == "sessionUpdate" || string(v) == "null" {
			continue
		}
		f.account(entry, len(v)-len(entry.Members[k]))
		entry.Members[k] = append(json.RawMessage(nil), v...)
	}
}

// textHalf bounds the text of an entry: once it is four times as long, so many bytes of its beginning and of its end stay,
// and a line in between that says how many are left out.
const textHalf = 256 << 10

// grow adds a content block.
func (f *Fold) grow(entry *Entry, block []byte) {
	if block == nil {
		return
	}
	var kind, text []byte
	for name, value := range wire.Members(block) {
		switch {
		case wire.Equal(name, "type"):
			kind = value
		case wire.Equal(name, "text"):
			text = value
		}
	}
	if wire.Equal(kind, "text") {
		before := len(entry.Text)
		if grown, ok := wire.AppendUnquoted(entry.Text, text); ok {
			entry.Text = grown
			entry.shorten()
			f.account(entry, len(entry.Text)-before)
			return
		}
	}
	f.account(entry, len(block))
	entry.Blocks = append(entry.Blocks, append(json.RawMessage(nil), block...))
}

// shorten leaves out the middle of a text that has become too long, between runes.
func (entry *Entry) shorten() {
	text := entry.Text
	if len(text) < 4*textHalf {
		return
	}
	head, tail := textHalf, len(text)-textHalf
	for !utf8.RuneStart(text[head]) {
		head--
	}
	for !utf8.RuneStart(text[tail]) {
		tail++
	}
	entry.omitted += tail - head
	if entry.marker > 0 {
		entry.omitted -= entry.marker // the line of the last time, which goes with the rest
	}
	line := fmt.Sprintf("\n… %d bytes left out …\n", entry.omitted)
	entry.marker = len(line)
	entry.Text = append(append(text[:head], line...), text[tail:]...) // in place: what goes is longer than the line
}

func (f *Fold) endStep() {
	f.step = nil
	f.tools = 0
	if last := f.last(); last != nil {
		last.closed = true
	}
}

func (f *Fold) last() *Entry {
	if len(f.entries) == 0 {
		return nil
	}
	return f.entries[len(f.entries)-1]
}

func (f *Fold) push(e *Entry) *Entry {
	f.entries = append(f.entries, e)
	f.account(e, 64)
	return e
}

func (f *Fold) account(e *Entry, n int) {
	e.bytes += n
	f.bytes += n
}

// bound drops entries behind the head until the limits hold again.
func (f *Fold) bound() {
	for len(f.entries) > f.limits.Head+1 && (len(f.entries) > f.limits.Entries || f.bytes > f.limits.Bytes) {
		// A tenth at a time, so that the copy is paid for rarely.
		n := max(1, min(len(f.entries)/10, len(f.entries)-f.limits.Head-1))
		for _, e := range f.entries[f.limits.Head : f.limits.Head+n] {
			f.bytes -= e.bytes
			if e.Kind == Tool {
				delete(f.byCall, e.call)
			}
		}
		f.entries = append(f.entries[:f.limits.Head], f.entries[f.limits.Head+n:]...)
		f.dropped += n
	}
}
