package sessions

import (
	"encoding/json"
	"time"

	"github.com/acpgate/acpgate/agentpool/wire"
	"github.com/acpgate/acpgate/sessions/journal"
)

// rawBlock is a content block as it goes over the wire.
type rawBlock = json.RawMessage

// prefixBlock goes in front of the next prompt of a session, once: the history that a child is seeded with, the framing of
// a side conversation, a note that came home. It stays until the agent has answered the prompt that carried it (rules S6, S10).
type prefixBlock struct {
	ID    string   `json:"id,omitempty"` // of the context entry
	Kind  string   `json:"kind"`         // history, framing or note
	Block rawBlock `json:"block"`
}

// addPrefix is under mu.
func (s *session) addPrefix(b prefixBlock) { s.prefix = append(s.prefix, b) }

func (s *session) prefixBlocks() []json.RawMessage {
	var out []json.RawMessage
	for _, b := range s.prefix {
		out = append(out, b.Block)
	}
	return out
}

// delivered takes the blocks that the agent has now got off the prefix and notes it in the journal. Under mu.
func (s *session) delivered(n int) {
	sent := s.prefix[:n]
	s.prefix = append([]prefixBlock(nil), s.prefix[n:]...)
	for _, b := range sent {
		if b.ID != "" {
			s.appendContext(contextData{ID: b.ID, State: "delivered"})
		}
	}
	s.save()
}

// contextData is the payload of a journal.Context event: an entry beside the conversation that the agent gets with its next
// prompt, or the news that it has got it.
type contextData = journal.ContextData

// appendContext is under mu.
func (s *session) appendContext(c contextData) {
	if c.Role != "" {
		c.Source = journal.ContextSource{Kind: "plugin", Plugin: "sidechat", Session: c.Source.Session, Title: c.Source.Title}
	}
	s.journal.Append(journal.Context, time.Now(), mustJSON(c))
}

// Tags around the texts that we put in front of prompts. A load that gives them back is recognised by them.
const (
	framingTag = "acpgate-side"
	noteTag    = "acpgate-note"
)

func tagged(tag, text string) rawBlock {
	return mustJSON(map[string]string{"type": "text", "text": "<" + tag + ">\n" + text + "\n</" + tag + ">"})
}

// framing tells the agent what a side conversation is (rule S6).
func framing() prefixBlock {
	return prefixBlock{Kind: "framing", Block: tagged(framingTag,
		"This is a side conversation. You are a read-only advisor here: explain and answer questions about what was said and done so far. "+
			"Do not change files, do not run commands that change anything, and do not go on with the task; it goes on in the main conversation.")}
}

// isTagged reports whether a replayed user message is one of our blocks.
func isTagged(f *wire.Frame) bool {
	body := f.Update.Of(f.Raw)
	if !wire.Equal(f.UpdateKind.Of(f.Raw), "user_message_chunk") {
		return false
	}
	content := wire.Lookup(body, "content").Of(body)
	text, err := wire.Unquote(wire.Lookup(content, "text").Of(content))
	if err != nil {
		uri, err := wire.Unquote(wire.Lookup(content, "resource", "uri").Of(content))
		return err == nil && uri == historyURI
	}
	for _, tag := range [...]string{historyTag, framingTag, noteTag} {
		if len(text) > 2*len(tag) && text[:len(tag)+2] == "<"+tag+">" && text[len(text)-len(tag)-3:] == "</"+tag+">" {
			return true
		}
	}
	return false
}
