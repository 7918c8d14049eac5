package wire

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// str scans the string at i and reports whether it holds escapes.
func (s *scanner) str(i int) (end int, escaped bool) {
	const (
		ones  = 0x0101010101010101
		highs = 0x8080808080808080
	)
	b := s.b
	i++
	for {
		// Eight bytes at a time, to the first that needs a look: quote, backslash, control character or one beyond ASCII.
		// The lowest bit set in hit is exact, because a borrow only ever comes from a byte that is a hit itself.
		for i+8 <= len(b) {
			x := binary.LittleEndian.Uint64(b[i:])
			hit := ((x - ones*' ') | ((x ^ ones*'"') - ones) | ((x ^ ones*'\\') - ones) | x) & highs
			if hit == 0 {
				i += 8
				continue
			}
			i += bits.TrailingZeros64(hit) >> 3
			break
		}
		if i >= len(b) {
			return s.fail(ErrSyntax, i, "unexpected end of a string"), false
		}
		switch c := b[i]; {
		case c == '"':
			return i + 1, escaped
		case c == '\\':
			escaped = true
			if i = s.escape(i); i < 0 {
				return -1, false
			}
		case c < ' ':
			return s.fail(ErrSyntax, i, "control character in a string"), false
		case c < utf8.RuneSelf: // one of the last seven bytes
			i++
		default:
			for i < len(b) && b[i] >= utf8.RuneSelf {
				if c := b[i]; c > 0xE0 && c < 0xF0 && c != 0xED && i+2 < len(b) && b[i+1]&0xC0 == 0x80 && b[i+2]&0xC0 == 0x80 {
					i += 3 // most of the world's scripts
					continue
				}
				r, n := utf8.DecodeRune(b[i:])
				if r == utf8.RuneError && n <= 1 {
					return s.fail(ErrUTF8, i, "not UTF-8"), false
				}
				i += n
			}
		}
	}
}

// escape scans the escape at i, for a surrogate pair both halves.
func (s *scanner) escape(i int) int {
	if i+1 >= len(s.b) {
		return s.fail(ErrSyntax, i+1, "unexpected end of a string")
	}
	switch s.b[i+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i + 2
	case 'u':
		u, ok := hex4(s.b, i+2)
		if !ok {
			return s.fail(ErrSyntax, i, "bad \\u escape")
		}
		if !isSurrogate(u) {
			return i + 6
		}
		if _, end := surrogatePair(s.b, i, u); end == i+12 {
			return end
		}
		if !s.loneSurrogates {
			return s.fail(ErrUTF8, i, "half a surrogate pair")
		}
		return i + 6
	default:
		return s.fail(ErrSyntax, i, "unknown escape")
	}
}
