package agenttest

import (
	"fmt"
	"slices"
	"sync"
)

// disk is where all processes of one Agents keep their sessions.
type disk struct {
	mu       sync.Mutex
	n        int
	sessions []*stored // oldest activity first
}

type stored struct {
	id, cwd, title string
	history        []message
}

type message struct{ role, text string }

func newDisk() *disk { return &disk{} }

// create stores an empty session. An empty id picks the next of s1, s2, ... It reports false when the id is taken.
func (d *disk) create(id, cwd string) (string, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if id == "" {
		for id == "" || d.find(id) != nil {
			d.n++
			id = fmt.Sprintf("s%d", d.n)
		}
	} else if d.find(id) != nil {
		return "", false
	}
	d.sessions = append(d.sessions, &stored{id: id, cwd: cwd})
	return id, true
}

func (d *disk) find(id string) *stored {
	for _, s := range d.sessions {
		if s.id == id {
			return s
		}
	}
	return nil
}

// get returns a copy of a session.
func (d *disk) get(id string) (stored, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.find(id)
	if s == nil {
		return stored{}, false
	}
	c := *s
	c.history = slices.Clone(s.history)
	return c, true
}

// append adds text to the history: a new user message, or more of the running agent message. Unknown sessions are left alone.
func (d *disk) append(id, role, text string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.find(id)
	if s == nil {
		return
	}
	if n := len(s.history); role == "agent" && n > 0 && s.history[n-1].role == role {
		s.history[n-1].text += text
		return
	}
	s.history = append(s.history, message{role, text})
	if role == "user" {
		if s.title == "" {
			s.title = text
		}
		i := slices.Index(d.sessions, s)
		d.sessions = append(slices.Delete(d.sessions, i, i+1), s)
	}
}

// copyTo gives the session to a copy of another's history.
func (d *disk) copyTo(to string, from stored) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s := d.find(to); s != nil {
		s.history, s.title = from.history, from.title
	}
}

func (d *disk) remove(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sessions = slices.DeleteFunc(d.sessions, func(s *stored) bool { return s.id == id })
}

// list returns the sessions of the cwd ("" for all) that were prompted, newest activity first.
func (d *disk) list(cwd string) []stored {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []stored
	for _, s := range slices.Backward(d.sessions) {
		if len(s.history) > 0 && (cwd == "" || s.cwd == cwd) {
			out = append(out, *s)
		}
	}
	return out
}
