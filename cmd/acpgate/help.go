package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/alecthomas/kong"
)

const helpWidth = 100

// flagGroups are the sections of the manual.
var flagGroups = []kong.Group{
	{Key: "listen", Title: "Listening:"},
	{Key: "access", Title: "Access:"},
	{Key: "agents", Title: "Agents and directories:"},
	{Key: "state", Title: "State:"},
	{Key: "sessions", Title: "Sessions:"},
	{Key: "journal", Title: "Journal (what a client that comes back or joins late can still be sent):"},
	{Key: "limits", Title: "Limits and times:"},
	{Key: "logs", Title: "Logs:"},
}

const manualIntro = `acpgate puts any ACP agent behind an HTTP/WebSocket gateway, so that a browser can talk to it.

Usage: acpgate [serve] [flags]
       acpgate COMMAND [flags]
`

const manualOutro = `
Values:
  TIME is a number with a unit: 500ms, 20s, 30m, 24h. SIZE is a number of bytes, or one with a unit: KiB,
  MiB or GiB. Every flag can also be set by the variable named below it; the flag wins. In a variable,
  values of a repeatable flag stand one per line. Unknown flags and unknown ACPGATE_* variables are errors.

Exit status:
  0  ended as asked; all turns had ended
  1  failed while it ran
  2  wrong flags, variables or agents file
  3  cannot listen on the address
  4  another gateway uses the state directory
  5  ended with turns cut short: --drain-timeout passed, or a second signal came

Examples:
  acpgate                                        the demo agent on http://127.0.0.1:8080
  acpgate --agent opencode="opencode acp"        a real agent
  acpgate --agents agents.yaml --root ~/src      several, and where they may work
  acpgate token add ann                          access for somebody else
`

// manual prints what --help shows: for the program and the commands with its flags the whole manual, for other commands
// kong's page.
func manual(options kong.HelpOptions, ctx *kong.Context) error {
	serve := commandNode(ctx.Model.Node, "serve")
	if selected := ctx.Selected(); selected != nil && selected != serve && selected.Name != "check-config" {
		return kong.DefaultHelpPrinter(options, ctx)
	}
	var b strings.Builder
	b.WriteString(manualIntro)
	b.WriteString("\nCommands:\n")
	for _, node := range ctx.Model.Children {
		if !node.Hidden {
			printEntry(&b, node.Name, []string{node.Help})
		}
	}
	for _, group := range flagGroups {
		fmt.Fprintf(&b, "\n%s\n", group.Title)
		for _, flag := range serve.Flags {
			if flag.Group != nil && flag.Group.Key == group.Key {
				printFlag(&b, flag)
			}
		}
	}
	b.WriteString(manualOutro)
	_, err := io.WriteString(ctx.Stdout, b.String())
	return err
}

func commandNode(root *kong.Node, name string) *kong.Node {
	for _, child := range root.Children {
		if child.Name == name {
			return child
		}
	}
	return nil
}

func printFlag(b *strings.Builder, flag *kong.Flag) {
	left := "--" + flag.Name
	if !flag.IsBool() {
		left += " " + flag.PlaceHolder
	}
	last := envName(flag.Name)
	if flag.HasDefault {
		last += ", default " + flag.Default
	}
	printEntry(b, left, []string{flag.Help, last})
}

// printEntry writes a name on the left and wrapped paragraphs on the right.
func printEntry(b *strings.Builder, left string, paragraphs []string) {
	const column = 28
	if len(left) > column-4 {
		fmt.Fprintf(b, "  %s\n", left)
		left = ""
	}
	for _, paragraph := range paragraphs {
		for _, line := range wrap(paragraph, helpWidth-column) {
			fmt.Fprintf(b, "  %-*s%s\n", column-2, left, line)
			left = ""
		}
	}
}

// wrap breaks text between words into lines of at most width bytes; a longer word has a line of its own.
func wrap(text string, width int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		switch {
		case line == "":
			line = word
		case len(line)+1+len(word) <= width:
			line += " " + word
		default:
			lines = append(lines, line)
			line = word
		}
	}
	return append(lines, line)
}
