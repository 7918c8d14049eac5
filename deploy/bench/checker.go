package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// checker checks every byte of the updates of one session: that each is what the agent wrote, that none is missing, and
// that they come in order.
type checker struct {
	prefix, suffix []byte
	stamped        bool

	count     int
	bytes     int64
	latencies []time.Duration // from the agent's clock to now, when stamped
}

func newChecker(session string, stamped bool, size int) *checker {
	middle := countDigits
	if stamped {
		middle += stampDigits
	}
	prefix, suffix := updateLine(session, middle, size)
	return &checker{prefix: []byte(prefix), suffix: []byte(suffix), stamped: stamped}
}

// isUpdate reports whether a frame claims to be an update of the session.
func (c *checker) isUpdate(frame []byte) bool { return bytes.HasPrefix(frame, c.prefix) }

// take checks the next update.
func (c *checker) take(frame []byte) error {
	middle := countDigits
	if c.stamped {
		middle += stampDigits
	}
	if len(frame) != len(c.prefix)+middle+len(c.suffix) || !bytes.HasPrefix(frame, c.prefix) || !bytes.HasSuffix(frame, c.suffix) {
		return fmt.Errorf("update %d has other bytes than the agent wrote: %s", c.count+1, clip(frame))
	}
	text := frame[len(c.prefix):]
	n, ok := digits(text[:countDigits])
	if !ok || n != int64(c.count)+1 {
		return fmt.Errorf("update %s came where %d was due", text[:countDigits], c.count+1)
	}
	if c.stamped {
		at, ok := digits(text[countDigits:middle])
		if !ok {
			return fmt.Errorf("update %d has no time: %s", n, clip(frame))
		}
		c.latencies = append(c.latencies, time.Duration(time.Now().UnixNano()-at))
	}
	c.count++
	c.bytes += int64(len(frame))
	return nil
}

// takeJoined checks a frame that carries the texts of many updates in one, as a replay does: the same texts, in order.
func (c *checker) takeJoined(frame []byte) error {
	var m struct {
		Params struct {
			Update struct{ Content struct{ Text string } }
		}
	}
	if err := json.Unmarshal(frame, &m); err != nil {
		return fmt.Errorf("not an update: %w: %s", err, clip(frame))
	}
	pad, _, _ := strings.Cut(string(c.suffix), `"`)
	text := m.Params.Update.Content.Text
	for text != "" {
		want := fmt.Sprintf("%0*d%s", countDigits, c.count+1, pad)
		rest, ok := strings.CutPrefix(text, want)
		if !ok {
			return fmt.Errorf("the text after update %d is not what the agent wrote: %s", c.count, clip([]byte(text)))
		}
		text = rest
		c.count++
	}
	return nil
}

// done checks that all updates came.
func (c *checker) done(want int) error {
	if c.count != want {
		return fmt.Errorf("%d updates came, not %d", c.count, want)
	}
	return nil
}

func digits(b []byte) (n int64, ok bool) {
	for _, d := range b {
		if d < '0' || d > '9' {
			return 0, false
		}
		n = n*10 + int64(d-'0')
	}
	return n, len(b) > 0
}

func clip(b []byte) []byte { return b[:min(len(b), 300)] }
