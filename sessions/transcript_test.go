package sessions_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"

	"github.com/acpgate/acpgate/agentpool/agenttest"
	"github.com/acpgate/acpgate/sessions"
)

var update = flag.Bool("update", false, "write the wire transcripts anew")

// TestWire runs the transcripts of testdata/wire: what clients send and get, and what reaches the agent, rule by rule. A file
// has a comment, the steps, and the wire that they give. Lines of the wire are
//
//	A> a frame of client A        A< a frame for client A
//	agent< a line on the stdin of the agent
//
// Clients A to M opted in, N to Z are plain ACP. Ids that are random, epochs and the directory are written as names.
func TestWire(t *testing.T) {
	files, err := filepath.Glob("testdata/wire/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var steps, want string
			for _, f := range a.Files {
				switch f.Name {
				case "steps":
					steps = string(f.Data)
				case "wire":
					want = string(f.Data)
				}
			}
			got := play(t, steps)
			if *update {
				a.Files = []txtar.File{{Name: "steps", Data: []byte(steps)}, {Name: "wire", Data: []byte(got)}}
				if err := os.WriteFile(file, txtar.Format(a), 0o600); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != want {
				t.Errorf("the wire is\n%s\nwant\n%s\n(go test ./sessions -run TestWire -update writes it)", got, want)
			}
		})
	}
}

// player carries out steps.
type player struct {
	*bench
	clients map[string]*client
	atts    map[string]*sessions.Attachment
	lines   map[*agenttest.Process]int
	out     strings.Builder
	asked   string
}

func play(t *testing.T, steps string) string {
	var out string
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		p := &player{bench: b, clients: map[string]*client{}, atts: map[string]*sessions.Attachment{}, lines: map[*agenttest.Process]int{}}
		for line := range strings.Lines(steps) {
			if line = strings.TrimSpace(line); line != "" {
				p.step(line)
			}
		}
		out = normal(p.out.String(), b.dir)
	})
	return out
}

func (p *player) step(line string) {
	fmt.Fprintf(&p.out, "\n# %s\n", line)
	who, rest, _ := strings.Cut(line, " ")
	verb, arg, _ := strings.Cut(rest, " ")
	arg = p.expand(arg)
	if who == "agent" {
		p.agentStep(verb, arg)
		p.flush()
		return
	}
	if who == "gateway" {
		switch verb {
		case "restart":
			p.restart()
		case "crash":
			time.Sleep(time.Second) // everything is stored
			p.crash()
		case "sleeps":
			time.Sleep(31 * time.Minute)
		}
		p.flush()
		return
	}
	c := p.clients[who]
	if c == nil {
		c = p.optedIn()
		if who[0] >= 'N' {
			c = p.plain()
		}
		p.clients[who] = c
	}
	p.clientStep(who, c, verb, arg)
	p.flush()
}

func (p *player) clientStep(who string, c *client, verb, arg string) {
	dir := fmt.Sprintf(`"cwd":%q,"mcpServers":[]`, p.dir)
	switch verb {
	case "new":
		p.open(who, c, "session/new", "{"+dir+arg+"}")
	case "opens": // a further session on the same connection, called arg from here on
		p.clients[arg] = c
		p.open(arg, c, "session/new", "{"+dir+"}")
	case "load", "resume":
		id, meta, _ := strings.Cut(arg, " ")
		p.open(who, c, "session/"+verb, fmt.Sprintf(`{"sessionId":%q,%s%s}`, id, dir, meta))
	case "prompt":
		p.request(who, c, "session/prompt", text(arg))
	case "keyed":
		key, s, _ := strings.Cut(arg, " ")
		p.request(who, c, "session/prompt", text(s)+fmt.Sprintf(`,"_meta":{"acpgate":{"key":%q}}`, key))
	case "cancel":
		fmt.Fprintf(&p.out, "%s> session/cancel\n", who)
		c.cancel(p.atts[who])
	case "allows":
		fmt.Fprintf(&p.out, "%s> answer %s\n", who, allow)
		c.answer(p.asked, allow)
	case "leaves":
		p.atts[who].Detach()
		delete(p.clients, who)
	case "closes", "deletes":
		f, _ := c.frame("session/"+verb[:len(verb)-1], fmt.Sprintf(`{"sessionId":%q}`, arg))
		fmt.Fprintf(&p.out, "%s> %s\n", who, f.Raw)
		do := p.m.CloseSession
		if verb == "deletes" {
			do = p.m.DeleteSession
		}
		raw, err := do(context.Background(), c, f)
		fmt.Fprintf(&p.out, "%s< %s %v\n", who, raw, err)
	default:
		p.Fatalf("no step %q", verb)
	}
}

func (p *player) agentStep(verb, arg string) {
	session, s, _ := strings.Cut(arg, " ")
	proc := p.agents.Started(p, 1)
	switch verb {
	case "waits": // prompts are answered by later steps
		proc.Handle("session/prompt", agenttest.Manual)
	case "says":
		proc.Chunk(session, s)
	case "asks":
		proc.Permission(session, "call-1", s, "execute")
	case "ends":
		proc.Await("session/prompt").Result(`{"stopReason":"end_turn"}`)
	default:
		p.Fatalf("no step %q", verb)
	}
}

// expand writes {A} as the handle of A, and {A.binding} as the session that its view looks at.
func (p *player) expand(s string) string {
	for who, a := range p.atts {
		s = strings.ReplaceAll(s, "{"+who+"}", a.Handle())
		if strings.Contains(s, "{"+who+".binding}") {
			s = strings.ReplaceAll(s, "{"+who+".binding}", p.clients[who].binding(a))
		}
	}
	return s
}

func (p *player) open(who string, c *client, method, params string) {
	f, _ := c.frame(method, params)
	fmt.Fprintf(&p.out, "%s> %s\n", who, f.Raw)
	a, err := p.m.Open(context.Background(), c, f)
	if err != nil {
		fmt.Fprintf(&p.out, "%s< error %s\n", who, sessions.AsError(err).Object())
		return
	}
	if old := p.atts[who]; old != nil {
		old.Detach()
	}
	p.atts[who] = a
	for a.Pull(c) {
	}
}

func (p *player) request(who string, c *client, method, members string) {
	f, _ := c.frame(method, fmt.Sprintf(`{"sessionId":%q%s}`, p.atts[who].Handle(), comma(members)))
	fmt.Fprintf(&p.out, "%s> %s\n", who, f.Raw)
	if err := p.atts[who].Request(f); err != nil {
		fmt.Fprintf(&p.out, "%s< error %s\n", who, sessions.AsError(err).Object())
	}
}

// flush writes what reached the agent and the clients.
func (p *player) flush() {
	frames := map[string][]string{}
	for _, who := range []string{"A", "B", "C", "N", "O", "P"} {
		if c := p.clients[who]; c != nil {
			frames[who] = c.take()
		}
	}
	for i, proc := range p.agents.Processes() {
		name := "agent"
		if i > 0 {
			name = fmt.Sprintf("agent%d", i+1)
		}
		all := proc.Lines()
		for _, l := range all[p.lines[proc]:] {
			fmt.Fprintf(&p.out, "%s< %s\n", name, l.Raw)
		}
		p.lines[proc] = len(all)
	}
	for _, who := range []string{"A", "B", "C", "N", "O", "P"} {
		for _, f := range frames[who] {
			if m := decode(p, f); m.Method != "" && m.ID != nil {
				p.asked = string(m.ID)
			}
			fmt.Fprintf(&p.out, "%s< %s\n", who, f)
		}
	}
}

var (
	randomID  = regexp.MustCompile(`"((?:turn-|notice-|report-|note-)?(?:[a-z0-9]+/)?)[A-Z2-7]{12,26}"`)
	epochs    = regexp.MustCompile(`"epoch":\d+`)
	epochName = regexp.MustCompile(`"epoch":E\d+`)
	commands  = regexp.MustCompile(`"availableCommands":\[\{.*?\],"sessionUpdate"`)
)

// normal replaces what differs from run to run.
func normal(s, dir string) string {
	s = strings.ReplaceAll(s, dir, "/dir")
	s = commands.ReplaceAllString(s, `"availableCommands":[…],"sessionUpdate"`)
	n := map[string]string{}
	number := func(re *regexp.Regexp, name string) {
		s = re.ReplaceAllStringFunc(s, func(m string) string {
			prefix := ""
			if x := re.FindStringSubmatch(m); len(x) > 1 {
				prefix = x[1]
			}
			core := strings.TrimPrefix(strings.Trim(m, `"`), prefix)
			if n[core] == "" {
				n[core] = fmt.Sprintf("%s%d", name, len(n)+1)
			}
			if strings.HasPrefix(m, `"epoch"`) {
				return `"epoch":` + n[core]
			}
			return `"` + prefix + n[core] + `"`
		})
	}
	number(randomID, "id")
	number(epochs, "E")
	return strings.TrimPrefix(s, "\n")
}
