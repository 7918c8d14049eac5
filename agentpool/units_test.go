package agentpool

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/acpgate/acpgate/sessions"
)

func TestRing(t *testing.T) {
	r := newRing(10)
	write := func(s string) {
		if n, err := r.Write([]byte(s)); n != len(s) || err != nil {
			t.Fatal(n, err)
		}
	}
	check := func(n int, want string) {
		t.Helper()
		if got := r.Tail(n); got != want {
			t.Errorf("Tail(%d) = %q, want %q", n, got, want)
		}
	}
	check(5, "")
	write("abc")
	check(5, "abc")
	check(2, "bc")
	write("\ndef\n")
	check(8, "abc\ndef\n")
	check(6, "def\n") // not from the middle of a line
	write("ghijk")    // 13 bytes: "\ndef\nghijk" is left
	check(100, "def\nghijk")
	write(strings.Repeat("x", 25))
	check(100, strings.Repeat("x", 10))
	write("12\n")
	check(4, "x12\n")
	if len(r.buf) > 10 {
		t.Errorf("it grew to %d", len(r.buf))
	}
}

// stuckWriter blocks until it is released.
type stuckWriter struct {
	started, release chan bool
	got              strings.Builder
	err              error
	closed           bool
}

func (w *stuckWriter) Write(p []byte) (int, error) {
	w.started <- true
	<-w.release
	w.got.Write(p)
	return len(p), w.err
}

func (w *stuckWriter) Close() error {
	w.closed = true
	return nil
}

func TestW6_QueueIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newLineQueue(10)
		w := &stuckWriter{started: make(chan bool), release: make(chan bool)}
		done := make(chan bool)
		go func() {
			q.run(w)
			done <- true
		}()
		if err := q.add([]byte("longer than the limit")); err != nil {
			t.Fatalf("an empty queue takes any line: %v", err)
		}
		<-w.started
		if err := q.add([]byte("a")); !errors.Is(err, errQueueFull) {
			t.Errorf("what is being written counts: %v", err)
		}
		w.release <- true
		synctest.Wait()
		for _, line := range []string{"ab", "c\nd", "e\r\nf"} { // 3 + 4 + 5 bytes with their line ends
			if err := q.add([]byte(line)); err != nil && line != "e\r\nf" {
				t.Errorf("%q: %v", line, err)
			}
		}
		<-w.started
		w.release <- true
		synctest.Wait()
		if err := q.add([]byte("last")); err != nil {
			t.Error(err)
		}
		q.close()
		if err := q.add([]byte("x")); !errors.Is(err, errQueueClosed) {
			t.Errorf("a closed queue: %v", err)
		}
		for isDone := false; !isDone; {
			select {
			case <-w.started:
				w.release <- true
			case isDone = <-done:
			}
		}
		if got := w.got.String(); !strings.HasPrefix(got, "longer than the limit\nab\nc d\n") || !strings.HasSuffix(got, "last\n") || !w.closed {
			t.Errorf("wrote %q, closed %t", got, w.closed)
		}
		if q.waiting() != 0 {
			t.Errorf("%d bytes wait", q.waiting())
		}
	})
}

func TestQueueEndsWhenTheWriterFails(t *testing.T) {
	q := newLineQueue(1000)
	w := &stuckWriter{started: make(chan bool, 1), release: make(chan bool, 1), err: io.ErrClosedPipe}
	w.release <- true
	if err := q.add([]byte("x")); err != nil {
		t.Fatal(err)
	}
	q.run(w)
	if err := q.add([]byte("y")); !errors.Is(err, errQueueClosed) || q.waiting() != 0 {
		t.Errorf("after a failed write: %v, %d bytes wait", err, q.waiting())
	}
	q.close()
}

// Lines that wait together leave in one write.
func TestQueueBatches(t *testing.T) {
	q := newLineQueue(1 << 20)
	for i := range 100 {
		if err := q.add(fmt.Append(nil, i)); err != nil {
			t.Fatal(err)
		}
	}
	q.close()
	w := &stuckWriter{started: make(chan bool, 100), release: make(chan bool, 100)}
	w.release <- true
	q.run(w)
	if len(w.started) != 1 || strings.Count(w.got.String(), "\n") != 100 {
		t.Errorf("%d writes", len(w.started))
	}
}

func TestT5_RestartBackoff(t *testing.T) {
	now := time.Unix(1000, 0)
	fail := &sessions.AgentError{Reason: reasonStartFailed}
	r := &restart{min: time.Second, max: time.Minute, stable: time.Minute, breakerAfter: 8}
	if r.wait(now) != 0 || !r.isIdle(now) {
		t.Error("a fresh one waits")
	}
	for i, want := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60, 60} {
		r.failed(now, fail)
		if got := r.wait(now); got != want*time.Second {
			t.Errorf("failure %d: wait %v", i+1, got)
		}
		if r.isOpen() != (i >= 7) {
			t.Errorf("failure %d: open %t", i+1, r.isOpen())
		}
		now = now.Add(r.wait(now))
	}
	if r.wait(now) != 0 || !r.isOpen() {
		t.Error("the breaker lets one try through after the wait")
	}
	r.started()
	if r.isOpen() || r.wait(now) != 0 {
		t.Error("a start closes the breaker")
	}
	r.ended(now, time.Second, true, fail)
	if got := r.wait(now); got != time.Minute {
		t.Errorf("a crash right after: wait %v", got)
	}
	r.started()
	r.ended(now, 2*time.Minute, true, fail)
	if got := r.wait(now); got != time.Second {
		t.Errorf("a crash after a stable run: wait %v", got)
	}
	r.started()
	r.ended(now, 2*time.Minute, false, nil)
	if !r.isIdle(now) {
		t.Errorf("a planned end after a stable run leaves %+v", r)
	}
	for range 100 {
		r.failed(now, fail)
	}
	if got := r.wait(now); got != time.Minute {
		t.Errorf("after 100: %v", got)
	}
	tight := &restart{min: time.Second, max: 4 * time.Second, stable: time.Minute, breakerAfter: 2}
	tight.failed(now, fail)
	tight.failed(now, fail)
	if got := tight.wait(now); got != 4*time.Second {
		t.Errorf("an open breaker waits for the longest time, not %v", got)
	}
}

func TestReadInfo(t *testing.T) {
	spec := &Spec{Name: "n", FS: FSGateway}
	info, err := readInfo(spec, []byte(`{"protocolVersion":1.0,"agentInfo":{"name":"x","title":"","version":"1"},"agentCapabilities":{"loadSession":true,`+
		`"promptCapabilities":{"embeddedContext":true,"image":false},"auth":{"logout":{}},`+
		`"sessionCapabilities":{"list":{},"resume":null,"fork":false,"close":true,"delete":{"x":1}}},"unknown":[1]}`))
	if err != nil {
		t.Fatal(err)
	}
	if info.Title != "x" || !info.LoadSession || !info.List || info.Resume || info.Fork || !info.Close || !info.Delete || !info.EmbeddedContext ||
		!info.Logout || !info.GatewayFS {
		t.Errorf("info %+v", info)
	}
	for title, c := range map[string]struct {
		spec   Spec
		result string
	}{
		"T": {Spec{Name: "n"}, `{"agentInfo":{"title":"T","name":"x"}}`},
		"S": {Spec{Name: "n", Title: "S"}, `{"protocolVersion":1,"agentInfo":{"title":"T"}}`},
		"n": {Spec{Name: "n"}, `{"agentInfo":null}`},
	} {
		if info, err := readInfo(&c.spec, []byte(c.result)); err != nil || info.Title != title {
			t.Errorf("%s: %+v, %v", title, info, err)
		}
	}
	for _, bad := range []string{`null`, `[]`, `"x"`, `{"protocolVersion":2}`, `{"protocolVersion":"1"}`, `{"protocolVersion":0}`} {
		if info, err := readInfo(spec, []byte(bad)); err == nil {
			t.Errorf("%s: accepted as %+v", bad, info)
		}
	}
}

// What an agent is offered must be what DESIGN W8 says: files by configuration, never a terminal.
func TestW8_WhatAgentsAreOffered(t *testing.T) {
	want := `{"protocolVersion":1,"clientCapabilities":{"fs":{"readTextFile":false,"writeTextFile":false},"terminal":false,` +
		`"auth":{"terminal":true},"elicitation":{"form":{},"url":{}}},"clientInfo":{"name":"acpgate","title":"acpgate","version":"1\""}}`
	if got := string(initializeParams(&Spec{}, `1"`)); got != want {
		t.Error(got)
	}
	want = strings.ReplaceAll(want, "File\":false", "File\":true")
	if got := string(initializeParams(&Spec{FS: FSGateway}, `1"`)); got != want {
		t.Error(got)
	}
}
