package approval_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/internal/suites"
)

// hostile are strings that have harmed somebody.
func hostile(t testing.TB) []string {
	t.Helper()
	list := []string{
		"", "\x00", "\x1b[2J\x1b[1;1HApproved.", "a\r\nb", "\u202eexe.txt", "\u2066x\u2069", "\u200b\u200d\ufeff", "\u2028\u2029",
		"\U000e0041\U000e0042", "\ufe0f", "\u115f\u3164\uffa0", "\u2800", "\u00ad", "\u034f", "\U0001d159", "\U00016fe4", "a\u0336b\u0336", "x\u20e0", "\U00013441", "\u00a0\u3000", "\x7f\u0085\u009b31m", "\\u0041", `\`, "'", `"`,
		"ｆｕｌｌ", "ÅÅ", "日本語", "👩‍👩‍👧", "\xff\xfe", strings.Repeat("x", 2000),
	}
	if dir, ok := suites.Dir(t, "names"); ok {
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

// wantPlain checks that a text is one line in which all can be seen.
func wantPlain(t testing.TB, text string) {
	t.Helper()
	if !utf8.ValidString(text) {
		t.Errorf("%q is not UTF-8", text)
	}
	for _, r := range text {
		if !unicode.IsPrint(r) || unicode.In(r, unicode.C, unicode.M, unicode.Other_Default_Ignorable_Code_Point, unicode.Bidi_Control) || r == '\U0001d159' {
			t.Errorf("%q has %U in it", text, r)
		}
	}
}

// TestPrintable: nothing hides, and JSON stays the same value.
func TestPrintable(t *testing.T) {
	for _, text := range hostile(t) {
		shown := approval.Printable(text)
		wantPlain(t, shown)
		if utf8.ValidString(text) {
			var back string
			if err := json.Unmarshal([]byte(`"`+strings.ReplaceAll(shown, `"`, `\"`)+`"`), &back); err != nil || back != text {
				t.Errorf("%q is shown as %s, which is %q (%v)", text, shown, back, err)
			}
		}
		arguments, err := json.Marshal(map[string]any{text: text, "list": []any{text, 1}})
		if err != nil {
			t.Fatal(err)
		}
		r := &approval.Request{Target: approval.Target{Server: text, Tool: text}, Arguments: arguments}
		wantPlain(t, r.Text())
		wantPlain(t, r.String())
		if len(r.String()) > approval.MaxText {
			t.Errorf("%q has %d bytes", r.String(), len(r.String()))
		}
		var want, got any
		if json.Unmarshal(arguments, &want) != nil || json.Unmarshal([]byte(r.Text()), &got) != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s is shown as %s", arguments, r.Text())
		}
	}
	if got := approval.PrintableJSON([]byte("{\t\"a\":\r\n1}")); got != `{ "a":  1}` {
		t.Errorf("white space is shown as %q", got)
	}
}

func FuzzPrintable(f *testing.F) {
	for _, text := range hostile(f) {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		wantPlain(t, approval.Printable(text))
		if json.Valid([]byte(text)) && utf8.ValidString(text) {
			var want, got any
			shown := approval.PrintableJSON([]byte(text))
			wantPlain(t, shown)
			if json.Unmarshal([]byte(text), &want) == nil && (json.Unmarshal([]byte(shown), &got) != nil || !reflect.DeepEqual(got, want)) {
				t.Errorf("%q is shown as %q", text, shown)
			}
		}
	})
}

// TestRequestString is what people see at a glance.
func TestRequestString(t *testing.T) {
	for arguments, want := range map[string]string{
		`{}`:                         "files.write()",
		`{"name":"test"}`:            "files.write(name='test')",
		`{"n":2,"k":"v"}`:            "files.write(k='v', n=2)",
		`{"b":[1, {"c":null}]}`:      `files.write(b=[1, {"c":null}])`,
		`{"k":"it's\n"}`:             `files.write(k='it\'s\u000a')`,
		`{"a b":1,"":2,"ä":3}`:       `files.write(''=2, 'a b'=1, 'ä'=3)`,
		`{"n":12345678901234567890}`: "files.write(n=12345678901234567890)",
		`[]`:                         "files.write([])",
	} {
		r := &approval.Request{Target: approval.Target{Server: "files", Tool: "write"}, Arguments: json.RawMessage(arguments)}
		if got := r.String(); got != want {
			t.Errorf("%s is %s, want %s", arguments, got, want)
		}
	}
}

// TestDigests: each part of a request counts, and no two parts can be shifted into each
// other.
func TestDigests(t *testing.T) {
	base := func() *approval.Request {
		return &approval.Request{
			ID: "i", Target: approval.Target{Server: "ab", Launch: "c", Tool: "d", ToolDigest: "e"},
			Arguments: json.RawMessage(`{"a":1}`), Caller: "anna",
		}
	}
	seen := map[approval.Digest]string{base().Digest(): "nothing", base().Subject(): "nothing"}
	for name, change := range map[string]func(r *approval.Request){
		"id":          func(r *approval.Request) { r.ID = "j" },
		"server":      func(r *approval.Request) { r.Server = "x" },
		"launch":      func(r *approval.Request) { r.Launch = "x" },
		"tool":        func(r *approval.Request) { r.Tool = "x" },
		"tool digest": func(r *approval.Request) { r.ToolDigest = "x" },
		"arguments":   func(r *approval.Request) { r.Arguments = json.RawMessage(`{"a": 1}`) },
		"caller":      func(r *approval.Request) { r.Caller = "x" },
		"created":     func(r *approval.Request) { r.Created = r.Created.AddDate(0, 0, 1) },
		"deadline":    func(r *approval.Request) { r.Deadline = r.Deadline.AddDate(0, 0, 1) },
		"shift":       func(r *approval.Request) { r.Server, r.Launch = "a", "bc" },
		"swap":        func(r *approval.Request) { r.Launch, r.Tool = r.Tool, r.Launch },
	} {
		r := base()
		change(r)
		if other, known := seen[r.Digest()]; known {
			t.Errorf("%s: the digest is that of %s", name, other)
		}
		seen[r.Digest()] = name
		own := name == "id" || name == "created" || name == "deadline"
		if (r.Subject() == base().Subject()) != own {
			t.Errorf("%s: the subject is another: %t", name, own)
		}
	}
	var d approval.Digest
	text, err := base().Digest().MarshalText()
	if err != nil || d.UnmarshalText(text) != nil || d != base().Digest() || d.String() != string(text) {
		t.Errorf("%s becomes %s", text, d)
	}
	for _, bad := range []string{"", "00", strings.Repeat("g", 64), strings.Repeat("0", 66)} {
		if d.UnmarshalText([]byte(bad)) == nil {
			t.Errorf("%q is a digest", bad)
		}
	}
}
