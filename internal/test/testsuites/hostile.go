package testsuites

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// HostileText returns strings that are hard to display, store or parse: escape sequences of
// terminals, characters that are invisible, combine or change the direction of text, invalid
// UTF-8, and the strings of the suite "names" if [Variable] is set.
func HostileText(t testing.TB) []string {
	t.Helper()
	list := []string{
		"", "\x00", "a\r\nb", "a\rb", "\n", "\t", "\x7f\u0085\u009b31m", "\\u0041", `\`, "'", `"`, "<&>", `\ufffd`,
		"\x1b[2J\x1b[1;1HApproved.", "\x1b]0;title\x07", "\x1b]52;c;cm0gLXJmIC8=\x07", "\x1b]8;;https://example.com\x1b\\link\x1b]8;;\x1b\\",
		"\x1bP+q544e\x1b\\", "\x1b[?1049h", "\x1b[6n", "\x1bc", "\x1b[8m hidden \x1b[0m", "\u009d0;title\u009c", "\u0090q\u009c", "\x9b2J", "a\bb\x0b\x0c\x0e\x0f",
		"\u202eexe.txt", "\u2066x\u2069", "\u200e\u200f\u061c", "\u200b\u200d\ufeff", "\u2028\u2029",
		"\U000e0041\U000e0042", "\ufe0f", "\u115f\u3164\uffa0", "\u2800", "\u00ad", "\u034f", "\U0001d159", "\U00016fe4", "a\u0336b\u0336", "x\u20e0", "\U00013441", "\u00a0\u3000",
		"ｆｕｌｌ", "ÅÅ", "日本語", "👩‍👩‍👧", "\xff\xfe", "r\xe9pertoire", "\xc0\x80", "\xed\xa0\x80", "a\xf0\x9f\x98", "\uFFFD", strings.Repeat("x", 2000),
	}
	if dir, ok := Dir(t, "names"); ok {
		text, err := os.ReadFile(filepath.Join(dir, "blns.json"))
		if err != nil {
			t.Fatal(err)
		}
		var more []string
		if err := json.Unmarshal(text, &more); err != nil {
			t.Fatal(err)
		}
		list = append(list, more...)
	}
	return list
}

// WantPlain checks that a text is one line of visible characters.
func WantPlain(t testing.TB, text string) {
	t.Helper()
	if strings.ContainsRune(text, '\n') {
		t.Errorf("%q has a line break", text)
	}
	WantPlainLines(t, text)
}

// WantPlainLines checks that a text consists of visible characters and line breaks.
func WantPlainLines(t testing.TB, text string) {
	t.Helper()
	if !utf8.ValidString(text) {
		t.Errorf("%q is not UTF-8", text)
	}
	for _, r := range text {
		if ' ' <= r && r <= '~' {
			continue
		}
		if r != '\n' && (!unicode.IsPrint(r) || unicode.In(r, unicode.C, unicode.M, unicode.Other_Default_Ignorable_Code_Point, unicode.Bidi_Control) || r == '\U0001d159') {
			t.Errorf("%q contains %U", text, r)
		}
	}
}
