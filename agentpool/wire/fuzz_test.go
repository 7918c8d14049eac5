package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"math/big"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// fuzzLimits are small, so that a fuzzer gets to them.
func fuzzLimits() Limits { return Limits{MaxDepth: 12, MaxID: 40} }

// refJSON says what jsontext makes of b: whether it is one JSON value in UTF-8 without duplicate names, not too deep.
func refJSON(b []byte, maxDepth int) bool {
	d := jsontext.NewDecoder(bytes.NewReader(b))
	for first := true; ; first = false {
		_, err := d.ReadToken()
		switch {
		case errors.Is(err, io.EOF):
			return !first
		case err != nil || d.StackDepth() > maxDepth:
			return false
		case d.StackDepth() == 0:
			_, err := d.ReadToken()
			return errors.Is(err, io.EOF)
		}
	}
}

type refError struct {
	code int
	kind ErrorKind // 0: any of the code
}

// refFrame is the specification of Parse, on top of encoding/json: raw members and what follows from them.
func refFrame(t *testing.T, b []byte, lim Limits) (parts, refError) {
	if !refJSON(b, lim.MaxDepth) {
		return parts{}, refError{CodeParse, 0}
	}
	var p parts
	top, ok := refObject(b)
	if !ok {
		if bytes.TrimSpace(b)[0] == '[' {
			return p, refError{CodeInvalidRequest, ErrBatch}
		}
		return p, refError{CodeInvalidRequest, ErrNotJSONRPC}
	}
	badID := false
	if id, ok := top["id"]; ok {
		if strings.ContainsRune(`"-0123456789`, rune(id[0])) && len(id) <= lim.MaxID {
			p.ID = id
		} else {
			badID = true
		}
	}
	bad := refError{CodeInvalidRequest, ErrNotJSONRPC}
	params, hasParams := top["params"]
	result, hasResult := top["result"]
	errObj, hasError := top["error"]
	method, isCall := top["method"]
	if v, isString := refString(t, top["jsonrpc"]); !isString || v != "2.0" {
		return p, bad
	}
	if isCall {
		name, isString := refString(t, method)
		if !isString || hasResult || hasError || hasParams && params[0] != '{' && params[0] != '[' {
			return p, bad
		}
		p.Kind, p.Method, p.Params = Notification, name, params
		if p.ID != "" {
			p.Kind = Request
		}
	} else {
		if hasResult == hasError || hasError && errObj[0] != '{' || p.ID == "" && !badID {
			return p, bad
		}
		p.Kind, p.Result, p.Error = Result, result, errObj
		if hasError {
			p.Kind = Failure
		}
	}
	if badID {
		return parts{}, refError{CodeInvalidRequest, ErrBadID}
	}
	body, _ := refObject([]byte(p.Params + p.Result))
	if _, ok := refString(t, body["sessionId"]); ok {
		p.SessionID = body["sessionId"]
	}
	if meta, ok := refObject([]byte(body["_meta"])); ok {
		p.Meta, p.GateMeta = body["_meta"], meta["acpgate"]
	}
	if update, ok := refObject([]byte(body["update"])); ok && isCall {
		p.Update = body["update"]
		if _, ok := refString(t, update["sessionUpdate"]); ok {
			p.UpdateKind = update["sessionUpdate"]
		}
	}
	if _, ok := refString(t, body["stopReason"]); ok && !isCall {
		p.StopReason = body["stopReason"]
	}
	return p, refError{}
}

func refObject(b []byte) (map[string]string, bool) {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(b, &raw); err != nil || raw == nil {
		return nil, false
	}
	m := make(map[string]string, len(raw))
	for k, v := range raw {
		m[k] = string(v)
	}
	return m, true
}

func refString(t *testing.T, raw string) (string, bool) {
	if raw == "" || raw[0] != '"' {
		return "", false
	}
	var s string
	if err := json.Unmarshal([]byte(raw), &s); err != nil {
		t.Fatalf("encoding/json does not read %s: %v", raw, err)
	}
	return s, true
}

func FuzzParse(f *testing.F) {
	for _, seed := range seeds() {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		in := bytes.Clone(b)
		got, err := Parse(b, fuzzLimits())
		if !bytes.Equal(b, in) {
			t.Fatal("Parse changed its input")
		}
		want, wantErr := refFrame(t, b, fuzzLimits())
		if err != nil {
			e := err.(*Error)
			if e.Code() != wantErr.code || wantErr.kind != 0 && e.Kind != wantErr.kind {
				t.Fatalf("%q: %v (%s), want %+v", b, e, e.Reason(), wantErr)
			}
			if e.Offset < 0 || e.Offset > len(b) {
				t.Fatalf("%q: offset %d", b, e.Offset)
			}
			if id := string(got.ID.Of(got.Raw)); id != want.ID || got.Kind != Invalid {
				t.Fatalf("%q: id %q with the error, want %q", b, id, want.ID)
			}
		} else if wantErr.code != 0 {
			t.Fatalf("%q: accepted, want %+v", b, wantErr)
		} else if p := partsOf(got); p != want {
			t.Fatalf("%q:\ngot  %+v\nwant %+v", b, p, want)
		}

		// Of a client: the same or stricter, and one line.
		client, clientErr := ParseClient(b, fuzzLimits())
		if err != nil && clientErr == nil {
			t.Fatalf("%q: accepted of a client only", in)
		}
		if bytes.ContainsAny(client.Raw, "\r\n") {
			t.Fatalf("%q: more than one line: %q", in, client.Raw)
		}
		if clientErr == nil && !sameJSON(t, in, client.Raw) {
			t.Fatalf("%q: means something else: %q", in, client.Raw)
		}
	})
}

func sameJSON(t *testing.T, a, b []byte) bool {
	return reflect.DeepEqual(decode(t, a), decode(t, b))
}

func decode(t *testing.T, b []byte) any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("encoding/json does not read %q: %v", b, err)
	}
	return v
}

func FuzzSplice(f *testing.F) {
	for i, seed := range seeds() {
		f.Add([]byte(seed), "session-"+string(rune('a'+i%26)), i, i%2 == 0)
	}
	f.Fuzz(func(t *testing.T, b []byte, session string, n int, strip bool) {
		frame, err := Parse(b, fuzzLimits())
		if err != nil {
			return
		}
		quoted := AppendQuote(nil, session)
		id, _ := json.Marshal(n)
		value := AppendResult(nil, id, quoted)

		// The same change on the decoded message.
		model := decode(t, b).(map[string]any)
		if frame.ID.Present() {
			model["id"] = json.Number(id)
		}
		name := "params"
		if frame.Kind == Result {
			name = "result"
		}
		body, _ := model[name].(map[string]any)
		if _, ok := body["sessionId"].(string); ok && frame.Kind != Failure {
			body["sessionId"] = decode(t, quoted)
		}
		var meta Edit
		if strip {
			var ok bool
			if meta, ok = frame.StripGateMeta(); ok {
				delete(body["_meta"].(map[string]any), "acpgate")
			}
		} else {
			var ok bool
			meta, ok = frame.EditMeta(append([]byte(`"acpgate":`), value...))
			if null := frame.Kind == Result && model[name] == nil; null && ok {
				body = map[string]any{}
				model[name] = body
			}
			if want := body != nil && frame.Kind != Failure; ok != want {
				t.Fatalf("%q: EditMeta says %v, want %v", b, ok, want)
			}
			if ok {
				if _, is := body["_meta"].(map[string]any); !is {
					body["_meta"] = map[string]any{}
				}
				body["_meta"].(map[string]any)["acpgate"] = decode(t, value)
			}
		}

		out := Splice(nil, frame.Raw, meta, frame.EditSession(quoted), frame.EditID(id))
		if got := decode(t, out); !reflect.DeepEqual(got, any(model)) {
			t.Fatalf("%q became\n%q,\nwant %v", b, out, model)
		}
		lim := fuzzLimits()
		lim.MaxDepth += 4 // ours may nest deeper
		again, err := Parse(out, lim)
		if err != nil || again.Kind != frame.Kind || again.Method != frame.Method {
			t.Fatalf("%q became %q: %v, %v", b, out, again.Kind, err)
		}
		if again.SessionID.Present() != frame.SessionID.Present() || again.GateMeta.Present() == strip && meta.Span.Present() {
			t.Fatalf("%q became %q", b, out)
		}
		if tok := again.SessionID.Of(again.Raw); tok != nil && !Equal(tok, string([]rune(session))) {
			t.Fatalf("session %q came back as %s", session, tok)
		}
	})
}

// Texts: our codec agrees with encoding/json, which also turns half a surrogate pair into U+FFFD.
func FuzzText(f *testing.F) {
	for _, seed := range []string{``, `a b`, `\u0041\n\/`, `\ud83d\ude00`, `\ud83d`, `\ude00\ud83d\u0041`, "한\xff글", `"`, `\`, `\u12`, "\x00\x1f\x7f\u2028"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		tok := append(append([]byte{'"'}, body...), '"')
		got, err := Unquote(tok)
		var want string
		wantErr := json.Unmarshal(tok, &want)
		if !utf8.Valid(tok) || !json.Valid(tok) {
			if err == nil {
				t.Fatalf("Unquote(%q) = %q without an error", tok, got)
			}
		} else if err != nil || wantErr != nil || got != want || !Equal(tok, want) {
			t.Fatalf("Unquote(%q) = %q, %v, want %q, %v", tok, got, err, want, wantErr)
		}
		_ = Equal(body, string(body)) // of anything: no panic

		quoted := AppendQuote(nil, string(body))
		if !bytes.Equal(quoted, AppendQuoteBytes(nil, body)) {
			t.Fatalf("AppendQuote and AppendQuoteBytes differ on %q", body)
		}
		if !refJSON(quoted, 0) {
			t.Fatalf("AppendQuote(%q) = %q: not JSON", body, quoted)
		}
		if back, err := Unquote(quoted); err != nil || back != string([]rune(string(body))) {
			t.Fatalf("%q came back as %q, %v", body, back, err)
		}
	})
}

// Lookup finds what encoding/json finds, and survives anything.
func FuzzLookup(f *testing.F) {
	for _, seed := range seeds() {
		f.Add([]byte(seed), "params", "sessionId")
	}
	f.Add([]byte(`{"a":{"\u0062":"x"}}`), "a", "b")
	f.Fuzz(func(t *testing.T, b []byte, first, second string) {
		at := Lookup(b, first, second)
		_ = at.Of(b)
		_, _ = SessionOfPrefix(b)
		_, _ = ResponseOfPrefix(b)
		if !refJSON(b, MaxMaxDepth) {
			return
		}
		top, _ := refObject(b)
		inner, _ := refObject([]byte(top[first]))
		if got := string(at.Of(b)); got != inner[second] {
			t.Fatalf("Lookup(%q, %q, %q) = %q, want %q", b, first, second, got, inner[second])
		}
		seen := map[string]string{}
		for name, value := range Members(b) {
			text, ok := AppendUnquoted(nil, name)
			if !ok {
				t.Fatalf("Members(%q): the name %q", b, name)
			}
			seen[string(text)] = string(value)
		}
		if !maps.Equal(seen, top) {
			t.Fatalf("Members(%q) = %q, want %q", b, seen, top)
		}
	})
}

// Two numbers have one key if, and only if, they are equal.
func FuzzCanonicalID(f *testing.F) {
	for _, seed := range [][2]string{{"1", "1.0"}, {"-0", "0"}, {"1e2", "100"}, {"1e20", "100000000000000000000"}, {"12e-1", "1.2"}, {"1", "2"}, {`"a"`, `"\u0061"`}, {`"1"`, "1"}} {
		f.Add([]byte(seed[0]), []byte(seed[1]))
	}
	f.Fuzz(func(t *testing.T, a, b []byte) {
		keyA, keyB := CanonicalID(a), CanonicalID(b)
		if !isID(a) || !isID(b) {
			return
		}
		if a[0] == '"' || b[0] == '"' {
			if a[0] != b[0] {
				if keyA == keyB {
					t.Fatalf("%s and %s have one key", a, b)
				}
				return
			}
			textA, _ := refString(t, string(a))
			textB, _ := refString(t, string(b))
			if (textA == textB) != (keyA == keyB) {
				t.Fatalf("%s: %s, %s: %s", a, keyA, b, keyB)
			}
			return
		}
		x, okX := new(big.Rat).SetString(string(a))
		y, okY := new(big.Rat).SetString(string(b))
		if okX && okY && (x.Cmp(y) == 0) != (keyA == keyB) {
			t.Fatalf("%s: %s, %s: %s", a, keyA, b, keyB)
		}
	})
}

// isID reports whether b is an id that big.Rat can hold.
func isID(b []byte) bool {
	if !refJSON(b, 0) || len(b) == 0 || !strings.ContainsRune(`"-0123456789`, rune(b[0])) || isSpace(b[len(b)-1]) {
		return false
	}
	_, exp, _ := bytes.Cut(bytes.ToLower(b), []byte("e"))
	return b[0] == '"' || len(exp) <= 4
}

// seeds are frames as clients and agents write them, and what has broken parsers.
func seeds() []string {
	return []string{
		`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{"_meta":{"acpgate":{"v":1}}}}}`,
		`{"jsonrpc":"2.0","id":"a","method":"session/prompt","params":{"sessionId":"s1","prompt":[{"type":"text","text":"한글 \ud83d\ude00 \n"}],"_meta":{"acpgate":{"key":"k"},"x":1}}}`,
		`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"t"}}}}`,
		`{"params":{"_meta":null,"sessi\u006fnId":"\u0073"},"id":1.0,"method":"x","jsonrpc":"2.0"}`,
		`{"jsonrpc":"2.0","id":1,"result":null}`,
		`{"jsonrpc":"2.0","id":1,"result":{"sessionId":"s1","stopReason":"end_turn","_meta":{ "a":1 , "acpgate" : [] } }}`,
		`{"jsonrpc":"2.0","id":1,"result":{},"params":{"sessionId":"no","_meta":{"acpgate":0}}}`,
		`{"jsonrpc":"2.0","id":99,"error":{"code":-32603,"message":"x"}}`,
		`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"x"}}`,
		`{"jsonrpc":"2.0","method":"x","params":[-0,1e400,1E+2,0.5,true,false,null,{"":[]}]}`,
		`{"jsonrpc":"2.0","method":"$/cancel_request","Method":"y","params":{}}`,
		" {\r\n\"jsonrpc\"\t:\n\"2.0\" , \"method\" :\"x\"}\r\n",
		`{"a":1,"\u0061":2}`, `[{"jsonrpc":"2.0"}]`, `42`, `"x"`, ``, `{"a":"\ud800"}`, "\ufeff{}", "{}\x00", "{\"a\":\"\xc3\"}",
		strings.Repeat("[", 14), `{"a":` + strings.Repeat("[", 11) + strings.Repeat("]", 11) + `}`,
		`{"jsonrpc":"2.0","method":"x","params":{"a":0,"b":0,"c":0,"d":0,"e":0,"f":0,"g":0,"h":0,"i":0,"j":0,"k":0,"l":0,"m":0,"n":0,"o":0,"p":0,"q":0,"r":0,"s":0,"t":0,"u":0,"v":0,"w":0,"x":0,"y":0,"z":0,"aa":0,"ab":0,"ac":0,"\u0062a":0,"ad":0,"ae":0,"af":0,"ag":0}}`,
	}
}
