package agentpool

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/acpgate/acpgate/agentpool/wire"
)

// fsFixture is a workspace with files, links that stay inside and links that lead out.
func fsFixture(t *testing.T) (ws, outside string) {
	t.Helper()
	top := t.TempDir()
	ws, outside = filepath.Join(top, "ws"), filepath.Join(top, "out")
	for _, dir := range []string{ws + "/sub/deep", ws + "/other/inner", outside} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, content := range map[string]string{
		ws + "/a.txt": "one\ntwo\r\nthree", ws + "/target": "top", ws + "/other/target": "other", ws + "/empty": "", ws + "/sub/target": "sub",
		ws + "/utf8": "h\u00e9 \"q\"\n\x00 \xff", outside + "/secret": "secret", ws + "/big": strings.Repeat("0123456789\n", 200),
	} {
		if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{
		"alias": "other/inner", "out": "../out", "abs": outside + "/secret", "loop": "loop", "good": "other/target", "dangling": "../out/new",
	} {
		if err := os.Symlink(to, filepath.Join(ws, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(ws+"/pipe", 0o644); err != nil {
		t.Fatal(err)
	}
	return ws, outside
}

func newFileServer(roots ...string) *fileServer {
	p := &process{processConfig: processConfig{spec: &Spec{FSMaxBytes: 1000}, stats: &counters{}}}
	for _, r := range roots {
		p.roots = append(p.roots, newRoot(r))
	}
	return &fileServer{p: p}
}

func (s *fileServer) try(t *testing.T, method, params string) (string, *fsError) {
	t.Helper()
	f, err := wire.Parse([]byte(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, params)), wire.Limits{LoneSurrogates: true})
	if err != nil {
		t.Fatal(err)
	}
	result, err := s.handle(&f)
	if err != nil {
		return "", asFSError(err)
	}
	return string(result), nil
}

func TestT4_ReadTextFile(t *testing.T) {
	ws, outside := fsFixture(t)
	linked := filepath.Join(t.TempDir(), "linked")
	if err := os.Symlink(ws, linked); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path, more   string
		want, reason string
	}{
		{path: ws + "/a.txt", want: "one\ntwo\r\nthree"},
		{path: ws + "//sub/../a.txt", want: "one\ntwo\r\nthree"},
		{path: linked + "/a.txt", want: "one\ntwo\r\nthree"},
		{path: ws + "/empty", want: ""},
		{path: ws + "/utf8", want: "h\u00e9 \"q\"\n\x00 \uFFFD"},
		{path: ws + "/a.txt", more: `,"line":2`, want: "two\r\nthree"},
		{path: ws + "/a.txt", more: `,"line":2,"limit":1`, want: "two\r\n"},
		{path: ws + "/a.txt", more: `,"limit":1`, want: "one\n"},
		{path: ws + "/a.txt", more: `,"limit":0`, want: ""},
		{path: ws + "/a.txt", more: `,"line":9`, want: ""},
		{path: ws + "/a.txt", more: `,"line":null,"limit":null`, want: "one\ntwo\r\nthree"},
		{path: ws + "/big", more: `,"line":100,"limit":2`, want: "0123456789\n0123456789\n"},
		{path: ws + "/good", want: "other"},
		{path: ws + "/a.txt", more: `,"line":0`, reason: "bad_params"},
		{path: ws + "/a.txt", more: `,"limit":-1`, reason: "bad_params"},
		{path: ws + "/a.txt", more: `,"line":"1"`, reason: "bad_params"},
		{path: ws + "/big", reason: "too_large"},
		{path: ws + "/big", more: `,"line":1`, reason: "too_large"},
		{path: ws + "/nope", reason: "not_found"},
		{path: ws + "/a.txt/x", reason: "not_found"},
		{path: ws + "/sub", reason: "not_regular"},
		{path: ws + "/pipe", reason: "not_regular"},
		{path: ws, reason: "outside_roots"},
		{path: ws + "2/a.txt", reason: "outside_roots"},
		{path: outside + "/secret", reason: "outside_roots"},
		{path: "/etc/passwd", reason: "outside_roots"},
		{path: "a.txt", reason: "bad_params"},
		{path: "", reason: "bad_params"},
		{path: ws + "/../out/secret", reason: "io"},
		{path: ws + "/out/secret", reason: "io"},
		{path: ws + "/abs", reason: "io"},
		{path: ws + "/loop", reason: "io"},
	} {
		s := newFileServer(linked)
		got, err := s.try(t, methodReadFile, fmt.Sprintf(`{"path":%q%s}`, c.path, c.more))
		if c.reason != "" {
			if err == nil || err.reason != c.reason {
				t.Errorf("%s%s: %q, %+v; want %s", c.path, c.more, got, err, c.reason)
			}
			if c.reason == "not_found" && (err.code != -32002 || !strings.Contains(err.text, "Resource not found")) {
				t.Errorf("%s: %+v", c.path, err)
			}
			continue
		}
		want, _ := json.Marshal(map[string]string{"content": c.want})
		var a, b any
		if err != nil || json.Unmarshal([]byte(got), &a) != nil || json.Unmarshal(want, &b) != nil || fmt.Sprint(a) != fmt.Sprint(b) {
			t.Errorf("%s%s: %s, %+v; want %s", c.path, c.more, got, err, want)
		}
	}
}

// A link is followed before ".." is taken: alias/.. is other, not the workspace.
func TestCase85_DotsAfterLinks(t *testing.T) {
	ws, _ := fsFixture(t)
	s := newFileServer(ws)
	if got, err := s.try(t, methodReadFile, fmt.Sprintf(`{"path":%q}`, ws+"/alias/../target")); got != `{"content":"other"}` {
		t.Errorf("read %s, %+v", got, err)
	}
	if _, err := s.try(t, methodWriteFile, fmt.Sprintf(`{"path":%q,"content":"new"}`, ws+"/alias/../target")); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{"/other/target": "new", "/target": "top", "/sub/target": "sub"} {
		if b, err := os.ReadFile(ws + file); err != nil || string(b) != want {
			t.Errorf("%s: %q, %v", file, b, err)
		}
	}
}

func TestT4_WriteTextFile(t *testing.T) {
	ws, outside := fsFixture(t)
	if err := os.Chmod(ws+"/good", 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ path, params, reason string }{
		{path: ws + "/new.txt", params: `"content":"h\u00e9\n"`},
		{path: ws + "/a/b/c.txt", params: `"content":""`},
		{path: ws + "/a.txt", params: `"content":"short"`},
		{path: ws + "/good", params: `"content":"through the link"`},
		{path: ws + "/x", params: `"content":null`, reason: "bad_params"},
		{path: ws + "/x", params: `"line":1`, reason: "bad_params"},
		{path: ws + "/x", params: `"content":"` + strings.Repeat("x", 1001) + `"`, reason: "too_large"},
		{path: ws + "/sub", params: `"content":"x"`, reason: "io"},
		{path: ws + "/pipe", params: `"content":"x"`, reason: "io"}, // nobody reads it, and nothing waits for that
		{path: ws + "/dangling", params: `"content":"x"`, reason: "io"},
		{path: ws + "/out/new", params: `"content":"x"`, reason: "io"},
		{path: ws + "/../out/new", params: `"content":"x"`, reason: "io"},
		{path: ws + "/abs", params: `"content":"x"`, reason: "io"},
		{path: outside + "/new", params: `"content":"x"`, reason: "outside_roots"},
	} {
		_, err := newFileServer(ws).try(t, methodWriteFile, fmt.Sprintf(`{"path":%q,%s}`, c.path, c.params))
		if c.reason != "" {
			if err == nil || err.reason != c.reason {
				t.Errorf("%s %.40s: %+v, want %s", c.path, c.params, err, c.reason)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %+v", c.path, err)
		}
	}
	for file, want := range map[string]string{
		"/new.txt": "h\u00e9\n", "/a/b/c.txt": "", "/a.txt": "short", "/other/target": "through the link", "/sub/target": "sub",
	} {
		if b, err := os.ReadFile(ws + file); err != nil || string(b) != want {
			t.Errorf("%s: %q, %v", file, b, err)
		}
	}
	if entries, err := os.ReadDir(outside); err != nil || len(entries) != 1 {
		t.Errorf("outside: %v, %v", entries, err)
	}
	if info, err := os.Stat(ws + "/other/target"); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

func TestT4_UnknownMethodAndWholeDisk(t *testing.T) {
	ws, _ := fsFixture(t)
	s := newFileServer("/")
	if got, err := s.try(t, methodReadFile, fmt.Sprintf(`{"path":%q}`, ws+"/target")); got != `{"content":"top"}` {
		t.Errorf("root /: %s, %+v", got, err)
	}
	if _, err := s.try(t, "fs/delete", `{"path":"/x"}`); err == nil || err.code != -32601 {
		t.Errorf("unknown method: %+v", err)
	}
}

// Requests of an agent are served next to each other and answered under their own ids.
func TestT4_ServeFS(t *testing.T) {
	ws, _ := fsFixture(t)
	spec := fakeSpec("a")
	spec.FS = FSGateway
	cfg := testConfig(t, spec)
	cfg.Roots = []string{ws}
	p := startPool(t, cfg)
	h := acquire(t, p, "a")
	s, rec := open(t, h)
	rec.onLine = func(f *wire.Frame) {
		if f.Kind == wire.Request {
			h.ServeFS(f)
		}
	}
	const n = 50
	var commands []string
	for i := range n {
		commands = append(commands, fmt.Sprintf(`raw {"jsonrpc":"2.0","id":"r%d","method":"fs/read_text_file","params":{"sessionId":%q,"path":%q}}`, i, s, ws+"/target"))
	}
	commands = append(commands, fmt.Sprintf(`raw {"jsonrpc":"2.0","id":"bad","method":"fs/read_text_file","params":{"sessionId":%q,"path":"/nope"}}`, s))
	for range n + 1 {
		commands = append(commands, "echo")
	}
	prompt(t, h, s, commands...)
	answers := map[string]bool{}
	for _, raw := range rec.waitFor(t, 2*(n+1)) {
		if a := text(raw); a != "" {
			answers[a] = true
		}
	}
	for i := range n {
		if want := fmt.Sprintf(`{"jsonrpc":"2.0","id":"r%d","result":{"content":"top"}}`, i); !answers[want] {
			t.Errorf("missing %s", want)
		}
	}
	if want := `{"jsonrpc":"2.0","id":"bad","error":{"code":-32602,"data":{"path":"/nope","reason":"outside_roots"},"message":"path is outside of the workspaces"}}`; !answers[want] {
		t.Errorf("missing %s in %v", want, answers)
	}
	st := p.Stats()
	if st.FileReads != n || st.FileFailures != 1 {
		t.Errorf("stats %+v", st)
	}
}

func TestT4_WaitingFileRequestsAreBounded(t *testing.T) {
	s := newFileServer()
	s.p.in = newLineQueue(1 << 20)
	s.p.turn.L = &s.p.mu
	s.p.asks = map[string]ask{"2": {id: "2"}}
	s.workers = fsWorkers // all busy
	f := frame(t, `{"jsonrpc":"2.0","id":1,"method":"fs/write_text_file","params":{"content":"`+strings.Repeat("x", fsQueueBytes)+`"}}`)
	s.serve(f)
	s.serve(frame(t, `{"jsonrpc":"2.0","id":2,"method":"fs/read_text_file","params":{}}`))
	if len(s.queue) != 1 {
		t.Errorf("%d requests wait", len(s.queue))
	}
	if got := string(s.p.in.pending); !strings.Contains(got, `"id":2,"error":{"code":-32603`) || !strings.Contains(got, "busy") {
		t.Errorf("answered %q", got)
	}
	s.close()
	s.serve(f)
	if len(s.queue) != 0 {
		t.Error("it takes requests after its end")
	}
}
