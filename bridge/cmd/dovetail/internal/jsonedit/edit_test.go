package jsonedit

import (
	"errors"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/internal/test/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// Members are added and replaced, and no other byte changes. | marks where text is inserted, and
// « » what is replaced.
func TestSet(t *testing.T) {
	const value = `{"command":"c"}`
	for name, test := range map[string]struct{ before, after string }{
		"empty file":           {"", "{\n  \"s\": {\n    \"n\": {\n      \"command\": \"c\"\n    }\n  }\n}\n"},
		"empty object":         {"{}", "{\n  \"s\": {\n    \"n\": {\n      \"command\": \"c\"\n    }\n  }\n}"},
		"empty servers":        {"{\"s\": {}}", "{\"s\": {\n  \"n\": {\n    \"command\": \"c\"\n  }\n}}"},
		"one line":             {`{"s": {"a": 1}}`, `{"s": {"a": 1, "n": {"command":"c"}}}`},
		"last":                 {"{\n\t\"s\": {\n\t\t\"a\": 1\n\t}\n}", "{\n\t\"s\": {\n\t\t\"a\": 1,\n\t\t\"n\": {\n\t\t\t\"command\": \"c\"\n\t\t}\n\t}\n}"},
		"line breaks":          {"{\r\n \"s\": {\r\n  \"a\": 1\r\n }\r\n}", "{\r\n \"s\": {\r\n  \"a\": 1,\r\n  \"n\": {\r\n   \"command\": \"c\"\r\n  }\r\n }\r\n}"},
		"comment on the line":  {"{\n  \"s\": {\n    \"a\": 1 // x, \"}\n  }\n}", "{\n  \"s\": {\n    \"a\": 1, // x, \"}\n    \"n\": {\n      \"command\": \"c\"\n    }\n  }\n}"},
		"comment after":        {"{\n  \"s\": {\n    \"a\": 1\n    // later\n  }\n}", "{\n  \"s\": {\n    \"a\": 1,\n    \"n\": {\n      \"command\": \"c\"\n    }\n    // later\n  }\n}"},
		"comment in an object": {"{\n  \"s\": {\n    // none\n  }\n}", "{\n  \"s\": {\n    // none\n    \"n\": {\n      \"command\": \"c\"\n    }\n  }\n}"},
		"trailing comma":       {"{\n  \"s\": {\n    \"a\": 1, /* y */\n  },\n}", "{\n  \"s\": {\n    \"a\": 1, /* y */\n    \"n\": {\n      \"command\": \"c\"\n    },\n  },\n}"},
		"replaced":             {"{\n  \"s\": { \"n\": [1], // x\n \"b\":2},\n}", "{\n  \"s\": { \"n\": {\n    \"command\": \"c\"\n  }, // x\n \"b\":2},\n}"},
		"comment, last line":   {"{\"s\": {\"a\": 1}} // x", "{\"s\": {\"a\": 1, \"n\": {\"command\":\"c\"}}} // x"},
		"other members":        {"\uFEFF{ // top\n  \"z\": \"\\u00e4\",\n}\n", "\uFEFF{ // top\n  \"z\": \"\\u00e4\",\n  \"s\": {\n    \"n\": {\n      \"command\": \"c\"\n    }\n  },\n}\n"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Set([]byte(test.before), []string{"s"}, "n", []byte(value))
			if err != nil || string(got) != test.after {
				t.Fatalf("got %q, error %v\nwant %q", got, err, test.after)
			}
			again, err := Set(got, []string{"s"}, "n", []byte(value))
			if err != nil || string(again) != string(got) && !strings.Contains(name, "line") {
				t.Errorf("a second time: %q, error %v", again, err)
			}
		})
	}
}

// A member that was added and removed leaves the text as it was.
func TestRemoveUndoesSet(t *testing.T) {
	for _, text := range []string{
		`{"s": {"a": 1}}`, "{\n  \"s\": {\n    \"a\": 1\n  }\n}\n", "{\n  \"s\": {\n    \"a\": 1, // x\n    /* z */ \"b\": 2 // y\n    // w\n  }\n}\n",
		"{\r\n \"s\": {\r\n  \"a\": 1,\r\n },\r\n}", "{\n  \"s\": {\"a\": 1},\n  \"t\": [1, 2, /* k */ 3,]\n}", `{"s":{"a":1,}}`,
	} {
		added, err := Set([]byte(text), []string{"s"}, "n", []byte(`{"command":"c","args":["x"]}`))
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		removed, err := Remove(added, []string{"s"}, "n")
		if err != nil || string(removed) != text {
			t.Errorf("%q became %q, then %q, error %v", text, added, removed, err)
		}
	}
}

func TestRemove(t *testing.T) {
	for before, after := range map[string]string{
		"{\"s\":{\"n\":1}}":                                          "{\"s\":{}}",
		"{\"s\":{\"n\":1, \"b\":2}}":                                 "{\"s\":{\"b\":2}}",
		"{\"s\":{\"a\":0, \"n\":1}}":                                 "{\"s\":{\"a\":0}}",
		"{\"s\":{\"a\":0, \"n\":1, \"b\":2}}":                        "{\"s\":{\"a\":0, \"b\":2}}",
		"{\n \"s\":{\n  // first\n  \"n\":1, // n\n  \"b\":2\n }\n}": "{\n \"s\":{\n  // first\n  \"b\":2\n }\n}",
		"{\n \"s\":{\n  \"a\":1, // a\n  \"n\":1\n }\n}":             "{\n \"s\":{\n  \"a\":1 // a\n }\n}",
		"{\"s\": {\n \"n\":1, /* k */ \"b\":2 /* z */\n}}":           "{\"s\": {\n /* k */ \"b\":2 /* z */\n}}",
		"{\n \"s\":{\n  \"n\":{\n   \"x\":1\n  }\n }\n}":             "{\n \"s\":{\n }\n}",
	} {
		if got, err := Remove([]byte(before), []string{"s"}, "n"); err != nil || string(got) != after {
			t.Errorf("%q became %q, error %v, want %q", before, got, err, after)
		}
	}
	for _, text := range []string{`{}`, `{"s":{}}`, `{"s":{"m":1}}`} {
		if _, err := Remove([]byte(text), []string{"s"}, "n"); !errors.Is(err, ErrNotFound) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestRepeatedMembersAreRefused(t *testing.T) {
	for _, text := range []string{`{"s":{"n":1,"n":2}}`, `{"s":{"n":1,"m":2,"\u006e":3}}`, `{"s":{"n":1},"s":{"n":2}}`} {
		if got, err := Remove([]byte(text), []string{"s"}, "n"); err == nil {
			t.Errorf("%s without the member is %s", text, got)
		}
		if got, err := Set([]byte(text), []string{"s"}, "n", []byte(`3`)); err == nil {
			t.Errorf("%s with the member is %s", text, got)
		}
	}
}

func TestInvalidFilesAreRefused(t *testing.T) {
	for _, text := range []string{`{`, `{"a":}`, `[1`, `{"a" 1}`, `{"a":1 "b":2}`, `/* x`, `{"a":"x}`, `{} {}`, `{"s":[]}`, `3`, `{"a":01}`, strings.Repeat("[", 1000)} {
		if got, err := Set([]byte(text), []string{"s"}, "n", []byte(`1`)); err == nil {
			t.Errorf("%.20s became %s", text, got)
		}
	}
}

// Brackets in texts and comments neither hide nested values nor count as some.
func TestDeepFilesAreRefused(t *testing.T) {
	for before, isRefused := range map[string]bool{
		strings.Repeat("[", MaxText):                                                            true,
		strings.Repeat(`{"]]":/*}}*/`, MaxText/20):                                              true,
		strings.Repeat("[\"\\\"]\",//]\n", MaxText/20):                                          true,
		`{"a":` + strings.Repeat("[", maxDepth) + strings.Repeat("]", maxDepth) + "}":           true,
		`{"a":` + strings.Repeat("[", maxDepth-1) + strings.Repeat("]", maxDepth-1) + "}":       false,
		`{"a":"` + strings.Repeat("[", 2*maxDepth) + `"} // ` + strings.Repeat("[", 2*maxDepth): false,
	} {
		_, err := Set([]byte(before), []string{"s"}, "n", []byte(`1`))
		if isTooDeep := err != nil && strings.Contains(err.Error(), "too many nested values"); isTooDeep != isRefused || err != nil && !isRefused {
			t.Errorf("%.20s: %v", before, err)
		}
	}
}

// Whatever the text, a change is refused or changes the member only.
func FuzzEdit(f *testing.F) {
	f.Add([]byte("{\n \"s\":{\n  \"a\":1, // a\n  \"n\":1,\n }\n}"))
	f.Add([]byte(`{"s":{"a":[1,{},"\u0000"],}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if added, err := Set(text, []string{"s"}, "n", []byte(`{"command":"c"}`)); err == nil {
			if _, err := decoded(added); err != nil {
				t.Errorf("%q became %q: %v", text, added, err)
			}
		}
		if removed, err := Remove(text, []string{"s"}, "n"); err == nil {
			if _, err := decoded(removed); err != nil {
				t.Errorf("%q became %q: %v", text, removed, err)
			}
		}
	})
}
