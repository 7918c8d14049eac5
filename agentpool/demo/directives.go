package demo

import (
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	acp "github.com/coder/acp-go-sdk"
)

// directive is a word in capitals at the beginning of a prompt that says what to do, with what stands behind its colon.
type directive struct{ name, arg string }

// parseDirectives takes the directives off the front of a prompt. "/name" of an offered command is its directive.
func parseDirectives(text string) (todo []directive, body string) {
	body = strings.TrimSpace(text)
	if name, rest, ok := slashCommand(body); ok {
		d := directive{name: strings.ToUpper(name)}
		if _, _, ok := times(rest); ok && name == "slow" {
			d.arg, rest = rest, ""
		}
		return []directive{d}, rest
	}
	for {
		word, rest := cutWord(body)
		name, arg, _ := strings.Cut(word, ":")
		if act(name) == nil {
			return todo, body
		}
		todo, body = append(todo, directive{name, arg}), rest
		if name == "SAY" || name == "RAW" {
			return todo, body // the rest is theirs as it is
		}
	}
}

func slashCommand(text string) (name, rest string, ok bool) {
	if !strings.HasPrefix(text, "/") {
		return "", "", false
	}
	name, rest = cutWord(text[1:])
	ok = slices.ContainsFunc(commands(), func(c acp.AvailableCommand) bool { return c.Name == name })
	return name, rest, ok
}

func cutWord(s string) (word, rest string) {
	i := strings.IndexFunc(s, unicode.IsSpace)
	if i < 0 {
		return s, ""
	}
	return s[:i], strings.TrimSpace(s[i:])
}

// act is what a directive does, nil when there is no such directive. An error ends the turn.
func act(name string) func(*turn, string) error {
	switch name {
	case "RECALL":
		return (*turn).recall
	case "THINK":
		return (*turn).think
	case "PLAN":
		return (*turn).plan
	case "TOOL":
		return (*turn).runTool
	case "ASK":
		return (*turn).ask
	case "READ":
		return (*turn).readFile
	case "ELICIT":
		return (*turn).elicit
	case "MODE":
		return (*turn).switchMode
	case "CODE":
		return func(t *turn, _ string) error { return t.stream(sampleMarkdown) }
	case "IMAGE":
		return (*turn).image
	case "LINK":
		return (*turn).link
	case "RESOURCE":
		return (*turn).resource
	case "SLOW":
		return (*turn).slow
	case "LONG":
		return (*turn).long
	case "RUNES":
		return (*turn).runes
	case "SAY":
		return (*turn).sayBody
	case "RAW":
		return (*turn).raw
	case "NEXT":
		return (*turn).nextTime
	case "COMPACT":
		return (*turn).compact
	default:
		return actBadly(name)
	}
}

// actBadly is the directives that misbehave.
func actBadly(name string) func(*turn, string) error {
	switch name {
	case "FAIL":
		return (*turn).fail
	case "CRASH":
		return (*turn).crash
	case "EMPTY":
		return func(t *turn, _ string) error { t.quiet = true; return nil }
	case "REFUSE":
		return func(*turn, string) error { return stopError{acp.StopReasonRefusal} }
	case "MAXTOKENS":
		return (*turn).maxTokens
	case "IGNORECANCEL":
		return (*turn).ignoreCancel
	case "LATE":
		return (*turn).late
	case "BACKGROUND":
		return (*turn).background
	default:
		return nil
	}
}

// Bounds of what a directive may ask for.
const (
	maxTicks = 1_000_000
	maxPause = time.Hour
	maxLong  = 64 << 10 // KiB
	maxRunes = 1 << 20
)

// times reads "<n>x<ms>".
func times(arg string) (n int, pause time.Duration, ok bool) {
	a, b, ok := strings.Cut(arg, "x")
	if !ok {
		return 0, 0, false
	}
	n, err1 := strconv.Atoi(a)
	ms, err2 := strconv.Atoi(b)
	pause = time.Duration(ms) * time.Millisecond
	if err1 != nil || err2 != nil || n < 0 || ms < 0 || n > maxTicks || pause > maxPause {
		return 0, 0, false
	}
	return n, pause, true
}

// number reads an argument from 0 to limit; none gives def.
func number(name, arg string, def, limit int) (int, error) {
	if arg == "" {
		return def, nil
	}
	n, err := strconv.Atoi(arg)
	if err != nil || n < 0 || n > limit {
		return 0, badArg(name, arg, "a number from 0 to "+strconv.Itoa(limit))
	}
	return n, nil
}

func badArg(name, arg, want string) error {
	return acp.NewInvalidParams(reason(name + ": want " + want + ", got " + strconv.Quote(arg)))
}
