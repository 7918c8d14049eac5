package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
)

// auditBytes is the size at which the audit log is set aside as FILE.1, in place of the one before. What is kept is
// thus between one and two times this size.
const auditBytes = 32 << 20

// auditFile is an append-only file of bounded size. One line is one Write.
type auditFile struct {
	path  string
	limit int64

	mu   sync.Mutex
	file *os.File
	size int64
}

var _ io.WriteCloser = (*auditFile)(nil)

// openAudit opens the log, mode 0600. A file that is there is appended to.
func openAudit(path string, limit int64) (*auditFile, error) {
	f := &auditFile{path: path, limit: limit}
	if err := f.open(); err != nil {
		return nil, err
	}
	return f, nil
}

func (f *auditFile) open() error {
	file, err := os.OpenFile(f.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("audit log: %w", err)
	}
	info, err := file.Stat()
	if err != nil {
		return errors.Join(fmt.Errorf("audit log: %w", err), file.Close())
	}
	f.file, f.size = file, info.Size()
	return nil
}

// Write appends one line. A log that cannot be set aside grows on: a line too many is better than one too few.
func (f *auditFile) Write(line []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.size > 0 && f.size+int64(len(line)) > f.limit {
		if err := f.setAside(); err != nil {
			return 0, err
		}
	}
	n, err := f.file.Write(line)
	f.size += int64(n)
	return n, err
}

func (f *auditFile) setAside() error {
	if os.Rename(f.path, f.path+".1") != nil {
		return nil
	}
	old := f.file
	if err := f.open(); err != nil {
		return err
	}
	return old.Close()
}

func (f *auditFile) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.file.Close()
}

// newAuditLogger writes JSON lines with time and message to w.
func newAuditLogger(w io.Writer) *slog.Logger {
	return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
		if len(groups) == 0 && a.Key == slog.LevelKey {
			return slog.Attr{} // every line of an audit log is of one level
		}
		return a
	}}))
}
