package sessions

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"github.com/acpgate/acpgate/agentpool/wire"
	"github.com/acpgate/acpgate/sessions/journal"
)

// Bounds of a replay after a rebind (rule V9).
const (
	replayHead = 10
	replayTail = 200
	replayText = 8 << 10 // bytes of one text, head and tail kept
)

// replayer makes the frames in which an attachment gets a session's transcript (rules V9, V10).
type replayer struct {
	a      *Attachment
	sess   *session
	prefix string // hist-, or hist-<sess8>-
	suffix string // ~2 for a second replay to a client that cannot upsert
	window bool   // the bounded form
	before uint64 // only entries that began before this seq
}

// newReplayer and the use of what it returns are under v.mu.
func (v *View) newReplayer(a *Attachment, window bool, before uint64) *replayer {
	r := &replayer{a: a, sess: v.session, window: window, before: before, prefix: "hist-"}
	if id := v.bound.Load().id; id != v.home {
		sum := sha256.Sum256([]byte(id))
		r.prefix += hex.EncodeToString(sum[:4]) + "-"
	}
	return r
}

// replayKey counts the replays of a session to one handle of a connection.
type replayKey struct{ conn, handle, session string }

const maxReplayKeys = 256

// countReplay is under mu.
func (v *View) countReplay(k replayKey) int {
	if len(v.replays) >= maxReplayKeys { // those of connections that are gone
		here := map[string]bool{k.conn: true}
		for a := range v.atts {
			here[a.c.ID()] = true
		}
		for x := range v.replays {
			if !here[x.conn] {
				delete(v.replays, x)
			}
		}
	}
	if v.replays == nil {
		v.replays = map[replayKey]int{}
	}
	v.replays[k]++
	return v.replays[k]
}

// frames returns the transcript as session/update frames, and how many entries it has.
func (r *replayer) frames() (frames [][]byte, entries int) {
	r.sess.journal.Transcript(func(list []*journal.Entry, head, dropped int) {
		for len(list) > 0 && list[len(list)-1].First >= r.before {
			list = list[:len(list)-1]
		}
		head = min(head, len(list))
		entries = len(list) + dropped
		if entries == 0 {
			return
		}
		if r.a.c != nil && !r.a.optedIn {
			if n := r.a.v.countReplay(replayKey{r.a.c.ID(), r.a.handle, r.sess.bound.Load().id}); n > 1 {
				r.suffix = fmt.Sprintf("~%d", n)
			}
		}
		first, rest := list[:head], list[head:]
		omitted := dropped
		if r.window {
			first = first[:min(len(first), replayHead)]
			rest = list[len(first):]
			if n := len(rest) - replayTail; n > 0 || dropped > 0 {
				n = max(n, 0)
				omitted = dropped + n
				rest = rest[n:]
			}
		}
		for _, e := range first {
			frames = r.entry(frames, e)
		}
		if omitted > 0 {
			frames = append(frames, r.gap(omitted))
		}
		for _, e := range rest {
			frames = r.entry(frames, e)
		}
	})
	return frames, entries
}

func (r *replayer) gap(n int) []byte {
	id := r.prefix + "gap"
	return r.update(map[string]any{
		"sessionUpdate": "agent_message_chunk", "messageId": id + r.suffix,
		"content": textBlock(fmt.Sprintf("… %d earlier entries are not shown …", n)),
	}, id, map[string]any{"kind": "gap", "omitted": n})
}

func (r *replayer) entry(frames [][]byte, e *journal.Entry) [][]byte {
	id := r.prefix + e.ID
	meta := map[string]any{"ts": e.Time}
	if e.Turn != "" {
		meta["turn"] = e.Turn
	}
	if e.Key != "" {
		meta["key"] = e.Key
	}
	if r.sess.lineage != nil && e.First <= r.sess.seed {
		meta["inherited"] = true
	}
	if e.Kind == journal.Note {
		if e.Context.Role != "note" {
			return frames
		}
		meta["kind"], meta["context"] = "context", e.Context
		return append(frames, r.update(map[string]any{
			"sessionUpdate": "agent_message_chunk", "messageId": id + r.suffix, "content": textBlock(noteCard(e.Context)),
		}, id, meta))
	}
	if e.Kind == journal.Other {
		return append(frames, r.raw(e.Raw, id, meta))
	}
	if e.Kind == journal.Tool {
		u := map[string]any{"sessionUpdate": "tool_call"}
		for k, v := range e.Members {
			u[k] = v
		}
		u["toolCallId"] = id + r.suffix
		if r.window {
			u = capTexts(u)
		}
		return append(frames, r.update(u, id, meta))
	}
	kind := map[journal.EntryKind]string{
		journal.User: "user_message_chunk", journal.Agent: "agent_message_chunk", journal.Thought: "agent_thought_chunk",
	}[e.Kind]
	blocks := make([]any, 0, 1+len(e.Blocks))
	if len(e.Text) > 0 || len(e.Blocks) == 0 {
		text := string(e.Text)
		if r.window {
			text = headTail(text, replayText)
		}
		blocks = append(blocks, textBlock(text))
	}
	for _, b := range e.Blocks {
		if r.window {
			b = capBlock(b)
		}
		blocks = append(blocks, b)
	}
	for i, b := range blocks {
		m := map[string]any{}
		for k, v := range meta {
			m[k] = v
		}
		if i > 0 {
			m["part"] = i
		}
		frames = append(frames, r.update(map[string]any{"sessionUpdate": kind, "messageId": id + r.suffix, "content": b}, id, m))
	}
	return frames
}

// raw sends a line as it came, under this attachment's handle.
func (r *replayer) raw(line []byte, entry string, meta map[string]any) []byte {
	f := mustFrame(line)
	edits := []wire.Edit{f.EditSession(r.a.tok)}
	if r.a.optedIn {
		if e, ok := f.EditMeta(r.member(entry, meta)); ok {
			edits = append(edits, e)
		}
	}
	return wire.Splice(nil, line, edits...)
}

func (r *replayer) member(entry string, meta map[string]any) []byte {
	meta["session"], meta["epoch"] = r.sess.bound.Load().id, r.sess.journal.Epoch()
	meta["replay"], meta["entry"] = true, entry
	return metaMember(meta)
}

func textBlock(s string) map[string]string { return map[string]string{"type": "text", "text": s} }

// update wraps an update object for this attachment.
func (r *replayer) update(u map[string]any, entry string, meta map[string]any) []byte {
	b := append([]byte(`{"sessionId":`), r.a.tok...)
	b = append(append(b, `,"update":`...), mustJSON(u)...)
	if r.a.optedIn {
		b = append(append(append(b, `,"_meta":{`...), r.member(entry, meta)...), '}')
	}
	return wire.AppendNotification(nil, "session/update", append(b, '}'))
}

// headTail keeps the beginning and the end of s in at most n bytes, cut at rune boundaries, with the number left out
// between them.
func headTail(s string, n int) string {
	if len(s) <= n {
		return s
	}
	half := (n - 64) / 2
	head := half
	for head > 0 && !utf8.RuneStart(s[head]) {
		head--
	}
	tail := len(s) - half
	for tail < len(s) && !utf8.RuneStart(s[tail]) {
		tail++
	}
	return s[:head] + fmt.Sprintf("\n… %d bytes left out …\n", tail-head) + s[tail:]
}

// capTexts applies headTail to every string in an update.
func capTexts(u map[string]any) map[string]any {
	d := json.NewDecoder(bytes.NewReader(mustJSON(u)))
	d.UseNumber()
	var v map[string]any
	if d.Decode(&v) != nil {
		return u // never: it was just encoded
	}
	capValue(v)
	return v
}

// capBlock applies headTail to every string in a content block.
func capBlock(b json.RawMessage) json.RawMessage {
	if len(b) <= replayText {
		return b
	}
	var u map[string]any
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	if d.Decode(&u) != nil {
		return b
	}
	return mustJSON(capTexts(u))
}

func capValue(v any) any {
	switch x := v.(type) {
	case string:
		return headTail(x, replayText)
	case []any:
		for i := range x {
			x[i] = capValue(x[i])
		}
	case map[string]any:
		for k := range x {
			if k != "data" && k != "blob" { // half an image is none
				x[k] = capValue(x[k])
			}
		}
	}
	return v
}
