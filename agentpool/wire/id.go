package wire

import (
	"bytes"
	"strconv"
)

// CanonicalID returns a key that is equal for two spellings of one id and different for different ids: `"a"` and
// `"\u0061"` are one, so are 1, 1.0 and 10e-1 (a peer that keeps numbers as floats may answer 7 with 7.0), while 1 and
// "1" are two. It is exact: no number is rounded. A number whose exponent is beyond 32 bits is compared as
// written. id is a raw id of a scanned frame.
func CanonicalID(id []byte) string {
	if len(id) > 0 && id[0] == '"' {
		if bytes.IndexByte(id, '\\') < 0 {
			return string(id)
		}
		return string(AppendQuoteBytes(nil, appendDecoded(nil, id[1:max(1, len(id)-1)])))
	}
	if isPlainInt(id) {
		return string(id)
	}
	return canonicalNumber(id)
}

const maxZeros = 20 // trailing zeros that a canonical number spells out

// isPlainInt reports whether id is an integer that is its own canonical form.
func isPlainInt(id []byte) bool {
	digits := bytes.TrimPrefix(id, []byte("-"))
	if len(digits) == 0 || len(digits) > maxZeros || digits[0] == '0' && len(id) > 1 {
		return false
	}
	for _, c := range digits {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}

// canonicalNumber brings a number to an integer with up to maxZeros trailing zeros, or to digits without leading or
// trailing zeros and an exponent.
func canonicalNumber(id []byte) string {
	sign := ""
	rest := id
	if len(rest) > 0 && rest[0] == '-' {
		sign, rest = "-", rest[1:]
	}
	exp := 0
	if i := bytes.IndexAny(rest, "eE"); i >= 0 {
		text := bytes.TrimPrefix(rest[i+1:], []byte("+"))
		n, err := strconv.ParseInt(string(text), 10, 32)
		if err != nil {
			return string(id)
		}
		exp, rest = int(n), rest[:i]
	}
	digits := make([]byte, 0, len(rest)+maxZeros)
	if whole, frac, ok := bytes.Cut(rest, []byte(".")); ok {
		digits = append(append(digits, whole...), frac...)
		exp -= len(frac)
	} else {
		digits = append(digits, rest...)
	}
	digits = bytes.TrimLeft(digits, "0")
	n := len(digits)
	digits = bytes.TrimRight(digits, "0")
	exp += n - len(digits)
	if len(digits) == 0 {
		return "0"
	}
	if exp >= 0 && exp <= maxZeros {
		for range exp {
			digits = append(digits, '0')
		}
		return sign + string(digits)
	}
	return sign + string(digits) + "e" + strconv.Itoa(exp)
}
