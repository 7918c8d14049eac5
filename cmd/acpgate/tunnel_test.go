package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/cookiejar"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// chooseOption answers permission requests with the first option of a kind.
func chooseOption(t *testing.T, kind string) func(message) string {
	return func(m message) string {
		var params struct {
			Options []struct{ OptionID, Kind string } `json:"options"`
		}
		if err := json.Unmarshal(m.Params, &params); err != nil || m.Method != "session/request_permission" {
			t.Errorf("request %s: %s, %v", m.Method, m.Params, err)
		}
		for _, o := range params.Options {
			if o.Kind == kind {
				return `{"outcome":{"outcome":"selected","optionId":"` + o.OptionID + `"}}`
			}
		}
		t.Errorf("no option of kind %s in %s", kind, m.Params)
		return `{"outcome":{"outcome":"cancelled"}}`
	}
}

// TestW1_DemoAgentThroughTheGateway is a first visit of a plain ACP client: a streamed answer, a permission given, one
// refused, and a turn cancelled.
func TestW1_DemoAgentThroughTheGateway(t *testing.T) {
	g := newGateway(t)
	c := dial(t, g)
	session := c.open(g)

	stop, said := c.prompt(session, "the quick brown fox")
	if stop != "end_turn" || !strings.Contains(said, "the quick brown fox") {
		t.Errorf("prompt: %s, %q", stop, said)
	}
	if chunks := len(c.updates(0)); chunks < 4 {
		t.Errorf("an answer of four words came in %d updates", chunks)
	}

	written := filepath.Join(g.cmd.Dir, "demo.txt")
	c.onRequest = chooseOption(t, "reject_once")
	if stop, _ := c.prompt(session, "ASK not this line"); stop != "end_turn" {
		t.Errorf("a rejected tool call: %s", stop)
	}
	if _, err := os.Stat(written); err == nil {
		t.Error("a rejected tool call wrote its file")
	}
	c.onRequest = chooseOption(t, "allow_once")
	if stop, _ := c.prompt(session, "ASK a line of text"); stop != "end_turn" {
		t.Errorf("an allowed tool call: %s", stop)
	}
	if b, err := os.ReadFile(written); err != nil || !strings.Contains(string(b), "a line of text") {
		t.Errorf("demo.txt: %q, %v", b, err)
	}

	c.onRequest = nil
	from := len(c.seen)
	id := c.sendPrompt(session, "SLOW:600x100")
	c.awaitUpdate(from, "agent_message_chunk")
	c.write(`{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":%q}}`, session)
	if stop := stopReasonOf(t, c.await(id)); stop != "cancelled" {
		t.Errorf("a cancelled turn: %s", stop)
	}
}

// TestT1_LoginLinkWorksOnce follows the link as a browser does.
func TestT1_LoginLinkWorksOnce(t *testing.T) {
	g := newGateway(t)
	if g.link == "" {
		t.Fatal("no login link on stderr")
	}
	browser := func() *http.Client {
		jar, err := cookiejar.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		return &http.Client{Jar: jar, Transport: &http.Transport{DisableKeepAlives: true}}
	}
	get := func(client *http.Client, url string) (int, string) {
		t.Helper()
		response, err := client.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response.StatusCode, string(body)
	}

	first, second := browser(), browser()
	if status, body := get(first, g.link); status != http.StatusOK || !strings.Contains(body, "<title>") {
		t.Errorf("the link leads to %d, %.100q", status, body)
	}
	if status, body := get(first, g.url+"/api/v1/me"); status != http.StatusOK || !strings.Contains(body, `"principal":"local"`) {
		t.Errorf("after the link: %d %s", status, body)
	}
	get(second, g.link)
	if status, _ := get(second, g.url+"/api/v1/me"); status != http.StatusUnauthorized {
		t.Errorf("after the link was used again: %d", status)
	}
}
