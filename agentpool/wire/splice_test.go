package wire

import (
	"strings"
	"testing"
)

func mustParse(t *testing.T, in string) Frame {
	t.Helper()
	f, err := Parse([]byte(in), Limits{})
	if err != nil {
		t.Fatalf("%v in %s", err, in)
	}
	return f
}

func TestSplice(t *testing.T) {
	edit := func(start, end int, with string) Edit { return Edit{Span: Span{start, end}, With: []byte(with)} }
	for _, tt := range []struct {
		name  string
		edits []Edit
		want  string
	}{
		{"none", nil, "0123456789"},
		{"zero edit", []Edit{{}, {}}, "0123456789"},
		{"replace", []Edit{edit(2, 4, "ab")}, "01ab456789"},
		{"longer and shorter", []Edit{edit(0, 1, "abc"), edit(5, 9, "")}, "abc12349"},
		{"insert", []Edit{edit(3, 3, "ab")}, "012ab3456789"},
		{"at the ends", []Edit{edit(0, 0, "a"), edit(10, 10, "b")}, "a0123456789b"},
		{"touching", []Edit{edit(1, 3, "a"), edit(3, 5, "b")}, "0ab56789"},
		{"insert before a replacement", []Edit{edit(3, 3, "a"), edit(3, 4, "b")}, "012ab456789"},
		{"same place, order given", []Edit{edit(3, 3, "a"), edit(3, 3, "b"), edit(3, 3, "c")}, "012abc3456789"},
		{"any order", []Edit{edit(8, 9, "x"), edit(3, 3, "a"), edit(0, 1, "z"), edit(3, 3, "b")}, "z12ab34567x9"},
		{"whole", []Edit{edit(0, 10, "a")}, "a"},
		{"many out of order", []Edit{
			edit(9, 10, "j"), edit(8, 9, "i"), edit(7, 8, "h"), edit(6, 7, "g"), edit(5, 6, "f"), edit(4, 5, "e"),
			edit(3, 4, "d"), edit(2, 3, "c"), edit(1, 2, "b"), edit(0, 1, "a"),
		}, "abcdefghij"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := append([]Edit(nil), tt.edits...)
			if got := Splice([]byte("dst:"), []byte("0123456789"), tt.edits...); string(got) != "dst:"+tt.want {
				t.Errorf("got %s, want dst:%s", got, tt.want)
			}
			for i := range before {
				if before[i].Span != tt.edits[i].Span {
					t.Errorf("edit %d of the caller was moved", i)
				}
			}
		})
	}
}

func TestSplicePanicsOnMistakes(t *testing.T) {
	for name, edits := range map[string][]Edit{
		"overlap":        {{Span: Span{0, 5}}, {Span: Span{4, 6}}},
		"end outside":    {{Span: Span{0, 11}}},
		"outside":        {{Span: Span{11, 11}}},
		"backwards":      {{Span: Span{5, 2}}},
		"one in another": {{Span: Span{0, 9}}, {Span: Span{2, 2}}},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if r := recover(); r != "wire: edits overlap or lie outside the frame" {
					t.Errorf("recovered %v", r)
				}
			}()
			Splice(nil, []byte("0123456789 and what is behind the frame")[:10], edits...)
		})
	}
}

func TestW4_EditIDAndSession(t *testing.T) {
	f := mustParse(t, `{"params":{"x":1,"sessionId":"s1"}, "method":"session/prompt","jsonrpc":"2.0","id":7}`)
	got := Splice(nil, f.Raw, f.EditID([]byte("1234")), f.EditSession([]byte(`"other"`)))
	want := `{"params":{"x":1,"sessionId":"other"}, "method":"session/prompt","jsonrpc":"2.0","id":1234}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}

	f = mustParse(t, `{"jsonrpc":"2.0","method":"x"}`)
	got = Splice(nil, f.Raw, f.EditSession([]byte(`"other"`)), f.EditID([]byte("1")))
	if string(got) != string(f.Raw) {
		t.Errorf("parts that are absent: got %s", got)
	}
}

func TestW10_EditMeta(t *testing.T) {
	const member = `"acpgate":{"v":1}`
	for _, tt := range []struct{ name, in, want string }{ // in and want are params, or a result
		{"no meta", `{"a":1}`, `{"_meta":{"acpgate":{"v":1}},"a":1}`},
		{"nothing", `{}`, `{"_meta":{"acpgate":{"v":1}}}`},
		{"nothing but space", "{ \t}", "{\"_meta\":{\"acpgate\":{\"v\":1}} \t}"},
		{"space before the first member", `{ "a":1}`, `{"_meta":{"acpgate":{"v":1}}, "a":1}`},
		{"empty meta", `{"a":1,"_meta":{}}`, `{"a":1,"_meta":{"acpgate":{"v":1}}}`},
		{"empty meta with space", `{"_meta":{ } ,"a":1}`, `{"_meta":{"acpgate":{"v":1} } ,"a":1}`},
		{"meta of others", `{"_meta":{"x":1}}`, `{"_meta":{"acpgate":{"v":1},"x":1}}`},
		{"only ours", `{"_meta":{"acpgate":{"v":0}}}`, `{"_meta":{"acpgate":{"v":1}}}`},
		{"ours in the middle", `{"_meta":{"x":1, "acpgate" : [1,2] ,"y":2}}`, `{"_meta":{"x":1, "acpgate":{"v":1} ,"y":2}}`},
		{"ours with escapes", `{"_meta":{"acp\u0067ate":null}}`, `{"_meta":{"acpgate":{"v":1}}}`},
		{"meta null", `{"_meta":null,"a":1}`, `{"_meta":{"acpgate":{"v":1}},"a":1}`},
		{"meta a string", `{"a":1,"_meta":"acpgate"}`, `{"a":1,"_meta":{"acpgate":{"v":1}}}`},
		{"meta an array", `{"_m\u0065ta":[{"acpgate":1}]}`, `{"_m\u0065ta":{"acpgate":{"v":1}}}`},
		{"meta of something else", `{"a":{"_meta":{"acpgate":1}}}`, `{"_meta":{"acpgate":{"v":1}},"a":{"_meta":{"acpgate":1}}}`},
	} {
		for _, shell := range []string{
			`{"jsonrpc":"2.0","id":1,"method":"x","params":BODY}`,
			`{"jsonrpc":"2.0","params":BODY,"method":"x"}`,
			`{"jsonrpc":"2.0","id":1,"result":BODY}`,
			`{"jsonrpc":"2.0","params":{"_meta":{"acpgate":9}},"id":1,"result":BODY}`,
		} {
			f := mustParse(t, strings.Replace(shell, "BODY", tt.in, 1))
			e, ok := f.EditMeta([]byte(member))
			if !ok {
				t.Errorf("%s: nothing to edit in %s", tt.name, f.Raw)
				continue
			}
			got := Splice(nil, f.Raw, e)
			if want := strings.Replace(shell, "BODY", tt.want, 1); string(got) != want {
				t.Errorf("%s:\ngot  %s\nwant %s", tt.name, got, want)
			}
			again := mustParse(t, string(got))
			if v := string(again.GateMeta.Of(again.Raw)); v != `{"v":1}` {
				t.Errorf("%s: read back %s", tt.name, v)
			}
		}
	}
}

// Some agents answer session/load with null.
func TestW10_EditMetaOfResultNull(t *testing.T) {
	f := mustParse(t, `{"jsonrpc":"2.0","result":null,"id":1}`)
	e, ok := f.EditMeta([]byte(`"acpgate":{}`))
	if got := string(Splice(nil, f.Raw, e)); !ok || got != `{"jsonrpc":"2.0","result":{"_meta":{"acpgate":{}}},"id":1}` {
		t.Errorf("%v %s", ok, got)
	}
}

func TestW10_EditMetaWithoutPlace(t *testing.T) {
	for _, in := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"x"}`,
		`{"jsonrpc":"2.0","id":1,"method":"x","params":[]}`,
		`{"jsonrpc":"2.0","id":1,"result":[]}`,
		`{"jsonrpc":"2.0","id":1,"result":"x"}`,
		`{"jsonrpc":"2.0","id":1,"error":{}}`,
		`{"jsonrpc":"2.0","id":1,"error":{},"params":{"_meta":{"acpgate":1}}}`,
	} {
		f := mustParse(t, in)
		if e, ok := f.EditMeta([]byte(`"acpgate":{}`)); ok || string(Splice(nil, f.Raw, e)) != in {
			t.Errorf("%s: %v", in, e)
		}
	}
	var invalid Frame
	if _, ok := invalid.EditMeta([]byte(`"acpgate":{}`)); ok {
		t.Error("edit of a frame that is none")
	}
}

func TestW10_StripGateMeta(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{ // value of _meta
		{"only", `{"acpgate":{"v":1}}`, `{}`},
		{"only, with space", `{ "acpgate" : {"v":1} }`, `{  }`},
		{"first", `{"acpgate":1,"x":2}`, `{"x":2}`},
		{"first, with space", `{"acpgate":1 , "x":2}`, `{ "x":2}`},
		{"middle", `{"a":1,"acpgate":null,"x":2}`, `{"a":1,"x":2}`},
		{"last", `{"a":1,"acpgate":[",}"]}`, `{"a":1}`},
		{"last, with space", `{"a":1 , "acpgate":"}" }`, `{"a":1  }`},
		{"with escapes", `{"a":1,"\u0061cpgate":{}}`, `{"a":1}`},
	} {
		shell := `{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":[1],"_meta":BODY}}`
		f := mustParse(t, strings.Replace(shell, "BODY", tt.in, 1))
		e, ok := f.StripGateMeta()
		got := Splice(nil, f.Raw, e)
		if want := strings.Replace(shell, "BODY", tt.want, 1); !ok || string(got) != want {
			t.Errorf("%s: %v\ngot  %s\nwant %s", tt.name, ok, got, want)
		}
		if after := mustParse(t, string(got)); after.GateMeta.Present() {
			t.Errorf("%s: still there", tt.name)
		}
	}
	for _, in := range []string{
		`{"jsonrpc":"2.0","method":"x","params":{"_meta":{"x":{"acpgate":1}}}}`,
		`{"jsonrpc":"2.0","method":"x","params":{"_meta":"acpgate"}}`,
		`{"jsonrpc":"2.0","method":"x"}`,
	} {
		f := mustParse(t, in)
		if e, ok := f.StripGateMeta(); ok || string(Splice(nil, f.Raw, e)) != in {
			t.Errorf("%s: %v", in, e)
		}
	}
}
