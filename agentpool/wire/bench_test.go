package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// updateOf is a message chunk with a text that brings it to size bytes.
func updateOf(size int, text string) []byte {
	head := `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"sess_0123456789abcdef","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"`
	tail := `"}}}}`
	n := max(1, (size-len(head)-len(tail))/len(text))
	return []byte(head + strings.Repeat(text, n) + strings.Repeat(".", max(0, size-len(head)-len(tail)-n*len(text))) + tail)
}

func benchFrames() []struct {
	name string
	in   []byte
} {
	return []struct {
		name string
		in   []byte
	}{
		{"200B", updateOf(200, "streamed ")},
		{"4KiB", updateOf(4<<10, "A line of some text.\\n")},
		{"64KiB", updateOf(64<<10, "A line of some text.\\n")},
		{"64KiB-Korean", updateOf(64<<10, "안녕 세상은 ")},
	}
}

func BenchmarkParse(b *testing.B) {
	for _, f := range benchFrames() {
		b.Run(f.name+"/wire", func(b *testing.B) {
			b.SetBytes(int64(len(f.in)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Parse(f.in, Limits{}); err != nil {
					b.Fatal(err)
				}
			}
		})
		// The least that it takes to check a frame with jsontext, without looking for the parts.
		b.Run(f.name+"/jsontext", func(b *testing.B) {
			b.SetBytes(int64(len(f.in)))
			b.ReportAllocs()
			r := bytes.NewReader(nil)
			d := jsontext.NewDecoder(r)
			for b.Loop() {
				r.Reset(f.in)
				d.Reset(r)
				for {
					if _, err := d.ReadToken(); errors.Is(err, io.EOF) {
						break
					} else if err != nil {
						b.Fatal(err)
					}
				}
			}
		})
		b.Run(f.name+"/encoding-json", func(b *testing.B) {
			b.SetBytes(int64(len(f.in)))
			b.ReportAllocs()
			for b.Loop() {
				var m struct {
					ID     json.RawMessage `json:"id"`
					Method string          `json:"method"`
					Params struct {
						SessionID string `json:"sessionId"`
					} `json:"params"`
				}
				if err := json.Unmarshal(f.in, &m); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkSplice(b *testing.B) {
	for _, in := range benchFrames() {
		f, err := Parse(in.in, Limits{})
		if err != nil {
			b.Fatal(err)
		}
		session, member := []byte(`"another-session"`), []byte(`"acpgate":{"session":"s","epoch":1,"seq":1234}`)
		b.Run(in.name, func(b *testing.B) {
			b.SetBytes(int64(len(in.in)))
			b.ReportAllocs()
			var dst []byte
			for b.Loop() {
				meta, _ := f.EditMeta(member)
				dst = Splice(dst[:0], f.Raw, meta, f.EditSession(session))
			}
		})
	}
}

func BenchmarkParseLargeObject(b *testing.B) {
	in := largeObject(100_000)
	b.SetBytes(int64(len(in)))
	for b.Loop() {
		if _, err := Parse(in, Limits{}); err != nil {
			b.Fatal(err)
		}
	}
}

func largeObject(members int) []byte {
	b := []byte(`{"jsonrpc":"2.0","method":"x","params":{"":0`)
	for i := range members {
		b = fmt.Appendf(b, `,"k%06dk":%d`, i, i)
	}
	return append(b, "}}"...)
}

// The names have one length, one first and one last byte. Comparing each with each would take many times the bound, which
// is wide because machines differ.
func TestLargeObjectsAreNotQuadratic(t *testing.T) {
	in := largeObject(200_000)
	start := time.Now()
	if _, err := Parse(in, Limits{}); err != nil {
		t.Fatal(err)
	}
	if d := time.Since(start); d > 3*time.Second {
		t.Errorf("%d bytes took %v", len(in), d)
	}
}

func TestFrameOf32MiB(t *testing.T) {
	in := append(updateOf(32<<20, "0123456789abcde\\n"), "\r\n"...)
	f, err := ParseClient(in, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	out := Splice(nil, f.Raw, f.EditSession([]byte(`"s"`)))
	if want := len(f.Raw) - f.SessionID.End + f.SessionID.Start + 3; len(out) != want || bytes.IndexByte(out, '\n') >= 0 {
		t.Errorf("%d bytes after the splice, want %d", len(out), want)
	}
}

// The path of an update through acpgate, and of a prompt, allocates nothing.
func TestHotPathDoesNotAllocate(t *testing.T) {
	update := updateOf(200, "streamed ")
	prompt := []byte(`{"jsonrpc":"2.0","id":17,"method":"session/prompt","params":{"sessionId":"s1","prompt":[{"type":"text","text":"a\nb"}],"_meta":{"acpgate":{"key":"k"}}}}`)
	response := []byte(`{"jsonrpc":"2.0","id":17,"result":{"stopReason":"end_turn","usage":{"a":1,"b":2,"c":3,"d":4,"e":5,"f":6,"g":7}}}`)
	session, id, member := []byte(`"another"`), []byte("123"), []byte(`"acpgate":{"v":1}`)
	out := make([]byte, 0, 1024)
	for name, run := range map[string]func(){
		"update": func() {
			f, _ := Parse(update, Limits{})
			meta, _ := f.EditMeta(member)
			out = Splice(out[:0], f.Raw, meta, f.EditSession(session))
		},
		"prompt": func() {
			f, _ := ParseClient(prompt, Limits{})
			strip, _ := f.StripGateMeta()
			out = Splice(out[:0], f.Raw, f.EditID(id), strip, f.EditSession(session))
		},
		"response": func() {
			f, _ := Parse(response, Limits{})
			meta, _ := f.EditMeta(member)
			if !Equal(f.StopReason.Of(f.Raw), "end_turn") {
				t.Error("stop reason")
			}
			out = Splice(out[:0], f.Raw, f.EditID(id), meta)
		},
		"lookup": func() {
			if !Lookup(update, "params", "update", "content", "text").Present() {
				t.Error("no text")
			}
		},
		"edits out of order": func() {
			f, _ := Parse(prompt, Limits{})
			out = Splice(out[:0], f.Raw, f.EditSession(session), f.EditID(id))
		},
		"build": func() {
			out = AppendResult(out[:0], id, member)
			out = AppendError(out[:0], id, -32603, "message", nil)
			out = AppendNotification(out[:0], "session/cancel", nil)
			out = AppendRequest(out[:0], id, "session/cancel", nil)
		},
	} {
		if n := testing.AllocsPerRun(100, run); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
