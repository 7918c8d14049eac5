package agentpool

import (
	"fmt"
	"strings"
	"testing"

	"github.com/acpgate/acpgate/agentpool/wire"
	"github.com/acpgate/acpgate/sessions"
)

func TestCase16_EqualIDsOfTwoClients(t *testing.T) {
	t.Parallel()
	p := startPool(t, testConfig(t, fakeSpec("a")))
	a, b := acquire(t, p, "a"), acquire(t, p, "a")
	if a.Process() != b.Process() {
		t.Fatal("two processes")
	}
	s1, _ := open(t, a)
	s2, _ := open(t, b)
	ch1, id1 := send(t, a, "test/echo", fmt.Sprintf(`{"sessionId":%q}`, s1))
	ch2, id2 := send(t, b, "test/echo", fmt.Sprintf(`{"sessionId":%q}`, s2))
	o1, o2 := await(t, "an answer", ch1), await(t, "an answer", ch2)
	if !strings.Contains(o1.raw, s1) || !strings.Contains(o2.raw, s2) || id1 == id2 {
		t.Errorf("got %v and %v", o1, o2)
	}
	if want := fmt.Sprintf(`\"id\":%d,\"method\":\"test/echo\"`, id2); !strings.Contains(o2.raw, want) {
		t.Errorf("the agent read %s, want %s", o2.raw, want)
	}
}

// The codex agents write jsonrpc, result, id, in this order.
func TestW4_ResponseKeyOrder(t *testing.T) {
	t.Parallel()
	h := acquire(t, startPool(t, testConfig(t, fakeSpec("a", "-codex-order"))), "a")
	s, _ := open(t, h)
	prompt(t, h, s)
}

func TestW4_UnknownResponsesAreDropped(t *testing.T) {
	t.Parallel()
	p := startPool(t, testConfig(t, fakeSpec("a")))
	h := acquire(t, p, "a")
	s, rec := open(t, h)
	prompt(t, h, s,
		`raw {"jsonrpc":"2.0","id":0,"result":{}}`, `raw {"jsonrpc":"2.0","id":99,"result":{}}`, `raw {"jsonrpc":"2.0","id":"2","result":{}}`,
		`raw {"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"again"}}`, `raw {"jsonrpc":"2.0","id":-2,"result":1}`, `raw {"jsonrpc":"2.0","id":18446744073709551616,"result":1}`,
		"chunk end")
	if got := rec.waitFor(t, 1); text(got[0]) != "end" {
		t.Errorf("got %q", got)
	}
	if n := p.Stats().UnknownResponses; n != 6 {
		t.Errorf("counted %d", n)
	}
}

// Ids of agents count from 0, or are strings; the answer has the id as the agent wrote it.
func TestW4_RequestIDsOfAgents(t *testing.T) {
	t.Parallel()
	for _, id := range []string{`0`, `"0"`, `7`, `"a\u0062"`, `-1`, `1e2`} {
		t.Run(id, func(t *testing.T) {
			p := startPool(t, testConfig(t, fakeSpec("a")))
			h := acquire(t, p, "a")
			s, rec := open(t, h)
			rec.onLine = func(f *wire.Frame) {
				if f.Kind != wire.Request {
					return
				}
				if err := h.Respond(f.ID.Of(f.Raw), []byte(`{"outcome":{"outcome":"selected","optionId":"ok"}}`), nil); err != nil {
					t.Error(err)
				}
				// A second answer reaches nobody.
				if err := h.Respond(f.ID.Of(f.Raw), nil, []byte(`{"code":1,"message":"late"}`)); err != nil {
					t.Error(err)
				}
			}
			prompt(t, h, s, fmt.Sprintf(`raw {"jsonrpc":"2.0","id":%s,"method":"session/request_permission","params":{"sessionId":%q}}`, id, s), "echo")
			want := `{"jsonrpc":"2.0","id":` + id + `,"result":{"outcome":{"outcome":"selected","optionId":"ok"}}}`
			if got := rec.waitFor(t, 2); text(got[1]) != want {
				t.Errorf("the agent read %s, want %s", text(got[1]), want)
			}
			if n := p.Stats().LateAnswers; n != 1 {
				t.Errorf("%d late answers", n)
			}
		})
	}
}

func TestW8_RequestsThatNobodyDecides(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ request, want string }{
		"permission of an unknown session": {
			`{"jsonrpc":"2.0","id":1,"method":"session/request_permission","params":{"sessionId":"nope"}}`,
			`{"jsonrpc":"2.0","id":1,"result":{"outcome":{"outcome":"cancelled"}}}`,
		},
		"elicitation of an unknown session": {
			`{"jsonrpc":"2.0","id":2,"method":"elicitation/create","params":{"sessionId":"nope"}}`,
			`{"jsonrpc":"2.0","id":2,"result":{"action":"cancel"}}`,
		},
		"elicitation of an unknown call": {
			`{"jsonrpc":"2.0","id":3,"method":"elicitation/create","params":{"requestId":77}}`,
			`{"jsonrpc":"2.0","id":3,"result":{"action":"cancel"}}`,
		},
		"terminal of an unknown session": {
			`{"jsonrpc":"2.0","id":"t","method":"terminal/create","params":{"sessionId":"nope","command":"yes"}}`,
			`{"jsonrpc":"2.0","id":"t","error":{"code":-32601,"message":"Method not found: terminal/create","data":{"reason":"no session is open that it names"}}}`,
		},
		"method without a session": {
			`{"jsonrpc":"2.0","id":4,"method":"craft/drainMidTurnQueue"}`,
			`{"jsonrpc":"2.0","id":4,"error":{"code":-32601,"message":"Method not found: craft/drainMidTurnQueue","data":{"reason":"no session is open that it names"}}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := startPool(t, testConfig(t, fakeSpec("a")))
			h := acquire(t, p, "a")
			s, rec := open(t, h)
			prompt(t, h, s, "raw "+c.request, "echo")
			if got := text(rec.waitFor(t, 1)[0]); got != c.want {
				t.Errorf("the agent read\n%s, want\n%s", got, c.want)
			}
			if p.Stats().RefusedRequests != 1 {
				t.Error("not counted")
			}
		})
	}
}

// An elicitation may name the request that it is about instead of a session, and its completion names neither.
func TestW8_ElicitationByRequest(t *testing.T) {
	t.Parallel()
	notified := make(chan string, 10)
	cfg := testConfig(t, fakeSpec("a"))
	cfg.OnNotification = func(principal, agent string, line []byte) { notified <- principal + " " + agent + " " + string(line) }
	p := startPool(t, cfg)
	h := acquire(t, p, "a")
	s, rec := open(t, h)
	id := 4 // initialize, session/new, then two prompts
	ch, _ := send(t, h, "session/prompt", promptParams(s, "open"))
	prompt(t, h, s,
		fmt.Sprintf(`raw {"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"requestId":%d,"mode":"url","elicitationId":"e\u0031"}}`, id),
		`raw {"jsonrpc":"2.0","method":"elicitation/complete","params":{"elicitationId":"e1"}}`,
		`raw {"jsonrpc":"2.0","method":"elicitation/complete","params":{"elicitationId":"e2"}}`,
		`raw {"jsonrpc":"2.0","method":"_auth/status_update","params":{"ok":true}}`)
	got := rec.waitFor(t, 2)
	if !strings.Contains(got[0], `"requestId":4`) || !strings.Contains(got[1], `"elicitationId":"e1"`) {
		t.Errorf("got %q", got)
	}
	for _, want := range []string{
		`tester a {"jsonrpc":"2.0","method":"elicitation/complete","params":{"elicitationId":"e2"}}`,
		`tester a {"jsonrpc":"2.0","method":"_auth/status_update","params":{"ok":true}}`,
	} {
		if n := await(t, "a notification", notified); n != want {
			t.Errorf("got %s, want %s", n, want)
		}
	}
	select {
	case o := <-ch:
		t.Errorf("the open call was answered: %+v", o)
	default:
	}
}

func TestCase38_AgentWithdrawsItsRequest(t *testing.T) {
	t.Parallel()
	for _, member := range []string{"requestId", "id"} {
		p := startPool(t, testConfig(t, fakeSpec("a")))
		h := acquire(t, p, "a")
		s, rec := open(t, h)
		prompt(t, h, s,
			fmt.Sprintf(`raw {"jsonrpc":"2.0","id":99,"method":"session/request_permission","params":{"sessionId":%q}}`, s),
			fmt.Sprintf(`raw {"jsonrpc":"2.0","method":"$/cancel_request","params":{%q:98}}`, member),
			fmt.Sprintf(`raw {"jsonrpc":"2.0","method":"$/cancel_request","params":{%q:99}}`, member), "chunk end")
		got := rec.waitFor(t, 3)
		if f := frame(t, got[1]); f.Method != methodCancelRequest || !strings.Contains(got[1], "99") || text(got[2]) != "end" {
			t.Errorf("%s: got %q", member, got)
		}
	}
}

func TestW4_CancelRequest(t *testing.T) {
	t.Parallel()
	h := acquire(t, startPool(t, testConfig(t, fakeSpec("a"))), "a")
	s, rec := open(t, h)
	ch, id := send(t, h, "session/prompt", promptParams(s, "open"))
	send(t, h, "session/prompt", promptParams(s, "echo"))
	h.CancelRequest(id)
	if got, want := text(rec.waitFor(t, 1)[0]), fmt.Sprintf(`{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":%d}}`, id); got != want {
		t.Errorf("the agent read %s, want %s", got, want)
	}
	select {
	case o := <-ch:
		t.Errorf("answered: %+v", o)
	default:
	}
	h.CancelRequest(id + 100) // not open: nothing is written
}

func TestUnbindAnswersOpenRequests(t *testing.T) {
	t.Parallel()
	p := startPool(t, testConfig(t, fakeSpec("a")))
	a, b := acquire(t, p, "a"), acquire(t, p, "a")
	s1, rec1 := open(t, a)
	s2, rec2 := open(t, b)
	prompt(t, a, s1, fmt.Sprintf(`raw {"jsonrpc":"2.0","id":"p","method":"session/request_permission","params":{"sessionId":%q}}`, s1))
	rec1.waitFor(t, 1)
	send(t, b, "session/prompt", promptParams(s2, "echo"))
	a.Unbind(s1)
	if got, want := text(rec2.waitFor(t, 1)[0]), `{"jsonrpc":"2.0","id":"p","result":{"outcome":{"outcome":"cancelled"}}}`; got != want {
		t.Errorf("the agent read %s, want %s", got, want)
	}
	if err := a.Respond([]byte(`"p"`), []byte(`{}`), nil); err != nil || p.Stats().LateAnswers != 1 {
		t.Errorf("late answer: %v", err)
	}
}

func TestW8_OpenRequestsAreBounded(t *testing.T) {
	t.Parallel()
	p := startPool(t, testConfig(t, fakeSpec("a")))
	h := acquire(t, p, "a")
	s, rec := open(t, h)
	var commands []string
	for i := range maxAsks + 1 {
		commands = append(commands, fmt.Sprintf(`raw {"jsonrpc":"2.0","id":%d,"method":"session/request_permission","params":{"sessionId":%q}}`, i, s))
	}
	prompt(t, h, s, append(commands, "echo")...)
	got := rec.waitFor(t, maxAsks+1)
	if want := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"error":{"code":-32603,"message":"too many open requests"}}`, maxAsks); text(got[maxAsks]) != want {
		t.Errorf("the agent read %s", text(got[maxAsks]))
	}
}

func TestRequestsAreChecked(t *testing.T) {
	t.Parallel()
	h := acquire(t, startPool(t, testConfig(t, fakeSpec("a"))), "a")
	notification, req := frame(t, `{"jsonrpc":"2.0","method":"x"}`), frame(t, `{"jsonrpc":"2.0","id":1,"method":"x"}`)
	if _, err := h.Request(notification, nil, nil); err == nil {
		t.Error("a notification was sent as a request")
	}
	if err := h.Notify(req, nil); err == nil {
		t.Error("a request was sent as a notification")
	}
}

func TestEditsAreApplied(t *testing.T) {
	t.Parallel()
	h := acquire(t, startPool(t, testConfig(t, fakeSpec("a"))), "a")
	f := frame(t, `{"jsonrpc":"2.0","method":"test/echo","params":{"sessionId":"handle","n":12345678901234567890},"id":"c-1"}`)
	got := make(chan string, 1)
	if _, err := h.Request(f, []wire.Edit{f.EditSession([]byte(`"binding"`))}, func(r sessions.Reply) { got <- string(r.Frame.Raw) }); err != nil {
		t.Fatal(err)
	}
	want := `{\"jsonrpc\":\"2.0\",\"method\":\"test/echo\",\"params\":{\"sessionId\":\"binding\",\"n\":12345678901234567890},\"id\":2}`
	if g := await(t, "the answer", got); !strings.Contains(g, want) {
		t.Errorf("the agent read %s", g)
	}
}
