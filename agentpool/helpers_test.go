package agentpool

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/acpgate/acpgate/agentpool/wire"
	"github.com/acpgate/acpgate/sessions"
)

const user = "tester"

// fakeSpec is an agent that runs fakeAgent with args.
func fakeSpec(name string, args ...string) Spec {
	return Spec{Name: name, Command: testBinary(), Args: append([]string{"agent"}, args...), StartTimeout: 20 * time.Second}
}

func shellSpec(name, script string) Spec {
	return Spec{Name: name, Command: "sh", Args: []string{"-c", script}, StartTimeout: 20 * time.Second}
}

func testBinary() string {
	exe, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return exe
}

// testConfig is a config with short waits.
func testConfig(t testing.TB, specs ...Spec) Config {
	t.Helper()
	return Config{
		Specs: specs, Supervisor: []string{testBinary(), "supervise"}, Logger: slog.New(slog.DiscardHandler),
		Roots: []string{t.TempDir()}, StateDir: t.TempDir(), EnvAllow: []string{"GORACE"},
		CloseWait: 300 * time.Millisecond, TermWait: 300 * time.Millisecond,
		RestartMin: 50 * time.Millisecond, RestartMax: 400 * time.Millisecond, RestartWait: 200 * time.Millisecond,
	}
}

// startPool makes a pool that ends with the test.
func startPool(t testing.TB, cfg Config) *Pool {
	t.Helper()
	p, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := p.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return p
}

func testContext(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func acquire(t testing.TB, p *Pool, agent string) sessions.Agent {
	t.Helper()
	h, err := p.Acquire(testContext(t), user, agent, "")
	if err != nil {
		t.Fatalf("Acquire: %v%s", err, details(err))
	}
	t.Cleanup(h.Release)
	return h
}

func details(err error) string {
	if e := asAgentError(err, "", ""); e.Stderr != "" {
		return "\nstderr: " + e.Stderr
	}
	return ""
}

// frame parses a message of the test.
func frame(t testing.TB, raw string) *wire.Frame {
	t.Helper()
	f, err := wire.Parse([]byte(raw), wire.Limits{})
	if err != nil {
		t.Fatalf("frame %s: %v", raw, err)
	}
	return &f
}

// outcome is a Reply that outlives its callback.
type outcome struct {
	raw string
	err error
}

func send(t testing.TB, h sessions.Agent, method, params string) (<-chan outcome, sessions.CallID) {
	t.Helper()
	got := make(chan outcome, 2)
	id, err := h.Request(frame(t, fmt.Sprintf(`{"jsonrpc":"2.0","id":"c","method":%q,"params":%s}`, method, params)), nil,
		func(r sessions.Reply) {
			o := outcome{err: r.Err}
			if r.Frame != nil {
				o.raw = string(r.Frame.Raw)
			}
			got <- o
		})
	if err != nil {
		t.Fatalf("%s: %v", method, err)
	}
	return got, id
}

// await fails the test when nothing comes.
func await[T any](t testing.TB, what string, ch <-chan T) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(20 * time.Second):
		t.Fatalf("%s did not come", what)
		panic("unreachable")
	}
}

// request sends a request and returns the raw result.
func request(t testing.TB, h sessions.Agent, method, params string) string {
	t.Helper()
	ch, _ := send(t, h, method, params)
	o := await(t, "the answer to "+method, ch)
	if o.err != nil {
		t.Fatalf("%s: %v%s", method, o.err, details(o.err))
	}
	f := frame(t, o.raw)
	if f.Kind != wire.Result {
		t.Fatalf("%s: %s", method, o.raw)
	}
	return string(f.Result.Of(f.Raw))
}

// open makes a session and binds a recorder to it.
func open(t testing.TB, h sessions.Agent) (string, *recorder) {
	t.Helper()
	result := request(t, h, "session/new", `{"cwd":"/","mcpServers":[]}`)
	var r struct {
		SessionID string `json:"sessionId"`
	}
	if err := json.Unmarshal([]byte(result), &r); err != nil {
		t.Fatal(err)
	}
	rec := newRecorder()
	if err := h.Bind(r.SessionID, rec); err != nil {
		t.Fatal(err)
	}
	return r.SessionID, rec
}

func promptParams(session string, commands ...string) string {
	text, err := json.Marshal(strings.Join(commands, "\n"))
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf(`{"sessionId":%q,"prompt":[{"type":"text","text":%s}]}`, session, text)
}

func prompt(t testing.TB, h sessions.Agent, session string, commands ...string) {
	t.Helper()
	request(t, h, "session/prompt", promptParams(session, commands...))
}

// recorder is a Sink that keeps everything, as text: lines, "skipped N" and "gone REASON".
type recorder struct {
	mu     sync.Mutex
	events []string
	more   chan struct{}
	onLine func(f *wire.Frame)
	pauses []int // number of events at each AgentPause
}

func newRecorder() *recorder { return &recorder{more: make(chan struct{}, 1)} }

func (r *recorder) add(s string) {
	r.mu.Lock()
	r.events = append(r.events, s)
	r.mu.Unlock()
	select {
	case r.more <- struct{}{}:
	default:
	}
}

func (r *recorder) AgentLine(f *wire.Frame) {
	if r.onLine != nil {
		r.onLine(f)
	}
	r.add(string(f.Raw))
}

func (r *recorder) AgentPause() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pauses = append(r.pauses, len(r.events))
}

func (r *recorder) AgentSkipped(n int64)               { r.add("skipped " + strconv.FormatInt(n, 10)) }
func (r *recorder) AgentGone(err *sessions.AgentError) { r.add("gone " + err.Reason) }

func (r *recorder) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.events...)
}

// waitFor waits until the recorder has n events and returns all.
func (r *recorder) waitFor(t testing.TB, n int) []string {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for {
		if all := r.all(); len(all) >= n {
			return all
		}
		select {
		case <-r.more:
		case <-deadline:
			t.Fatalf("only %d of %d events: %q", len(r.all()), n, r.all())
		}
	}
}

// text returns the text of a chunk, "" for anything else.
func text(raw string) string {
	var m struct {
		Params struct {
			Update struct {
				Content struct {
					Text string `json:"text"`
				} `json:"content"`
			} `json:"update"`
		} `json:"params"`
	}
	if json.Unmarshal([]byte(raw), &m) != nil {
		return ""
	}
	return m.Params.Update.Content.Text
}

func texts(raws []string) []string {
	out := make([]string, len(raws))
	for i, raw := range raws {
		out[i] = text(raw)
	}
	return out
}

// eventually waits for a condition.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("%s: not within 20 s", what)
}

// countStarts returns how many processes wrote into the file of -starts.
func countStarts(t testing.TB, file string) int {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.Count(string(b), "\n")
}

func startsFile(t testing.TB) string { return filepath.Join(t.TempDir(), "starts") }

func textLogger(w io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }
