package agentpool

import (
	"errors"
	"fmt"
	"strings"
)

// ParseFlag reads one agent from `NAME=COMMAND`, the form of the --agent flag. COMMAND is split into words as a shell does
// (blanks, single and double quotes, backslash), but no shell is run and nothing is expanded. Leading VAR=value words set
// the agent's environment:
//
//	opencode=opencode acp
//	claude=ANTHROPIC_MODEL=sonnet npx -y "@agentclientprotocol/claude-agent-acp"
func ParseFlag(s string) (Spec, error) {
	name, command, ok := strings.Cut(s, "=")
	name = strings.TrimSpace(name)
	if !ok {
		return Spec{}, fmt.Errorf("agent %q: must be NAME=COMMAND", s)
	}
	words, err := splitWords(command)
	if err != nil {
		return Spec{}, fmt.Errorf("agent %s: %w", name, err)
	}
	spec := Spec{Name: name}
	for len(words) > 0 {
		key, value, ok := strings.Cut(words[0], "=")
		if !ok || !envForm.MatchString(key) {
			break
		}
		if spec.Env == nil {
			spec.Env = map[string]string{}
		}
		spec.Env[key] = value
		words = words[1:]
	}
	if len(words) > 0 {
		spec.Command, spec.Args = words[0], words[1:]
	}
	return spec, spec.Validate()
}

// splitWords splits s as the POSIX shell does, without any expansion.
func splitWords(s string) ([]string, error) {
	var (
		words  []string
		word   strings.Builder
		inWord bool
		quote  byte
	)
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case quote == '\'':
			if c == '\'' {
				quote = 0
			} else {
				word.WriteByte(c)
			}
		case c == '\\':
			i++
			if i == len(s) {
				return nil, errors.New("ends with a backslash")
			}
			if quote == '"' && !strings.ContainsRune("\"\\$`", rune(s[i])) {
				word.WriteByte('\\')
			}
			word.WriteByte(s[i])
			inWord = true
		case quote == '"':
			if c == '"' {
				quote = 0
			} else {
				word.WriteByte(c)
			}
		case c == '\'' || c == '"':
			quote, inWord = c, true
		case c == ' ' || c == '\t' || c == '\n':
			if inWord {
				words = append(words, word.String())
				word.Reset()
				inWord = false
			}
		default:
			word.WriteByte(c)
			inWord = true
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("a %c quote has no end", quote)
	}
	if inWord {
		words = append(words, word.String())
	}
	return words, nil
}
