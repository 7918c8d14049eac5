package demo

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// maxPad bounds ${pad:N}, in bytes.
const maxPad = 256 << 20

// captured is a message of the client as placeholders see it. Strings are kept as the client wrote them, without their
// quotes, so that they can be put between quotes again.
type captured struct {
	method, id, session, text, cwd string
	params, result, failure        string // raw JSON
}

// vars are the messages that a task has captured, and the counter of its innermost loop.
type vars struct {
	last  *captured
	named map[string]*captured
	n     int
}

func (v *vars) capture(name string, c *captured) {
	v.last = c
	if name == "" {
		return
	}
	if v.named == nil {
		v.named = map[string]*captured{}
	}
	v.named[name] = c
}

// template is a text with placeholders.
type template struct{ parts []part }

// part is a literal, or a placeholder.
type part struct {
	literal []byte
	name    string // of the captured message, "" for the last one
	field   string
	number  int // width or length
}

var errNothingCaptured = errors.New("nothing was captured yet")

// fields that come from a captured message. n, now, uuid and pad do not.
func capturedFields() []string {
	return []string{"id", "session", "method", "params", "text", "cwd", "result", "error"}
}

// parseTemplate reads ${field}, ${name.field}, ${n:WIDTH} and ${pad:BYTES}. "$$" is a dollar sign.
func parseTemplate(text string) (*template, error) {
	t := &template{}
	for text != "" {
		i := strings.IndexByte(text, '$')
		if i < 0 || i == len(text)-1 {
			i = len(text)
		}
		if i > 0 {
			t.literal(text[:i])
			text = text[i:]
			continue
		}
		switch text[1] {
		case '$':
			t.literal("$")
			text = text[2:]
		case '{':
			inside, rest, ok := strings.Cut(text[2:], "}")
			if !ok {
				return nil, fmt.Errorf("placeholder without end: %s", text)
			}
			p, err := parsePlaceholder(inside)
			if err != nil {
				return nil, err
			}
			t.parts = append(t.parts, p)
			text = rest
		default:
			t.literal("$")
			text = text[1:]
		}
	}
	return t, nil
}

func (t *template) literal(s string) {
	if n := len(t.parts); n > 0 && t.parts[n-1].field == "" {
		t.parts[n-1].literal = append(t.parts[n-1].literal, s...)
		return
	}
	t.parts = append(t.parts, part{literal: []byte(s)})
}

func parsePlaceholder(s string) (part, error) {
	field, arg, hasArg := strings.Cut(s, ":")
	p := part{field: field}
	if name, field, ok := strings.Cut(field, "."); ok {
		p.name, p.field = name, field
	}
	if hasArg {
		n, err := strconv.Atoi(arg)
		if err != nil || n < 0 || n > maxPad {
			return p, fmt.Errorf("${%s}: %q is no number", s, arg)
		}
		p.number = n
	}
	plain := p.name == "" && (p.field == "now" || p.field == "uuid") && !hasArg ||
		p.name == "" && p.field == "n" || p.name == "" && p.field == "pad" && hasArg
	if !plain && (hasArg || !slices.Contains(capturedFields(), p.field)) {
		return p, fmt.Errorf("unknown placeholder ${%s}", s)
	}
	return p, nil
}

// expand appends the text with all placeholders filled in.
func (t *template) expand(b []byte, v *vars) ([]byte, error) {
	for _, p := range t.parts {
		var err error
		if b, err = p.append(b, v); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// fix returns the template with everything filled in that stays the same for all lines of a burst.
func (t *template) fix(v *vars) (*template, error) {
	out := &template{}
	for _, p := range t.parts {
		if p.field == "n" || p.field == "now" || p.field == "uuid" {
			out.parts = append(out.parts, p)
			continue
		}
		b, err := p.append(nil, v)
		if err != nil {
			return nil, err
		}
		out.literal(string(b))
	}
	return out, nil
}

func (p part) append(b []byte, v *vars) ([]byte, error) {
	switch p.field {
	case "":
		return append(b, p.literal...), nil
	case "n":
		return appendPadded(b, v.n, p.number), nil
	case "now":
		return strconv.AppendInt(b, time.Now().UnixNano(), 10), nil
	case "uuid":
		return append(b, newUUID()...), nil
	case "pad":
		return append(b, bytes.Repeat([]byte{'x'}, p.number)...), nil
	}
	c := v.last
	if p.name != "" {
		c = v.named[p.name]
	}
	if c == nil {
		return nil, fmt.Errorf("${%s}: %w", strings.TrimPrefix(p.name+"."+p.field, "."), errNothingCaptured)
	}
	value := map[string]string{
		"id": c.id, "session": c.session, "method": c.method, "params": c.params,
		"text": c.text, "cwd": c.cwd, "result": c.result, "error": c.failure,
	}[p.field]
	return append(b, value...), nil
}

// appendPadded appends n with leading zeros up to a width.
func appendPadded(b []byte, n, width int) []byte {
	begin := len(b)
	b = strconv.AppendInt(b, int64(n), 10)
	for missing := width - (len(b) - begin); missing > 0; missing-- {
		b = slices.Insert(b, begin, '0')
	}
	return b
}

// capture reads a message of the client. ok is false for what is none.
func capture(line []byte) (c *captured, isResponse, ok bool) {
	var m struct {
		ID     json.RawMessage
		Method *json.RawMessage
		Params json.RawMessage
		Result json.RawMessage
		Error  json.RawMessage
	}
	if json.Unmarshal(line, &m) != nil || m.Method == nil && m.ID == nil {
		return nil, false, false
	}
	c = &captured{id: string(m.ID), params: string(m.Params), result: string(m.Result), failure: string(m.Error)}
	if m.Method == nil {
		return c, true, true
	}
	c.method = inside(*m.Method)
	var p struct {
		SessionID json.RawMessage
		Cwd       json.RawMessage
		Prompt    []struct{ Text json.RawMessage }
	}
	if json.Unmarshal(m.Params, &p) == nil {
		c.session, c.cwd = inside(p.SessionID), inside(p.Cwd)
		for _, b := range p.Prompt {
			if b.Text != nil {
				c.text = inside(b.Text)
			}
		}
	}
	return c, false, true
}

// inside is a raw JSON string without its quotes, "" for anything else.
func inside(raw json.RawMessage) string {
	if len(raw) < 2 || raw[0] != '"' {
		return ""
	}
	return string(raw[1 : len(raw)-1])
}
