package demo

import (
	"bytes"
	"strings"
	"testing"
)

// Whatever a prompt says, its directives and its body are parts of it, in order.
func FuzzDirectives(f *testing.F) {
	for _, s := range []string{"", "hello", "THINK PLAN:1 x", "/slow 2x3", "/plan", "SAY TOOL", "NEXT:SLOW:1x1  \n a", "ASK:\u2028x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		todo, body := parseDirectives(text)
		if !strings.HasSuffix(strings.TrimSpace(text), body) {
			t.Errorf("%q: body %q", text, body)
		}
		for _, d := range todo {
			if act(d.name) == nil || !strings.Contains(strings.ToUpper(text), d.name) || !strings.Contains(text, d.arg) {
				t.Errorf("%q: directive %+v", text, d)
			}
		}
		if got := strings.Join(words(text), ""); got != text {
			t.Errorf("%q: words %q", text, got)
		}
	})
}

// A script is refused or taken, and a template without placeholders is itself.
func FuzzScript(f *testing.F) {
	for _, s := range []string{
		"send x\n", "on a\nend\n", "loop 3\nsend ${n:4}\nend", "burst 3 every 1ms block 4 | ${id}", "answer a ${x.id}", "write \"\\x00\"", "$${", "${pad:3}",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if s, err := parseScript(text); (s == nil) != (err != nil) {
			t.Errorf("%v and %v", s, err)
		}
		tmpl, err := parseTemplate(text)
		if err != nil || strings.Contains(text, "$") {
			return
		}
		if b, err := tmpl.expand(nil, &vars{}); err != nil || !bytes.Equal(b, []byte(text)) {
			t.Errorf("%q: %q %v", text, b, err)
		}
	})
}
