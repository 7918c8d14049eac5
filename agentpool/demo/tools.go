package demo

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	acp "github.com/coder/acp-go-sdk"
)

const (
	demoFile = "demo.txt"
	// maxDemoFile is how much of a file is shown or carried on, in bytes.
	maxDemoFile = 64 << 10
)

var errRejected = errors.New("rejected")

// toolRun is a tool call of the turn.
type toolRun struct {
	t    *turn
	call acp.SessionUpdateToolCall
}

// beginTool announces a tool call.
func (t *turn) beginTool(kind acp.ToolKind, title string, input any, path string) *toolRun {
	t.flush()
	r := &toolRun{t: t, call: acp.SessionUpdateToolCall{
		ToolCallId: acp.ToolCallId("call-" + newUUID()), Title: title, Kind: kind, Status: acp.ToolCallStatusPending, RawInput: input,
	}}
	if path != "" {
		r.call.Locations = []acp.ToolCallLocation{{Path: path}}
	}
	t.s.update(acp.SessionUpdate{ToolCall: &r.call})
	return r
}

func (r *toolRun) start() {
	r.t.s.update(acp.SessionUpdate{ToolCallUpdate: &acp.SessionToolCallUpdate{
		ToolCallId: r.call.ToolCallId, Status: acp.Ptr(acp.ToolCallStatusInProgress),
	}})
}

// finish reports the outcome of the call and adds it to the history. It returns err if the turn was cancelled: a rejection or a
// file that cannot be written does not end a turn.
func (r *toolRun) finish(err error, content ...acp.ToolCallContent) error {
	r.call.Status = acp.ToolCallStatusCompleted
	if err != nil {
		r.call.Status = acp.ToolCallStatusFailed
		content = append(content, acp.ToolContent(acp.TextBlock(err.Error())))
	}
	r.call.Content = content
	r.t.s.update(acp.SessionUpdate{ToolCallUpdate: &acp.SessionToolCallUpdate{
		ToolCallId: r.call.ToolCallId, Status: &r.call.Status, Content: content,
	}})
	r.t.s.keep(entry{Kind: entryTool, Tool: &r.call})
	if r.t.sleeps.Err() != nil {
		return err
	}
	return nil
}

// runTool is a tool call that asks nobody and changes nothing: TOOL[:kind], default edit.
func (t *turn) runTool(arg string) error {
	kind, err := kindOf("TOOL", arg, acp.ToolKindEdit)
	if err != nil {
		return err
	}
	path := filepath.Join(t.cwd(), "greeting.go")
	r := t.beginTool(kind, toolTitle(kind), map[string]any{"path": path}, path)
	if err := t.pause(10 * t.s.delay()); err != nil {
		return r.finish(err)
	}
	r.start()
	if err := t.pause(10 * t.s.delay()); err != nil {
		return r.finish(err)
	}
	if kind == acp.ToolKindEdit {
		return r.finish(nil, acp.ToolDiffContent(path, sampleAfter, sampleBefore))
	}
	return r.finish(nil, acp.ToolContent(acp.TextBlock(simulated(kind))))
}

// ask is a tool call that wants permission: ASK[:kind], default edit. Edits and deletes really change demo.txt in the
// session's directory; other kinds are simulated.
func (t *turn) ask(arg string) error {
	kind, err := kindOf("ASK", arg, acp.ToolKindEdit)
	if err != nil {
		return err
	}
	path := filepath.Join(t.cwd(), demoFile)
	var (
		content []acp.ToolCallContent
		perform = func() error { return nil }
		input   = map[string]any{"path": path}
	)
	switch kind {
	case acp.ToolKindEdit:
		before, after := t.demoFileEdit()
		if before == nil {
			content = append(content, acp.ToolDiffContent(path, after))
		} else {
			content = append(content, acp.ToolDiffContent(path, after, *before))
		}
		perform = func() error { return t.writeDemoFile(after) }
	case acp.ToolKindDelete:
		perform = t.deleteDemoFile
	case acp.ToolKindExecute:
		input = map[string]any{"command": "echo hello", "cwd": t.cwd()}
		content = append(content, acp.ToolContent(acp.TextBlock(simulated(kind))))
	default:
		content = append(content, acp.ToolContent(acp.TextBlock(simulated(kind))))
	}
	r := t.beginTool(kind, toolTitle(kind), input, path)
	if err := t.permission(r, content); err != nil {
		return r.finish(err)
	}
	r.start()
	if err := t.pause(10 * t.s.delay()); err != nil {
		return r.finish(err)
	}
	return r.finish(perform(), content...)
}

// permission asks for the call, unless the mode or an earlier answer says what would be answered. nil: go on.
func (t *turn) permission(r *toolRun, content []acp.ToolCallContent) error {
	kind := r.call.Kind
	t.s.mu.Lock()
	mode, always := t.s.mode, t.s.always[kind]
	t.s.mu.Unlock()
	changes := slices.Contains([]acp.ToolKind{acp.ToolKindEdit, acp.ToolKindDelete, acp.ToolKindMove, acp.ToolKindExecute}, kind)
	switch {
	case mode == modeReadOnly && changes:
		return fmt.Errorf("%w: the mode is read only", errRejected)
	case mode == modeCode && kind == acp.ToolKindEdit, always == acp.PermissionOptionKindAllowAlways:
		return nil
	case always == acp.PermissionOptionKindRejectAlways:
		return fmt.Errorf("%w for the rest of the session", errRejected)
	}
	var answer acp.RequestPermissionResponse
	err := t.s.a.conn.call(t.sleeps, acp.ClientMethodSessionRequestPermission, acp.RequestPermissionRequest{
		SessionId: acp.SessionId(t.s.id),
		Options: []acp.PermissionOption{
			{OptionId: "allow-once", Name: "Allow", Kind: acp.PermissionOptionKindAllowOnce},
			{OptionId: "allow-always", Name: "Always allow", Kind: acp.PermissionOptionKindAllowAlways},
			{OptionId: "reject-once", Name: "Reject", Kind: acp.PermissionOptionKindRejectOnce},
			{OptionId: "reject-always", Name: "Always reject", Kind: acp.PermissionOptionKindRejectAlways},
		},
		ToolCall: acp.ToolCallUpdate{
			ToolCallId: r.call.ToolCallId, Title: &r.call.Title, Kind: &kind, Status: &r.call.Status,
			Content: content, Locations: r.call.Locations, RawInput: r.call.RawInput,
		},
	}, &answer)
	if err != nil {
		return err
	}
	if answer.Outcome.Selected == nil {
		return fmt.Errorf("%w: nobody decided", errRejected)
	}
	switch answer.Outcome.Selected.OptionId {
	case "allow-once":
		return nil
	case "allow-always":
		t.remember(kind, acp.PermissionOptionKindAllowAlways)
		return nil
	case "reject-always":
		t.remember(kind, acp.PermissionOptionKindRejectAlways)
	}
	return errRejected
}

func (t *turn) remember(kind acp.ToolKind, answer acp.PermissionOptionKind) {
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	t.s.always[kind] = answer
}

func (t *turn) cwd() string {
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	return t.s.cwd
}

// demoFileEdit is demo.txt as it is (nil: not there) and with a line more.
func (t *turn) demoFileEdit() (before *string, after string) {
	line := t.body
	if line == "" {
		line = "Hello from the demo agent."
	}
	text, err := t.readInCwd(demoFile)
	if err != nil {
		return nil, line + "\n"
	}
	return &text, text + line + "\n"
}

func (t *turn) writeDemoFile(text string) error {
	root, err := os.OpenRoot(t.cwd())
	if err != nil {
		return err
	}
	defer root.Close()
	return root.WriteFile(demoFile, []byte(text), 0o644)
}

func (t *turn) deleteDemoFile() error {
	root, err := os.OpenRoot(t.cwd())
	if err != nil {
		return err
	}
	defer root.Close()
	if err := root.Remove(demoFile); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// readFile shows a file of the session's directory: READ[:name], default demo.txt.
func (t *turn) readFile(arg string) error {
	if arg == "" {
		arg = demoFile
	}
	path := filepath.Join(t.cwd(), arg)
	r := t.beginTool(acp.ToolKindRead, "Read "+arg, map[string]any{"path": path}, path)
	r.start()
	text, err := t.readInCwd(arg)
	if err != nil {
		return r.finish(err)
	}
	return r.finish(nil, acp.ToolContent(acp.TextBlock(text)))
}

// readInCwd reads at most maxDemoFile bytes of a regular file that lies in the session's directory.
func (t *turn) readInCwd(name string) (string, error) {
	root, err := os.OpenRoot(t.cwd())
	if err != nil {
		return "", err
	}
	defer root.Close()
	info, err := root.Stat(name)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s is no regular file", name)
	}
	f, err := root.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxDemoFile))
	return strings.ToValidUTF8(string(b), "\uFFFD"), err
}

// kindOf reads the kind of a tool call from a directive's argument.
func kindOf(name, arg string, def acp.ToolKind) (acp.ToolKind, error) {
	kinds := []acp.ToolKind{
		acp.ToolKindRead, acp.ToolKindEdit, acp.ToolKindDelete, acp.ToolKindMove, acp.ToolKindSearch,
		acp.ToolKindExecute, acp.ToolKindThink, acp.ToolKindFetch, acp.ToolKindSwitchMode, acp.ToolKindOther,
	}
	switch {
	case arg == "":
		return def, nil
	case slices.Contains(kinds, acp.ToolKind(arg)):
		return acp.ToolKind(arg), nil
	default:
		return "", badArg(name, arg, fmt.Sprintf("one of %v", kinds))
	}
}

func toolTitle(kind acp.ToolKind) string {
	switch kind {
	case acp.ToolKindEdit:
		return "Edit " + demoFile
	case acp.ToolKindDelete:
		return "Delete " + demoFile
	case acp.ToolKindMove:
		return "Rename " + demoFile
	case acp.ToolKindExecute:
		return "echo hello"
	case acp.ToolKindRead:
		return "Read " + demoFile
	case acp.ToolKindSearch:
		return "Search for hello"
	case acp.ToolKindFetch:
		return "Fetch https://example.com/"
	default:
		return "Tool call of kind " + string(kind)
	}
}

func simulated(kind acp.ToolKind) string {
	if kind == acp.ToolKindExecute {
		return "$ echo hello\nhello\n(simulated: the demo agent runs no commands)"
	}
	return fmt.Sprintf("(simulated: a tool call of kind %s)", kind)
}
