package wire

import (
	"errors"
	"strings"
	"testing"
)

func TestW3_ErrorsOfParse(t *testing.T) {
	deep := func(n int) string { // valid, n levels with the message
		return `{"jsonrpc":"2.0","method":"x","params":` + strings.Repeat("[", n-1) + strings.Repeat("]", n-1) + `}`
	}
	tests := []struct {
		name   string
		in     string
		lim    Limits
		kind   ErrorKind
		offset int
		id     string // ID of the frame returned with the error
	}{
		{"nothing", "", Limits{}, ErrSyntax, 0, ""},
		{"only white space", " \n\t ", Limits{}, ErrSyntax, 4, ""},
		{"a word", "Running migration 3...", Limits{}, ErrSyntax, 0, ""},
		{"escape sequence of a terminal", "\x1b[2K\x1b[1GLoaded cached credentials.", Limits{}, ErrSyntax, 0, ""},
		{"byte order mark", "\ufeff{}", Limits{}, ErrSyntax, 0, ""},
		{"NUL", "\x00", Limits{}, ErrSyntax, 0, ""},
		{"NUL after the value", "{}\x00", Limits{}, ErrSyntax, 2, ""},
		{"NUL in a string", "{\"a\":\"\x00\"}", Limits{}, ErrSyntax, 6, ""},
		{"newline in a string", "{\"a\":\"12345678\n\"}", Limits{}, ErrSyntax, 14, ""},
		{"two values", `{"jsonrpc":"2.0","method":"x"}{"jsonrpc":"2.0","method":"y"}`, Limits{}, ErrSyntax, 30, ""},
		{"two lines", "  {}\n{}", Limits{}, ErrSyntax, 5, ""},
		{"open object", `{"a":1`, Limits{}, ErrSyntax, 6, ""},
		{"open name", `{"a`, Limits{}, ErrSyntax, 3, ""},
		{"name only", `{"a"}`, Limits{}, ErrSyntax, 4, ""},
		{"no value", `{"a":}`, Limits{}, ErrSyntax, 5, ""},
		{"no name", `{1:2}`, Limits{}, ErrSyntax, 1, ""},
		{"comma first", `{,"a":1}`, Limits{}, ErrSyntax, 1, ""},
		{"comma last", `{"a":1,}`, Limits{}, ErrSyntax, 7, ""},
		{"comma last in an array", `[1,]`, Limits{}, ErrSyntax, 3, ""},
		{"no comma", `{"a":1 "b":2}`, Limits{}, ErrSyntax, 7, ""},
		{"no comma in an array", `[1 2]`, Limits{}, ErrSyntax, 3, ""},
		{"wrong bracket", `[1}`, Limits{}, ErrSyntax, 2, ""},
		{"open array", `[`, Limits{}, ErrSyntax, 1, ""},
		{"comment", `{/**/}`, Limits{}, ErrSyntax, 1, ""},
		{"single quotes", `{'a':1}`, Limits{}, ErrSyntax, 1, ""},
		{"literal cut", `[tru]`, Limits{}, ErrSyntax, 1, ""},
		{"literal in the wrong case", `[True]`, Limits{}, ErrSyntax, 1, ""},
		{"literal with a tail", `[nulls]`, Limits{}, ErrSyntax, 5, ""},
		{"NaN", `[NaN]`, Limits{}, ErrSyntax, 1, ""},
		{"plus", `[+1]`, Limits{}, ErrSyntax, 1, ""},
		{"leading zero", `[01]`, Limits{}, ErrSyntax, 2, ""},
		{"minus alone", `[-]`, Limits{}, ErrSyntax, 2, ""},
		{"point first", `[.5]`, Limits{}, ErrSyntax, 1, ""},
		{"point last", `[5.]`, Limits{}, ErrSyntax, 3, ""},
		{"exponent without digits", `[1e+]`, Limits{}, ErrSyntax, 4, ""},
		{"hexadecimal", `[0x10]`, Limits{}, ErrSyntax, 2, ""},
		{"form feed", "[1,\f2]", Limits{}, ErrSyntax, 3, ""},
		{"unknown escape", `["\x41"]`, Limits{}, ErrSyntax, 2, ""},
		{"escape cut", `["\`, Limits{}, ErrSyntax, 3, ""},
		{"unicode escape cut", `["\u12`, Limits{}, ErrSyntax, 2, ""},
		{"unicode escape with other digits", `["\u12g4"]`, Limits{}, ErrSyntax, 2, ""},

		{"stray byte", "{\"a\":\"\xff\"}", Limits{}, ErrUTF8, 6, ""},
		{"rune cut by the quote", "{\"a\":\"\xed\x95\"}", Limits{}, ErrUTF8, 6, ""},
		{"overlong", "{\"a\":\"\xc0\x80\"}", Limits{}, ErrUTF8, 6, ""},
		{"overlong of three", "{\"a\":\"\xe0\x80\x80\"}", Limits{}, ErrUTF8, 6, ""},
		{"surrogate in UTF-8", "{\"a\":\"\xed\xa0\x80\"}", Limits{}, ErrUTF8, 6, ""},
		{"beyond Unicode", "{\"a\":\"\xf4\x90\x80\x80\"}", Limits{}, ErrUTF8, 6, ""},
		{"not UTF-8 in a name", "{\"\xff\":1}", Limits{}, ErrUTF8, 2, ""},
		{"high half of a pair", `["\ud83d"]`, Limits{}, ErrUTF8, 2, ""},
		{"high half and text", `["\ud83dabcdefgh"]`, Limits{}, ErrUTF8, 2, ""},
		{"high half twice", `["\ud83d\ud83d"]`, Limits{}, ErrUTF8, 2, ""},
		{"high half before another escape", `["\ud83d\u0041"]`, Limits{}, ErrUTF8, 2, ""},
		{"low half", `["\ude00"]`, Limits{}, ErrUTF8, 2, ""},

		{"deeper than the default", deep(513), Limits{}, ErrDepth, 39 + 511, ""},
		{"deeper than set", `{"a":{"b":[]}}`, Limits{MaxDepth: 2}, ErrDepth, 10, ""},
		{"object deeper than set", `{"a":{"b":{}}}`, Limits{MaxDepth: 2}, ErrDepth, 10, ""},
		{"bomb", strings.Repeat("[", 1_000_000), Limits{MaxDepth: 1 << 30}, ErrDepth, MaxMaxDepth, ""},
		{"bomb of objects", strings.Repeat(`{"a":`, 1_000_000), Limits{MaxDepth: 1 << 30}, ErrDepth, 5 * MaxMaxDepth, ""},

		{"name twice", `{"id":1,"id":1}`, Limits{}, ErrDuplicateKey, 8, ""},
		{"name twice, once with escapes", `{"jsonrpc":"2.0","method":"x","params":{"sessionId":"a","sessi\u006fnId":"b"}}`, Limits{}, ErrDuplicateKey, 56, ""},
		{"name twice, with escapes first", `{"\u0061":1,"a":2}`, Limits{}, ErrDuplicateKey, 12, ""},
		{"name twice, both with escapes", `{"\u0061":1,"b":1,"\u0061":2}`, Limits{}, ErrDuplicateKey, 18, ""},
		{"name twice, deep", `{"a":[{"b":{"c":1,"d":2,"c":3}}]}`, Limits{}, ErrDuplicateKey, 24, ""},
		{"name twice, after a nested object", `{"a":{"b":1},"a":1}`, Limits{}, ErrDuplicateKey, 13, ""},
		{"name twice in a batch", `[{"a":1,"a":1}]`, Limits{}, ErrDuplicateKey, 8, ""},
		{"empty name twice", `{"":1,"":1}`, Limits{}, ErrDuplicateKey, 6, ""},
		{"__proto__ twice", `{"__proto__":1,"__proto__":1}`, Limits{}, ErrDuplicateKey, 15, ""},
		{"half pairs are one name", `{"\ud800":1,"\udfff":1}`, Limits{LoneSurrogates: true}, ErrDuplicateKey, 12, ""},

		{"batch", ` [{"jsonrpc":"2.0","id":1,"method":"x"}]`, Limits{}, ErrBatch, 1, ""},
		{"empty batch", `[]`, Limits{}, ErrBatch, 0, ""},

		{"number", `42`, Limits{}, ErrNotJSONRPC, 0, ""},
		{"string", `"x"`, Limits{}, ErrNotJSONRPC, 0, ""},
		{"null", `null`, Limits{}, ErrNotJSONRPC, 0, ""},
		{"empty object", `{}`, Limits{}, ErrNotJSONRPC, 0, ""},
		{"no version", `{"id":7,"method":"x"}`, Limits{}, ErrNotJSONRPC, 0, "7"},
		{"version 1", `{"id":7,"jsonrpc":"1.0","method":"x"}`, Limits{}, ErrNotJSONRPC, 18, "7"},
		{"version a number", `{"id":7,"jsonrpc":2.0,"method":"x"}`, Limits{}, ErrNotJSONRPC, 18, "7"},
		{"method a number", `{"jsonrpc":"2.0","id":"a","method":1}`, Limits{}, ErrNotJSONRPC, 35, `"a"`},
		{"method null", `{"jsonrpc":"2.0","method":null}`, Limits{}, ErrNotJSONRPC, 26, ""},
		{"params a string", `{"jsonrpc":"2.0","id":7,"method":"x","params":"y"}`, Limits{}, ErrNotJSONRPC, 46, "7"},
		{"params null", `{"jsonrpc":"2.0","id":7,"method":"x","params":null}`, Limits{}, ErrNotJSONRPC, 46, "7"},
		{"method and result", `{"jsonrpc":"2.0","id":7,"method":"x","result":1}`, Limits{}, ErrNotJSONRPC, 33, "7"},
		{"method and error", `{"jsonrpc":"2.0","id":7,"method":"x","error":{}}`, Limits{}, ErrNotJSONRPC, 33, "7"},
		{"result and error", `{"jsonrpc":"2.0","id":7,"result":null,"error":{}}`, Limits{}, ErrNotJSONRPC, 46, "7"},
		{"result and error null", `{"jsonrpc":"2.0","id":7,"result":1,"error":null}`, Limits{}, ErrNotJSONRPC, 43, "7"},
		{"neither", `{"jsonrpc":"2.0","id":7}`, Limits{}, ErrNotJSONRPC, 0, "7"},
		{"error a string", `{"jsonrpc":"2.0","id":7,"error":"no"}`, Limits{}, ErrNotJSONRPC, 32, "7"},
		{"result without id", `{"jsonrpc":"2.0","result":1}`, Limits{}, ErrNotJSONRPC, 0, ""},
		{"error without id", `{"jsonrpc":"2.0","error":{}}`, Limits{}, ErrNotJSONRPC, 0, ""},
		{"log line that is JSON", `{"level":"info","msg":"listening"}`, Limits{}, ErrNotJSONRPC, 0, ""},

		{"id null", `{"jsonrpc":"2.0","id":null,"method":"x"}`, Limits{}, ErrBadID, 22, ""},
		{"id null in an error", `{"jsonrpc":"2.0","id":null,"error":{"code":-32700}}`, Limits{}, ErrBadID, 22, ""},
		{"id true", `{"jsonrpc":"2.0","id":true,"method":"x"}`, Limits{}, ErrBadID, 22, ""},
		{"id object", `{"jsonrpc":"2.0","id":{},"method":"x"}`, Limits{}, ErrBadID, 22, ""},
		{"id array", `{"jsonrpc":"2.0","id":[1],"result":1}`, Limits{}, ErrBadID, 22, ""},
		{"id longer than set", `{"jsonrpc":"2.0","id":"123","method":"x"}`, Limits{MaxID: 4}, ErrBadID, 22, ""},
		{"id longer than the default", `{"jsonrpc":"2.0","id":` + strings.Repeat("1", 1025) + `,"method":"x"}`, Limits{}, ErrBadID, 22, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f, err := Parse([]byte(tt.in), tt.lim)
			var e *Error
			if !errors.As(err, &e) {
				t.Fatalf("err = %v, want an *Error", err)
			}
			if e.Kind != tt.kind || e.Offset != tt.offset {
				t.Errorf("error %s at %d, want %s at %d (%v)", e.Reason(), e.Offset, (&Error{Kind: tt.kind}).Reason(), tt.offset, e)
			}
			if got := string(f.ID.Of(f.Raw)); got != tt.id || f.Kind != Invalid {
				t.Errorf("ID %q Kind %v, want ID %q and Invalid", got, f.Kind, tt.id)
			}
			wantRaw := ""
			if e.Code() == CodeInvalidRequest {
				wantRaw = strings.TrimSpace(tt.in)
			}
			if string(f.Raw) != wantRaw {
				t.Errorf("Raw = %q, want %q", f.Raw, wantRaw)
			}
		})
	}
}
