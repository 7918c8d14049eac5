package sessions_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/acpgate/acpgate/agentpool/agenttest"
	"github.com/acpgate/acpgate/agentpool/wire"
	"github.com/acpgate/acpgate/sessions"
)

// impossibleIDs are ids that no session has: the store takes no such names.
var impossibleIDs = map[string]string{"NUL": "a\x00b", "long": strings.Repeat("x", 3000), "huge": strings.Repeat("x", 2<<20)}

func jsonText(s string) string { return string(wire.AppendQuote(nil, s)) }

// What a client makes up must neither fail as ours nor be tried by the store for ever, with everything waiting behind it.
func TestW9_IDsThatNoSessionHasAreUnknown(t *testing.T) {
	for name, id := range impossibleIDs {
		t.Run(name, func(t *testing.T) {
			scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
				c := b.optedIn()
				a := c.newSession()
				params := fmt.Sprintf(`{"sessionId":%s,"cwd":%q,"mcpServers":[]}`, jsonText(id), b.dir)
				for _, method := range []string{"session/load", "session/resume", "session/fork"} {
					_, err := c.tryOpen(method, params)
					wantError(t, err, -32002, "session_not_found")
				}
				f, _ := c.frame("session/close", params)
				if _, err := b.m.CloseSession(context.Background(), c, f); err != nil {
					t.Errorf("close: %v", err)
				}
				f, _ = c.frame("session/delete", params)
				if _, err := b.m.DeleteSession(context.Background(), c, f); err != nil {
					t.Errorf("delete: %v", err)
				}
				c.take()
				x, err := c.tryOpen("session/resume", fmt.Sprintf(`{"sessionId":%q,"cwd":%q,"mcpServers":[],"_meta":{"acpgate":{"after":{"session":%s,"epoch":1,"seq":1}}}}`,
					a.Handle(), b.dir, jsonText(id)))
				if err != nil {
					t.Fatalf("a cursor into it: %v", err)
				}
				x.Detach()
				c.take()
				c.prompt(a, "on")
				c.expect("agent:ECHO[on] stop:end_turn")
				if err := b.m.Ready(); err != nil {
					t.Errorf("the store: %v", err)
				}
			})
		})
	}
}

func TestStore_IDsOfAgentsAreNames(t *testing.T) {
	for name, id := range impossibleIDs {
		t.Run(name, func(t *testing.T) {
			profile := agenttest.Profile{Handlers: map[string]agenttest.Handler{"session/new": agenttest.Answering(`{"sessionId":` + jsonText(id) + `}`)}}
			scenario(t, profile, sessions.Config{}, func(b *bench) {
				c := b.optedIn()
				_, err := c.tryOpen("session/new", fmt.Sprintf(`{"cwd":%q,"mcpServers":[]}`, b.dir))
				wantError(t, err, -32603, "agent_error")
				if err := b.m.Ready(); err != nil {
					t.Errorf("the store: %v", err)
				}
			})
		})
	}
}

func TestV16_KeysAreNames(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		c := b.optedIn()
		a := c.newSession()
		for _, key := range []string{"a\x00b", strings.Repeat("k", 129)} {
			_, err := c.try(a, "session/prompt", text("x")+`,"_meta":{"acpgate":{"key":`+jsonText(key)+`}}`)
			wantError(t, err, -32602, "bad_params")
		}
		c.take()
		c.prompt(a, "on")
		c.expect("agent:ECHO[on] stop:end_turn")
	})
}

// A result that is too large for the store is kept without the agent's extras: the key still stands for its turn.
func TestV16_KeyOfALargeResultSurvivesARestart(t *testing.T) {
	pad := strings.Repeat("x", sessions.MaxIndexValueBytes)
	for name, x := range map[string]struct {
		answer agenttest.Handler
		want   string
	}{
		"result": {agenttest.Answering(`{"stopReason":"refusal","_meta":{"pad":"` + pad + `"}}`), "stop:refusal"},
		"error":  {agenttest.Failing(-32042, "no", `{"pad":"`+pad+`"}`), "error:-32042:<nil>"},
	} {
		t.Run(name, func(t *testing.T) {
			profile := agenttest.Profile{Handlers: map[string]agenttest.Handler{"session/prompt": x.answer}}
			scenario(t, profile, sessions.Config{}, func(b *bench) {
				const key = `,"_meta":{"acpgate":{"key":"k"}}`
				c := b.optedIn()
				a := c.newSession()
				c.send(a, "session/prompt", text("pay")+key)
				c.expect(x.want)
				c.prompt(a, "/help")
				c.take()
				if err := b.m.Ready(); err != nil {
					t.Errorf("the store: %v", err)
				}
				b.restart()
				d := b.optedIn()
				y := d.resume(a.Handle(), `{"view":true}`)
				d.take()
				d.send(y, "session/prompt", text("pay")+key)
				d.expect(x.want)
			})
		})
	}
}

func TestStore_ParamsThatAreKeptAreBounded(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		c := b.optedIn()
		_, err := c.tryOpen("session/new", fmt.Sprintf(`{"cwd":%q,"mcpServers":[],"_meta":{"pad":%q}}`, b.dir, strings.Repeat("x", 5<<20)))
		wantError(t, err, -32602, "bad_params")
	})
}

// An agent that has forgotten the sessions of its last life may count from the beginning again.
func TestV2_RenewedSessionTakesNoIDOfAnother(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		c := b.optedIn()
		used, empty := c.newSession(), c.newSession()
		c.prompt(used, "first")
		c.take()
		b.agents.Started(b, 1).Signal("killed")
		c.take()
		c.prompt(used, "second")
		c.take()
		b.agents.Started(b, 2).Handle("session/new", agenttest.Answering(`{"sessionId":`+jsonText(used.Handle())+`}`))
		c.prompt(empty, "mine")
		c.expect("error:-32603:session_in_use")
		c.prompt(used, "third")
		c.expect("agent:ECHO[third] stop:end_turn")
		b.restart()
		d := b.plain()
		d.load(used.Handle())
		if got := brief(t, d.take()); !strings.HasPrefix(got, "user:first agent:ECHO[first] user:second agent:ECHO[second] user:third agent:ECHO[third]") {
			t.Errorf("stored is %s", got)
		}
	})
}

// The session that an agent makes anew after a crash has another id, under which all of it is stored.
func TestStore_RenewedSessionIsStored(t *testing.T) {
	scenario(t, agenttest.Profile{}, sessions.Config{}, func(b *bench) {
		c := b.optedIn()
		a := c.newSession()
		b.agents.Started(b, 1).Signal("killed")
		c.take()
		c.prompt(a, "first")
		c.expect("agent:ECHO[first] stop:end_turn")
		b.crash()
		d := b.plain()
		d.load(a.Handle())
		if got := brief(t, d.take()); !strings.HasPrefix(got, "user:first agent:ECHO[first]") {
			t.Errorf("after a restart there is %s", got)
		}
	})
}
