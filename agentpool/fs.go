package agentpool

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/acpgate/acpgate/agentpool/wire"
)

// Bounds of the file requests of one process.
const (
	fsWorkers    = 4        // served at the same time
	fsQueueBytes = 16 << 20 // requests that wait, as written
)

// root is an allowed workspace: its path as configured, and with symbolic links resolved, which is how agents see it once
// they have asked for their working directory.
type root struct{ path, real string }

func newRoot(dir string) root {
	r := root{path: filepath.Clean(dir)}
	r.real = r.path
	if real, err := filepath.EvalSymlinks(r.path); err == nil {
		r.real = real
	}
	return r
}

// rel returns the part of file below the root. It compares text: what is below may hold links and "..", which only the
// kernel resolves correctly.
func (r root) rel(file string) (string, bool) {
	for _, base := range []string{r.path, r.real} {
		rest, ok := strings.CutPrefix(file, base)
		if ok && (rest == "" || rest[0] == '/' || base == "/") {
			return strings.TrimLeft(rest, "/"), true
		}
	}
	return "", false
}

// fileServer answers fs/read_text_file and fs/write_text_file of one process, inside the roots (rule T4): regular files of
// at most fsMaxBytes, paths resolved by os.Root, so that no link and no ".." leads out.
type fileServer struct {
	p *process

	mu      sync.Mutex
	queue   [][]byte
	bytes   int
	workers int
	closed  bool
}

func (s *fileServer) init(p *process) { s.p = p }

// serve takes a request and returns at once.
func (s *fileServer) serve(f *wire.Frame) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	if len(s.queue) > 0 && s.bytes+len(f.Raw) > fsQueueBytes {
		s.answer(f, nil, &fsError{code: codeInternal, text: "too many file requests wait", reason: "busy"})
		return
	}
	s.queue = append(s.queue, bytes.Clone(f.Raw))
	s.bytes += len(f.Raw)
	if s.workers < fsWorkers {
		s.workers++
		s.p.wg.Go(s.work)
	}
}

// close drops what waits. Nobody would read the answers.
func (s *fileServer) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed, s.queue, s.bytes = true, nil, 0
}

func (s *fileServer) work() {
	for {
		s.mu.Lock()
		if len(s.queue) == 0 {
			s.workers--
			s.mu.Unlock()
			return
		}
		raw := s.queue[0]
		s.queue = s.queue[1:]
		s.bytes -= len(raw)
		s.mu.Unlock()
		f, err := wire.Parse(raw, s.p.limits)
		if err != nil {
			continue // it was parsed before
		}
		result, err := s.handle(&f)
		s.answer(&f, result, err)
	}
}

func (s *fileServer) answer(f *wire.Frame, result []byte, err error) {
	id := f.ID.Of(f.Raw)
	if err == nil {
		_ = s.p.respond(id, result, nil) // fails only when the process is of no use any more
		return
	}
	s.p.stats.fileFailures.Add(1)
	e := asFSError(err)
	obj, merr := json.Marshal(map[string]any{
		"code": e.code, "message": e.text, "data": map[string]string{"reason": e.reason, "path": e.path},
	})
	if merr == nil {
		_ = s.p.respond(id, nil, obj)
	}
}

// fsError is a failed file request, as the agent gets it.
type fsError struct {
	code               int
	text, reason, path string
}

func (e *fsError) Error() string { return e.text }

func asFSError(err error) *fsError {
	var e *fsError
	if errors.As(err, &e) {
		return e
	}
	return &fsError{code: codeInternal, text: err.Error(), reason: "io"}
}

type fsParams struct {
	Path    string  `json:"path"`
	Line    *int    `json:"line"`
	Limit   *int    `json:"limit"`
	Content *string `json:"content"`
}

func (s *fileServer) handle(f *wire.Frame) ([]byte, error) {
	var in fsParams
	if err := json.Unmarshal(f.Params.Of(f.Raw), &in); err != nil {
		return nil, &fsError{code: codeBadParams, text: "bad parameters: " + err.Error(), reason: "bad_params"}
	}
	switch f.Method {
	case methodReadFile:
		if in.Line != nil && *in.Line < 1 || in.Limit != nil && *in.Limit < 0 {
			return nil, &fsError{code: codeBadParams, text: "line counts from 1, limit from 0", reason: "bad_params", path: in.Path}
		}
		text, err := s.read(in)
		if err != nil {
			return nil, describe(err, in.Path)
		}
		s.p.stats.fileReads.Add(1)
		return append(wire.AppendQuoteBytes([]byte(`{"content":`), text), '}'), nil
	case methodWriteFile:
		if in.Content == nil {
			return nil, &fsError{code: codeBadParams, text: "content is missing", reason: "bad_params", path: in.Path}
		}
		if err := s.write(in.Path, *in.Content); err != nil {
			return nil, describe(err, in.Path)
		}
		s.p.stats.fileWrites.Add(1)
		return []byte(`{}`), nil
	}
	return nil, &fsError{code: codeUnknownMethod, text: "Method not found: " + f.Method, reason: "method"}
}

// describe says what is wrong in words that agents look for: a missing file must read "Resource not found".
func describe(err error, file string) error {
	var e *fsError
	switch {
	case errors.As(err, &e):
		e.path = file
		return e
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return &fsError{code: codeNotFound, text: "Resource not found: " + file, reason: "not_found", path: file}
	case errors.Is(err, fs.ErrPermission):
		return &fsError{code: codeInternal, text: "Permission denied: " + file, reason: "permission", path: file}
	}
	return &fsError{code: codeInternal, text: fmt.Sprintf("%s: %v", file, err), reason: "io", path: file}
}

// locate opens the root that file is in. The caller closes it.
func (s *fileServer) locate(file string) (*os.Root, string, error) {
	if !strings.HasPrefix(file, "/") {
		return nil, "", &fsError{code: codeBadParams, text: "path must be absolute", reason: "bad_params"}
	}
	for _, r := range s.p.roots {
		if rel, ok := r.rel(file); ok && rel != "" {
			dir, err := os.OpenRoot(r.real)
			return dir, rel, err
		}
	}
	return nil, "", &fsError{code: codeBadParams, text: "path is outside of the workspaces", reason: "outside_roots"}
}

// open opens a regular file. It never blocks on a pipe or a device.
func openRegular(dir *os.Root, rel string, flag int) (*os.File, fs.FileInfo, error) {
	file, err := dir.OpenFile(rel, flag|syscall.O_NONBLOCK, 0o644)
	if err != nil {
		return nil, nil, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fsError{code: codeBadParams, text: "not a regular file", reason: "not_regular"}
	}
	if err != nil {
		return nil, nil, errors.Join(err, file.Close())
	}
	return file, info, nil
}

func (s *fileServer) read(in fsParams) ([]byte, error) {
	dir, rel, err := s.locate(in.Path)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	file, info, err := openRegular(dir, rel, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	limit := s.p.spec.FSMaxBytes
	if in.Line == nil && in.Limit == nil {
		if info.Size() > limit {
			return nil, s.tooLarge(info.Size())
		}
		text, err := io.ReadAll(io.LimitReader(file, limit+1))
		if err == nil && int64(len(text)) > limit {
			err = s.tooLarge(int64(len(text)))
		}
		return text, err
	}
	skip, count := 0, -1
	if in.Line != nil {
		skip = *in.Line - 1
	}
	if in.Limit != nil {
		count = *in.Limit
	}
	return s.readLines(bufio.NewReaderSize(file, 64<<10), skip, count)
}

// readLines returns count lines (all with a negative count) after the first skip ones, line ends included.
func (s *fileServer) readLines(r *bufio.Reader, skip, count int) ([]byte, error) {
	var text []byte
	for line := 0; count < 0 || line < skip+count; {
		part, err := r.ReadSlice('\n')
		if line >= skip {
			text = append(text, part...)
			if int64(len(text)) > s.p.spec.FSMaxBytes {
				return nil, s.tooLarge(int64(len(text)))
			}
		}
		switch {
		case err == nil:
			line++
		case errors.Is(err, io.EOF):
			return text, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
	return text, nil
}

func (s *fileServer) tooLarge(size int64) error {
	return &fsError{
		code: codeInternal, reason: "too_large",
		text: fmt.Sprintf("file is too large: %d bytes or more, fsMaxBytes is %d", size, s.p.spec.FSMaxBytes),
	}
}

// write replaces the content of a file, in place so that links and modes stay; it makes missing directories.
func (s *fileServer) write(name, content string) error {
	if int64(len(content)) > s.p.spec.FSMaxBytes {
		return s.tooLarge(int64(len(content)))
	}
	dir, rel, err := s.locate(name)
	if err != nil {
		return err
	}
	defer dir.Close()
	if parent, _ := path.Split(rel); parent != "" {
		if _, err := dir.Stat(parent); errors.Is(err, fs.ErrNotExist) {
			if err := dir.MkdirAll(strings.TrimRight(parent, "/"), 0o755); err != nil {
				return err
			}
		}
	}
	file, _, err := openRegular(dir, rel, os.O_WRONLY|os.O_CREATE)
	if err != nil {
		return err
	}
	err = file.Truncate(0)
	if err == nil {
		_, err = io.WriteString(file, content)
	}
	return errors.Join(err, file.Close())
}
