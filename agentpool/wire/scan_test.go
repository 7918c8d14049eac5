package wire

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// parts is a Frame with bytes in place of spans.
type parts struct {
	Kind                                          Kind
	Method                                        string
	ID, Params, Result, Error                     string
	SessionID, Meta, GateMeta, Update, UpdateKind string
	StopReason                                    string
}

func partsOf(f Frame) parts {
	of := func(s Span) string { return string(s.Of(f.Raw)) }
	return parts{
		Kind: f.Kind, Method: f.Method,
		ID: of(f.ID), Params: of(f.Params), Result: of(f.Result), Error: of(f.Error),
		SessionID: of(f.SessionID), Meta: of(f.Meta), GateMeta: of(f.GateMeta),
		Update: of(f.Update), UpdateKind: of(f.UpdateKind), StopReason: of(f.StopReason),
	}
}

func TestParseParts(t *testing.T) {
	tests := map[string]struct {
		in   string
		want parts
	}{
		"request": {
			`{"jsonrpc":"2.0","id":3,"method":"session/prompt","params":{"sessionId":"s1","prompt":[{"sessionId":"no"}]}}`,
			parts{Kind: Request, Method: "session/prompt", ID: "3", SessionID: `"s1"`, Params: `{"sessionId":"s1","prompt":[{"sessionId":"no"}]}`},
		},
		"request without params": {
			`{"method":"logout","id":"a b","jsonrpc":"2.0"}`,
			parts{Kind: Request, Method: "logout", ID: `"a b"`},
		},
		"request with params array": {
			`{"jsonrpc":"2.0","id":-0.5e+3,"method":"x","params":[{"sessionId":"s1"}]}`,
			parts{Kind: Request, Method: "x", ID: "-0.5e+3", Params: `[{"sessionId":"s1"}]`},
		},
		"id zero": {
			`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}`,
			parts{Kind: Request, Method: "initialize", ID: "0", Params: "{}"},
		},
		"update": {
			`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"plan","entries":[]},"_meta":{"a":{"acpgate":0},"acpgate":{"seq":1}}}}`,
			parts{
				Kind: Notification, Method: "session/update", SessionID: `"s1"`,
				Params: `{"sessionId":"s1","update":{"sessionUpdate":"plan","entries":[]},"_meta":{"a":{"acpgate":0},"acpgate":{"seq":1}}}`,
				Update: `{"sessionUpdate":"plan","entries":[]}`, UpdateKind: `"plan"`,
				Meta: `{"a":{"acpgate":0},"acpgate":{"seq":1}}`, GateMeta: `{"seq":1}`,
			},
		},
		"parts of the wrong type": {
			`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":1,"update":[{"sessionUpdate":"plan"}],"_meta":null}}`,
			parts{
				Kind: Notification, Method: "session/update",
				Params: `{"sessionId":1,"update":[{"sessionUpdate":"plan"}],"_meta":null}`,
			},
		},
		"update kind of the wrong type": {
			`{"jsonrpc":"2.0","method":"session/update","params":{"update":{"sessionUpdate":{}}}}`,
			parts{
				Kind: Notification, Method: "session/update",
				Params: `{"update":{"sessionUpdate":{}}}`, Update: `{"sessionUpdate":{}}`,
			},
		},
		"gate meta of any type": {
			`{"jsonrpc":"2.0","method":"x","params":{"_meta":{"acpgate":false}}}`,
			parts{Kind: Notification, Method: "x", Params: `{"_meta":{"acpgate":false}}`, Meta: `{"acpgate":false}`, GateMeta: "false"},
		},
		"parts only at their own place": {
			`{"jsonrpc":"2.0","sessionId":"top","_meta":{"acpgate":1},"method":"x","params":{"stopReason":"no","acpgate":2,"sessionUpdate":"no","x":{"_meta":{"acpgate":3}}}}`,
			parts{
				Kind: Notification, Method: "x",
				Params: `{"stopReason":"no","acpgate":2,"sessionUpdate":"no","x":{"_meta":{"acpgate":3}}}`,
			},
		},
		"result": {
			`{"jsonrpc":"2.0","id":1,"result":{"sessionId":"s1","update":{"sessionUpdate":"no"},"_meta":{}}}`,
			parts{Kind: Result, ID: "1", Result: `{"sessionId":"s1","update":{"sessionUpdate":"no"},"_meta":{}}`, SessionID: `"s1"`, Meta: "{}"},
		},
		"prompt result": {
			`{"jsonrpc":"2.0","id":1,"result":{"stopReason":"end_turn"}}`,
			parts{Kind: Result, ID: "1", Result: `{"stopReason":"end_turn"}`, StopReason: `"end_turn"`},
		},
		"result null": {
			`{"jsonrpc":"2.0","id":"","result":null}`,
			parts{Kind: Result, ID: `""`, Result: "null"},
		},
		"failure": {
			`{"jsonrpc":"2.0","error":{"code":400,"sessionId":"no","_meta":{"acpgate":1}},"id":1}`,
			parts{Kind: Failure, ID: "1", Error: `{"code":400,"sessionId":"no","_meta":{"acpgate":1}}`},
		},
		"result with stray params": {
			`{"jsonrpc":"2.0","id":1,"result":{"sessionId":"yes"},"params":{"sessionId":"no","update":{"sessionUpdate":"no"},"_meta":{"acpgate":1}}}`,
			parts{Kind: Result, ID: "1", Result: `{"sessionId":"yes"}`, SessionID: `"yes"`},
		},
		"failure with stray params": {
			`{"jsonrpc":"2.0","id":1,"params":{"sessionId":"no","_meta":7},"error":{}}`,
			parts{Kind: Failure, ID: "1", Error: `{}`},
		},
		"unknown members": {
			`{"jsonrpc":"2.0","method":"x","__proto__":{"id":9},"ext":[1,2,{}]}`,
			parts{Kind: Notification, Method: "x"},
		},
		"names and words with escapes": {
			`{"json\u0072pc":"\u0032.0","\u0069d":1,"meth\u006Fd":"session\/\u0075pdate","params":{"sessi\u006fnId":"\u0073","_m\u0065ta":{"acpg\u0061te":1}}}`,
			parts{
				Kind: Request, Method: "session/update", ID: "1",
				Params:    `{"sessi\u006fnId":"\u0073","_m\u0065ta":{"acpg\u0061te":1}}`,
				SessionID: `"\u0073"`, Meta: `{"acpg\u0061te":1}`, GateMeta: "1",
			},
		},
		"white space": {
			" \t\r\n{ \"jsonrpc\" : \"2.0\"\n,\r\"method\":\t\"x\" , \"params\" : { \"sessionId\" : \"s\" } } \r\n",
			parts{Kind: Notification, Method: "x", Params: `{ "sessionId" : "s" }`, SessionID: `"s"`},
		},
		"odd numbers pass as written": {
			`{"jsonrpc":"2.0","method":"x","params":[-0,-0.0,1e400,1E-999999999999,0e0,123456789012345678901234567890]}`,
			parts{Kind: Notification, Method: "x", Params: `[-0,-0.0,1e400,1E-999999999999,0e0,123456789012345678901234567890]`},
		},
		"pairs of surrogates": {
			`{"jsonrpc":"2.0","method":"\ud83d\ude00\uD83D\uDE00"}`,
			parts{Kind: Notification, Method: "😀😀"},
		},
		"empty names": {
			`{"jsonrpc":"2.0","method":"","":{"":{"":""}}}`,
			parts{Kind: Notification},
		},
		"same name at several levels": {
			`{"jsonrpc":"2.0","method":"x","params":{"a":{"a":{"a":1},"b":1},"b":[{"a":1},{"a":1}]}}`,
			parts{Kind: Notification, Method: "x", Params: `{"a":{"a":{"a":1},"b":1},"b":[{"a":1},{"a":1}]}`},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f, err := Parse([]byte(tt.in), Limits{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, partsOf(f)); diff != "" {
				t.Errorf("parts (-want +got)\n%s", diff)
			}
			if want := strings.Trim(tt.in, " \t\r\n"); string(f.Raw) != want {
				t.Errorf("Raw = %q, want %q", f.Raw, want)
			}
		})
	}
}

// Every method that acpgate knows decodes to itself, and so does one that it does not know.
func TestParseMethods(t *testing.T) {
	for _, m := range append(knownMethods(), "_zed/unknown", "craft/drainMidTurnQueue", "") {
		f, err := Parse([]byte(`{"jsonrpc":"2.0","method":"`+m+`"}`), Limits{})
		if err != nil || f.Method != m {
			t.Errorf("Method = %q, %v, want %q", f.Method, err, m)
		}
	}
}

func knownMethods() []string {
	return []string{
		"initialize", "authenticate", "logout",
		"session/new", "session/load", "session/resume", "session/fork", "session/list", "session/close", "session/delete",
		"session/prompt", "session/cancel", "session/set_mode", "session/set_model", "session/set_config_option",
		"session/update", "session/request_permission", "elicitation/create", "elicitation/complete",
		"fs/read_text_file", "fs/write_text_file",
		"terminal/create", "terminal/output", "terminal/release", "terminal/wait_for_exit", "terminal/kill",
		"$/cancel_request", "$/ping", "_acpgate/ping", "_acpgate/state", "_acpgate/force_stop", "_acpgate/queue_cancel",
	}
}

// What is accepted right at a limit.
func TestLimitsAreInclusive(t *testing.T) {
	for _, tt := range []struct {
		name, in string
		lim      Limits
	}{
		{"depth", `{"jsonrpc":"2.0","method":"x","params":{"b":[]}}`, Limits{MaxDepth: 3}},
		{"default depth", `{"jsonrpc":"2.0","method":"x","params":` + strings.Repeat("[", 511) + strings.Repeat("]", 511) + `}`, Limits{}},
		{"greatest depth", `{"jsonrpc":"2.0","method":"x","params":` + strings.Repeat("[", 9999) + strings.Repeat("]", 9999) + `}`, Limits{MaxDepth: MaxMaxDepth}},
		{"id", `{"jsonrpc":"2.0","id":"12","method":"x"}`, Limits{MaxID: 4}},
		{"default id", `{"jsonrpc":"2.0","id":` + strings.Repeat("1", 1024) + `,"method":"x"}`, Limits{}},
	} {
		if _, err := Parse([]byte(tt.in), tt.lim); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

func TestLimitsValidate(t *testing.T) {
	if err := (Limits{MaxDepth: MaxMaxDepth, MaxID: 1}).Validate(); err != nil {
		t.Error(err)
	}
	err := Limits{MaxDepth: -1, MaxID: -2}.Validate()
	want := "MaxDepth: must be 0 to 10000 (got -1)\nMaxID: must not be negative (got -2)"
	if fmt.Sprint(err) != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestW9_CodesAndReasons(t *testing.T) {
	for kind, want := range map[ErrorKind]string{
		ErrSyntax: "-32700 bad_json", ErrUTF8: "-32700 bad_utf8", ErrDepth: "-32700 too_deep",
		ErrDuplicateKey: "-32700 duplicate_key", ErrBatch: "-32600 batch", ErrNotJSONRPC: "-32600 not_jsonrpc",
		ErrBadID: "-32600 bad_id",
	} {
		e := &Error{Kind: kind}
		if got := fmt.Sprint(e.Code(), " ", e.Reason()); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// JavaScript agents cut texts inside an emoji. With LoneSurrogates such a line passes as it is.
func TestLoneSurrogates(t *testing.T) {
	in := `{"jsonrpc":"2.0","method":"x","params":{"sessionId":"\ud83d","b":"\ude00\ud83d","c":"\ud83d\u0041","d":"\ud83d`
	for _, tail := range []string{`"}}`, `12345678"}}`, `\n"}}`} {
		f, err := Parse([]byte(in+tail), Limits{LoneSurrogates: true})
		if err != nil {
			t.Fatal(err)
		}
		if s, err := Unquote(f.SessionID.Of(f.Raw)); s != "\ufffd" || err != nil {
			t.Errorf("session id %q, %v", s, err)
		}
		if string(f.Raw) != in+tail {
			t.Errorf("Raw = %s", f.Raw)
		}
	}
	if _, err := Parse([]byte(`["\ud83d\u00"]`), Limits{LoneSurrogates: true}); err == nil {
		t.Error("a cut escape after half a pair was accepted")
	}
}

// Objects large enough for a hash table, several open at a time and one after the other.
func TestDuplicateKeysInLargeObjects(t *testing.T) {
	object := func(n int, last string) string {
		var sb strings.Builder
		sb.WriteByte('{')
		for i := range n {
			fmt.Fprintf(&sb, `"key%06d":%d,`, i, i)
		}
		return sb.String() + last + "}"
	}
	for _, n := range []int{1, linearKeys - 1, linearKeys, linearKeys + 1, tableSize/2 - 1, tableSize / 2, tableSize, 1000, 5_000} {
		good := object(n, `"key":1`)
		for _, in := range []string{
			good,
			`[` + good + `,` + object(2*n, `"key":`+good) + `,` + good + `]`,
			object(n, `"key":`+object(n, `"key":`+good)),
		} {
			if _, err := Parse([]byte(in), Limits{}); err == nil || err.(*Error).Code() != CodeInvalidRequest {
				t.Fatalf("%d members: %v", n, err)
			}
		}
		for _, twice := range []int{0, n / 2, n - 1} {
			for _, name := range []string{fmt.Sprintf(`"key%06d":0`, twice), fmt.Sprintf(`"k\u0065y%06d":0`, twice)} {
				bad := object(n, name)
				for _, in := range []string{
					bad,
					object(n, `"key":`+bad),
					object(n, `"key":`+good+`,`+name),
					`[` + good + `,` + bad + `]`,
				} {
					if _, err := Parse([]byte(in), Limits{}); err == nil || err.(*Error).Kind != ErrDuplicateKey {
						t.Fatalf("%d members, number %d twice: %v", n, twice, err)
					}
				}
			}
		}
	}
}

func TestW3_OneFrameIsOneLine(t *testing.T) {
	in := []byte("\r\n{\"jsonrpc\":\r\n\"2.0\",\n\"method\":\"x\",\"params\":{\"a\":\"\\n\\r\"\r}\n}\n")
	f, err := ParseClient(in, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"jsonrpc":  "2.0", "method":"x","params":{"a":"\n\r" } }`; string(f.Raw) != want {
		t.Errorf("Raw = %q, want %q", f.Raw, want)
	}
	if got := string(f.Params.Of(f.Raw)); got != `{"a":"\n\r" }` {
		t.Errorf("Params = %q", got)
	}
	f, err = ParseClient([]byte("[1,\n2]\n"), Limits{})
	if string(f.Raw) != "[1, 2]" || err == nil {
		t.Errorf("Raw = %q, %v: the value that goes into the error is one line too", f.Raw, err)
	}
	if f, err := ParseClient([]byte("{\"a\":1}\n{}"), Limits{}); f.Raw != nil || err.(*Error).Kind != ErrSyntax {
		t.Errorf("two messages in a frame: Raw = %q, %v", f.Raw, err)
	}
}

// A decoder that ignores case takes "Method" for "method", the last one wins: acpgate would check one message and the
// agent get another.
func TestW3_NamesInTheWrongCase(t *testing.T) {
	for _, in := range []string{
		`{"jsonrpc":"2.0","id":7,"method":"session/cancel","Method":"session/prompt"}`,
		`{"jsonrpc":"2.0","id":7,"ID":8,"method":"x"}`,
		`{"jsonrpc":"2.0","id":7,"method":"x","par\u0041ms":[]}`,
		`{"jsonrpc":"2.0","id":7,"method":"x","params":{"sessionId":"a","SESSIONID":"b"}}`,
		`{"jsonrpc":"2.0","id":7,"method":"x","params":{"\u017fessionId":"b"}}`,
	} {
		f, err := ParseClient([]byte(in), Limits{})
		if err == nil || err.(*Error).Kind != ErrNotJSONRPC || string(f.ID.Of(f.Raw)) != "7" {
			t.Errorf("%s: %v, id %s", in, err, f.ID.Of(f.Raw))
		}
		if _, err := Parse([]byte(in), Limits{}); err != nil {
			t.Errorf("line of an agent: %v", err)
		}
	}
	if _, err := ParseClient([]byte(`{"jsonrpc":"2.0","method":"x","params":{"METHOD":1,"x":{"sessionid":2}}}`), Limits{}); err != nil {
		t.Errorf("names that are not ours: %v", err)
	}
}

func TestCase01_LongFrame(t *testing.T) {
	text := strings.Repeat("x", 70_000)
	f, err := Parse([]byte(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"`+text+`"}}}}`), Limits{})
	if err != nil {
		t.Fatal(err)
	}
	at := Lookup(f.Update.Of(f.Raw), "content", "text")
	if got := string(at.Of(f.Update.Of(f.Raw))); got != `"`+text+`"` {
		t.Errorf("text of %d bytes", len(got))
	}
}

// An update kind that nobody knows passes like the others.
func TestCase91_UnknownUpdateKind(t *testing.T) {
	for _, kind := range []string{"notice", "state_update", "_x"} {
		in := `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"` + kind + `","x":1}}}`
		f, err := Parse([]byte(in), Limits{})
		if err != nil || !Equal(f.UpdateKind.Of(f.Raw), kind) {
			t.Errorf("%s: %v, %v", kind, partsOf(f), err)
		}
	}
}

func TestKindString(t *testing.T) {
	got := fmt.Sprint(Invalid, Request, Notification, Result, Failure)
	if got != "invalid request notification result failure" {
		t.Error(got)
	}
}
