package jsonscan_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

func set(name, value string) jsonscan.Edit {
	return jsonscan.Edit{Name: name, Value: []byte(value)}
}

func remove(name string) jsonscan.Edit { return jsonscan.Edit{Name: name} }

func TestSplice(t *testing.T) {
	type edits = []jsonscan.Edit
	for _, test := range []struct {
		object string
		edits  edits
		want   string
	}{
		{`{"a":1}`, nil, `{"a":1}`},
		{` { "a" : 1 , "b":2 } `, nil, ` { "a" : 1 , "b":2 } `},
		{`{"a":1,"b":2,"c":3}`, edits{set("b", `"x"`)}, `{"a":1,"b":"x","c":3}`},
		{`{ "a" : 1 , "b" : 2 }`, edits{set("a", "9")}, `{ "a" : 9 , "b" : 2 }`},
		{`{ "a" : 1 , "b" : 2 }`, edits{set("b", "9")}, `{ "a" : 1 , "b" : 9 }`},
		{`{"a":1,"b":2,"c":3}`, edits{remove("a")}, `{"b":2,"c":3}`},
		{`{"a":1,"b":2,"c":3}`, edits{remove("b")}, `{"a":1,"c":3}`},
		{`{"a":1,"b":2,"c":3}`, edits{remove("c")}, `{"a":1,"b":2}`},
		{`{"a":1,"b":2,"c":3}`, edits{remove("a"), remove("b")}, `{"c":3}`},
		{`{"a":1,"b":2,"c":3}`, edits{remove("a"), remove("c")}, `{"b":2}`},
		{`{"a":1,"b":2,"c":3}`, edits{remove("b"), remove("c")}, `{"a":1}`},
		{`{"a":1,"b":2}`, edits{remove("a"), remove("b")}, `{}`},
		{`{ "a":1, "b":2 }`, edits{remove("a")}, `{ "b":2 }`},
		{"{\n  \"a\": 1,\n  \"b\": 2\n}", edits{remove("a")}, "{\n  \"b\": 2\n}"},
		{"{\n  \"a\": 1,\n  \"b\": 2\n}", edits{remove("b")}, "{\n  \"a\": 1\n}"},
		{`{"x,y":1}`, edits{remove("a")}, `{"x,y":1}`},
		{`{"x,y":1,"b":[1,2]}`, edits{set("b", "0")}, `{"x,y":1,"b":0}`},
		{`{"a":1,"x,y":1}`, edits{remove("a")}, `{"x,y":1}`},
		{`{}`, edits{set("a", "1")}, `{"a":1}`},
		{`{ }`, edits{set("a", "1"), set("b", "2")}, `{"a":1,"b":2 }`},
		{`{"a":1}`, edits{set("b", "2"), set("c", "3")}, `{"a":1,"b":2,"c":3}`},
		{`{"a":1}`, edits{remove("a"), set("b", "2")}, `{"b":2}`},
		{`{"a":1}`, edits{remove("b")}, `{"a":1}`},
		{`{"a":1}`, edits{set("é\n", "2")}, `{"a":1,"é\n":2}`},
		{`{"\u0061":1,"b":2}`, edits{set("a", "3")}, `{"\u0061":3,"b":2}`},
		{`{"A":1}`, edits{set("a", "2")}, `{"A":1,"a":2}`},
		{`{"n":1.000000000000000005,"s":"\u00e9<"}`, edits{set("a", "2")}, `{"n":1.000000000000000005,"s":"\u00e9<","a":2}`},
		{`{"a":{"a":1}}`, edits{set("b", "2")}, `{"a":{"a":1},"b":2}`},
	} {
		got, err := jsonscan.Splice([]byte("head"), []byte(test.object), test.edits...)
		if err != nil || string(got) != "head"+test.want {
			t.Errorf("%s with %s:\n got %s, %v\nwant %s", test.object, describe(test.edits), got[4:], err, test.want)
		}
	}
}

func describe(edits []jsonscan.Edit) (text string) {
	for _, edit := range edits {
		text += fmt.Sprintf("%s=%s ", edit.Name, edit.Value)
	}
	return text
}

func TestSpliceRefuses(t *testing.T) {
	for _, object := range []string{``, `[]`, `null`, `{"a":1`, `{"a":1}}`, `{"a":1,"a":2}`, `{"a":1,"\u0061":2}`, `{"a\u0000":1}`} {
		got, err := jsonscan.Splice([]byte("head"), []byte(object), set("b", "1"))
		if err == nil || string(got) != "head" {
			t.Errorf("%s: %q, %v, want an error and the buffer as it was", object, got, err)
		}
	}
}

func TestSpliceLimitsEdits(t *testing.T) {
	edits := make([]jsonscan.Edit, 64)
	for i := range edits {
		edits[i] = set(fmt.Sprintf("k%d", i), fmt.Sprint(i))
	}
	got, err := jsonscan.Splice(nil, []byte(`{"k63":null}`), edits...)
	if err != nil {
		t.Fatal(err)
	}
	m, err := jsonscan.ReadObject(got)
	if err != nil {
		t.Fatal(err)
	}
	if m.Len() != 64 || string(m.Get("k63")) != "63" {
		t.Errorf("got %s", got)
	}
	if _, err := jsonscan.Splice(nil, []byte(`{}`), slices.Concat(edits, []jsonscan.Edit{set("more", "1")})...); err == nil {
		t.Error("one edit too many was accepted")
	}
}

// Splicing does to the text what the edits do to the list of its members.
func FuzzSplice(f *testing.F) {
	f.Add([]byte(`{"a":1,"b":[2],"c":{"d":3}}`), "a", []byte("null"), "c", "new")
	f.Add([]byte("{ \"a,\" : 1\n, \"b\":2 }"), "b", []byte(`"x"`), "a,", "z")
	f.Add([]byte(`{"\u0061":1}`), "a", []byte("2"), "b", "c")
	f.Add([]byte(`{}`), "a", []byte("2"), "a", "c")
	f.Fuzz(func(t *testing.T, object []byte, replaced string, value []byte, removed, added string) {
		if replaced == removed || replaced == added || removed == added {
			return
		}
		for _, name := range []string{replaced, removed, added} {
			raw := jsonscan.AppendString(nil, name)
			if jsonscan.Unquote(raw) != name || errors.As(new(jsonscan.Keys).Add(raw, 0), new(*jsonscan.DuplicateError)) {
				return // not a name that an object can have
			}
		}
		if jsonscan.Valid(value) != nil {
			return
		}
		before, err := jsonscan.ReadObject(object)
		spliced, spliceErr := jsonscan.Splice(nil, object, set(replaced, string(value)), remove(removed), set(added, "true"))
		if (err == nil) != (spliceErr == nil) {
			t.Fatalf("ReadObject says %v, Splice says %v", err, spliceErr)
		}
		if err != nil {
			return
		}
		after, err := jsonscan.ReadObject(spliced)
		if err != nil {
			if errors.As(err, new(*jsonscan.SizeError)) {
				return
			}
			t.Fatalf("%s became %s: %v", object, spliced, err)
		}
		want := map[string]string{}
		for member := range before.All() {
			want[member.Name()] = string(member.Value)
		}
		delete(want, removed)
		want[replaced], want[added] = string(trim(value)), "true"
		for member := range after.All() {
			if got := string(member.Value); got != want[member.Name()] {
				t.Fatalf("%s became %s: %q is %s", object, spliced, member.Name(), got)
			}
			delete(want, member.Name())
		}
		if len(want) > 0 {
			t.Fatalf("%s became %s, which lacks %v", object, spliced, want)
		}
	})
}

func trim(value []byte) []byte {
	s := jsonscan.New(value)
	trimmed, _ := s.Value()
	return trimmed
}
