package demo

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func scriptFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func play(t *testing.T, text string) *client {
	t.Helper()
	return start(t, "--script", scriptFile(t, text))
}

// rest reads all lines to the end of the script, which must come.
func (c *client) rest() []string {
	c.t.Helper()
	var out []string
	for {
		line, ok := c.line()
		if !ok {
			return out
		}
		out = append(out, line)
	}
}

func wantLines(t *testing.T, got []string, want ...string) {
	t.Helper()
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestScript_ExpectsAndAnswersVerbatim(t *testing.T) {
	c := play(t, `
# the handshake
expect initialize
send {"jsonrpc":"2.0","id":${id},"result":{"protocolVersion":1,"odd":  [1]}}
expect session/new as new
expect session/prompt
send {"late":${new.id},"cwd":"${new.cwd}","id":${id},"s":"${session}","text":"${text}","m":"${method}","$$":"$"}
exit 4
`)
	c.write(`{"jsonrpc":"2.0","id":"a\"b","method":"initialize","params":{}}`)
	c.write(`{"jsonrpc":"2.0","id":7,"method":"session/prompt","params":{"sessionId":"s\u0031","prompt":[{"type":"text","text":"q\"\n"}]}}`)
	c.write(`{"jsonrpc":"2.0","id":0,"method":"session/new","params":{"cwd":"/w","mcpServers":[]}}`)
	wantLines(t, c.rest(), `{"jsonrpc":"2.0","id":"a\"b","result":{"protocolVersion":1,"odd":  [1]}}`,
		`{"late":0,"cwd":"/w","id":7,"s":"s\u0031","text":"q\"\n","m":"session/prompt","$":"$"}`)
	if code := c.exit(); code != 4 {
		t.Errorf("exit %d", code)
	}
}

func TestScript_ReactionsRunSideBySide(t *testing.T) {
	c := play(t, `
answer session/new {"sessionId":"s${n}"}
on session/prompt
  expect go
  send {"id":${id}}
  send after ${n}
end
on session/prompt2
  send first ${n}
end
expect last
exit 0
`)
	c.write(`{"id":1,"method":"session/new"}`)
	c.write(`{"id":2,"method":"session/new"}`)
	wantLines(t, []string{first(c), first(c)}, `{"jsonrpc":"2.0","id":1,"result":{"sessionId":"s1"}}`, `{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s2"}}`)
	c.write(`{"id":3,"method":"session/prompt"}`)
	c.write(`{"id":4,"method":"session/prompt2"}`)
	wantLines(t, []string{first(c)}, "first 1") // while the other one waits
	c.write(`{"method":"go"}`)
	wantLines(t, []string{first(c), first(c)}, `{"id":}`, "after 1") // the last message captured is "go"
	c.write(`{"id":5,"method":"last"}`)
	if code := c.exit(); code != 0 {
		t.Errorf("exit %d", code)
	}
}

func first(c *client) string {
	c.t.Helper()
	line, _ := c.line()
	return line
}

func TestScript_RequestsOfTheAgent(t *testing.T) {
	c := play(t, `
send {"jsonrpc":"2.0","id":99,"method":"session/request_permission","params":{}}
expect-response 99 as perm
send ${perm.result}
expect-response "x"
send ${error}
exit 0
`)
	first(c)
	c.write(`{"jsonrpc":"2.0","id":"x","error":{"code":-1}}`)
	c.write(`{"jsonrpc":"2.0","id":99,"result":{"outcome":1}}`)
	wantLines(t, c.rest(), `{"outcome":1}`, `{"code":-1}`)
}

func TestCase05_BytewiseWritesAndNoise(t *testing.T) {
	c := play(t, `
write "\x1b[2K\x1b[1GLoaded cached credentials.\n"
send Running migration 3...
bytes 100us {"text":"한글😀"}
write "no newline"
write " yet\n\x00\xff\n"
close-stdout
expect-eof
`)
	wantLines(t, c.rest(), "\x1b[2K\x1b[1GLoaded cached credentials.", "Running migration 3...", `{"text":"한글😀"}`, "no newline yet", "\x00\xff")
}

func TestScript_Bursts(t *testing.T) {
	for _, opt := range []string{"", " every 1us", " block 100", " block 1", " block 65536"} {
		c := play(t, "expect go\nburst ${text}"+opt+" | {\"n\":\"${n:4}\",\"s\":\"${session}\"}\nexit 0\n")
		c.write(`{"method":"go","params":{"sessionId":"s","prompt":[{"type":"text","text":"1003"}]}}`)
		lines := c.rest()
		if len(lines) != 1003 {
			t.Fatalf("%q: %d lines", opt, len(lines))
		}
		for i, l := range lines {
			if want := fmt.Sprintf(`{"n":"%04d","s":"s"}`, i+1); l != want {
				t.Fatalf("%q: line %d is %s", opt, i, l)
			}
		}
	}
}

func TestScript_LoopsLargeLinesStderrAndTime(t *testing.T) {
	c := play(t, `
loop 2
  loop 2
    stderr e${n}
  end
  send l${n}
end
send ${pad:3000000}
send ${now} ${uuid}
burst 3 stderr | b${n}
exit 0
`)
	lines := c.rest()
	if len(lines) != 4 || lines[0] != "l1" || lines[1] != "l2" || len(lines[2]) != 3000000 {
		t.Fatalf("%d lines", len(lines))
	}
	now, id, _ := strings.Cut(lines[3], " ")
	if d, err := time.ParseDuration(now + "ns"); err != nil || time.Since(time.Unix(0, int64(d))) > time.Minute || canonicalUUID(id) == "" {
		t.Error(lines[3])
	}
	c.exit()
	if got := c.stderr.String(); got != "e1\ne2\ne1\ne2\nb1\nb2\nb3\n" {
		t.Errorf("stderr %q", got)
	}
}

func TestScript_FailsWhenAStepDoesNotComeTrue(t *testing.T) {
	for text, want := range map[string]string{
		"send x\nexpect initialize\n":          "line 2: stdin ended",
		"loop 1\nexpect-response 1\nend\n":     "line 2: stdin ended",
		"send ${id}\n":                         "line 1: ${id}: nothing was captured",
		"burst ${id} | x\n":                    "line 1: ${id}: nothing was captured",
		"on x\nburst ${text} | x\nend\nhang\n": `line 2: the number of lines is ""`,
	} {
		c := play(t, text)
		io.WriteString(c.in, `{"id":1,"method":"x"}`+"\n") // some scripts fail before they read it
		c.in.Close()
		if code := c.exit(); code != exitScript || !strings.Contains(c.stderr.String(), want) {
			t.Errorf("%q: exit %d, %q", text, code, c.stderr)
		}
	}
	c := play(t, "expect-eof\nsend bye\n")
	c.in.Close()
	wantLines(t, c.rest(), "bye")
	if code := c.exit(); code != exitOK {
		t.Errorf("exit %d: %s", code, c.stderr)
	}
}

func TestScript_MistakesAreAllReported(t *testing.T) {
	_, err := parseScript(strings.TrimLeft(`
stdin off
nonsense
expect
expect a b
send ${nope}
send ${id
bytes soon x
write unquoted
burst 3 x
burst 3 sometimes | x
burst 3 every 1s block 9 | x
sleep 1
exit x
kill nobody
hang now
end
ignore eof
loop many
  on x
  end
end
answer initialize
answer a 1
on a
end
on
end
loop 2
`, "\n"))
	for line := range 28 {
		if line == 0 || line == 19 || line == 20 || line == 22 || line == 24 || line == 26 {
			continue
		}
		if !strings.Contains(fmt.Sprint(err)+"\n", fmt.Sprintf("line %d: ", line+1)) {
			t.Errorf("line %d is not reported", line+1)
		}
	}
	if n := strings.Count(err.Error(), "\n") + 1; n != 22 {
		t.Errorf("%d mistakes:\n%v", n, err)
	}
}

func TestCase68_AProcessThatIgnoresEOFAndTERM(t *testing.T) {
	c := startProcess(t, "--script", scriptFile(t, "ignore eof\nignore term\nanswer ping {}\nsend ready\n"))
	first(c)
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	c.write(`{"id":1,"method":"ping"}`) // still there
	wantLines(t, []string{first(c)}, `{"jsonrpc":"2.0","id":1,"result":{}}`)
	c.in.Close()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c.exit()
	}()
	select {
	case <-ended:
		t.Error("ended with stdin")
	case <-time.After(100 * time.Millisecond):
	}
	if err := c.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-ended
}

func TestScript_EndsBySignal(t *testing.T) {
	for name, sig := range map[string]syscall.Signal{"kill": syscall.SIGKILL, "term": syscall.SIGTERM} {
		c := startProcess(t, "--script", scriptFile(t, "send x\nkill "+name+"\n"))
		wantLines(t, c.rest(), "x")
		c.exit()
		if ws, ok := c.cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || ws.Signal() != sig {
			t.Errorf("%s: %v", name, c.cmd.ProcessState)
		}
	}
}

func TestScript_StdinOffNeverReads(t *testing.T) {
	c := startProcess(t, "--script", scriptFile(t, "stdin off\nsend ready\nhang\n"))
	first(c)
	wrote := make(chan error, 1)
	go func() {
		_, err := c.in.Write(make([]byte, 1<<20)) // more than any pipe takes
		wrote <- err
	}()
	select {
	case err := <-wrote:
		t.Errorf("the pipe was read: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	if err := c.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := <-wrote; err == nil {
		t.Error("the pipe was read")
	}
}

// The capture of a message keeps strings as they were written.
func TestCapture_KeepsSpelling(t *testing.T) {
	c, isResponse, ok := capture([]byte(`{"id":1e2,"method":"m","params":{"sessionId":"\u0041","prompt":[{"text":"a"},{"x":1},{"text":"b"}]}}`))
	if !ok || isResponse || c.id != "1e2" || c.session != `\u0041` || c.text != "b" || !json.Valid([]byte(c.params)) {
		t.Errorf("%+v", c)
	}
	if _, _, ok := capture([]byte(`{"x":1}`)); ok {
		t.Error("not a message")
	}
}
