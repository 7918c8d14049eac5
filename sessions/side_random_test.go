package sessions_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/acpgate/acpgate/agentpool/agenttest"
	"github.com/acpgate/acpgate/sessions"
)

// sideModel is what a random run of side conversations must come to.
type sideModel struct {
	*bench
	rnd    *rand.Rand
	fail   bool // the agent fails before it says anything
	empty  bool // the agent says nothing
	c      *client
	parent *sessions.Attachment
	handle string
	staged bool
	kids   map[string]*sessions.Attachment
	merged []string // notes that went home, in order
	notes  int
	log    []string
	got    map[string][]string // by session: the prompts that the agent has answered
}

// TestS_RandomSequences runs random sequences of stage, claim, merge, prompt, failing prompt, disconnect and restart, and
// checks against a model: a slot is claimed once; each note goes to the parent's agent in exactly one answered prompt, in
// order; each child is framed in exactly one answered prompt, its first; what is said in a child is never said in the parent.
func TestS_RandomSequences(t *testing.T) {
	for seed := range uint64(30) {
		init := agenttest.AllCapabilities
		if seed%2 == 1 {
			init = without(noFork)
		}
		m := &sideModel{rnd: rand.New(rand.NewPCG(seed, 3)), kids: map[string]*sessions.Attachment{}, got: map[string][]string{}}
		profile := agenttest.Profile{Initialize: init, Handlers: map[string]agenttest.Handler{"session/prompt": m.answer}}
		scenario(t, profile, sessions.Config{}, func(b *bench) {
			m.bench = b
			m.c = b.optedIn()
			m.parent = m.c.newSession()
			m.handle = m.parent.Handle()
			for range 40 {
				m.step()
				if t.Failed() {
					t.Fatalf("seed %d: %s", seed, strings.Join(m.log, ", "))
				}
			}
			m.fail, m.empty = false, false
			m.say(m.parent, "the end")
			m.verify(seed)
		})
	}
}

// answer is the agent: it answers by the model's switches and records what it answered. One prompt runs at a time, and the
// model looks only when nothing moves.
func (m *sideModel) answer(call *agenttest.Call) {
	if m.fail {
		call.Error(-32603, "overloaded", "")
		return
	}
	text := call.Text()
	m.got[call.Session] = append(m.got[call.Session], text)
	switch {
	case strings.Contains(text, "Condense this side conversation") && m.empty:
	case strings.Contains(text, "Condense this side conversation"):
		m.notes++
		call.Chunk(fmt.Sprintf("note-%d.", m.notes))
	default:
		call.Chunk("ok")
	}
	call.Result(`{"stopReason":"end_turn"}`)
}

func (m *sideModel) say(a *sessions.Attachment, s string) {
	m.c.prompt(a, s)
	m.c.take()
}

func (m *sideModel) step() {
	op := m.rnd.IntN(9)
	switch op {
	case 0, 1:
		m.log = append(m.log, "prompt")
		m.say(m.parent, "parent words")
	case 2:
		m.log = append(m.log, "failing prompt")
		m.fail = true
		m.say(m.parent, "lost words")
		m.fail = false
	case 3:
		m.log = append(m.log, "stage")
		m.say(m.parent, "/side")
		m.staged = true
	case 4:
		m.log = append(m.log, "claim")
		a, frames := m.c.newIn("")
		child := opened(m, frames)["parentSession"] != nil
		if child != m.staged {
			m.Errorf("a session/new gave a child %v, staged %v", child, m.staged)
		}
		m.staged = false
		if child {
			m.kids[a.Handle()] = a
		}
	case 5:
		if a := m.kid(); a != nil {
			m.log = append(m.log, "child prompt")
			m.fail = m.rnd.IntN(4) == 0
			m.say(a, "child words")
			m.fail = false
		}
	case 6:
		if a := m.kid(); a != nil {
			m.log = append(m.log, "merge")
			m.empty = m.rnd.IntN(3) == 0
			before := m.notes
			m.say(a, "/merge")
			m.empty = false
			if m.notes > before {
				m.merged = append(m.merged, fmt.Sprintf("note-%d.", m.notes))
			}
		}
	case 7:
		m.log = append(m.log, "disconnect")
		m.reconnect(func() { m.m.Gone(m.c) })
	case 8:
		m.log = append(m.log, "restart")
		m.reconnect(m.restart)
	}
}

func (m *sideModel) kid() *sessions.Attachment {
	var ids []string
	for id := range m.kids {
		ids = append(ids, id)
	}
	if len(ids) == 0 {
		return nil
	}
	slices.Sort(ids)
	return m.kids[ids[m.rnd.IntN(len(ids))]]
}

func (m *sideModel) reconnect(lose func()) {
	m.parent.Detach()
	for _, a := range m.kids {
		a.Detach()
	}
	synctestWait()
	lose()
	m.staged = false
	m.c = m.optedIn()
	if m.agents.Stored(m.handle) == nil && len(m.got[m.handle]) == 0 {
		m.parent = m.c.newSession() // it never had a prompt, and may be gone
		m.handle = m.parent.Handle()
	} else {
		m.parent = m.c.resume(m.handle, `{"view":true}`)
	}
	for id := range m.kids {
		if len(m.got[id]) == 0 {
			delete(m.kids, id) // a child without a prompt is as any session without one
			continue
		}
		m.kids[id] = m.c.resume(id, `{"view":true}`)
	}
	m.c.take()
}

func (m *sideModel) verify(seed uint64) {
	var delivered []string
	// An empty session that lost its process is made anew under another id; the handle stays.
	for _, text := range m.got[m.c.binding(m.parent)] {
		for _, part := range strings.Split(text, "<acpgate-note>")[1:] {
			for _, n := range m.merged {
				if strings.Contains(part, n) {
					delivered = append(delivered, n)
				}
			}
		}
		if strings.Contains(text, "child words") {
			m.Errorf("seed %d: the parent heard the child: %s", seed, text)
		}
	}
	if !slices.Equal(delivered, m.merged) {
		m.Errorf("seed %d: notes %v were merged, %v delivered (%s)", seed, m.merged, delivered, strings.Join(m.log, ", "))
	}
	for id := range m.kids {
		framed := 0
		for i, text := range m.got[id] {
			if strings.Contains(text, "<acpgate-side>") {
				if framed++; i != 0 {
					m.Errorf("seed %d: child %s was framed in prompt %d", seed, id, i)
				}
			}
		}
		if len(m.got[id]) > 0 && framed != 1 {
			m.Errorf("seed %d: child %s was framed %d times", seed, id, framed)
		}
	}
}
