package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	acp "github.com/coder/acp-go-sdk"
)

// Kinds of entries.
const (
	entryHead    = "session" // first line of a file
	entryUser    = "user"
	entryAgent   = "agent"
	entryThought = "thought"
	entryTool    = "tool"
	entryPlan    = "plan"
	entryCompact = "compact" // what comes before is no longer in the context
	entryEnd     = "end"     // of a turn
)

// entry is one line of a session's file.
type entry struct {
	Kind string    `json:"t"`
	At   time.Time `json:"at"`
	ID   string    `json:"id,omitempty"` // of the session, message, compaction

	// of the head
	Cwd    string `json:"cwd,omitempty"`
	Title  string `json:"title,omitempty"`
	System string `json:"system,omitempty"`
	Parent string `json:"parent,omitempty"` // the session that it was forked from

	Blocks []acp.ContentBlock         `json:"blocks,omitempty"` // of the user
	Text   string                     `json:"text,omitempty"`   // of the agent, a thought, a compaction
	Tool   *acp.SessionUpdateToolCall `json:"tool,omitempty"`   // as it ended
	Plan   []acp.PlanEntry            `json:"plan,omitempty"`   // as it was last
	Stop   acp.StopReason             `json:"stop,omitempty"`   // of a turn; empty when it failed
}

var errNoSession = errors.New("no such session")

// store is a directory with one file per session, named by its id. A file is created by one write and then only appended
// to, one write per append; so after a crash at most the last line is torn, and readers leave out lines that are no entries.
type store struct{ dir string }

func (s store) path(id string) string { return filepath.Join(s.dir, id+".jsonl") }

// create writes a new file. fs.ErrExist when the id is taken.
func (s store) create(entries ...entry) error {
	b, err := encode(entries)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	return write(s.path(entries[0].ID), os.O_CREATE|os.O_EXCL, b)
}

// append adds entries to a file. A deleted file stays deleted: errNoSession. torn puts a line break in front, so that what
// follows a torn line is whole.
func (s store) append(id string, torn bool, entries ...entry) error {
	b, err := encode(entries)
	if err != nil {
		return err
	}
	if torn {
		b = append([]byte{'\n'}, b...)
	}
	err = write(s.path(id), os.O_APPEND, b)
	if errors.Is(err, fs.ErrNotExist) {
		return errNoSession
	}
	return err
}

func write(path string, flag int, b []byte) (err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|flag, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	_, err = f.Write(b)
	return err
}

func encode(entries []entry) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	for _, e := range entries {
		if err := enc.Encode(e); err != nil {
			return nil, fmt.Errorf("encode %s: %w", e.Kind, err)
		}
	}
	return b.Bytes(), nil
}

// load reads a file. torn reports that its last line has no end. A file without a head is no session.
func (s store) load(id string) (entries []entry, torn bool, err error) {
	b, err := os.ReadFile(s.path(id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, errNoSession
	}
	if err != nil {
		return nil, false, err
	}
	for line := range bytes.Lines(b) {
		torn = line[len(line)-1] != '\n'
		var e entry
		if json.Unmarshal(line, &e) == nil && e.Kind != "" {
			entries = append(entries, e)
		}
	}
	if len(entries) == 0 || entries[0].Kind != entryHead {
		return nil, false, errNoSession
	}
	return entries, torn, nil
}

// taken reports whether a file has the id.
func (s store) taken(id string) bool {
	_, err := os.Lstat(s.path(id))
	return err == nil
}

// remove deletes a file; one that is not there is fine.
func (s store) remove(id string) error {
	err := os.Remove(s.path(id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// head reads the first line of a file, which says what a list wants to know.
func (s store) head(id string) (entry, error) {
	const maxHead = 64 << 10
	f, err := os.Open(s.path(id))
	if err != nil {
		return entry{}, err
	}
	defer f.Close()
	var room [1024]byte
	b := room[:0]
	for len(b) < maxHead {
		if len(b) == cap(b) {
			b = append(make([]byte, 0, 8*cap(b)), b...)
		}
		n, err := f.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		if i := bytes.IndexByte(b, '\n'); i >= 0 {
			var e entry
			if err := json.Unmarshal(b[:i], &e); err != nil || e.Kind != entryHead {
				return entry{}, errNoSession
			}
			return e, nil
		}
		if errors.Is(err, io.EOF) {
			return entry{}, errNoSession
		}
		if err != nil {
			return entry{}, err
		}
	}
	return entry{}, errNoSession
}

// fillStore writes n example sessions with one turn each in the current directory, a second apart, the last one now.
func fillStore(ctx context.Context, dir string, n int) error {
	cwd, err := os.Getwd()
	if err != nil {
		return err
	}
	s := store{dir}
	now := time.Now().UTC()
	for i := range n {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		at := now.Add(time.Duration(i-n+1) * time.Second)
		text := fmt.Sprintf("Example session %d", i+1)
		id := newUUID()
		err := s.create(
			entry{Kind: entryHead, At: at, ID: id, Cwd: cwd, Title: text},
			entry{Kind: entryUser, At: at, ID: newUUID(), Blocks: []acp.ContentBlock{acp.TextBlock(text)}},
			entry{Kind: entryAgent, At: at, ID: newUUID(), Text: fmt.Sprintf("ECHO[%s] (1 messages in context, 1 user texts)", text)},
			entry{Kind: entryEnd, At: at, Stop: acp.StopReasonEndTurn},
		)
		if err != nil {
			return err
		}
		if err := os.Chtimes(s.path(id), at, at); err != nil {
			return err
		}
	}
	return nil
}
