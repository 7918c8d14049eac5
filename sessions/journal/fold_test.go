package journal_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/acpgate/acpgate/sessions/journal"
)

func chunk(kind, message, text string) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":%q,%s"content":{"type":"text","text":%q}}}}`, kind, message, text)
}

// A message of any length takes a bounded part of the memory, with its beginning, its end, and how much is missing.
func TestBounds_TextOfOneEntry(t *testing.T) {
	f := journal.NewFold(journal.FoldLimits{})
	const part = "0123456789 한글 "
	total := 0
	for i := range 150_000 {
		text := fmt.Sprintf("%s%d|", part, i)
		total += len(text)
		f.Add(journal.Event{Seq: uint64(i + 1), Type: journal.Update, Data: chunk("agent_message_chunk", "", text)})
	}
	entries, _, _ := f.Entries()
	if len(entries) != 1 {
		t.Fatalf("%d entries", len(entries))
	}
	text := string(entries[0].Text)
	if len(text) >= 1<<20 || len(text) < 512<<10 {
		t.Errorf("%d bytes of %d are kept", len(text), total)
	}
	head, rest, ok := strings.Cut(text, "\n… ")
	count, tail, ok2 := strings.Cut(rest, " bytes left out …\n")
	var omitted int
	if _, err := fmt.Sscan(count, &omitted); !ok || !ok2 || err != nil || strings.Contains(tail, "left out") {
		t.Fatalf("no line that says what is left out: %q, %v", count, err)
	}
	if omitted+len(head)+len(tail) != total {
		t.Errorf("%d are left out, %d and %d are there, %d were said", omitted, len(head), len(tail), total)
	}
	if !strings.HasPrefix(head, part+"0|") || !strings.HasSuffix(tail, part+"149999|") || strings.ToValidUTF8(text, "") != text {
		t.Error("the beginning or the end is not what was said")
	}
}

// Chunks join by kind and messageId, however that is written.
func TestFold_MessagesJoinByID(t *testing.T) {
	f := journal.NewFold(journal.FoldLimits{})
	for i, c := range [][3]string{
		{"agent_message_chunk", `"messageId":"a",`, "1"},
		{"agent_message_chunk", `"messageId":"\u0061",`, "2"},
		{"agent_message_chunk", "", "3"},
		{"agent_message_chunk", `"messageId":"",`, "4"},
		{"agent_message_chunk", `"messageId":7,`, "5"},
		{"agent_message_chunk", `"messageId":"b",`, "6"},
		{"agent_thought_chunk", `"messageId":"b",`, "7"},
	} {
		f.Add(journal.Event{Seq: uint64(i + 1), Type: journal.Update, Data: chunk(c[0], c[1], c[2])})
	}
	entries, _, _ := f.Entries()
	var got []string
	for _, e := range entries {
		got = append(got, string(e.Kind)+" "+string(e.Text))
	}
	if want := "agent 12345, agent 6, thought 7"; strings.Join(got, ", ") != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// BenchmarkFold is what a long session pays for every update once its journal is full.
func BenchmarkFold(b *testing.B) {
	for _, size := range []int{60, 4000} {
		b.Run(fmt.Sprintf("text of %d", size), func(b *testing.B) {
			f := journal.NewFold(journal.FoldLimits{})
			e := journal.Event{Type: journal.Update, Data: chunk("agent_message_chunk", `"messageId":"0195f3c2-7e43-7c3a-9b2a-0f5e6d7c8b9a",`, strings.Repeat("x", size))}
			b.SetBytes(int64(len(e.Data)))
			b.ReportAllocs()
			for b.Loop() {
				e.Seq++
				f.Add(e)
			}
		})
	}
}
