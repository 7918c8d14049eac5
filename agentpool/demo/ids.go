package demo

import (
	"crypto/rand"
	"encoding/hex"
	"strings"
)

// newUUID returns a random UUID (version 4): ACP wants them for message ids, and sessions use them too.
func newUUID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	return format(b)
}

func format(b [16]byte) string {
	h := hex.EncodeToString(b[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// canonicalUUID returns the lower-case spelling of a UUID, "" when s is none. Only canonical ids become file names, so no id of
// a client reaches outside the store.
func canonicalUUID(s string) string {
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return ""
	}
	raw, err := hex.DecodeString(s[:8] + s[9:13] + s[14:18] + s[19:23] + s[24:])
	if err != nil {
		return ""
	}
	return format([16]byte(raw))
}

// titleOf is the title of a session whose first message is text: its first line, at most 60 runes.
func titleOf(text string) string {
	for line := range strings.Lines(text) {
		if line = strings.Join(strings.Fields(cutRunes(line, 1000)), " "); line != "" {
			return cutRunes(line, 60)
		}
	}
	return "Untitled"
}

// cutRunes cuts text to at most n runes, the last of which is then an ellipsis.
func cutRunes(text string, n int) string {
	count, end := 0, 0
	for i := range text {
		if count++; count == n {
			end = i
		}
		if count > n {
			return strings.TrimSpace(text[:end]) + "…"
		}
	}
	return text
}
