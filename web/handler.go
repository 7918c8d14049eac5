package web

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strconv"
	"strings"
)

// Config configures New. The zero value serves the built-in page.
type Config struct {
	// Files replaces the built-in page; index.html must be at its root.
	Files fs.FS
}

// Validate reports whether the files can be a page.
func (c Config) Validate() error {
	if c.Files == nil {
		return nil
	}
	if _, err := fs.Stat(c.Files, index); err != nil {
		return fmt.Errorf("Files: needs %s: %w", index, err)
	}
	return nil
}

const index = "index.html"

// mediaType is the type of what a build contains, empty for anything else. The machine's own table
// (mime.TypeByExtension) differs from system to system, and a wrong type with nosniff is a page that does not start.
func mediaType(ext string) string {
	switch ext {
	case ".css":
		return "text/css; charset=utf-8"
	case ".html":
		return "text/html; charset=utf-8"
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".json":
		return "application/json"
	case ".png":
		return "image/png"
	case ".svg":
		return "image/svg+xml"
	case ".txt":
		return "text/plain; charset=utf-8"
	case ".woff2":
		return "font/woff2"
	}
	return ""
}

// gzipMin is the size in bytes from which a file is kept compressed too.
const gzipMin = 1 << 10

// file is one file of the page, ready to be sent.
type file struct {
	kind  string // media type
	plain body
	gzip  body // empty when compression does not pay
}

type body struct {
	data []byte
	etag string
}

// Handler serves the built-in page as New does. It panics when the page that was compiled in is broken, which the tests of
// this package exclude.
func Handler() http.Handler {
	h, err := New(Config{})
	if err != nil {
		panic("web: the built-in page: " + err.Error())
	}
	return h
}

// New serves the page: index.html at "/", its files below, 404 for everything else. It sets the headers of the content;
// those of security are the server's. Errors: what Config.Validate says, or a file that cannot be read or has a type that
// is not known.
func New(cfg Config) (http.Handler, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	files := cfg.Files
	if files == nil {
		sub, err := fs.Sub(dist, "dist")
		if err != nil {
			return nil, err
		}
		files = sub
	}
	pages := map[string]*file{}
	err := fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		f, err := load(files, name)
		if err != nil {
			return err
		}
		pages["/"+name] = f
		return nil
	})
	if err != nil {
		return nil, err
	}
	pages["/"] = pages["/"+index]
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { serve(w, r, pages[r.URL.Path]) }), nil
}

func load(files fs.FS, name string) (*file, error) {
	kind := mediaType(path.Ext(name))
	if kind == "" {
		return nil, fmt.Errorf("%s: no media type known for it", name)
	}
	data, err := fs.ReadFile(files, name)
	if err != nil {
		return nil, err
	}
	f := &file{kind: kind, plain: body{data, tag(data, "")}}
	if len(data) >= gzipMin && !strings.HasPrefix(kind, "image/png") && !strings.HasPrefix(kind, "font/") {
		var buf bytes.Buffer
		z, err := gzip.NewWriterLevel(&buf, gzip.BestCompression)
		if err != nil {
			return nil, err
		}
		if _, err := z.Write(data); err != nil {
			return nil, err
		}
		if err := z.Close(); err != nil {
			return nil, err
		}
		f.gzip = body{buf.Bytes(), tag(data, "-gzip")}
	}
	return f, nil
}

func tag(data []byte, suffix string) string {
	sum := sha256.Sum256(data)
	return `"` + base64.RawURLEncoding.EncodeToString(sum[:16]) + suffix + `"`
}

func serve(w http.ResponseWriter, r *http.Request, f *file) {
	h := w.Header()
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		h.Set("Allow", "GET, HEAD")
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		return
	}
	if f == nil {
		http.NotFound(w, r)
		return
	}
	b := f.plain
	if len(f.gzip.data) > 0 {
		h.Set("Vary", "Accept-Encoding")
		if acceptsGzip(r.Header.Values("Accept-Encoding")) {
			b = f.gzip
			h.Set("Content-Encoding", "gzip")
		}
	}
	// Names are stable: keep it, but ask each time whether it is still the one.
	h.Set("Cache-Control", "no-cache")
	h.Set("ETag", b.etag)
	h.Set("Content-Type", f.kind)
	if matches(r.Header.Values("If-None-Match"), b.etag) {
		h.Del("Content-Encoding")
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Length", strconv.Itoa(len(b.data)))
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodGet {
		_, _ = w.Write(b.data) // the client is gone: nobody is left to tell
	}
}

// acceptsGzip reads Accept-Encoding as RFC 9110 section 12.5.3 says: gzip (or *) with a weight that is not 0.
func acceptsGzip(values []string) bool {
	star := false
	for _, v := range values {
		for part := range strings.SplitSeq(v, ",") {
			coding, params, _ := strings.Cut(part, ";")
			ok := true
			if q, found := strings.CutPrefix(strings.ReplaceAll(params, " ", ""), "q="); found {
				weight, err := strconv.ParseFloat(q, 64)
				ok = err == nil && weight > 0
			}
			switch strings.ToLower(strings.TrimSpace(coding)) {
			case "gzip":
				return ok
			case "*":
				star = ok
			}
		}
	}
	return star
}

// matches reports whether an If-None-Match names the tag; weak comparison, as RFC 9110 section 13.1.2 says.
func matches(values []string, etag string) bool {
	for _, v := range values {
		for part := range strings.SplitSeq(v, ",") {
			part = strings.TrimSpace(part)
			if part == "*" || strings.TrimPrefix(part, "W/") == etag {
				return true
			}
		}
	}
	return false
}
