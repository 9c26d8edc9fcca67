package paramheader_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/dovetail-go/dovetail/internal/paramheader"
	"github.com/dovetail-go/dovetail/internal/test/testsuites"
)

// encoded are values with their form in a header. The first five are the
// examples of the specification.
var encoded = []struct{ value, header string }{
	{"us-west1", "us-west1"},
	{"Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="},
	{" padded ", "=?base64?IHBhZGRlZCA=?="},
	{"line1\nline2", "=?base64?bGluZTEKbGluZTI=?="},
	{"=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="},

	{"", ""},
	{"us west 1", "us west 1"},
	{" us-west1", "=?base64?IHVzLXdlc3Qx?="},
	{"us-west1 ", "=?base64?dXMtd2VzdDEg?="},
	{" ", "=?base64?IA==?="},
	{"\tindented", "=?base64?CWluZGVudGVk?="},
	{"a\tb", "=?base64?YQli?="},
	{"line1\r\nline2", "=?base64?bGluZTENCmxpbmUy?="},
	{"a\x00b", "=?base64?YQBi?="},
	{"\x7f", "=?base64?fw==?="},
	{"a\x1fb", "=?base64?YR9i?="},
	{"!~", "!~"},
	{"file:///a%20b?c=d#e", "file:///a%20b?c=d#e"},
	{`"quoted", comma; semicolon`, `"quoted", comma; semicolon`},
	{"=?base64?", "=?base64?"},
	{"=?base64?=", "=?base64?PT9iYXNlNjQ/PQ==?="}, // the marks overlap
	{"=?base64??=", "=?base64?PT9iYXNlNjQ/Pz0=?="},
	{"=?BASE64?eA==?=", "=?BASE64?eA==?="},
	{"x=?base64?eA==?=", "x=?base64?eA==?="},
	{"=?base64?eA==?= ", "=?base64?PT9iYXNlNjQ/ZUE9PT89IA==?="},
}

func TestEncode(t *testing.T) {
	for _, test := range encoded {
		if got := paramheader.Encode(test.value); got != test.header {
			t.Errorf("Encode(%q) = %q, want %q", test.value, got, test.header)
		}
		if got, err := paramheader.Decode(test.header); err != nil || got != test.value {
			t.Errorf("Decode(%q) = %q, %v, want %q", test.header, got, err, test.value)
		}
	}
}

// Decode accepts forms that Encode does not produce.
func TestDecode(t *testing.T) {
	for header, want := range map[string]string{
		"  us-west1\t":                "us-west1",
		"\t =?base64?SGVsbG8=?= ":     "Hello",
		"=?base64?SGVsbG8=?=":         "Hello", // though it could be plain
		"=?base64??=":                 "",
		"=?base64?=":                  "=?base64?=",
		"=?base64?SGVsbG8=":           "=?base64?SGVsbG8=",
		"SGVsbG8=?=":                  "SGVsbG8=?=",
		"=?Base64?SGVsbG8=?=":         "=?Base64?SGVsbG8=?=",
		"=?base64?SGVsbG8=?=, again":  "=?base64?SGVsbG8=?=, again",
		"a\tb":                        "a\tb",
		"=?base64?ICA=?=":             "  ", // what is inside is not trimmed
		"=?base64?PT9iYXNlNjQ/Pz0=?=": "=?base64??=",
	} {
		if got, err := paramheader.Decode(header); err != nil || got != want {
			t.Errorf("Decode(%q) = %q, %v, want %q", header, got, err, want)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	for header, want := range map[string]string{
		"=?base64?SGVsbG8?=":                "with padding",
		"=?base64?SGVsbG8==?=":              "with padding",
		"=?base64?SGVsbG8=SGVsbG8=?=":       "with padding",
		"=?base64?SGVs!!!bG8=?=":            "with padding",
		"=?base64?SGVs bG8=?=":              "with padding",
		"=?base64?SGVs\tbG8=?=":             "with padding",
		"=?base64?SGVs_-8=?=":               "with padding", // the alphabet of URLs
		"=?base64?SGVsbG9=?=":               "with padding", // bits that an encoder leaves 0
		"=?base64?=?=":                      "with padding",
		"=?base64?/w==?=":                   "UTF-8",
		"=?base64?7aCA?=":                   "UTF-8", // half of a surrogate pair
		"=?base64?SGVs\nbG8=?=":             "printable ASCII",
		"=?base64?SGVs\r\nbG8=?=":           "printable ASCII",
		"a\r\nX-Other: b":                   "printable ASCII",
		"a\x00":                             "printable ASCII",
		"\x7f":                              "printable ASCII",
		"Hello, 世界":                         "printable ASCII",
		"caf\xe9":                           "printable ASCII",
		"=?base64?SGVsbG8=?=\u00a0":         "printable ASCII",
		"=?base64?44OG44K544OI?=\u3000":     "printable ASCII",
		strings.Repeat("a", 1<<16) + "\x1b": "printable ASCII",
	} {
		got, err := paramheader.Decode(header)
		var refused *paramheader.ValueError
		if !errors.As(err, &refused) || !strings.Contains(refused.Reason, want) || got != "" {
			t.Errorf("Decode(%q) = %q, %v, want an error with %q", header, got, err, want)
		}
	}
}

// hostile returns problematic strings, from the Big List of Naughty Strings if it is available.
func hostile(t testing.TB) []string {
	dir, ok := testsuites.Dir(t, "names")
	if !ok {
		return []string{
			"", "undefined", "1e100", "\u0001\u0002\u001f", "\u0085\u00a0", "\ufeff", "\u202ereversed", "Ω≈ç√∫˜µ≤≥÷", "田中さん",
			"👩‍👩‍👧‍👦", "<script>alert(1)</script>", "'; DROP TABLE users", "$(touch /tmp/x)", "../../etc/passwd\x00",
			"\r\nSet-Cookie: a=b", "%0d%0aX: y", "\x1b[2J", "If you're reading this\\", "Z̮̞̠͙͔ͅ", "\u2028\u2029", "=?utf-8?B?eA==?=",
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, "blns.json"))
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	if err := json.Unmarshal(text, &list); err != nil || len(list) < 500 {
		t.Fatalf("%d strings, %v", len(list), err)
	}
	return list
}

func TestHostileValues(t *testing.T) {
	for _, value := range hostile(t) {
		checkRoundTrip(t, value)
		checkRoundTrip(t, " "+value)
		checkRoundTrip(t, "=?base64?"+value+"?=")
	}
}

func checkRoundTrip(t *testing.T, value string) {
	t.Helper()
	header := paramheader.Encode(value)
	for i := range len(header) {
		if c := header[i]; c < ' ' || c > '~' {
			t.Errorf("Encode(%q) = %q has byte %#x", value, header, c)
		}
	}
	if strings.TrimSpace(header) != header {
		t.Errorf("Encode(%q) = %q would be trimmed", value, header)
	}
	got, err := paramheader.Decode(header)
	if utf8.ValidString(value) && (err != nil || got != value) {
		t.Errorf("%q was encoded as %q and decoded as %q, %v", value, header, got, err)
	}
}
