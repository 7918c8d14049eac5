package wire

import (
	"bytes"
	"encoding/binary"
	"iter"
	"math/bits"
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
	const (
		ones  = 0x0101010101010101
		highs = 0x8080808080808080
		short = 64 // bytes up to which a look at each word is faster than a search
	)
	i++
	for end := min(i+short, len(b)-7); i < end; i += 8 {
		x := binary.LittleEndian.Uint64(b[i:])
		quote, slash := x^ones*'"', x^ones*'\\'
		hit := ((quote-ones)&^quote | (slash-ones)&^slash) & highs
		if hit == 0 {
			continue
		}
		i += bits.TrailingZeros64(hit) >> 3
		if b[i] == '"' {
			return i + 1
		}
		break
	}
	for i < len(b) {
		n := bytes.IndexByte(b[i:], '"')
		if n < 0 {
			break
		}
		quote := i + n
		for i <= quote {
			n := bytes.IndexByte(b[i:quote], '\\')
			if n < 0 {
				return quote + 1
			}
			i += n + 2 // beyond quote if that is what is escaped
		}
	}
	return len(b)
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
