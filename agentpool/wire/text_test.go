package wire

import (
	"strings"
	"testing"
)

func TestUnquote(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{`""`, ""},
		{`"a b"`, "a b"},
		{`"한글😀"`, "한글😀"},
		{`"\"\\\/\b\f\n\r\t"`, "\"\\/\b\f\n\r\t"},
		{`"\u0000\u0041\u00e9\uD55c"`, "\x00Aé한"},
		{`"x\ud83d\ude00y"`, "x😀y"},
		{`"\ud83d"`, "\ufffd"},
		{`"\ude00\ud83d"`, "\ufffd\ufffd"},
		{`"\ud83d\ud83d\ude00"`, "\ufffd😀"},
		{`"\ud83d\u0041"`, "\ufffdA"},
		{`"\ud83d\n"`, "\ufffd\n"},
		{`"\\u0041"`, `\u0041`},
	} {
		got, err := Unquote([]byte(tt.in))
		if err != nil || got != tt.want {
			t.Errorf("Unquote(%s) = %q, %v, want %q", tt.in, got, err, tt.want)
		}
		if !Equal([]byte(tt.in), tt.want) {
			t.Errorf("Equal(%s, %q) is false", tt.in, tt.want)
		}
		for _, other := range []string{tt.want + "x", "x" + tt.want, strings.ToUpper(tt.want) + "\x00", tt.want + "\ufffd"} {
			if Equal([]byte(tt.in), other) {
				t.Errorf("Equal(%s, %q) is true", tt.in, other)
			}
		}
		if tt.want != "" && Equal([]byte(tt.in), tt.want[:len(tt.want)-1]) {
			t.Errorf("Equal(%s) of a prefix", tt.in)
		}
	}
}

// Every byte at every place of a string, eight at a time or not.
func TestEveryByteInAString(t *testing.T) {
	for c := range 256 {
		for n := range 20 {
			for _, tail := range []string{"", "y", "yyyyyyyyyyyyyyy"} {
				tok := []byte(`"` + strings.Repeat("x", n) + string([]byte{byte(c)}) + tail + `"`)
				_, err := Parse(tok, Limits{})
				kind := err.(*Error).Kind
				want := ErrNotJSONRPC // valid
				switch {
				case c < ' ', c == '"', c == '\\':
					want = ErrSyntax
				case c >= 0x80:
					want = ErrUTF8
				}
				if kind != want {
					t.Fatalf("%q: %v, want %v", tok, err, want)
				}
			}
		}
	}
}

func TestUnquoteErrors(t *testing.T) {
	for _, in := range []string{
		``, `"`, `a`, `1`, `null`, `"a`, `a"`, `"a"b"`, `"a" `, ` "a"`, `"\"`, `"\x"`, `"\u12"`, "\"\n\"", "\"\xff\"", `{"a":1}`,
	} {
		if got, err := Unquote([]byte(in)); err == nil {
			t.Errorf("Unquote(%q) = %q without an error", in, got)
		}
	}
}

// Equal is for tokens of a frame; on anything else it must still not panic, and only say no.
func TestEqualOfOtherThings(t *testing.T) {
	for _, in := range []string{``, `"`, `1`, `null`, `"a`, `a"`, `\`, `"\"`, `"\u"`, `"\u12"`, `"\ud83d\u"`, `"\x"`} {
		if Equal([]byte(in), "a") || Equal([]byte(in), "1") {
			t.Errorf("Equal(%s) is true", in)
		}
	}
}

func TestAppendQuote(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"", `""`},
		{"a/b <>&\u2028\u007f", "\"a/b <>&\u2028\u007f\""},
		{"\"\\\b\f\n\r\t\x00\x1f", `"\"\\\b\f\n\r\t\u0000\u001f"`},
		{"한글😀", `"한글😀"`},
		{"a\xffb\xed\xa0\x80", "\"a\ufffdb\ufffd\ufffd\ufffd\""},
		{"\xe4\xbd", "\"\ufffd\ufffd\""},
		{"\ufffd", "\"\ufffd\""},
	} {
		if got := string(AppendQuote([]byte("x"), tt.in)); got != "x"+tt.want {
			t.Errorf("AppendQuote(%q) = %s, want x%s", tt.in, got, tt.want)
		}
		if got := string(AppendQuoteBytes(nil, []byte(tt.in))); got != tt.want {
			t.Errorf("AppendQuoteBytes(%q) = %s, want %s", tt.in, got, tt.want)
		}
	}
}

func TestLookup(t *testing.T) {
	obj := ` { "a" : 1 , "b":{"c":[{"d":0}, "]"],"\u0064":{"e":"x\"}","":null}}, "f\\":true,"last":-1.5e3}`
	for _, tt := range []struct {
		path []string
		want string
	}{
		{nil, strings.TrimSpace(obj)},
		{[]string{"a"}, "1"},
		{[]string{"b", "c"}, `[{"d":0}, "]"]`},
		{[]string{"b", "d", "e"}, `"x\"}"`},
		{[]string{"b", "d", ""}, "null"},
		{[]string{`f\`}, "true"},
		{[]string{"last"}, "-1.5e3"},
		{[]string{"c"}, ""},
		{[]string{"a", "x"}, ""},
		{[]string{"b", "c", "d"}, ""},
		{[]string{"b", "d", "e", "x"}, ""},
		{[]string{""}, ""},
	} {
		if got := string(Lookup([]byte(obj), tt.path...).Of([]byte(obj))); got != tt.want {
			t.Errorf("Lookup(%q) = %s, want %s", tt.path, got, tt.want)
		}
	}
	for _, in := range []string{``, `[]`, `"a"`, `{}`, `{`, `{"a`, `{"a"`, `{"a":`, `{"a":}`, `{"a":]`, `{"b":}`, `{"b":1`, `{"b":1,`, `{"b":[`, `{"b" 1}`, `{"b":1 "a":2}`, `{a:1}`} {
		if at := Lookup([]byte(in), "a"); at.Present() {
			t.Errorf("Lookup in %s found %v", in, at)
		}
	}
}

func TestCase16_CanonicalID(t *testing.T) {
	for _, same := range [][]string{
		{`0`, `-0`, `0.0`, `0e5`, `-0.00E-7`, `0E+1`},
		{`7`, `7.0`, `70e-1`, `0.7e1`, `7E0`, `7e+00`, `0.0007e4`},
		{`-7`, `-7.0`},
		{`700`, `7e2`, `7.00e+2`, `70000e-2`},
		{`0.5`, `5e-1`, `0.50`},
		{`9007199254740993`, `9007199254740993.0`},
		{`9007199254740992`},
		{`100000000000000000000`, `1e20`},
		{`1000000000000000000000`, `1e21`, `10e20`},
		{`1e400`, `10e399`},
		{`1e401`},
		{`1e99999999999`},
		{`1e099999999999`},
		{`"7"`, `"\u0037"`},
		{`"7.0"`},
		{`""`},
		{`"a\"\n<"`, `"\u0061\"\u000a\u003c"`, `"a\u0022\n\u003C"`},
		{`"0"`},
	} {
		want := CanonicalID([]byte(same[0]))
		for _, id := range same {
			if got := CanonicalID([]byte(id)); got != want {
				t.Errorf("CanonicalID(%s) = %s, of %s it is %s", id, got, same[0], want)
			}
		}
	}
	seen := map[string]string{}
	for _, id := range []string{`0`, `1`, `-1`, `10`, `1e-1`, `"0"`, `"1"`, `""`, `"1e-1"`, `9007199254740993`, `9007199254740992`, `1e20`, `1e21`, `1e400`, `1e401`, `1e99999999999`, `"a"`, `"A"`, `"\""`, `"\\"`} {
		key := CanonicalID([]byte(id))
		if other, ok := seen[key]; ok {
			t.Errorf("%s and %s have one key %s", id, other, key)
		}
		seen[key] = id
	}
}

func TestBuild(t *testing.T) {
	dst := func() []byte { return []byte("\n") }
	for _, tt := range []struct {
		got  []byte
		want string
		kind Kind
	}{
		{AppendRequest(dst(), []byte("1"), "a/\"b", []byte(`{"x":1}`)), `{"jsonrpc":"2.0","id":1,"method":"a/\"b","params":{"x":1}}`, Request},
		{AppendRequest(dst(), []byte(`"a"`), "a", nil), `{"jsonrpc":"2.0","id":"a","method":"a"}`, Request},
		{AppendNotification(dst(), "session/cancel", []byte(`{}`)), `{"jsonrpc":"2.0","method":"session/cancel","params":{}}`, Notification},
		{AppendNotification(dst(), "a", nil), `{"jsonrpc":"2.0","method":"a"}`, Notification},
		{AppendResult(dst(), []byte("1"), []byte(`[]`)), `{"jsonrpc":"2.0","id":1,"result":[]}`, Result},
		{AppendResult(dst(), []byte("1"), nil), `{"jsonrpc":"2.0","id":1,"result":null}`, Result},
		{AppendError(dst(), []byte("1"), -32602, "bad \n cwd", []byte(`{"reason":"x"}`)), `{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"bad \n cwd","data":{"reason":"x"}}}`, Failure},
		{AppendError(dst(), []byte(`"a"`), 400, "", nil), `{"jsonrpc":"2.0","id":"a","error":{"code":400,"message":""}}`, Failure},
	} {
		if string(tt.got) != "\n"+tt.want {
			t.Errorf("got  %s\nwant %s", tt.got, tt.want)
		}
		if f, err := Parse(tt.got, Limits{}); err != nil || f.Kind != tt.kind {
			t.Errorf("%s: %v, %v", tt.want, f.Kind, err)
		}
	}
}

// The answer to bytes that are no frame.
func TestW3_ErrorWithoutID(t *testing.T) {
	_, err := ParseClient([]byte(`{"jsonrpc"`), Limits{})
	e := err.(*Error)
	got := AppendError(nil, nil, e.Code(), "Parse error", []byte(`{"reason":"`+e.Reason()+`"}`))
	if want := `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error","data":{"reason":"bad_json"}}}`; string(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
	f, err := ParseClient([]byte(" 42\n"), Limits{})
	e = err.(*Error)
	got = AppendError(nil, f.ID.Of(f.Raw), e.Code(), "Invalid request", f.Raw)
	if want := `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Invalid request","data":42}}`; string(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
