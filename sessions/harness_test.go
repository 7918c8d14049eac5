package sessions_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"github.com/acpgate/acpgate/agentpool/agenttest"
	"github.com/acpgate/acpgate/agentpool/wire"
	"github.com/acpgate/acpgate/sessions"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bench is a manager over in-memory agents, inside a synctest bubble: after settle nothing moves any more.
type bench struct {
	*testing.T
	agents  *agenttest.Agents
	m       *sessions.Manager
	store   *memStore      // nil on a real store
	real    sessions.Store // nil on the one in memory
	link    *storeLink     // of the manager that runs now
	crashed []*sessions.Manager
	cfg     sessions.Config
	dir     string
	n       int
}

func (b *bench) start() {
	b.Helper()
	cfg := b.cfg
	switch {
	case b.real != nil:
		b.link = &storeLink{Store: b.real}
		cfg.Store = b.link
	case b.store != nil:
		b.link = &storeLink{Store: b.store}
		cfg.Store = b.link
	}
	m, err := sessions.NewManager(cfg)
	if err != nil {
		b.Fatal(err)
	}
	b.m = m
}

func (b *bench) stop() {
	b.Helper()
	if err := b.m.Close(context.Background()); err != nil {
		b.Error(err)
	}
}

// restart ends the manager in good order and starts another on the same store.
func (b *bench) restart() {
	b.Helper()
	b.stop()
	for _, p := range b.agents.Processes() {
		if p.Gone() == nil {
			p.Signal("terminated")
		}
	}
	b.start()
}

// scenario runs f in a bubble with a manager of cfg.
func scenario(t *testing.T, profile agenttest.Profile, cfg sessions.Config, f func(b *bench)) {
	t.Helper()
	dir := t.TempDir()
	real := realStore(t)
	synctest.Test(t, func(t *testing.T) {
		b := &bench{T: t, dir: dir, real: real, agents: agenttest.New(t, agenttest.Config{Profiles: []agenttest.Profile{profile}})}
		cfg.Agents, cfg.Roots = b.agents, []string{dir}
		if real == nil && cfg.Store == nil {
			b.store = newMemStore()
		}
		b.cfg = cfg
		b.start()
		defer func() {
			b.stop()
			for _, m := range b.crashed {
				_ = m.Close(context.Background()) // fenced off: it may complain
			}
			b.agents.Close()
		}()
		f(b)
	})
}

// crash takes the gateway away without a word, and its agents with it (rule T5), and starts another on the same store.
func (b *bench) crash() {
	b.Helper()
	synctest.Wait()
	b.crashed = append(b.crashed, b.m)
	b.link.cut()
	for _, p := range b.agents.Processes() {
		if p.Gone() == nil {
			p.Signal("killed")
		}
	}
	b.start()
}

// client is a connection that takes what it is given when the test settles.
type client struct {
	b     *bench
	id    string
	user  string
	feats sessions.Features

	mu      sync.Mutex
	woken   []*sessions.Attachment
	dropped map[*sessions.Attachment]error
	frames  []string
	notes   []string
	budget  int // frames that Out takes before it is full; 0 is no limit
	next    int
}

func (b *bench) client(feats sessions.Features) *client {
	b.n++
	return &client{b: b, id: fmt.Sprintf("conn-%d", b.n), user: "local", feats: feats, dropped: map[*sessions.Attachment]error{}}
}

func (b *bench) plain() *client { return b.client(sessions.Features{}) }
func (b *bench) optedIn() *client {
	return b.client(sessions.Features{OptedIn: true, ElicitForm: true, ElicitURL: true})
}

func (c *client) ID() string                  { return c.id }
func (c *client) Principal() string           { return c.user }
func (c *client) Agent() string               { return "fake" }
func (c *client) Features() sessions.Features { return c.feats }

func (c *client) Wake(a *sessions.Attachment) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.woken = append(c.woken, a)
}

func (c *client) Drop(a *sessions.Attachment, cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dropped[a] = cause
}

func (c *client) Notify(b []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.notes = append(c.notes, string(b))
}

func (c *client) Frame(b []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.frames = append(c.frames, string(b))
	c.budget--
	return c.budget != 0
}

func (c *client) Reply(_, b []byte) bool { return c.Frame(b) }

// settle waits until nothing moves and takes what is ready.
func (c *client) settle() {
	for {
		synctest.Wait()
		c.mu.Lock()
		woken := c.woken
		c.woken = nil
		c.mu.Unlock()
		if len(woken) == 0 {
			return
		}
		for _, a := range woken {
			for a.Pull(c) {
			}
		}
	}
}

// take settles and returns the frames that came since the last take.
func (c *client) take() []string {
	c.settle()
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.frames
	c.frames = nil
	return f
}

func (c *client) frame(method, params string) (*wire.Frame, string) {
	c.next++
	id := fmt.Sprintf(`"%s-%d"`, c.id, c.next)
	f, err := wire.ParseClient(wire.AppendRequest(nil, []byte(id), method, []byte(params)), wire.Limits{})
	if err != nil {
		c.b.Fatalf("%s %s: %v", method, params, err)
	}
	return &f, id
}

// tryOpen opens a session; the pulled frames wait for take.
func (c *client) tryOpen(method, params string) (*sessions.Attachment, error) {
	f, _ := c.frame(method, params)
	a, err := c.b.m.Open(context.Background(), c, f)
	if err != nil {
		return nil, err
	}
	for a.Pull(c) {
	}
	return a, nil
}

func (c *client) open(method, params string) *sessions.Attachment {
	c.b.Helper()
	a, err := c.tryOpen(method, params)
	if err != nil {
		c.b.Fatalf("%s: %v", method, err)
	}
	return a
}

// newSession opens a session and forgets what came with it.
func (c *client) newSession() *sessions.Attachment {
	c.b.Helper()
	a := c.open("session/new", fmt.Sprintf(`{"cwd":%q,"mcpServers":[]}`, c.b.dir))
	c.take()
	return a
}

func (c *client) load(session string) *sessions.Attachment {
	c.b.Helper()
	return c.open("session/load", fmt.Sprintf(`{"sessionId":%q,"cwd":%q,"mcpServers":[]}`, session, c.b.dir))
}

func (c *client) resume(session, meta string) *sessions.Attachment {
	c.b.Helper()
	return c.open("session/resume", fmt.Sprintf(`{"sessionId":%q,"cwd":%q,"mcpServers":[],"_meta":{"acpgate":%s}}`, session, c.b.dir, meta))
}

// send makes a request and returns its raw id.
func (c *client) send(a *sessions.Attachment, method, members string) string {
	c.b.Helper()
	id, err := c.try(a, method, members)
	if err != nil {
		c.b.Fatalf("%s: %v", method, err)
	}
	return id
}

func (c *client) try(a *sessions.Attachment, method, members string) (string, error) {
	params := fmt.Sprintf(`{"sessionId":%q%s}`, a.Handle(), comma(members))
	f, id := c.frame(method, params)
	return id, a.Request(f)
}

func comma(s string) string {
	if s == "" {
		return ""
	}
	return "," + s
}

func text(s string) string { return fmt.Sprintf(`"prompt":[{"type":"text","text":%q}]`, s) }

func (c *client) prompt(a *sessions.Attachment, s string) string {
	c.b.Helper()
	return c.send(a, "session/prompt", text(s))
}

func (c *client) cancel(a *sessions.Attachment) {
	f, err := wire.ParseClient(wire.AppendNotification(nil, "session/cancel", fmt.Appendf(nil, `{"sessionId":%q}`, a.Handle())), wire.Limits{})
	if err != nil {
		c.b.Fatal(err)
	}
	a.Notify(&f)
}

func (c *client) answer(id, result string) bool {
	f, err := wire.ParseClient(wire.AppendResult(nil, []byte(id), []byte(result)), wire.Limits{})
	if err != nil {
		c.b.Fatal(err)
	}
	return c.b.m.Answer(c, &f)
}

// message is a decoded frame.
type message struct {
	ID     json.RawMessage
	Method string
	Params struct {
		SessionID string
		State     string
		RequestID json.RawMessage
		Update    struct {
			SessionUpdate string
			MessageID     string
			CurrentModeID string
			Content       content
		}
		Turn, LastTurn *struct{ Turn, Key, StopReason string }
		Queue          []struct{ Turn, Text string }
		Requests       []struct{ ID int64 }
		Answered       *struct {
			ID          int64
			By, Outcome string
		}
		ForceStop *struct{ OtherSessions int }
		Meta      struct{ Acpgate meta } `json:"_meta"`
	}
	Result *struct {
		StopReason    string
		OtherSessions int
		Modes         struct{ CurrentModeID string }
		Meta          struct{ Acpgate meta } `json:"_meta"`
	}
	Error *struct {
		Code    int
		Message string
		Data    map[string]any
	}
}

type meta struct {
	Session    string
	Epoch, Seq uint64
	Replay     bool
	Kind       string
	Turn, Key  string
	View       string
	Binding    string
	Resync     string
	Cursor     struct {
		Session    string
		Epoch, Seq uint64
	}
}

// content is a content block; that of a tool call, a list, is left empty.
type content struct{ Text string }

func (c *content) UnmarshalJSON(b []byte) error {
	if b[0] != '{' {
		return nil
	}
	var x struct{ Text string }
	err := json.Unmarshal(b, &x)
	c.Text = x.Text
	return err
}

func decode(t testing.TB, s string) message {
	t.Helper()
	var m message
	if err := json.Unmarshal([]byte(s), &m); err != nil {
		t.Fatalf("frame %s: %v", s, err)
	}
	return m
}

// brief says what a client saw, one word or two a frame, without state frames and command lists.
func brief(t testing.TB, frames []string) string {
	t.Helper()
	var keep []string
	for _, s := range frames {
		if decode(t, s).Params.Update.SessionUpdate != "available_commands_update" {
			keep = append(keep, s)
		}
	}
	return briefAll(t, keep)
}

// briefAll is brief with the command lists.
func briefAll(t testing.TB, frames []string) string {
	t.Helper()
	var out []string
	for _, s := range frames {
		m := decode(t, s)
		u := m.Params.Update
		switch {
		case m.Method == "_acpgate/state":
		case u.SessionUpdate == "agent_message_chunk" || u.SessionUpdate == "user_message_chunk":
			who := map[bool]string{true: "agent", false: "user"}[u.SessionUpdate[0] == 'a']
			if k := m.Params.Meta.Acpgate.Kind; k == "notice" || k == "report" {
				who = k
			}
			out = append(out, who+":"+u.Content.Text)
		case u.SessionUpdate != "":
			out = append(out, u.SessionUpdate)
		case m.Method != "" && m.ID != nil:
			out = append(out, "ask:"+m.Method)
		case m.Method != "":
			out = append(out, m.Method)
		case m.Error != nil:
			out = append(out, fmt.Sprintf("error:%d:%v", m.Error.Code, m.Error.Data["reason"]))
		case m.Result != nil && m.Result.StopReason != "":
			out = append(out, "stop:"+m.Result.StopReason)
		default:
			out = append(out, "result")
		}
	}
	return strings.Join(out, " ")
}

func (c *client) expect(want string) {
	c.b.Helper()
	got := brief(c.b, c.take())
	if got != want {
		c.b.Errorf("%s saw\n  %s\nwant\n  %s", c.id, got, want)
	}
}

// states returns the state frames among frames.
func states(t testing.TB, frames []string) []message {
	t.Helper()
	var out []message
	for _, s := range frames {
		if m := decode(t, s); m.Method == "_acpgate/state" {
			out = append(out, m)
		}
	}
	return out
}

// asked returns the raw id of the first request of the agent among frames.
func asked(t testing.TB, frames []string) string {
	t.Helper()
	for _, s := range frames {
		if m := decode(t, s); m.Method != "" && m.ID != nil {
			return string(m.ID)
		}
	}
	t.Fatalf("no request of the agent in %q", frames)
	return ""
}

func wantError(t testing.TB, err error, code int, reason string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want %d %s", code, reason)
	}
	e := sessions.AsError(err)
	if e.Raw != nil {
		var o struct{ Code int }
		if json.Unmarshal(e.Raw, &o) == nil {
			e.Code = o.Code
		}
	}
	if e.Code != code || e.Reason != reason {
		t.Errorf("error %d %q (%v), want %d %q", e.Code, e.Reason, err, code, reason)
	}
}

// count is how many lines with the method reached the agent.
func count(p *agenttest.Process, method string) int {
	n := 0
	for _, m := range p.Methods() {
		if m == method {
			n++
		}
	}
	return n
}

func synctestWait() { synctest.Wait() }

func mkdir(t testing.TB, dir, name string) string {
	t.Helper()
	p := filepath.Join(dir, name)
	if err := os.Mkdir(p, 0o700); err != nil {
		t.Fatal(err)
	}
	return p
}

func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // strings always marshal
	}
	return b
}
