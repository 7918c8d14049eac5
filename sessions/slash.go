package sessions

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"time"
	"unicode"

	"github.com/acpgate/acpgate/agentpool/wire"
	"github.com/acpgate/acpgate/sessions/journal"
)

// command is a slash command of ours (rule V15).
type command struct {
	name, description, hint string
	// moves says that it goes to another session, which waits for no turn and runs in none (rule V7).
	moves bool
	run   func(v *View, t *turn, c Client, arg string) error
}

// commands are the slash commands in the order in which /help lists them.
func commands() []command {
	return []command{
		{name: "sessions", description: "List the sessions of this directory, or of all directories", hint: "[all]", run: (*View).cmdSessions},
		{name: "new", description: "Go on in a new session; this one is kept", hint: "[title]", moves: true, run: (*View).cmdNew},
		{name: "clear", description: "The same as /new", hint: "[title]", moves: true, run: (*View).cmdNew},
		{name: "resume", description: "Switch this conversation to another session", hint: "<id or title>", moves: true, run: (*View).cmdResume},
		{name: "drop", description: "Delete a session, without a reference this one, and go on in a new one", hint: "[id or title]", moves: true, run: (*View).cmdDrop},
		{name: "side", description: "Ask aside: open a side conversation that knows this one and changes nothing", hint: "[question]"},
		{name: "merge", description: "In a side conversation: bring a short note home"},
		{name: "help", description: "Explain the commands of the gateway", run: (*View).cmdHelp},
	}
}

// parseSlash finds a command of ours in a prompt of one text block: its first token. rest is what follows. For a prompt
// that begins with two slashes, escaped is the block for the agent, with one of them (rule V15).
func parseSlash(blocks []json.RawMessage) (cmd *command, rest string, escaped json.RawMessage) {
	if len(blocks) != 1 {
		return nil, "", nil
	}
	b := blocks[0]
	if !wire.Equal(wire.Lookup(b, "type").Of(b), "text") {
		return nil, "", nil
	}
	at := wire.Lookup(b, "text")
	text, err := wire.Unquote(at.Of(b))
	if err != nil || !strings.HasPrefix(text, "/") {
		return nil, "", nil
	}
	if name := firstToken(text[1:]); strings.HasPrefix(name, "/") {
		if find(name[1:]) != nil {
			return nil, "", wire.Splice(nil, b, wire.Edit{Span: at, With: wire.AppendQuote(nil, text[1:])})
		}
		return nil, "", nil
	}
	name := firstToken(text[1:])
	if cmd = find(name); cmd == nil {
		return nil, "", nil
	}
	return cmd, strings.TrimSpace(text[1+len(name):]), nil
}

func firstToken(s string) string {
	if i := strings.IndexFunc(s, unicode.IsSpace); i >= 0 {
		return s[:i]
	}
	return s
}

func find(name string) *command {
	for _, c := range commands() {
		if c.name == name {
			return &c
		}
	}
	return nil
}

// slash runs a command. It never reaches the agent. Under mu.
func (v *View) slash(t *turn, a *Attachment, cmd *command, rest string, blocks []json.RawMessage) error {
	if cmd.moves && (v.turn != nil || v.waking) {
		return errTurnRunning()
	}
	t.slash = true
	switch cmd.name {
	case "side":
		v.cmdSide(t, a, rest)
		return nil
	case "merge":
		return v.cmdMerge(t)
	}
	v.saveKey(t)
	v.journal.Append(journal.Prompt, time.Now(), mustJSON(journal.PromptData{
		Turn: t.id, Key: t.key, By: t.by, View: v.handle, Content: blocks[0],
	}))
	return cmd.run(v, t, a.c, rest)
}

// report is the one message that a command answers with. Under mu.
func (v *View) report(text string) { v.say("report", text) }

// answer ends a command that needs no other session. Under mu.
func (v *View) answerCommand(t *turn, text string, err error) {
	if err != nil {
		v.endTurn(t, nil, AsError(err).Object())
		return
	}
	v.report(text)
	v.endTurn(t, []byte(`{"stopReason":"end_turn"}`), nil)
}

func (v *View) cmdHelp(t *turn, _ Client, _ string) error {
	var sb strings.Builder
	sb.WriteString("Commands of the gateway:\n")
	for _, c := range commands() {
		fmt.Fprintf(&sb, "\n- `/%s` %s", strings.TrimSpace(c.name+" "+c.hint), c.description)
	}
	sb.WriteString("\n\nA reference is a session's id, the first four or more characters of it, or its title. `//name` sends a command of the agent that has one of these names.")
	v.answerCommand(t, sb.String(), nil)
	return nil
}

func (v *View) cmdSessions(t *turn, c Client, arg string) error {
	if arg != "" && arg != "all" {
		return errParams("/sessions takes nothing or all", "send /sessions or /sessions all")
	}
	cwd := v.cwd
	if arg == "all" {
		cwd = ""
	}
	v.m.spawn(func(ctx context.Context) {
		rows, err := v.m.rows(ctx, c, cwd)
		v.mu.Lock()
		defer v.mu.Unlock()
		v.answerCommand(t, v.listing(rows, cwd), err)
	})
	return nil
}

// maxListing is how many sessions /sessions names.
const maxListing = 50

// listing is the answer of /sessions. Under mu.
func (v *View) listing(rows []Row, cwd string) string {
	where := " in " + cwd
	if cwd == "" {
		where = ""
	}
	if len(rows) == 0 {
		return "No sessions" + where + " yet. A session is listed from its first prompt on."
	}
	var sb strings.Builder
	fmt.Fprintf(&sb, "%s%s:\n", plural(len(rows), "session"), where)
	for i, r := range rows {
		if i == maxListing {
			fmt.Fprintf(&sb, "\n- … and %d more", len(rows)-i)
			break
		}
		mark := ""
		if r.SessionID == v.bound.Load().id {
			mark = " (here)"
		}
		title := oneLine(r.Title)
		if title == "" {
			title = "untitled"
		}
		fmt.Fprintf(&sb, "\n- `%s` %s%s", clip(r.SessionID, 64), title, mark)
		if cwd == "" {
			sb.WriteString(" in " + oneLine(r.Cwd))
		}
		if !r.at.IsZero() {
			sb.WriteString(", " + r.at.UTC().Format("2006-01-02 15:04"))
		}
	}
	sb.WriteString("\n\n`/resume` with an id or a title goes there.")
	return sb.String()
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// oneLine makes a foreign text safe for a line of ours.
func oneLine(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, s)
	return clip(strings.TrimSpace(s), 120)
}

func (v *View) cmdNew(t *turn, _ Client, title string) error {
	return v.begin(&move{
		turn: t,
		open: func(ctx context.Context) (*session, error) { return v.m.fresh(ctx, v) },
		report: func(v *View, _ int) string {
			if title == "" {
				return "A new session; nothing was said in it yet. The one before is kept."
			}
			v.rename(title)
			return "A new session, “" + oneLine(title) + "”; nothing was said in it yet. The one before is kept."
		},
	})
}

// rename gives the view's session a title of ours. Under mu.
func (v *View) rename(title string) {
	title = oneLine(title)
	b := append([]byte(`{"sessionId":`), v.bound.Load().tok...)
	b = append(append(append(b, `,"update":`...), mustJSON(map[string]string{"sessionUpdate": "session_info_update", "title": title})...), '}')
	line := mustFrame(wire.AppendNotification(nil, "session/update", b))
	v.snap.take(v.session, line)
	v.journal.Append(journal.Update, time.Now(), line.Raw)
}

func (v *View) cmdResume(t *turn, c Client, ref string) error {
	if ref == "" {
		return errParams("/resume needs a session", "send /resume and an id or a title; /sessions lists them")
	}
	return v.begin(&move{
		turn: t,
		open: func(ctx context.Context) (*session, error) {
			r, err := v.m.find(ctx, v, c, ref)
			if err != nil {
				return nil, err
			}
			return v.goTo(ctx, c, r)
		},
		report: func(v *View, n int) string { return "Switched to " + v.describe(n) + "." },
	})
}

// goTo returns the session of a row for the view. It is refused while another view is bound to it.
func (v *View) goTo(ctx context.Context, c Client, r Row) (*session, error) {
	v.mu.Lock()
	params := paramsFor(v.openParams, r.SessionID)
	v.mu.Unlock()
	// A view that sleeps in the store has its session like any other.
	if _, err := v.m.restoreView(ctx, c, r.SessionID); err != nil {
		return nil, err
	}
	s, err := v.m.acquire(ctx, sessKey(c, r.SessionID), mustFrame(wire.AppendRequest(nil, []byte("0"), "session/load", params)), r.Cwd)
	if err != nil {
		return nil, err
	}
	v.m.reopenClosed(s)
	s.mu.Lock()
	s.listed = r.Title
	s.mu.Unlock()
	return s, nil
}

func (v *View) cmdDrop(t *turn, c Client, ref string) error {
	if ref == "" {
		return v.begin(&move{
			turn: t, discard: true,
			open:   func(ctx context.Context) (*session, error) { return v.m.fresh(ctx, v) },
			report: func(*View, int) string { return "The session was deleted. A new one; nothing was said in it yet." },
		})
	}
	if v.turn != nil {
		return errTurnRunning()
	}
	here := v.bound.Load().id
	v.turn, t.started, t.sess = t, time.Now(), v.session // nothing rebinds meanwhile
	v.stateChanged()
	v.m.spawn(func(ctx context.Context) {
		r, err := v.m.find(ctx, v, c, ref)
		if err == nil && r.SessionID == here {
			v.mu.Lock()
			defer v.mu.Unlock()
			v.turn = nil
			if err := v.cmdDrop(t, c, ""); err != nil {
				v.endTurn(t, nil, AsError(err).Object())
			}
			return
		}
		if err == nil {
			_, err = v.m.restoreView(ctx, c, r.SessionID) // one that sleeps in the store has its session like any other
		}
		if err == nil {
			if s := v.m.session(sessKey(c, r.SessionID)); s != nil {
				s.mu.Lock()
				if s.view != nil {
					err = errInUse(s.view)
				}
				s.mu.Unlock()
			}
		}
		if err == nil {
			err = v.m.deleteID(ctx, sessKey(c, r.SessionID))
		}
		v.mu.Lock()
		defer v.mu.Unlock()
		v.answerCommand(t, "Deleted "+rowName(r)+".", err)
	})
	return nil
}

func rowName(r Row) string {
	if r.Title == "" {
		return "session " + clip(r.SessionID, 64)
	}
	return "“" + oneLine(r.Title) + "” (" + clip(r.SessionID, 8) + ")"
}

// find resolves a reference (rule V15): an exact id anywhere, else an unambiguous prefix of one in the view's directory, else
// a title there.
func (m *Manager) find(ctx context.Context, v *View, c Client, ref string) (Row, error) {
	rows, err := m.rows(ctx, c, "")
	if err != nil {
		return Row{}, err
	}
	v.mu.Lock()
	cwd := v.cwd
	v.mu.Unlock()
	var byPrefix, byTitle, elsewhere []Row
	want := strings.ToLower(strings.TrimSpace(ref))
	for _, r := range rows {
		if r.SessionID == ref {
			if r.Cwd != "" && filepath.Clean(r.Cwd) != cwd {
				return Row{}, errOtherDir(r)
			}
			return r, nil
		}
		title := strings.ToLower(strings.TrimSpace(r.Title)) == want
		prefix := len(ref) >= 4 && strings.HasPrefix(r.SessionID, ref)
		switch {
		case r.Cwd != "" && filepath.Clean(r.Cwd) != cwd:
			if title || prefix {
				elsewhere = append(elsewhere, r)
			}
		case prefix:
			byPrefix = append(byPrefix, r)
		case title:
			byTitle = append(byTitle, r)
		}
	}
	if len(byPrefix) == 0 {
		byPrefix = byTitle
	}
	switch {
	case len(byPrefix) == 1:
		return byPrefix[0], nil
	case len(byPrefix) > 1:
		return Row{}, errAmbiguous(ref, byPrefix)
	case len(elsewhere) > 0:
		return Row{}, errOtherDir(elsewhere[0])
	}
	if s := m.session(sessKey(c, ref)); s != nil {
		return Row{SessionID: ref, Cwd: s.cwd}, nil // not listed yet: it never had a prompt
	}
	e := errNotFound(ref)
	e.Hint = "/sessions lists what there is here, /sessions all what there is anywhere"
	return Row{}, e
}

func errOtherDir(r Row) *Error {
	return &Error{
		Code: CodeInvalidParams, Reason: "other_directory", Message: rowName(r) + " belongs to " + oneLine(r.Cwd),
		Hint: "open that directory and resume it there", Data: mustJSON(map[string]string{"cwd": r.Cwd}),
	}
}

func errAmbiguous(ref string, rows []Row) *Error {
	var ids, names []string
	for i, r := range rows {
		ids = append(ids, r.SessionID)
		if i < 10 {
			names = append(names, clip(r.SessionID, 64)+" "+oneLine(r.Title))
		}
	}
	return &Error{
		Code: CodeInvalidParams, Reason: "ambiguous", Message: fmt.Sprintf("%q names %d sessions: %s", clip(ref, 80), len(rows), strings.Join(names, "; ")),
		Hint: "use the whole id", Data: mustJSON(map[string]any{"candidates": ids}),
	}
}
