package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

// updates is what a contender has to pass on: updates 1 to n of a session.
func updates(session string, n, size int) (out [][]byte) {
	prefix, suffix := updateLine(session, countDigits, size)
	for i := range n {
		out = append(out, fmt.Appendf(nil, "%s%0*d%s", prefix, countDigits, i+1, suffix))
	}
	return out
}

// A benchmark that does not notice a fault would reward it.
func TestCheckerFindsEveryFault(t *testing.T) {
	good := updates("bench-000001", 5, smallUpdate)
	if len(good[0]) != smallUpdate {
		t.Fatalf("an update has %d bytes", len(good[0]))
	}
	for name, change := range map[string]func([][]byte) [][]byte{
		"":                    func(u [][]byte) [][]byte { return u },
		"one is missing":      func(u [][]byte) [][]byte { return slices.Delete(u, 2, 3) },
		"the last is missing": func(u [][]byte) [][]byte { return u[:4] },
		"one comes twice":     func(u [][]byte) [][]byte { return slices.Insert(u, 2, u[1]) },
		"two are swapped":     func(u [][]byte) [][]byte { u[1], u[2] = u[2], u[1]; return u },
		"a byte is lost":      func(u [][]byte) [][]byte { u[3] = u[3][1:]; return u },
		"a byte is changed":   func(u [][]byte) [][]byte { u[3][150] ^= 1; return u },
		"another session":     func(u [][]byte) [][]byte { u[3] = updates("bench-000002", 4, smallUpdate)[3]; return u },
		"a number is none": func(u [][]byte) [][]byte {
			u[3] = bytes.Replace(u[3], []byte("000000004"), []byte("00000000x"), 1)
			return u
		},
	} {
		c := newChecker("bench-000001", false, smallUpdate)
		var err error
		for _, u := range change(updates("bench-000001", 5, smallUpdate)) {
			err = errors.Join(err, c.take(u))
		}
		if err = errors.Join(err, c.done(5)); (err == nil) != (name == "") {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestCheckerTakesTimes(t *testing.T) {
	prefix, suffix := updateLine("bench-000001", countDigits+stampDigits, smallUpdate)
	c := newChecker("bench-000001", true, smallUpdate)
	if err := c.take(fmt.Appendf(nil, "%s%0*d%d%s", prefix, countDigits, 1, time.Now().Add(-time.Second).UnixNano(), suffix)); err != nil {
		t.Fatal(err)
	}
	if d := c.latencies[0]; d < time.Second || d > 2*time.Second {
		t.Errorf("%v since a second ago", d)
	}
}

func TestCheckerTakesJoinedTexts(t *testing.T) {
	_, suffix := updateLine("bench-000001", countDigits, smallUpdate)
	pad, _, _ := strings.Cut(suffix, `"`)
	var text string
	for i := range 5 {
		text += fmt.Sprintf("%0*d%s", countDigits, i+1, pad)
	}
	frame := func(text string) []byte {
		b, err := json.Marshal(map[string]any{"params": map[string]any{"update": map[string]any{"content": map[string]any{"text": text}}}})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	c := newChecker("bench-000001", false, smallUpdate)
	if err := errors.Join(c.takeJoined(frame(text)), c.done(5)); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{text[1:], text + "x", strings.Replace(text, "000000003", "000000004", 1)} {
		if newChecker("bench-000001", false, smallUpdate).takeJoined(frame(bad)) == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

// script is the reading side of a connection.
type script struct {
	net.Conn
	io.Reader
	out bytes.Buffer
}

func (s *script) Read(b []byte) (int, error)  { return s.Reader.Read(b) }
func (s *script) Write(b []byte) (int, error) { return s.out.Write(b) }

func TestSocketReadsFrames(t *testing.T) {
	sizes := []int{0, 1, 125, 126, 127, 65535, 65536, 300_000}
	var raw []byte
	for _, n := range sizes {
		raw = append(raw, opPing, 2, 'h', 'i')
		switch {
		case n < len16:
			raw = append(raw, opText, byte(n))
		case n < 1<<16:
			raw = append(raw, opText, len16, byte(n>>8), byte(n))
		default:
			raw = append(raw, opText, len64, 0, 0, 0, 0, byte(n>>24), byte(n>>16), byte(n>>8), byte(n))
		}
		raw = append(raw, bytes.Repeat([]byte{'x'}, n)...)
	}
	raw = append(raw, opClose, 8, 0x03, 0xF5, 'r', 'e', 's', 'y', 'n', 'c')
	for name, r := range map[string]io.Reader{"whole": bytes.NewReader(raw), "byte by byte": iotest.OneByteReader(bytes.NewReader(raw))} {
		nc := &script{Reader: r}
		s := &socket{nc: nc, in: newWindow(nc)}
		for _, n := range sizes {
			frame, err := s.next()
			if err != nil || string(frame) != strings.Repeat("x", n) {
				t.Fatalf("%s: a frame of %d bytes came as %d, %v", name, n, len(frame), err)
			}
		}
		var closed closeError
		if _, err := s.next(); !errors.As(err, &closed) || closed != (closeError{1013, "resync"}) {
			t.Errorf("%s: the end is %v", name, err)
		}
		if pong := []byte{opPong, maskBit | 2, 0, 0, 0, 0, 'h', 'i'}; !bytes.Equal(nc.out.Bytes(), bytes.Repeat(pong, len(sizes))) {
			t.Errorf("%s: the answers to pings are %x", name, nc.out.Bytes())
		}
	}
}

func TestTable(t *testing.T) {
	samples := map[string][]sample{
		naive:  {{"rate": 100}, {"rate": 200}, {"rate": 300}},
		memory: {{"rate": 250}, {"rate": 360}, {"rate": 900}},
	}
	f := show("updates/s", "rate", plain, samples).against(memory, "rate", bound{of: naive, atLeast: 2}, samples)
	if f.reached != "memory: 2.50 x (1.80 to 3.00)" || !f.met {
		t.Errorf("%+v", f)
	}
	if f = f.atMost(memory, 300, "ms"); f.met || f.reached != "memory: 360 ms" {
		t.Errorf("%+v", f)
	}
	f.row = "line"
	var b bytes.Buffer
	printTable(&b, []figure{f})
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	if len(lines) != 3 || len(lines[0]) != len(lines[2]) || !strings.Contains(lines[2], "| 200   |") || !strings.Contains(lines[2], "missed") {
		t.Errorf("the table is\n%s", b.String())
	}
	for x, want := range map[float64]string{0: "0", 0.01234: "0.012", 1.234: "1.23", 12.34: "12.3", 1234.5: "1234", 123456: "123456"} {
		if got := number(x); got != want {
			t.Errorf("%v is written %s, not %s", x, got, want)
		}
	}
}
