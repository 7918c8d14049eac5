package agentpool

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/acpgate/acpgate/agentpool/wire"
	"github.com/acpgate/acpgate/sessions"
)

func TestCase01_LongLinesPass(t *testing.T) {
	t.Parallel()
	h := acquire(t, startPool(t, testConfig(t, fakeSpec("a"))), "a")
	s, rec := open(t, h)
	prompt(t, h, s, "fill 70000", "chunk after", "fill 5000000", "chunk end")
	want := []string{strings.Repeat("x", 70_000), "after", strings.Repeat("x", 5_000_000), "end"}
	for i, got := range rec.waitFor(t, 4) {
		if got != chunkLine(s, want[i]) {
			t.Errorf("line %d: %d bytes, want %d", i, len(got), len(chunkLine(s, want[i])))
		}
	}
}

func TestCase02_LargeInitializeResult(t *testing.T) {
	t.Parallel()
	pad := strings.Repeat("p", 100_000) // an argument cannot be longer than 128 KiB
	result := `{"protocolVersion":1,"_meta":{"pad":"` + pad + `","n":12345678901234567890},"agentCapabilities":{"loadSession":true}}`
	info, err := startPool(t, testConfig(t, fakeSpec("a", "-init", result))).Describe(testContext(t), user, "a")
	if err != nil {
		t.Fatal(err)
	}
	if string(info.Result) != result || !info.LoadSession || info.List {
		t.Errorf("info %+v", info)
	}
}

func TestCase04_EndlessLineIsBounded(t *testing.T) {
	t.Parallel()
	spec := fakeSpec("a")
	spec.LineLimit = 1 << 20
	p := startPool(t, testConfig(t, spec))
	h := acquire(t, p, "a")
	s, rec := open(t, h)
	ch, _ := send(t, h, "session/prompt", promptParams(s, "blob 100000000", "raw ", "chunk after"))
	if got := rec.waitFor(t, 1); text(got[0]) != "after" {
		t.Errorf("got %q", got)
	}
	await(t, "the answer", ch)
	if n := p.Stats().SkippedBytes; n != 100_000_000 {
		t.Errorf("skipped %d bytes", n)
	}
}

func TestW7_SkippedLineIsReported(t *testing.T) {
	t.Parallel()
	spec := fakeSpec("a")
	spec.LineLimit = minLineLimit
	p := startPool(t, testConfig(t, spec))
	h, other := acquire(t, p, "a"), acquire(t, p, "a")
	s, rec := open(t, h)
	s2, rec2 := open(t, other)
	prompt(t, h, s, "fill 100000", "chunk after", "update "+s2)
	got := rec.waitFor(t, 2)
	if want := fmt.Sprintf("skipped %d", len(chunkLine(s, strings.Repeat("x", 100_000)))); got[0] != want || text(got[1]) != "after" {
		t.Errorf("got %q, want %s", got, want)
	}
	if got := rec2.waitFor(t, 1); text(got[0]) != "for "+s2 {
		t.Errorf("the other session got %q", got)
	}

	// A response over the limit ends its call, and a request over the limit is answered: nobody waits for what is lost.
	ch, id := send(t, h, "session/prompt", promptParams(s, "open"))
	prompt(t, h, s, fmt.Sprintf(`raw {"jsonrpc":"2.0","id":%d,"result":{"x":"%s"}}`, id, strings.Repeat("y", 100_000)))
	if o := await(t, "the answer", ch); !strings.Contains(o.raw, "line_limit") || frame(t, o.raw).Kind != wire.Failure {
		t.Errorf("got %+v", o)
	}
	rec.waitFor(t, 2)
	prompt(t, h, s, fmt.Sprintf(`raw {"jsonrpc":"2.0","id":"big","method":"fs/write_text_file","params":{"x":"%s"}}`, strings.Repeat("y", 100_000)),
		"echo")
	if got := rec.waitFor(t, 3); !strings.Contains(text(got[2]), `"id":"big","error":{"code":-32600`) {
		t.Errorf("got %q", got[2])
	}
}

func TestCase05_SplitCharacters(t *testing.T) {
	t.Parallel()
	h := acquire(t, startPool(t, testConfig(t, fakeSpec("a"))), "a")
	s, rec := open(t, h)
	line := chunkLine(s, "한글😀")
	prompt(t, h, s, "bytes "+line, "bytes "+chunkLine(s, "next"))
	if got := rec.waitFor(t, 2); got[0] != line || text(got[1]) != "next" {
		t.Errorf("got %q", got)
	}
}

func TestCase06_NoiseOnStdout(t *testing.T) {
	t.Parallel()
	p := startPool(t, testConfig(t, fakeSpec("a", "-preamble", "Running migration 3...\n\x1b[2K\x1b[1GLoaded cached credentials.\n{\"a\":1}")))
	h := acquire(t, p, "a")
	s, rec := open(t, h)
	prompt(t, h, s, "raw {", "raw null", `raw [{"jsonrpc":"2.0","method":"x"}]`, `raw {"jsonrpc":"2.0","id":1}`,
		`raw {"jsonrpc":"2.0","method":"session/update"}`, `raw {"jsonrpc":"2.0","method":"session/update","params":{"sessionId":5,"update":{}}}`, "chunk real")
	if got := rec.waitFor(t, 1); text(got[0]) != "real" {
		t.Errorf("got %q", got)
	}
	if n := p.Stats().NoiseLines; n != 9 {
		t.Errorf("%d noise lines", n)
	}
	if kept := h.(*handle).p.noise.Tail(1000); !strings.HasPrefix(kept, "Running migration 3...\n\x1b[2K\x1b[1GLoaded cached credentials.\n") {
		t.Errorf("kept %q", kept)
	}
}

func TestCase07_NoiseIsBounded(t *testing.T) {
	t.Parallel()
	p := startPool(t, testConfig(t, fakeSpec("a")))
	h := acquire(t, p, "a")
	s, _ := open(t, h)
	commands := make([]string, 200)
	for i := range commands {
		commands[i] = fmt.Sprintf("raw noise %d %s", i, strings.Repeat("n", 1000))
	}
	prompt(t, h, s, commands...)
	kept := h.(*handle).p.noise.Tail(1 << 20)
	if len(kept) > noiseRing || !strings.Contains(kept, "noise 199 ") || p.Stats().NoiseLines != 200 {
		t.Errorf("kept %d bytes", len(kept))
	}
}

func TestCase09_StderrIsDrained(t *testing.T) {
	t.Parallel()
	p := startPool(t, testConfig(t, fakeSpec("a")))
	h := acquire(t, p, "a")
	s, _ := open(t, h)
	prompt(t, h, s, "stderr 1000000")
	eventually(t, "all of stderr", func() bool { return p.Stats().StderrBytes == 1_000_000 })
}

func TestCase10_StderrIsBounded(t *testing.T) {
	t.Parallel()
	var log syncBuffer
	cfg := testConfig(t, fakeSpec("a"))
	cfg.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	p := startPool(t, cfg)
	h := acquire(t, p, "a")
	s, _ := open(t, h)
	prompt(t, h, s, "stderr 80000000")
	eventually(t, "all of stderr", func() bool { return p.Stats().StderrBytes == 80_000_000 })
	if n := len(h.(*handle).p.stderr.Tail(1 << 20)); n > stderrRing {
		t.Errorf("kept %d bytes", n)
	}
	if n := len(log.String()); n > 100_000 {
		t.Errorf("logged %d bytes", n)
	}
}

func TestT7_StderrTextIsNotLoggedAtInfo(t *testing.T) {
	t.Parallel()
	var log syncBuffer
	cfg := testConfig(t, shellSpec("a", "echo secret-token >&2; exec "+testBinary()+" agent"))
	cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	p := startPool(t, cfg)
	h := acquire(t, p, "a")
	eventually(t, "the summary", func() bool { return strings.Contains(log.String(), "agent wrote to stderr") })
	if strings.Contains(log.String(), "secret") {
		t.Error(log.String())
	}
	if tail := h.(*handle).p.stderr.Tail(100); tail != "secret-token\n" {
		t.Errorf("kept %q", tail)
	}
}

// syncBuffer is a buffer for a logger.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func TestW3_OneFrameIsOneLine(t *testing.T) {
	t.Parallel()
	h := acquire(t, startPool(t, testConfig(t, fakeSpec("a"))), "a")
	got := make(chan string, 1)
	_, err := h.Request(frame(t, "{\"jsonrpc\":\"2.0\",\n\"id\" :\r\n 1,\"method\":\"test/echo\",\"params\":{\n\"s\":\"a\\nb\"}}"), nil,
		func(r sessions.Reply) { got <- string(r.Frame.Raw) })
	if err != nil {
		t.Fatal(err)
	}
	want, _ := json.Marshal("{\"jsonrpc\":\"2.0\", \"id\" :   2,\"method\":\"test/echo\",\"params\":{ \"s\":\"a\\nb\"}}\n")
	if g := await(t, "the answer", got); !strings.Contains(g, string(want)) {
		t.Errorf("the agent read %s, want %s", g, want)
	}
}
