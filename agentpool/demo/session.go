package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	acp "github.com/coder/acp-go-sdk"
)

// Kinds of text chunks.
const (
	messageChunk = "agent_message_chunk"
	thoughtChunk = "agent_thought_chunk"
)

// errClosed cancels what runs in a session that is closed or deleted.
var errClosed = errors.New("session closed")

// session is an open session: in memory, with its file once there is a message.
type session struct {
	a   *agent
	id  string
	ctx context.Context // ends when the session is closed, with the agent at the latest
	end context.CancelCauseFunc

	saving sync.Mutex // held while entries are added, so that memory and file agree; taken before mu

	mu      sync.Mutex
	cwd     string
	title   string
	system  string
	parent  string
	entries []entry // without the head
	saved   bool    // there is a file
	torn    bool    // and its last line has no end
	mode    acp.SessionModeId
	options map[acp.SessionConfigId]acp.SessionConfigValueId
	always  map[acp.ToolKind]acp.PermissionOptionKind // allow_always and reject_always answers
	next    []directive                               // NEXT: put in front of the next prompt
	turn    *turn                                     // the running one
}

func (a *agent) openSession(id, cwd string) *session {
	s := &session{
		a: a, id: id, cwd: cwd, mode: modeAsk, options: defaultOptions(),
		always: map[acp.ToolKind]acp.PermissionOptionKind{},
	}
	s.ctx, s.end = context.WithCancelCause(a.ctx)
	return s
}

// register makes the session findable. It returns false when the id is open already.
func (a *agent) register(s *session) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.sessions[s.id] != nil {
		return false
	}
	a.sessions[s.id] = s
	return true
}

// add appends entries to the history, in memory and in the file, which comes into being with the first message.
func (s *session) add(entries ...entry) error {
	s.saving.Lock()
	defer s.saving.Unlock()
	now := time.Now().UTC()
	for i := range entries {
		if entries[i].At.IsZero() { // those of a fork keep theirs
			entries[i].At = now
		}
	}
	s.mu.Lock()
	s.entries = append(s.entries, entries...)
	saved, torn := s.saved, s.torn
	head := entry{Kind: entryHead, At: now, ID: s.id, Cwd: s.cwd, Title: s.title, System: s.system, Parent: s.parent}
	s.mu.Unlock()
	var err error
	if saved {
		err = s.a.store.append(s.id, torn, entries...)
	} else {
		err = s.a.store.create(slices.Concat([]entry{head}, entries)...)
	}
	switch {
	case err == nil:
		s.mu.Lock()
		s.saved, s.torn = true, false
		s.mu.Unlock()
		return nil
	case errors.Is(err, errNoSession):
		return nil // deleted meanwhile, and it stays deleted
	default:
		return err
	}
}

// keep is add for what only costs memory when it cannot be saved: the turn goes on, and the log says so.
func (s *session) keep(entries ...entry) {
	if err := s.add(entries...); err != nil {
		s.a.log.Error("history not saved", "session", s.id, "err", err)
	}
}

// history is a copy of what a fork inherits and a load replays: all entries, but not those of a running turn.
func (s *session) history() []entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.turn != nil {
		return slices.Clone(s.entries[:s.turn.began])
	}
	return slices.Clone(s.entries)
}

// count is the size of the context: messages since the last compaction, whose summary is one, and the user's texts in it.
func (s *session) count() (messages int, texts []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.entries {
		switch e.Kind {
		case entryUser:
			messages++
			texts = append(texts, userTexts(e.Blocks)...)
		case entryAgent:
			messages++
		case entryCompact:
			messages, texts = 1, nil
		}
	}
	return messages, texts
}

// cancel cancels the running turn, if there is one.
func (s *session) cancel(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.turn != nil {
		s.turn.cancel(cause)
	}
}

// cancelRequest cancels the turn that the request id began.
func (s *session) cancelRequest(id json.RawMessage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.turn != nil && bytes.Equal(s.turn.request, id) {
		s.turn.cancel(errCancelled)
	}
}

// close ends the session and waits until nothing of it runs any more.
func (s *session) close() {
	s.end(errClosed)
	s.mu.Lock()
	t := s.turn
	s.mu.Unlock()
	if t != nil {
		<-t.done
	}
	s.a.mu.Lock()
	defer s.a.mu.Unlock()
	if s.a.sessions[s.id] == s {
		delete(s.a.sessions, s.id)
	}
}

// replay sends the history as updates: one chunk per message, tool calls as they ended.
func (s *session) replay() {
	compaction := s.a.clientInfo().compaction
	for _, e := range s.history() {
		switch e.Kind {
		case entryUser:
			for _, b := range e.Blocks {
				s.update(acp.SessionUpdate{UserMessageChunk: &acp.SessionUpdateUserMessageChunk{Content: b, MessageId: &e.ID}})
			}
		case entryAgent:
			s.chunk(messageChunk, e.ID, e.Text)
		case entryThought:
			s.chunk(thoughtChunk, e.ID, e.Text)
		case entryTool:
			began := *e.Tool
			began.Status, began.Content, began.RawOutput = acp.ToolCallStatusPending, nil, nil
			s.update(acp.SessionUpdate{ToolCall: &began})
			s.update(acp.SessionUpdate{ToolCallUpdate: &acp.SessionToolCallUpdate{
				ToolCallId: e.Tool.ToolCallId, Status: &e.Tool.Status, Content: e.Tool.Content, RawOutput: e.Tool.RawOutput,
			}})
		case entryPlan:
			s.update(acp.UpdatePlan(e.Plan...))
		case entryCompact:
			if compaction {
				s.updateCompaction(e.ID, "completed")
			}
		}
	}
}

func (s *session) update(u acp.SessionUpdate) { s.a.update(s.id, u) }

// updateCompaction sends an update that the SDK's types do not know yet.
func (s *session) updateCompaction(id, status string) {
	s.updateRaw(map[string]string{"sessionUpdate": "compaction_update", "compactionId": id, "status": status})
}

// updateRaw sends an update that is not one of the SDK's types.
func (s *session) updateRaw(update any) {
	s.a.conn.notify(acp.ClientMethodSessionUpdate, rawNotification{s.id, update})
}

type rawNotification struct {
	SessionID string `json:"sessionId"`
	Update    any    `json:"update"`
}

// textChunk is an update with a text. The SDK's union types decode and encode each value four times over, which a message
// of 32 MiB, or a million of them, would feel.
type textChunk struct {
	SessionUpdate string               `json:"sessionUpdate"`
	Content       acp.ContentBlockText `json:"content"`
	MessageID     string               `json:"messageId"`
}

// chunk sends a text: kind is agent_message_chunk or agent_thought_chunk.
func (s *session) chunk(kind, id, text string) {
	s.updateRaw(textChunk{kind, acp.ContentBlockText{Type: "text", Text: text}, id})
}

// announce sends what a client wants to know of a session that was just opened.
func (s *session) announce() {
	s.update(acp.SessionUpdate{AvailableCommandsUpdate: &acp.SessionAvailableCommandsUpdate{AvailableCommands: commands()}})
	s.mu.Lock()
	title, saved := s.title, s.saved
	s.mu.Unlock()
	if saved {
		s.update(acp.SessionUpdate{SessionInfoUpdate: &acp.SessionSessionInfoUpdate{Title: &title}})
		s.updateUsage()
	}
}

// contextSize is the size of the context window that usage updates report, in tokens.
const contextSize = 200_000

// updateUsage reports the size of the context, at four bytes a token.
func (s *session) updateUsage() {
	s.update(acp.SessionUpdate{UsageUpdate: &acp.SessionUsageUpdate{Size: contextSize, Used: s.tokens()}})
}

func (s *session) tokens() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	bytes := len(s.system)
	for _, e := range s.entries {
		if e.Kind == entryCompact {
			bytes = 0
		}
		bytes += len(e.Text)
		for _, t := range userTexts(e.Blocks) {
			bytes += len(t)
		}
	}
	return (bytes + 3) / 4
}
