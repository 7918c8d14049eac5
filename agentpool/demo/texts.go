package demo

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
)

const welcome = "**Hello!** I am the demo agent of acpgate. There is no model behind me: I show what the page can do.\n\n" +
	"Try one of these:\n\n" +
	"- `CODE` streams markdown with code, a table and a list\n" +
	"- `PLAN` works through a plan, `THINK` thinks aloud\n" +
	"- `TOOL` runs a tool call with a diff\n" +
	"- `ASK a line of text` asks for permission and then writes `demo.txt`\n" +
	"- `SLOW:20x500` takes ten seconds, to try **Stop**\n\n" +
	"`help` lists everything. Whatever else you write, I echo:\n"

const helpText = "A prompt is echoed word by word. Words in capitals at its beginning do more; several may follow each other.\n\n" +
	"| write | to see |\n|---|---|\n" +
	"| `CODE` | markdown with code, a table and a list |\n" +
	"| `THINK` | thoughts before the answer |\n" +
	"| `PLAN` | a plan that makes progress |\n" +
	"| `TOOL`, `TOOL:execute` | a tool call; kinds: read, edit, delete, move, search, execute, think, fetch, other |\n" +
	"| `ASK text`, `ASK:execute` | a permission request; an allowed edit adds the text to `demo.txt` |\n" +
	"| `READ`, `READ:name` | a file of the session's directory |\n" +
	"| `ELICIT`, `ELICIT:url` | a form, or a page to visit |\n" +
	"| `IMAGE`, `LINK`, `RESOURCE` | other kinds of content |\n" +
	"| `MODE:code` | a change of mode by the agent |\n" +
	"| `RECALL` | every text of yours in the context |\n" +
	"| `COMPACT` | the context replaced by a summary |\n" +
	"| `SLOW:20x500` | 20 ticks, 500 ms apart |\n" +
	"| `LONG:64` | 64 KiB in one piece |\n" +
	"| `BACKGROUND:3000` | a message in 3 s that nobody asked for |\n" +
	"| `FAIL`, `REFUSE`, `EMPTY`, `CRASH` | an agent with problems |\n" +
	"| `IGNORECANCEL`, `LATE` | an agent that does not stop, or not in time |\n\n"

const sampleMarkdown = "Here is a function that greets:\n\n" +
	"```go\n// Greet returns a greeting for name.\nfunc Greet(name string) string {\n\tif name == \"\" {\n\t\tname = \"world\"\n\t}\n" +
	"\treturn fmt.Sprintf(\"Hello, %s!\", name)\n}\n```\n\n" +
	"| input | output |\n|---|---|\n| `\"\"` | Hello, world! |\n| `\"Ada\"` | Hello, Ada! |\n\n" +
	"1. It has **no side effects**.\n2. It never fails.\n   - Not even for an *empty* name.\n\n" +
	"> Simple things should be simple. See [example.com](https://example.com/).\n"

const (
	sampleBefore = "package greeting\n\nfunc Greet(name string) string {\n\treturn \"Hello, \" + name\n}\n"
	sampleAfter  = "package greeting\n\n// Greet returns a greeting for name.\nfunc Greet(name string) string {\n" +
		"\tif name == \"\" {\n\t\tname = \"world\"\n\t}\n\treturn \"Hello, \" + name + \"!\"\n}\n"
)

func thoughtsAbout(text string) string {
	return fmt.Sprintf("The user wrote %q. An echo will do, but it should be a careful one.", cutRunes(text, 60))
}

// friendly is what the agent says to somebody who does not know it yet, "" for any other prompt.
func friendly(text string) string {
	if len(text) > 100 {
		return ""
	}
	text = strings.ToLower(strings.TrimFunc(text, func(r rune) bool { return !unicode.IsLetter(r) }))
	switch {
	case text == "help":
		return helpText
	case slices.Contains([]string{"hello", "hi", "hey", "hello there", "hi there", "good morning", "hallo", "what can you do"}, text):
		return welcome
	default:
		return ""
	}
}
