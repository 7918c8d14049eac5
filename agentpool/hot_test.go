package agentpool

import (
	"log/slog"
	"strconv"
	"strings"
	"testing"

	"github.com/acpgate/acpgate/agentpool/wire"
	"github.com/acpgate/acpgate/sessions"
)

// countingSink counts lines.
type countingSink struct{ lines, bytes int }

func (s *countingSink) AgentLine(f *wire.Frame)            { s.lines++; s.bytes += len(f.Raw) }
func (s *countingSink) AgentPause()                        {}
func (s *countingSink) AgentSkipped(int64)                 {}
func (s *countingSink) AgentGone(err *sessions.AgentError) {}

// bareProcess is a process without pipes, for what happens between them.
func bareProcess(sink sessions.Sink, session string) (*process, *handle) {
	p := &process{
		processConfig: processConfig{spec: &Spec{Name: "a"}, stats: &counters{}, log: slog.New(slog.DiscardHandler)},
		in:            newLineQueue(1 << 20),
		mux:           mux{routes: map[string]*route{}, calls: map[uint64]call{}, asks: map[string]ask{}},
	}
	p.turn.L = &p.mu
	p.reader = goroutineID()
	h := &handle{p: p}
	if err := p.bind(h, session, sink); err != nil {
		panic(err)
	}
	return p, h
}

func update(session string, size int) []byte {
	line := chunkLine(session, "")
	return []byte(strings.Replace(line, `"text":""`, `"text":"`+strings.Repeat("x", size-len(line))+`"`, 1))
}

// What is done for every line of an agent allocates nothing; a request takes its id.
func TestHotPathDoesNotAllocate(t *testing.T) {
	sink := &countingSink{}
	p, h := bareProcess(sink, "0195f3c2-7e43-7c3a-9b2a-0f5e6d7c8b9a")
	line := update("0195f3c2-7e43-7c3a-9b2a-0f5e6d7c8b9a", 200)
	p.line(line)
	if sink.bytes != 200 {
		t.Fatalf("%d bytes", sink.bytes)
	}
	if n := testing.AllocsPerRun(100, func() { p.line(line); p.pause() }); n > 0 {
		t.Errorf("an update: %v allocations", n)
	}
	f := frame(t, `{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"sessionId":"handle","prompt":[]}}`)
	edits := []wire.Edit{f.EditSession([]byte(`"binding"`))}
	done := func(sessions.Reply) {}
	var drain []byte
	if n := testing.AllocsPerRun(100, func() {
		if _, err := h.Request(f, edits, done); err != nil {
			t.Fatal(err)
		}
		drain, p.in.pending = p.in.pending, drain[:0]
	}); n > 1 {
		t.Errorf("a request: %v allocations", n)
	}
}

func BenchmarkLine(b *testing.B) {
	for _, size := range []int{200, 4 << 10} {
		b.Run(map[int]string{200: "200B", 4 << 10: "4KiB"}[size], func(b *testing.B) {
			sink := &countingSink{}
			p, _ := bareProcess(sink, "0195f3c2-7e43-7c3a-9b2a-0f5e6d7c8b9a")
			line := update("0195f3c2-7e43-7c3a-9b2a-0f5e6d7c8b9a", size)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				p.line(line)
			}
			if sink.lines < b.N || sink.bytes != sink.lines*size {
				b.Errorf("%d lines of %d", sink.lines, b.N)
			}
		})
	}
}

func BenchmarkRequest(b *testing.B) {
	p, h := bareProcess(&countingSink{}, "s")
	f := frame(b, `{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"sessionId":"handle","prompt":[]}}`)
	edits := []wire.Edit{f.EditSession([]byte(`"binding"`))}
	done := func(sessions.Reply) {}
	b.ReportAllocs()
	for b.Loop() {
		id, err := h.Request(f, edits, done)
		if err != nil {
			b.Fatal(err)
		}
		delete(p.calls, uint64(id))
		p.in.pending = p.in.pending[:0]
	}
}

// BenchmarkPipe is a real agent that writes updates of 200 bytes in blocks, up to the Sink.
func BenchmarkPipe(b *testing.B) {
	h := acquire(b, startPool(b, testConfig(b, fakeSpec("a"))), "a")
	sink := &countingSink{}
	if err := h.Bind("s", sink); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(200)
	prompt(b, h, "s", "burst 1000")
	sink.lines = 0
	b.ResetTimer()
	prompt(b, h, "s", "burst "+strconv.Itoa(b.N))
	if sink.lines != b.N {
		b.Errorf("%d lines of %d", sink.lines, b.N)
	}
}
