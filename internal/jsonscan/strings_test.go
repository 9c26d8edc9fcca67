package jsonscan_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

func TestAppendString(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"", `""`},
		{"plain", `"plain"`},
		{"<a href='x'>&amp;</a>", `"<a href='x'>&amp;</a>"`},
		{"a\"b\\c/d", `"a\"b\\c/d"`},
		{"\b\f\n\r\t\x00\x1f\x7f", `"\b\f\n\r\t\u0000\u001f` + "\x7f\""},
		{"é日本😀\u2028", "\"é日本😀\u2028\""},
		{"a\xffb", "\"a\uFFFDb\""},
		{"\xed\xa0\x80", "\"\uFFFD\uFFFD\uFFFD\""},
		{"\xc3", "\"\uFFFD\""},
		{"12345678\n12345678", `"12345678\n12345678"`},
	} {
		if got := string(jsonscan.AppendString([]byte("x"), test.text)); got != "x"+test.want {
			t.Errorf("%q: %s, want %s", test.text, got[1:], test.want)
		}
	}
}

func TestUnquote(t *testing.T) {
	for _, test := range []struct{ raw, want string }{
		{`""`, ""},
		{`"plain"`, "plain"},
		{`"\"\\\/\b\f\n\r\t"`, "\"\\/\b\f\n\r\t"},
		{`"a\u0041\u00e9\u65E5z"`, "aAé日z"},
		{`"\uD83D\uDE00\ud83d\ude00"`, "😀😀"},
		{`"\uD83D"`, "\uFFFD"},
		{`"a\uDE00\uD83Db"`, "a\uFFFD\uFFFDb"},
		{`"\uD83D\u0041\uD83D\uD83D\uDE00"`, "\uFFFDA\uFFFD😀"},
		{`"\uD83D\n"`, "\uFFFD\n"},
		{`"\u0000"`, "\x00"},
		{`"é😀"`, "é😀"},
	} {
		if got := jsonscan.Unquote([]byte(test.raw)); got != test.want {
			t.Errorf("%s: %q, want %q", test.raw, got, test.want)
		}
		if got := string(jsonscan.AppendUnquoted([]byte("x"), []byte(test.raw))); got != "x"+test.want {
			t.Errorf("%s: %q, want %q", test.raw, got[1:], test.want)
		}
	}
}

func TestKeyIs(t *testing.T) {
	for _, test := range []struct {
		raw, name string
		want      bool
	}{
		{`"name"`, "name", true},
		{`"Name"`, "name", false},
		{`"name"`, "names", false},
		{`"names"`, "name", false},
		{`""`, "", true},
		{`"a"`, "", false},
		{`"n\u0061me"`, "name", true},
		{`"\uD83D"`, "\uFFFD", true},
		{`"a\uDE00b"`, "a\uFFFDb", true},
		{`"\uFFFD"`, "\uFFFD", true},
		{`"n\u0041me"`, "name", false},
		{`"\u006eame"`, "name", true},
		{`"nam\u0065"`, "name", true},
		{`"nam\u0065s"`, "name", false},
		{`"nam\u0065"`, "names", false},
		{`"na\u006d"`, "name", false},
		{`"\n"`, `\n`, false},
		{`"\n"`, "\n", true},
		{`"\\n"`, `\n`, true},
		{`"\uD83D\uDE00"`, "😀", true},
		{`"\ufffd"`, "\xff", false},
		{`"\ufffd"`, "\uFFFD", true},
		{`"é"`, "é", true},
	} {
		if got := jsonscan.KeyIs([]byte(test.raw), test.name); got != test.want {
			t.Errorf("KeyIs(%s, %q) = %v", test.raw, test.name, got)
		}
	}
}

func TestAppendLine(t *testing.T) {
	for text, want := range map[string]string{
		"":                                  "",
		"{}":                                "{}",
		"{\n  \"a\": 1,\r\n  \"b\": 2\n}\n": `{   "a": 1,    "b": 2 } `,
		`"a\nb"`:                            `"a\nb"`,
		"\n":                                " ",
	} {
		if got := string(jsonscan.AppendLine([]byte("x\n"), []byte(text))); got != "x\n"+want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestQuote(t *testing.T) {
	if got, want := jsonscan.Quote("a\n\x1b[31m"), `"a\n\x1b[31m"`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	long := strings.Repeat("é", 200)
	if got, want := jsonscan.Quote(long), `"`+long[:256]+`"…`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := jsonscan.Quote("a"+long), `"a`+long[:254]+`"…`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func FuzzString(f *testing.F) {
	for _, text := range []string{"", "plain", "\"\\\n\x00\x7f", "é日😀", "a\xffb\xc3", "\u2028\u2029", strings.Repeat("x", 20) + "\""} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		raw := jsonscan.AppendString(nil, text)
		if err := jsonscan.Valid(raw); err != nil {
			t.Fatalf("%q became %s: %v", text, raw, err)
		}
		want := strings.Map(func(r rune) rune { return r }, text) // replaces each invalid byte
		if got := jsonscan.Unquote(raw); got != want {
			t.Fatalf("%q became %s and then %q", text, raw, got)
		}
		if !jsonscan.KeyIs(raw, want) {
			t.Fatalf("%s is not %q", raw, want)
		}
		// The same string with other escapes is the same name.
		escaped, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		if got := jsonscan.Unquote(escaped); got != want {
			t.Fatalf("%s became %q", escaped, got)
		}
		if !jsonscan.KeyIs(escaped, want) || jsonscan.KeyIs(escaped, want+"x") || jsonscan.KeyIs(escaped, "x"+want) {
			t.Fatalf("KeyIs(%s, …) fails", escaped)
		}
	})
}
