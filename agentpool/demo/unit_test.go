package demo

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestWords_JoinToTheText(t *testing.T) {
	for text, n := range map[string]int{"": 0, "a": 1, " a": 1, "a b": 2, "a  b\n\nc ": 3, "한글 😀\t": 2, " \n ": 1} {
		got := words(text)
		if strings.Join(got, "") != text || len(got) != n {
			t.Errorf("%q: %q", text, got)
		}
	}
}

func TestTitle_IsTheFirstLineAndShort(t *testing.T) {
	for text, want := range map[string]string{
		"":                         "Untitled",
		"\n \n  fix \t the bug \n": "fix the bug",
		strings.Repeat("é", 60):    strings.Repeat("é", 60),
		strings.Repeat("é", 61):    strings.Repeat("é", 59) + "…",
	} {
		if got := titleOf(text); got != want || utf8.RuneCountInString(got) > 60 {
			t.Errorf("%q: %q", text, got)
		}
	}
}

func TestUUID_CanonicalOnly(t *testing.T) {
	id := newUUID()
	if canonicalUUID(id) != id || canonicalUUID(strings.ToUpper(id)) != id || id[14] != '4' {
		t.Error(id)
	}
	for _, s := range []string{"", "x", strings.ReplaceAll(id, "-", ""), "{" + id + "}", id[:35] + "/", id + "0", "../" + id[3:]} {
		if got := canonicalUUID(s); got != "" {
			t.Errorf("%q: %q", s, got)
		}
	}
}

func TestCase01_LinesAreReadWholeAndTooLongOnesSkipped(t *testing.T) {
	long := strings.Repeat("x", 70_000)
	r := newLineReader(io.MultiReader(
		strings.NewReader(long+"\nshort\n"), io.LimitReader(zeros{}, maxLine), strings.NewReader("end\nafter\nno newline"),
	))
	for _, want := range []string{long, "short"} {
		if got, err := r.next(); err != nil || string(got) != want {
			t.Fatalf("%d bytes, %v", len(got), err)
		}
	}
	if _, err := r.next(); !errors.Is(err, errLineTooLong) {
		t.Fatal(err)
	}
	if got, err := r.next(); err != nil || string(got) != "after" {
		t.Fatalf("%q %v", got, err)
	}
	if _, err := r.next(); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestMain_RefusesBadFlags(t *testing.T) {
	for _, args := range [][]string{
		{"--nope"}, {"extra"}, {"--delay", "-1s", "--dir", "/x"}, {"--dir", "relative"}, {"--name", "", "--dir", "/x"}, {"--script", "/no/such"},
	} {
		var stderr bytes.Buffer
		if code := Main(context.Background(), args, strings.NewReader(""), io.Discard, &stderr); code != exitUsage || stderr.Len() == 0 {
			t.Errorf("%v: exit %d, %q", args, code, stderr.String())
		}
	}
	var help bytes.Buffer
	if code := Main(context.Background(), []string{"--help"}, strings.NewReader(""), io.Discard, &help); code != exitOK || !strings.Contains(help.String(), "-no-fork") {
		t.Errorf("exit %d, %q", code, help.String())
	}
}

func TestMain_AStdoutThatBreaksEndsTheAgent(t *testing.T) {
	inR, inW := io.Pipe()
	defer inW.Close()
	defer inR.Close()
	code := make(chan int)
	go func() {
		code <- Main(context.Background(), []string{"--dir", t.TempDir()}, inR, broken{}, io.Discard)
	}()
	if _, err := io.WriteString(inW, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}`+"\n"); err != nil {
		t.Fatal(err)
	}
	if c := <-code; c != exitFailed {
		t.Errorf("exit %d", c)
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestMain_EndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	inR, inW := io.Pipe()
	defer inW.Close()
	cancel()
	if c := Main(ctx, []string{"--dir", t.TempDir()}, inR, io.Discard, io.Discard); c != exitOK {
		t.Errorf("exit %d", c)
	}
}
