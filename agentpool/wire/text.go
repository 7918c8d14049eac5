package wire

import (
	"bytes"
	"errors"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

var errNotString = errors.New("wire: not a JSON string")

// Unquote decodes a raw JSON string token. Half a surrogate pair becomes U+FFFD. Anything else that is not a JSON string
// in UTF-8 is an error.
func Unquote(tok []byte) (string, error) {
	if !isString(tok) {
		return "", errNotString
	}
	body := tok[1 : len(tok)-1]
	if bytes.IndexByte(body, '\\') < 0 {
		return string(body), nil
	}
	return string(appendDecoded(make([]byte, 0, len(body)), body)), nil
}

// AppendUnquoted appends the decoded text of a raw JSON string token, as Unquote does. tok must come from a scanned frame;
// of anything that is not a string nothing is appended, and ok is false.
func AppendUnquoted(dst, tok []byte) (_ []byte, ok bool) {
	if len(tok) < 2 || tok[0] != '"' || tok[len(tok)-1] != '"' {
		return dst, false
	}
	return appendDecoded(dst, tok[1:len(tok)-1]), true
}

// isString reports whether tok is one whole JSON string.
func isString(tok []byte) bool {
	if len(tok) < 2 || tok[0] != '"' {
		return false
	}
	s := scanner{b: tok, loneSurrogates: true}
	end, _ := s.str(0)
	return end == len(tok)
}

// Equal reports whether the raw JSON string token tok decodes to s. It does not allocate. tok must come from a scanned
// frame; anything that is not a string equals nothing.
func Equal(tok []byte, s string) bool {
	if len(tok) < 2 || tok[0] != '"' || tok[len(tok)-1] != '"' {
		return false
	}
	body := tok[1 : len(tok)-1]
	switch { // most are told apart without a search for escapes, which only ever make a text shorter
	case len(body) < len(s):
		return false
	case len(body) == len(s):
		return string(body) == s && strings.IndexByte(s, '\\') < 0
	case s == "" || body[0] != s[0] && body[0] != '\\':
		return false
	}
	for {
		i := bytes.IndexByte(body, '\\')
		if i < 0 {
			return string(body) == s
		}
		if len(s) < i || string(body[:i]) != s[:i] {
			return false
		}
		var room [utf8.UTFMax]byte
		r, next := decodeEscape(body, i)
		enc := utf8.AppendRune(room[:0], r)
		s, body = s[i:], body[next:]
		if len(s) < len(enc) || s[:len(enc)] != string(enc) {
			return false
		}
		s = s[len(enc):]
	}
}

// AppendQuote appends s as a JSON string. Only what must be escaped is; bytes that are not UTF-8 become U+FFFD.
func AppendQuote(dst []byte, s string) []byte { return appendQuote(dst, s) }

// AppendQuoteBytes is AppendQuote for bytes.
func AppendQuoteBytes(dst, s []byte) []byte { return appendQuote(dst, s) }

func appendQuote[T string | []byte](dst []byte, s T) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	done := 0 // s[:done] is written
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, n := decodeRune(s[i:])
			if r == utf8.RuneError && n == 1 {
				dst = append(append(dst, s[done:i]...), "\uFFFD"...)
				done = i + n
			}
			i += n
			continue
		}
		if c >= ' ' && c != '"' && c != '\\' {
			i++
			continue
		}
		dst = append(dst, s[done:i]...)
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\b':
			dst = append(dst, '\\', 'b')
		case '\f':
			dst = append(dst, '\\', 'f')
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
		i++
		done = i
	}
	return append(append(dst, s[done:]...), '"')
}

func decodeRune[T string | []byte](s T) (rune, int) {
	var room [utf8.UTFMax]byte
	return utf8.DecodeRune(room[:copy(room[:], s)])
}

// appendDecoded appends the decoded text of a valid string body (a string token without its quotes).
func appendDecoded(dst, body []byte) []byte {
	for {
		i := bytes.IndexByte(body, '\\')
		if i < 0 {
			return append(dst, body...)
		}
		r, next := decodeEscape(body, i)
		dst = utf8.AppendRune(append(dst, body[:i]...), r)
		body = body[next:]
	}
}

// decodeEscape decodes the escape at b[i], a surrogate pair as one. What is no valid escape decodes to U+FFFD.
func decodeEscape(b []byte, i int) (r rune, next int) {
	if i+1 >= len(b) {
		return utf8.RuneError, len(b)
	}
	switch c := b[i+1]; c {
	case '"', '\\', '/':
		return rune(c), i + 2
	case 'b':
		return '\b', i + 2
	case 'f':
		return '\f', i + 2
	case 'n':
		return '\n', i + 2
	case 'r':
		return '\r', i + 2
	case 't':
		return '\t', i + 2
	case 'u':
		u, ok := hex4(b, i+2)
		if !ok {
			return utf8.RuneError, i + 2
		}
		if isSurrogate(u) {
			return surrogatePair(b, i, u)
		}
		return u, i + 6
	default:
		return utf8.RuneError, i + 2
	}
}

func isSurrogate(u rune) bool { return u&^0x7ff == 0xd800 }

// surrogatePair decodes the \u escape at b[i], whose value u is a surrogate, with the one after it. Half a pair gives
// U+FFFD and the end of the first escape.
func surrogatePair(b []byte, i int, u rune) (r rune, next int) {
	if i+7 < len(b) && b[i+6] == '\\' && b[i+7] == 'u' {
		if low, ok := hex4(b, i+8); ok {
			if r = utf16.DecodeRune(u, low); r != utf8.RuneError {
				return r, i + 12
			}
		}
	}
	return utf8.RuneError, i + 6
}

// hex4 reads four hexadecimal digits at b[i].
func hex4(b []byte, i int) (rune, bool) {
	if len(b)-i < 4 {
		return 0, false
	}
	var u rune
	for _, c := range b[i : i+4] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		u = u<<4 | rune(c)
	}
	return u, true
}
