package wire

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

// lineOut is one result of Next.
type lineOut struct {
	Text    string
	Skipped int64
}

func readLines(t *testing.T, l *LineReader) ([]lineOut, error) {
	t.Helper()
	var out []lineOut
	for {
		line, skipped, err := l.Next()
		if err != nil {
			if line != nil || skipped != 0 {
				t.Errorf("a line with an error: %q, %d, %v", line, skipped, err)
			}
			return out, err
		}
		out = append(out, lineOut{string(line), skipped})
	}
}

func TestW7_Lines(t *testing.T) {
	long := func(n int) string { return strings.Repeat("x", n) }
	for _, tt := range []struct {
		name, in string
		max      int
		want     []lineOut
	}{
		{"nothing", "", 8, nil},
		{"lines", "a\nbc\n\nd\n", 8, []lineOut{{"a", 0}, {"bc", 0}, {"", 0}, {"d", 0}}},
		{"CR LF", "a\r\n\r\nb\rc\r\r\n", 8, []lineOut{{"a", 0}, {"", 0}, {"b\rc\r", 0}}},
		{"no newline at the end", "a\nb", 8, []lineOut{{"a", 0}, {"b", 0}}},
		{"CR at the end", "a\nb\r", 8, []lineOut{{"a", 0}, {"b", 0}}},
		{"at the limit", long(8) + "\n" + long(8) + "\r\n" + long(8), 8, []lineOut{{long(8), 0}, {long(8), 0}, {long(8), 0}}},
		{"one over", long(9) + "\nb\n", 8, []lineOut{{long(9), 9}, {"b", 0}}},
		{"one over, CR LF", long(9) + "\r\nb", 8, []lineOut{{long(9), 10}, {"b", 0}}},
		{"two over", long(10) + "\nb\n", 8, []lineOut{{long(9), 10}, {"b", 0}}},
		{"far over", "0123456789" + long(100_000) + "\nb\n", 8, []lineOut{{"012345678", 100_010}, {"b", 0}}},
		{"over at the end", "a\n" + long(100), 8, []lineOut{{"a", 0}, {long(9), 100}}},
		{"just over at the end", long(9), 8, []lineOut{{long(9), 9}}},
		{"over twice", long(20) + "\n" + long(30) + "\n" + "c", 8, []lineOut{{long(9), 20}, {long(9), 30}, {"c", 0}}},
		{"prefix", long(5000) + "\n", 4999, []lineOut{{long(4096), 5000}}},
	} {
		for mode, wrap := range readModes() {
			t.Run(tt.name+"/"+mode, func(t *testing.T) {
				got, err := readLines(t, newLineReader(wrap(strings.NewReader(tt.in)), tt.max, 16))
				if err != io.EOF || fmt.Sprint(got) != fmt.Sprint(tt.want) {
					t.Errorf("got  %v, %v\nwant %v", got, err, tt.want)
				}
			})
		}
	}
}

func readModes() map[string]func(io.Reader) io.Reader {
	return map[string]func(io.Reader) io.Reader{
		"whole":        func(r io.Reader) io.Reader { return r },
		"byte by byte": iotest.OneByteReader,
		"halves":       iotest.HalfReader,
		"with EOF":     iotest.DataErrReader,
	}
}

func TestW7_ErrorOfTheReader(t *testing.T) {
	broken := errors.New("broken")
	for _, tt := range []struct {
		in   string
		want []lineOut
	}{
		{"", nil},
		{"a\nb\npart of a line", []lineOut{{"a", 0}, {"b", 0}}},
		{"a\n" + strings.Repeat("x", 100), []lineOut{{"a", 0}}}, // in the middle of a line over the limit
	} {
		l := newLineReader(io.MultiReader(strings.NewReader(tt.in), iotest.ErrReader(broken)), 16, 16)
		got, err := readLines(t, l)
		if err != broken || fmt.Sprint(got) != fmt.Sprint(tt.want) {
			t.Errorf("got %v, %v, want %v", got, err, tt.want)
		}
		if _, _, err := l.Next(); err != broken {
			t.Errorf("after the error: %v", err)
		}
	}
}

type idleReader struct{}

func (idleReader) Read([]byte) (int, error) { return 0, nil }

func TestW7_ReaderWithoutProgress(t *testing.T) {
	if _, _, err := NewLineReader(idleReader{}, 0).Next(); err != io.ErrNoProgress {
		t.Errorf("err = %v", err)
	}
}

func TestBuffered(t *testing.T) {
	r := &chunks{"a\nb\nc", "", "\n\nd", "e\n", "f"}
	l := NewLineReader(r, 0)
	if l.Buffered() {
		t.Error("before the first read")
	}
	for _, want := range []struct {
		line     string
		buffered bool
	}{{"a", true}, {"b", false}, {"c", true}, {"", false}, {"de", false}, {"f", false}} {
		line, _, err := l.Next()
		if string(line) != want.line || err != nil || l.Buffered() != want.buffered {
			t.Errorf("line %q, Buffered %v, %v; want %q, %v", line, l.Buffered(), err, want.line, want.buffered)
		}
	}
}

// chunks is a reader that gives one string a call.
type chunks []string

func (c *chunks) Read(p []byte) (int, error) {
	if len(*c) == 0 {
		return 0, io.EOF
	}
	n := copy(p, (*c)[0])
	if (*c)[0] = (*c)[0][n:]; (*c)[0] == "" {
		*c = (*c)[1:]
	}
	return n, nil
}

// repeat gives n bytes, block again and again, then rest, and checks the LineReader at every read.
type repeat struct {
	block string
	n     int64
	rest  io.Reader
	check func()
}

func (r *repeat) Read(p []byte) (int, error) {
	r.check()
	if r.n == 0 {
		return r.rest.Read(p[:min(len(p), 32<<10)])
	}
	n := copy(p[:min(int64(len(p)), r.n)], r.block)
	r.n -= int64(n)
	return n, nil
}

func TestCase01_LineOver64KiB(t *testing.T) {
	first := updateOf(70_000, "x")
	second := updateOf(200, "after ")
	l := NewLineReader(iotest.HalfReader(bytes.NewReader(bytes.Join([][]byte{first, second, nil}, []byte("\n")))), 0)
	for _, want := range [][]byte{first, second} {
		line, skipped, err := l.Next()
		if !bytes.Equal(line, want) || skipped != 0 || err != nil {
			t.Fatalf("line of %d bytes, skipped %d, %v", len(line), skipped, err)
		}
		if _, err := Parse(line, Limits{}); err != nil {
			t.Error(err)
		}
	}
}

func TestCase02_InitializeResultOf200KB(t *testing.T) {
	in := `{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1,"_meta":{"pad":"` + strings.Repeat("x", 200_000) + `"}}}` + "\r\n"
	line, _, err := NewLineReader(strings.NewReader(in), 0).Next()
	if err != nil {
		t.Fatal(err)
	}
	if f, err := Parse(line, Limits{}); err != nil || f.Kind != Result || f.Meta.End-f.Meta.Start != 200_010 {
		t.Errorf("%v, %v", f.Kind, err)
	}
}

// 1 GiB without a newline would be the same as these 256 MiB: memory stays under the limit and every byte is read once.
func TestCase04_NoNewline(t *testing.T) {
	const limit, total = 1 << 20, 256 << 20
	r := &repeat{block: strings.Repeat("a", 64<<10), n: total, rest: strings.NewReader("\n" + `{"jsonrpc":"2.0","method":"x"}` + "\n")}
	l := NewLineReader(r, limit)
	largest := 0
	r.check = func() { largest = max(largest, len(l.buf)) }
	line, skipped, err := l.Next()
	if string(line) != strings.Repeat("a", PrefixSize) || skipped != total || err != nil {
		t.Fatalf("prefix of %d bytes, skipped %d, %v", len(line), skipped, err)
	}
	if largest > limit+2 {
		t.Errorf("the buffer grew to %d bytes", largest)
	}
	if line, skipped, err = l.Next(); string(line) != `{"jsonrpc":"2.0","method":"x"}` || skipped != 0 || err != nil {
		t.Errorf("after it: %q, %d, %v", line, skipped, err)
	}
}

func TestCase05_RuneSplitOverReads(t *testing.T) {
	in := string(updateOf(0, "한글😀"))
	l := NewLineReader(iotest.OneByteReader(strings.NewReader(in+"\n")), 0)
	line, _, err := l.Next()
	if err != nil {
		t.Fatal(err)
	}
	f, err := Parse(line, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	update := f.Update.Of(f.Raw)
	if text := Lookup(update, "content", "text").Of(update); !Equal(text, "한글😀") {
		t.Errorf("text %s", text)
	}
}

// The buffer is as large as lines need it, while they do.
func TestW7_BufferShrinks(t *testing.T) {
	var in bytes.Buffer
	line := func(n int) { in.WriteString(strings.Repeat("x", n) + "\n") }
	line(10)
	line(3 << 20)
	line(10)
	line(500_000)
	for range linesToShrink + 1 {
		line(10)
		line(50_000)
	}
	r := &repeat{rest: &in}
	l := NewLineReader(r, 0)
	var sizes []int
	r.check = func() {
		if n := len(l.buf); len(sizes) == 0 || sizes[len(sizes)-1] != n {
			sizes = append(sizes, n)
		}
	}
	if _, err := readLines(t, l); err != io.EOF {
		t.Fatal(err)
	}
	var want []int
	for _, kib := range []int{64, 128, 256, 512, 1024, 2048, 4096, 64, 128, 256, 512, 64} {
		want = append(want, kib<<10)
	}
	if fmt.Sprint(sizes) != fmt.Sprint(want) {
		t.Errorf("sizes %v, want %v", sizes, want)
	}
}

// Byte by byte, a long line costs per byte what a short one does: growing and moving are amortised, and no byte is looked
// at twice.
func TestCase04_CostOfAByteIsConstant(t *testing.T) {
	read := func(n int64) time.Duration {
		start := time.Now()
		l := newLineReader(iotest.OneByteReader(&repeat{block: "a", n: n, rest: strings.NewReader("\n"), check: func() {}}), 64<<20, 64)
		if _, skipped, err := l.Next(); skipped != 0 || err != nil {
			t.Fatal(skipped, err)
		}
		return time.Since(start)
	}
	read(100_000)
	short, long := read(100_000), read(3_200_000)
	if long > 32*12*max(short, time.Millisecond) { // quadratic: 1024 times
		t.Errorf("32 times the bytes took %v, not about 32 times %v", long, short)
	}
}

func TestNextDoesNotAllocate(t *testing.T) {
	in := bytes.Repeat(append(updateOf(200, "streamed "), '\n'), 5000)
	l := NewLineReader(bytes.NewReader(in), 0)
	if n := testing.AllocsPerRun(4000, func() {
		if line, _, err := l.Next(); len(line) == 0 || err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestW7_SessionOfPrefix(t *testing.T) {
	long := strings.Repeat("x", PrefixSize)
	for _, tt := range []struct{ in, want string }{
		{`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"x":"` + long, `"s1"`},
		{` { "params" : {"update":{"a":[1,{}],"b":"}"} , "sessi\u006fnId" : "s\"1" ,"y":"` + long, `"s\"1"`},
		{`{"jsonrpc":"2.0","id":1,"result":{"sessionId":"s1","modes":[`, `"s1"`},
		{`{"params":{"sessionId":"s1"`, `"s1"`},
		{`{"params":{"sessionId":"s1`, ""},
		{`{"params":{"sessionId":"s1\"`, ""},
		{`{"params":{"sessionId":`, ""},
		{`{"params":{"sessionId":7,"x":[`, ""},
		{"{\"params\":{\"sessionId\":\"\xff\",", ""},
		{`{"params":{"update":{"sessionId":"no"},"x":"` + long, ""},
		{`{"params":{"update":"` + long, ""},
		{`{"params":[{"sessionId":"no"}`, ""},
		{`{"sessionId":"no","params":{`, ""},
		{`[{"params":{"sessionId":"no"}}]`, ""},
		{`{"error":{"sessionId":"no"}}`, ""},
		{`params {"sessionId":"no"}`, ""},
		{long, ""},
		{"", ""},
	} {
		tok, ok := SessionOfPrefix([]byte(tt.in))
		if string(tok) != tt.want || ok != (tt.want != "") {
			t.Errorf("of %.60s: %s, %v, want %s", tt.in, tok, ok, tt.want)
		}
	}
}

func TestW7_ResponseOfPrefix(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{`{"jsonrpc":"2.0","id":12,"result":{"x":"`, "12"},
		{`{"jsonrpc":"2.0","id":"a\n","error":{`, `"a\n"`},
		{`{"result":[1,2],"id":-1,"x":`, "-1"},
		{`{"result":[1,2],"id":12`, ""}, // may go on
		{`{"id":12,"result":`, ""},
		{`{"id":null,"result":{`, ""},
		{`{"id":{"a":1},"result":{`, ""},
		{"{\"id\":\"\xff\",\"result\":{", ""},
		{`{"result":{"id":12,"x":"`, ""},
		{`{"jsonrpc":"2.0","id":12,"method":"x","params":{"result":"`, ""},
		{`{"jsonrpc":"2.0","id":12,"params":{"x":"`, ""},
		{"", ""},
	} {
		id, ok := ResponseOfPrefix([]byte(tt.in))
		if string(id) != tt.want || ok != (tt.want != "") {
			t.Errorf("of %s: %s, %v, want %s", tt.in, id, ok, tt.want)
		}
	}
}

// FuzzLines compares LineReader, on small buffers and reads of random size, with bufio.
func FuzzLines(f *testing.F) {
	f.Add([]byte("a\r\nbc\n\n"), uint16(1), uint8(16), uint64(1))
	f.Add([]byte("0123456789abcdef0123456789abcdef\nx\r\r\ny"), uint16(30), uint8(1), uint64(2))
	f.Add(bytes.Repeat([]byte("xyz\n"), 200), uint16(3), uint8(200), uint64(3))
	f.Add(append(bytes.Repeat([]byte("x"), 600), '\r', '\n', 'z'), uint16(599), uint8(7), uint64(4))
	f.Fuzz(func(t *testing.T, in []byte, limit uint16, small uint8, seed uint64) {
		maxLine := int(limit) + 1
		r := &randomReader{r: bytes.NewReader(in), rand: rand.New(rand.NewPCG(seed, 0))}
		l := newLineReader(r, maxLine, int(small)+1)
		ref := bufio.NewReader(bytes.NewReader(in))
		at := 0
		for {
			raw, refErr := ref.ReadBytes('\n')
			line, skipped, err := l.Next()
			if refErr == io.EOF && len(raw) == 0 {
				if err != io.EOF {
					t.Fatalf("%q after the end, %v", line, err)
				}
				return
			}
			if err != nil {
				t.Fatalf("%v instead of %q", err, raw)
			}
			at += len(raw)
			raw = bytes.TrimSuffix(raw, []byte("\n"))
			want, wantSkipped := bytes.TrimSuffix(raw, []byte("\r")), int64(0)
			if len(want) > maxLine {
				want, wantSkipped = raw[:min(PrefixSize, maxLine+1)], int64(len(raw))
			}
			if !bytes.Equal(line, want) || skipped != wantSkipped {
				t.Fatalf("%q, skipped %d, want %q, %d", line, skipped, want, wantSkipped)
			}
			if most := max(int(small)+1, maxLine+2, 2*PrefixSize); len(l.buf) > most {
				t.Fatalf("buffer of %d bytes", len(l.buf))
			}
			line = append(line, "must not reach the next line"...)
			_ = line
			if reads := r.reads; l.Buffered() && (r.reads != reads || bytes.IndexByte(in[at:], '\n') < 0) {
				t.Fatal("Buffered says that a line is there")
			}
		}
	})
}

// randomReader reads pieces of random size, some empty, some with io.EOF.
type randomReader struct {
	r     *bytes.Reader
	rand  *rand.Rand
	reads int
}

func (r *randomReader) Read(p []byte) (int, error) {
	r.reads++
	if r.rand.IntN(8) == 0 {
		return 0, nil
	}
	n, err := r.r.Read(p[:1+r.rand.IntN(len(p))])
	if err == nil && r.r.Len() == 0 && r.rand.IntN(2) == 0 {
		err = io.EOF
	}
	return n, err
}
