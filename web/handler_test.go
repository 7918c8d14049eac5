package web

import (
	"bytes"
	"compress/gzip"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
)

func handler(t *testing.T, cfg Config) http.Handler {
	t.Helper()
	h, err := New(cfg)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	return h
}

func get(t *testing.T, h http.Handler, method, target string, header http.Header) *http.Response {
	t.Helper()
	r := httptest.NewRequest(method, target, nil)
	for k, v := range header {
		r.Header[k] = v
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func text(t *testing.T, r *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestServesThePage(t *testing.T) {
	h := Handler()
	for _, tc := range []struct{ target, kind string }{
		{"/", "text/html; charset=utf-8"},
		{"/index.html", "text/html; charset=utf-8"},
		{"/assets/app.js", "text/javascript; charset=utf-8"},
		{"/assets/app.css", "text/css; charset=utf-8"},
		{"/assets/highlight.js", "text/javascript; charset=utf-8"},
		{"/icon.svg", "image/svg+xml"},
	} {
		r := get(t, h, http.MethodGet, tc.target, nil)
		if r.StatusCode != http.StatusOK || r.Header.Get("Content-Type") != tc.kind {
			t.Errorf("%s: %d %q, want 200 %q", tc.target, r.StatusCode, r.Header.Get("Content-Type"), tc.kind)
		}
		if r.Header.Get("Cache-Control") != "no-cache" || r.Header.Get("ETag") == "" {
			t.Errorf("%s: Cache-Control %q, ETag %q: must be revalidated", tc.target, r.Header.Get("Cache-Control"), r.Header.Get("ETag"))
		}
		if int64(len(text(t, r))) != r.ContentLength {
			t.Errorf("%s: the body is not as long as Content-Length says", tc.target)
		}
	}
}

// The page must work below any base path and under a policy without inline code.
func TestIndexIsRelativeAndWithoutInlineCode(t *testing.T) {
	page := text(t, get(t, handler(t, Config{}), http.MethodGet, "/", nil))
	links := regexp.MustCompile(`(?:src|href)="([^"]*)"`).FindAllStringSubmatch(page, -1)
	if len(links) < 3 {
		t.Fatalf("index.html names %d files, want its script, style and icon", len(links))
	}
	files, err := fs.Sub(dist, "dist")
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range links {
		name, ok := strings.CutPrefix(l[1], "./")
		if !ok {
			t.Errorf("%q is not relative to the page", l[1])
			continue
		}
		if _, err := fs.Stat(files, name); err != nil {
			t.Errorf("index.html names %s: %v", name, err)
		}
	}
	if regexp.MustCompile(`<script[^>]*>[^<]|<style| style=| on[a-z]+=`).MatchString(page) {
		t.Error("index.html has inline code or style")
	}
}

func TestEverythingThatWasBuiltIsServed(t *testing.T) {
	h := Handler()
	err := fs.WalkDir(os.DirFS("dist"), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if r := get(t, h, http.MethodGet, "/"+name, nil); r.StatusCode != http.StatusOK {
			t.Errorf("dist/%s: %d: name it in embed.go", name, r.StatusCode)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestUnknownPathsAreNotThePage(t *testing.T) {
	h := handler(t, Config{})
	for _, target := range []string{"/nope", "/assets/", "/assets/nope.js", "/dist/index.html", "/../handler.go", "/assets/../index.html", "/%2e%2e/handler.go"} {
		if r := get(t, h, http.MethodGet, target, nil); r.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %d, want 404", target, r.StatusCode)
		}
	}
}

func TestOnlyReads(t *testing.T) {
	h := handler(t, Config{})
	r := get(t, h, http.MethodPost, "/", nil)
	if r.StatusCode != http.StatusMethodNotAllowed || r.Header.Get("Allow") != "GET, HEAD" {
		t.Errorf("POST: %d, Allow %q", r.StatusCode, r.Header.Get("Allow"))
	}
	r = get(t, h, http.MethodHead, "/", nil)
	if r.StatusCode != http.StatusOK || text(t, r) != "" || r.Header.Get("Content-Length") == "" {
		t.Errorf("HEAD: %d, Content-Length %q, want the headers of GET and no body", r.StatusCode, r.Header.Get("Content-Length"))
	}
}

func TestRevalidates(t *testing.T) {
	h := handler(t, Config{})
	plain := get(t, h, http.MethodGet, "/assets/app.js", nil).Header.Get("ETag")
	zipped := get(t, h, http.MethodGet, "/assets/app.js", http.Header{"Accept-Encoding": {"gzip"}}).Header.Get("ETag")
	if plain == zipped {
		t.Error("both encodings have the same ETag")
	}
	for _, tc := range []struct {
		match, encoding string
		status          int
	}{
		{plain, "", http.StatusNotModified},
		{"W/" + plain, "", http.StatusNotModified},
		{`"other", ` + plain, "", http.StatusNotModified},
		{"*", "", http.StatusNotModified},
		{`"other"`, "", http.StatusOK},
		{zipped, "", http.StatusOK},
		{zipped, "gzip", http.StatusNotModified},
	} {
		r := get(t, h, http.MethodGet, "/assets/app.js", http.Header{"If-None-Match": {tc.match}, "Accept-Encoding": {tc.encoding}})
		if r.StatusCode != tc.status {
			t.Errorf("If-None-Match %s (encoding %q): %d, want %d", tc.match, tc.encoding, r.StatusCode, tc.status)
		}
		if r.StatusCode == http.StatusNotModified && text(t, r) != "" {
			t.Error("a 304 has a body")
		}
	}
}

func TestCompresses(t *testing.T) {
	h := handler(t, Config{})
	plain := text(t, get(t, h, http.MethodGet, "/assets/app.js", nil))
	for _, tc := range []struct {
		accept string
		zipped bool
	}{
		{"gzip", true},
		{"br, gzip;q=0.5", true},
		{"GZIP", true},
		{"*", true},
		{"*;q=0, gzip", true},
		{"gzip;q=0", false},
		{"gzip; q=0.0", false},
		{"*, gzip;q=0", false},
		{"br", false},
		{"", false},
	} {
		r := get(t, h, http.MethodGet, "/assets/app.js", http.Header{"Accept-Encoding": {tc.accept}})
		if r.Header.Get("Vary") != "Accept-Encoding" {
			t.Errorf("%q: Vary is %q", tc.accept, r.Header.Get("Vary"))
		}
		if got := r.Header.Get("Content-Encoding") == "gzip"; got != tc.zipped {
			t.Errorf("%q: gzip %v, want %v", tc.accept, got, tc.zipped)
			continue
		}
		if !tc.zipped {
			continue
		}
		z, err := gzip.NewReader(bytes.NewBufferString(text(t, r)))
		if err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(z); err != nil || string(b) != plain {
			t.Errorf("%q: unpacks to something else (%v)", tc.accept, err)
		}
	}
	if r := get(t, h, http.MethodGet, "/icon.svg", http.Header{"Accept-Encoding": {"gzip"}}); r.Header.Get("Content-Encoding") != "" {
		t.Error("a tiny file is compressed")
	}
}

func TestConfig(t *testing.T) {
	if _, err := New(Config{Files: fstest.MapFS{}}); err == nil || !strings.Contains(err.Error(), "index.html") {
		t.Errorf("no index: %v, want an error that names it", err)
	}
	odd := fstest.MapFS{"index.html": {Data: []byte("x")}, "a.odd": {Data: []byte("x")}}
	if _, err := New(Config{Files: odd}); err == nil || !strings.Contains(err.Error(), "a.odd") {
		t.Errorf("odd file: %v, want an error that names it", err)
	}
	own := handler(t, Config{Files: fstest.MapFS{"index.html": {Data: []byte("mine")}}})
	if got := text(t, get(t, own, http.MethodGet, "/", nil)); got != "mine" {
		t.Errorf("own files: %q", got)
	}
}
