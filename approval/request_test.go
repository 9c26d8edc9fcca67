package approval_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/internal/test/testsuites"
)

// TestPrintable: all characters are visible, and JSON keeps its value.
func TestPrintable(t *testing.T) {
	for _, text := range testsuites.HostileText(t) {
		shown := approval.Printable(text)
		testsuites.WantPlain(t, shown)
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
		testsuites.WantPlain(t, r.Text())
		testsuites.WantPlain(t, r.String())
		if len(r.String()) > 500 {
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
	for _, text := range testsuites.HostileText(f) {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		testsuites.WantPlain(t, approval.Printable(text))
		if json.Valid([]byte(text)) && utf8.ValidString(text) {
			var want, got any
			shown := approval.PrintableJSON([]byte(text))
			testsuites.WantPlain(t, shown)
			if json.Unmarshal([]byte(text), &want) == nil && (json.Unmarshal([]byte(shown), &got) != nil || !reflect.DeepEqual(got, want)) {
				t.Errorf("%q is shown as %q", text, shown)
			}
		}
	})
}

// TestRequestString checks the summary of a request.
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

// TestDigests: a change of any field, and moving text between fields, changes the digest.
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
		"trusted":     func(r *approval.Request) { r.Trusted = true },
		"rule":        func(r *approval.Request) { r.Rule = "x" },
		"reason":      func(r *approval.Request) { r.Reason = "x" },
		"shift":       func(r *approval.Request) { r.Server, r.Launch = "a", "bc" },
		"swap":        func(r *approval.Request) { r.Launch, r.Tool = r.Tool, r.Launch },
	} {
		r := base()
		change(r)
		if other, known := seen[r.Digest()]; known {
			t.Errorf("%s: the digest is the digest of %s", name, other)
		}
		seen[r.Digest()] = name
		own := name == "id" || name == "created" || name == "deadline"
		if (r.Subject() == base().Subject()) != own {
			t.Errorf("%s: the subject has not changed: %t, want %t", name, !own, own)
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
