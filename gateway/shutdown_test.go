package gateway

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/acpgate/acpgate/agentpool/agenttest"
)

// TestN4_ShutdownLosesNoWord ends the gateway in the instant in which a turn has ended, with a client that still has most of
// the answer to read.
func TestN4_ShutdownLosesNoWord(t *testing.T) {
	const chunks = 200
	h := open(t, func(s *setup) { s.gateway.Limits.CloseGrace = 30 * time.Second })
	c := h.dial(withSmallBuffers).initialize()
	s := c.newSession()
	p := h.agents.Started(t, 1)
	p.Handle("session/prompt", agenttest.Manual)
	c.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":"p","method":"session/prompt","params":%s}`, promptParams(s, "x")))
	call := p.Await("session/prompt")
	text := strings.Repeat("z", 64<<10)
	for i := range chunks {
		call.Chunk(fmt.Sprintf("%06d%s", i, text))
	}
	call.Result(`{"stopReason":"end_turn"}`)
	p.Settle()
	h.stop()

	response, before := c.until(`"p"`)
	if response.Error != nil || !strings.Contains(string(response.Result), "end_turn") {
		t.Errorf("the prompt: %s", response.raw)
	}
	next := 0
	for _, m := range before {
		if strings.HasPrefix(m.text(), fmt.Sprintf("%06d", next)) {
			next++
		}
	}
	if next != chunks {
		t.Errorf("%d of %d chunks came, in order", next, chunks)
	}
	if code, _ := c.closed(); code != codeRestart {
		t.Errorf("closed with %d, want %d", code, codeRestart)
	}
}

// TestN4_ShutdownWaitsForNobodyForLong ends the gateway while a client does not read.
func TestN4_ShutdownWaitsForNobodyForLong(t *testing.T) {
	h := open(t)
	c := h.dial(withSmallBuffers).initialize()
	s := c.newSession()
	p := h.agents.Started(t, 1)
	text := strings.Repeat("z", 64<<10)
	for range 200 {
		p.Chunk(s, text)
	}
	p.Settle()
	begin := time.Now()
	h.stop()
	err := <-h.ended
	h.ended <- nil
	if err != nil {
		t.Error(err)
	}
	if took := time.Since(begin); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
}
