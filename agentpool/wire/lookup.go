package wire

import (
	"bytes"
	"iter"
)

// Lookup returns the place in obj of the value at path, a list of member names, one for each level. Names that were
// written with escapes are understood. obj must be an object that Parse has accepted, or a part of a frame that is one;
// the result is the zero Span if there is no such member, or if obj is anything else. With an empty path it is obj itself.
func Lookup(obj []byte, path ...string) Span {
	at := Span{skipSpace(obj, 0), len(obj)}
	for _, name := range path {
		at = member(obj, at.Start, name)
		if !at.Present() {
			return Span{}
		}
	}
	return at
}

// member finds the value of the member called name in the object at b[i].
func member(b []byte, i int, name string) Span {
	if i >= len(b) || b[i] != '{' {
		return Span{}
	}
	i = skipSpace(b, i+1)
	for i < len(b) && b[i] == '"' {
		end := skipString(b, i)
		found := Equal(b[i:end], name)
		i = skipSpace(b, end)
		if i >= len(b) || b[i] != ':' {
			return Span{}
		}
		i = skipSpace(b, i+1)
		end = skipValue(b, i)
		if found {
			return Span{i, end}
		}
		i = skipSpace(b, end)
		if i >= len(b) || b[i] != ',' {
			return Span{}
		}
		i = skipSpace(b, i+1)
	}
	return Span{}
}

// Members goes through the members of obj in order: names as written, with their quotes, and raw values. obj is as for
// Lookup; of anything but an object there are none.
func Members(obj []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(name, value []byte) bool) {
		i := skipSpace(obj, 0)
		if i >= len(obj) || obj[i] != '{' {
			return
		}
		for i = skipSpace(obj, i+1); i < len(obj) && obj[i] == '"'; i = skipSpace(obj, i+1) {
			end := skipString(obj, i)
			name := obj[i:end:end]
			if i = skipSpace(obj, end); i >= len(obj) || obj[i] != ':' {
				return
			}
			i = skipSpace(obj, i+1)
			end = skipValue(obj, i)
			if !yield(name, obj[i:end:end]) {
				return
			}
			if i = skipSpace(obj, end); i >= len(obj) || obj[i] != ',' {
				return
			}
		}
	}
}

func skipSpace(b []byte, i int) int {
	for i < len(b) && isSpace(b[i]) {
		i++
	}
	return i
}

// skipString returns the index after the string at b[i], len(b) if it has no end.
func skipString(b []byte, i int) int {
	i++
	for {
		n := bytes.IndexByte(b[i:], '"')
		if n < 0 {
			return len(b)
		}
		end := i + n
		if body := b[i:end]; (len(body)-len(bytes.TrimRight(body, `\`)))%2 == 0 {
			return end + 1 // the backslashes before the quote, if any, escape each other
		}
		i = end + 1
	}
}

// skipValue returns the index after the value at b[i], without checking it; len(b) if it has no end.
func skipValue(b []byte, i int) int {
	depth := 0
	for i < len(b) {
		switch b[i] {
		case '"':
			i = skipString(b, i)
		case '{', '[':
			depth++
			i++
			continue
		case '}', ']':
			if depth--; depth < 0 {
				return i
			}
			i++
		case ',', ':', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return i
			}
			i++
			continue
		default:
			for i < len(b) && !isDelim(b[i]) {
				i++
			}
		}
		if depth == 0 {
			return i
		}
	}
	return len(b)
}

func isDelim(c byte) bool {
	switch c {
	case ',', ':', '}', ']', '{', '[', '"', ' ', '\t', '\r', '\n':
		return true
	}
	return false
}
