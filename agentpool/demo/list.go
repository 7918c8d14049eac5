package demo

import (
	"cmp"
	"encoding/base64"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	acp "github.com/coder/acp-go-sdk"
)

const (
	pageSize = 50
	// maxWalks is how many lists may be walked at a time on a snapshot of their own. The oldest one is forgotten; its next
	// page reads the directory again and goes on behind the last row.
	maxWalks = 8
)

var errBadCursor = errors.New("not a cursor of this agent")

// lister lists the store, newest activity first. The first page of a walk reads the directory, once, and keeps what it saw;
// the other pages of that walk are cut from it. So a walk is stable while sessions change, and costs one directory read, one
// stat per session, and the head of each file that it shows and that changed since it was shown last.
type lister struct {
	store store

	mu    sync.Mutex
	walks []*walk // oldest first
	next  uint64
	heads map[string]head // by session id
	reads int             // of the directory
}

type walk struct {
	id   uint64
	rows []row
}

// row is a file as the directory read saw it.
type row struct {
	id       string
	modified int64 // Unix nanoseconds
	size     int64
}

type head struct {
	cwd, title string
	size       int64 // of the file it was read from: files only grow, so the head of a longer one is the same
}

// cursor is where the next page begins: behind the row (modified, id), which is rows[at-1] of the walk if it is still there.
type cursor struct {
	walk     uint64
	at       int
	modified int64
	id       string
}

func (c cursor) String() string {
	return base64.RawURLEncoding.EncodeToString([]byte(strings.Join([]string{
		strconv.FormatUint(c.walk, 36), strconv.Itoa(c.at), strconv.FormatInt(c.modified, 36), c.id,
	}, " ")))
}

func parseCursor(s string) (cursor, error) {
	raw, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		return cursor{}, errBadCursor
	}
	part := strings.Split(string(raw), " ")
	if len(part) != 4 {
		return cursor{}, errBadCursor
	}
	walk, err1 := strconv.ParseUint(part[0], 36, 64)
	at, err2 := strconv.Atoi(part[1])
	modified, err3 := strconv.ParseInt(part[2], 36, 64)
	if err1 != nil || err2 != nil || err3 != nil || at < 0 {
		return cursor{}, errBadCursor
	}
	return cursor{walk: walk, at: at, modified: modified, id: part[3]}, nil
}

func newLister(s store) *lister { return &lister{store: s, heads: map[string]head{}} }

// page returns at most pageSize sessions of the cwd ("" for all) and the cursor of the next page, "" after the last one.
// Errors: errBadCursor, or that of the directory.
func (l *lister) page(cwd, from string) ([]acp.SessionInfo, string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w, at, err := l.start(from)
	if err != nil {
		return nil, "", err
	}
	page := []acp.SessionInfo{}
	for ; at < len(w.rows); at++ {
		r := w.rows[at]
		h, ok := l.head(r)
		if !ok || cwd != "" && h.cwd != cwd {
			continue
		}
		if len(page) == pageSize {
			last := w.rows[at-1]
			return page, cursor{walk: w.id, at: at, modified: last.modified, id: last.id}.String(), nil
		}
		updated := time.Unix(0, r.modified).UTC().Format("2006-01-02T15:04:05.000Z")
		page = append(page, acp.SessionInfo{Cwd: h.cwd, SessionId: acp.SessionId(r.id), Title: &h.title, UpdatedAt: &updated})
	}
	l.walks = slices.DeleteFunc(l.walks, func(o *walk) bool { return o == w })
	return page, "", nil
}

// start finds the snapshot and the place in it where a page begins.
func (l *lister) start(from string) (*walk, int, error) {
	if from == "" {
		w, err := l.read()
		return w, 0, err
	}
	c, err := parseCursor(from)
	if err != nil {
		return nil, 0, err
	}
	for _, w := range l.walks {
		if w.id == c.walk && c.at > 0 && c.at <= len(w.rows) && w.rows[c.at-1].id == c.id {
			return w, c.at, nil
		}
	}
	w, err := l.read()
	if err != nil {
		return nil, 0, err
	}
	at, found := slices.BinarySearchFunc(w.rows, row{id: c.id, modified: c.modified}, order)
	if found {
		at++
	}
	return w, at, nil
}

// order is newest first; rows of one moment are ordered by id, so that the order is the same in every walk.
func order(a, b row) int {
	return cmp.Or(cmp.Compare(b.modified, a.modified), strings.Compare(a.id, b.id))
}

// read starts a walk with a read of the directory.
func (l *lister) read() (*walk, error) {
	l.reads++
	files, err := os.ReadDir(l.store.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	l.next++
	w := &walk{id: l.next, rows: make([]row, 0, len(files))}
	for _, f := range files {
		name, ok := strings.CutSuffix(f.Name(), ".jsonl")
		if !ok || canonicalUUID(name) != name {
			continue
		}
		info, err := f.Info()
		if err != nil || !info.Mode().IsRegular() {
			continue // gone between the two calls, or none of ours
		}
		w.rows = append(w.rows, row{id: name, modified: info.ModTime().UnixNano(), size: info.Size()})
	}
	slices.SortFunc(w.rows, order)
	if len(l.walks) == maxWalks {
		l.walks = slices.Delete(l.walks, 0, 1)
	}
	l.walks = append(l.walks, w)
	if len(l.heads) > 2*len(w.rows)+pageSize {
		l.heads = map[string]head{} // most of it is of deleted sessions
	}
	return w, nil
}

// head returns what the file's first line says, from memory if it can. False: deleted meanwhile, or no session.
func (l *lister) head(r row) (head, bool) {
	h, ok := l.heads[r.id]
	if ok && h.size <= r.size {
		return h, true
	}
	e, err := l.store.head(r.id)
	if err != nil {
		delete(l.heads, r.id)
		return head{}, false
	}
	h = head{cwd: e.Cwd, title: e.Title, size: r.size}
	l.heads[r.id] = h
	return h, true
}

// forget drops what is remembered of a deleted session, so that walks that saw it leave it out.
func (l *lister) forget(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.heads, id)
}
