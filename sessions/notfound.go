package sessions

import (
	"bytes"
	"strings"
)

// notFoundTexts are the shapes in which agents say that they do not know a session, in lower case. Seen in the wild: the
// codes -32001, -32602 and -32603 with one of these in the message or in data.
var notFoundTexts = []string{
	"session not found",
	"not found: session",
	"no such session",
	"unknown session",
	"no previous sessions found",
	"no conversation found",
	"no rollout found",
	"notfounderror",
	"resource not found",
	"does not exist",
	"query closed before response received",
}

func looksNotFound(code int, message string, data []byte) bool {
	switch code {
	case -32001, CodeInvalidParams, CodeInternal:
	default:
		return false
	}
	m := strings.ToLower(message)
	d := bytes.ToLower(data)
	for _, t := range notFoundTexts {
		if strings.Contains(m, t) || bytes.Contains(d, []byte(t)) {
			return true
		}
	}
	// "Session 0190… not found", "session … is not known"
	return strings.Contains(m, "session") && (strings.Contains(m, "not found") || strings.Contains(m, "unknown") || strings.Contains(m, "not known"))
}
