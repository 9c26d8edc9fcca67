package mirror_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/mirror"
)

func compile(t testing.TB, schema json.RawMessage) *mirror.Params {
	t.Helper()
	params, err := mirror.Compile(schema)
	if err != nil {
		t.Fatal(err)
	}
	return params
}

// The arguments with which the conformance suite of the protocol tries clients,
// and the headers that it wants.
func TestAll(t *testing.T) {
	schema := withProperties(`
		"region":{"type":"string","x-mcp-header":"Region"}, "priority":{"type":"integer","x-mcp-header":"Priority"},
		"verbose":{"type":"boolean","x-mcp-header":"Verbose"}, "debug":{"type":"boolean","x-mcp-header":"Debug"},
		"empty_val":{"type":"string","x-mcp-header":"EmptyVal"}, "method_val":{"type":"string","x-mcp-header":"Method"},
		"float_val":{"type":"number"}, "non_ascii_val":{"type":"string","x-mcp-header":"NonAscii"},
		"whitespace_val":{"type":"string","x-mcp-header":"Whitespace"}, "leading_space_val":{"type":"string","x-mcp-header":"LeadingSpace"},
		"trailing_space_val":{"type":"string","x-mcp-header":"TrailingSpace"}, "internal_space_val":{"type":"string","x-mcp-header":"InternalSpace"},
		"control_char_val":{"type":"string","x-mcp-header":"ControlChar"}, "crlf_val":{"type":"string","x-mcp-header":"CrLf"},
		"tab_val":{"type":"string","x-mcp-header":"Tab"}, "query":{"type":"string"}`)
	const arguments = `{"region":"us-west1","priority":42,"verbose":false,"debug":true,"empty_val":"","method_val":"test-method",
		"float_val":3.14159,"non_ascii_val":"Hello, 世界","whitespace_val":" padded ","leading_space_val":" us-west1",
		"trailing_space_val":"us-west1 ","internal_space_val":"us west 1","control_char_val":"line1\nline2",
		"crlf_val":"line1\r\nline2","tab_val":"\tindented","query":"SELECT 1"}`
	want := []string{
		"Mcp-Param-Region: us-west1", "Mcp-Param-Priority: 42", "Mcp-Param-Verbose: false", "Mcp-Param-Debug: true",
		"Mcp-Param-Emptyval: ", "Mcp-Param-Method: test-method", "Mcp-Param-Nonascii: =?base64?SGVsbG8sIOS4lueVjA==?=",
		"Mcp-Param-Whitespace: =?base64?IHBhZGRlZCA=?=", "Mcp-Param-Leadingspace: =?base64?IHVzLXdlc3Qx?=",
		"Mcp-Param-Trailingspace: =?base64?dXMtd2VzdDEg?=", "Mcp-Param-Internalspace: us west 1",
		"Mcp-Param-Controlchar: =?base64?bGluZTEKbGluZTI=?=", "Mcp-Param-Crlf: =?base64?bGluZTENCmxpbmUy?=",
		"Mcp-Param-Tab: =?base64?CWluZGVudGVk?=",
	}
	if got := headers(t, schema, arguments); !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
	params := compile(t, schema)
	if err := params.Check(lines(want...).Values, json.RawMessage(arguments)); err != nil {
		t.Error(err)
	}

	// Null and absent arguments have no header.
	const few = `{"region":"us-east1","priority":1,"verbose":null,"query":"SELECT 1"}`
	want = []string{"Mcp-Param-Region: us-east1", "Mcp-Param-Priority: 1"}
	if got := headers(t, schema, few); !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
	if err := params.Check(lines(want...).Values, json.RawMessage(few)); err != nil {
		t.Error(err)
	}
}

func TestAllStopsWhenAsked(t *testing.T) {
	params := compile(t, withProperties(`"a":{"type":"string","x-mcp-header":"A"},"b":{"type":"string","x-mcp-header":"B"}`))
	seen := 0
	for range params.All(json.RawMessage(`{"a":"","b":""}`)) {
		seen++
		break
	}
	if seen != 1 {
		t.Errorf("saw %d headers", seen)
	}
}

// Whoever has no annotations asks for nothing and looks at nothing.
func TestNoParams(t *testing.T) {
	for _, params := range []*mirror.Params{nil, {}} {
		for range params.All(json.RawMessage(`{"a":1}`)) {
			t.Error("there is a header")
		}
		header := func(string) []string { t.Error("a header was read"); return nil }
		if err := params.Check(header, json.RawMessage(`not JSON`)); err != nil {
			t.Error(err)
		}
	}
}

// three is a schema with an annotation of each type, and one below an object.
var three = withProperties(`
	"s":{"type":"string","x-mcp-header":"S"}, "i":{"type":"integer","x-mcp-header":"I"},
	"b":{"type":"boolean","x-mcp-header":"B"}, "o":{"type":"object","properties":{"p":{"type":"string","x-mcp-header":"P"}}}`)

func TestCheck(t *testing.T) {
	params := compile(t, three)
	for _, test := range []struct {
		arguments string
		header    http.Header
		want      string // the error, empty for none
	}{
		{`{"s":"x","i":42,"b":true,"o":{"p":"y"}}`, lines("Mcp-Param-S:x", "mcp-param-i: 42 ", "MCP-PARAM-B:\ttrue", "Mcp-Param-P:y"), ""},
		{`{}`, lines(), ""},
		{`{"s":null,"i":null,"b":null,"o":null}`, lines(), ""},
		{`{"o":{"p":null}}`, lines(), ""},
		{`{"o":{}}`, lines(), ""},
		{`{"o":"y","p":"z"}`, lines(), ""},
		{``, lines(), ""},
		{`null`, lines(), ""},
		{`["s"]`, lines(), ""},
		{`{"s":"x"}`, lines("Mcp-Param-S:x", "Mcp-Param-Other:y", "Mcp-Param-O:z"), ""},

		{`{"s":"x"}`, lines(), `header Mcp-Param-S is missing, expected "x"`},
		{`{"s":"x"}`, lines("Mcp-Param-S:X"), `header Mcp-Param-S is "X", but the body has "x"`},
		{`{"s":"x"}`, lines("Mcp-Param-S:"), `header Mcp-Param-S is "", but the body has "x"`},
		{`{"s":"x"}`, lines("Mcp-Param-S:x", "mcp-param-s:x"), `header Mcp-Param-S is given 2 times, expected it once`},
		{`{"s":"x"}`, lines("Mcp-Param-S:x, x"), `header Mcp-Param-S is "x, x", but the body has "x"`},
		{`{"s":""}`, lines("Mcp-Param-S:"), ""},
		{`{"s":""}`, lines(), `header Mcp-Param-S is missing, expected ""`},
		{`{"o":{"p":"y"}}`, lines(), `header Mcp-Param-P is missing, expected "y"`},
		{`{"o":{"p":"y"}}`, lines("Mcp-Param-P:z"), `header Mcp-Param-P is "z", but the body has "y"`},

		// A header that mirrors nothing.
		{`{}`, lines("Mcp-Param-S:x"), `header Mcp-Param-S is "x", but the body has no value for its argument`},
		{`{}`, lines("Mcp-Param-S:"), `header Mcp-Param-S is "", but the body has no value for its argument`},
		{`{"s":null}`, lines("Mcp-Param-S:null"), `header Mcp-Param-S is "null", but the body has no value for its argument`},
		{`{"s":["x"]}`, lines("Mcp-Param-S:x"), `header Mcp-Param-S is "x", but the body has no value for its argument`},
		{`null`, lines("Mcp-Param-S:x"), `header Mcp-Param-S is "x", but the body has no value for its argument`},
		{`{"p":"y"}`, lines("Mcp-Param-P:y"), `header Mcp-Param-P is "y", but the body has no value for its argument`},
		{`{"o":[{"p":"y"}]}`, lines("Mcp-Param-P:y"), `header Mcp-Param-P is "y", but the body has no value for its argument`},
		{`{"o":{"o":{"p":"y"}}}`, lines("Mcp-Param-P:y"), `header Mcp-Param-P is "y", but the body has no value for its argument`},

		// Base64, as the conformance suite of the protocol tries it on servers.
		{`{"s":"Hello"}`, lines("Mcp-Param-S:=?base64?SGVsbG8=?="), ""},
		{`{"s":"Hello"}`, lines("Mcp-Param-S:=?base64?SGVsbG8?="), `header Mcp-Param-S has a malformed header value: expected Base64 with padding between =?base64? and ?=`},
		{`{"s":"Hello"}`, lines("Mcp-Param-S:=?base64?SGVs!!!bG8=?="), `header Mcp-Param-S has a malformed header value: expected Base64 with padding between =?base64? and ?=`},
		{`{"s":"SGVsbG8="}`, lines("Mcp-Param-S:SGVsbG8="), ""},
		{`{"s":"=?base64?SGVsbG8="}`, lines("Mcp-Param-S:=?base64?SGVsbG8="), ""},
		{`{"s":"test-value"}`, lines(), `header Mcp-Param-S is missing, expected "test-value"`},
		{`{"s":"=?base64?SGVsbG8=?="}`, lines("Mcp-Param-S:=?base64?SGVsbG8=?="), `header Mcp-Param-S is "Hello", but the body has "=?base64?SGVsbG8=?="`},
		{`{"s":"\u0048ell\u006f"}`, lines("Mcp-Param-S:Hello"), ""},
		{`{"s":"é"}`, lines("Mcp-Param-S:é"), `header Mcp-Param-S has a malformed header value: expected printable ASCII, or Base64 between =?base64? and ?=`},
		{`{"s":"\ufffd"}`, lines("Mcp-Param-S:=?base64?/w==?="), `header Mcp-Param-S has a malformed header value: expected the Base64 of UTF-8`},

		// Booleans are words.
		{`{"b":false}`, lines("Mcp-Param-B:false"), ""},
		{`{"b":false}`, lines("Mcp-Param-B:False"), `header Mcp-Param-B is "False", but the body has false`},
		{`{"b":true}`, lines("Mcp-Param-B:1"), `header Mcp-Param-B is "1", but the body has true`},
		{`{"b":true}`, lines("Mcp-Param-B:false"), `header Mcp-Param-B is "false", but the body has true`},

		// A value of another type is compared as what it is: it is for others to refuse.
		{`{"s":7}`, lines("Mcp-Param-S:7.0"), ""},
		{`{"i":"7"}`, lines("Mcp-Param-I:7"), ""},
		{`{"i":"7"}`, lines("Mcp-Param-I:7.0"), `header Mcp-Param-I is "7.0", but the body has "7"`},

		// What is given twice is ambiguous. The first two levels of params, and so
		// the arguments themselves, are looked at when they are decoded.
		{`{"s":"x","s":"x"}`, lines("Mcp-Param-S:x"), `header Mcp-Param-S mirrors an argument that is ambiguous: "s" is given twice`},
		{`{"s":null,"\u0073":"x"}`, lines("Mcp-Param-S:x"), `header Mcp-Param-S mirrors an argument that is ambiguous: "s" is given twice`},
		{`{"o":{"p":"y","p":"z"}}`, lines("Mcp-Param-P:y"), `header Mcp-Param-P mirrors an argument that is ambiguous: "p" is given twice`},
		{`{"o":{"p":"y"},"o":{}}`, lines("Mcp-Param-P:y"), `header Mcp-Param-P mirrors an argument that is ambiguous: "o" is given twice`},
		{`{"o":1,"o":{"p":"y"}}`, lines("Mcp-Param-P:y"), `header Mcp-Param-P mirrors an argument that is ambiguous: "o" is given twice`},
		{`{"x":1,"x":2}`, lines(), ""},
	} {
		err := params.Check(test.header.Values, json.RawMessage(test.arguments))
		if got := message(t, err); got != test.want {
			t.Errorf("%s with %v:\n got %s\nwant %s", test.arguments, test.header, got, test.want)
		}
	}
}

// Arguments that are no JSON cannot come from a decoded request; Check says so
// rather than trust them.
func TestCheckBrokenArguments(t *testing.T) {
	params := compile(t, three)
	for _, arguments := range []string{`{`, `{"s":}`, `{"s":"x"`, `{"o":{"p":"y"]}`, `{"s":"x" "i":1}`} {
		if err := params.Check(lines().Values, json.RawMessage(arguments)); err == nil {
			t.Errorf("%s passes", arguments)
		}
		for range params.All(json.RawMessage(arguments)) { // only: does not panic
		}
	}
}

// Integers are equal as numbers, exactly, and only those of a double.
func TestIntegers(t *testing.T) {
	params := compile(t, three)
	check := func(body, header string) string {
		return message(t, params.Check(lines("Mcp-Param-I:"+header).Values, json.RawMessage(`{"i":`+body+`}`)))
	}
	zeros := strings.Repeat("0", 1000)
	for _, group := range [][]string{
		{"42", "42.0", "42.00", "4.2e1", "4.2E+1", "420e-1", "0.42e2", "0.0042e4", "42e0", "42e-0", "42.0e00", "42" + zeros + "e-1000", "0." + zeros + "42e1002"},
		{"-7", "-7.0", "-70e-1", "-0.7e1"},
		{"0", "-0", "0.0", "-0.000", "0e5", "0e-5", "0e999999999999", "0.0e-99999999999999999999"},
		{"1", "1.0", "0.1e1", "10e-1"},
		{"100", "1e2", "1e+2", "0.1e3", "1" + zeros + "e-998"},
		{"9007199254740991", "9007199254740991.0", "9.007199254740991e15", "90071992547409910e-1"},
		{"-9007199254740991", "-9007199254740991.0", "-9.007199254740991e15"},
		{"1000000000000001", "1000000000000001.000", "1.000000000000001e15"},
		{"1000000000000000", "1e15", "0.001e18"},
	} {
		for _, body := range group {
			for _, header := range group {
				if err := check(body, header); err != "" {
					t.Errorf("%s is not %s: %s", body, header, err)
				}
			}
			want := "Mcp-Param-I: " + group[0]
			if got := headers(t, three, `{"i":`+body+`}`); !slices.Equal(got, []string{want}) {
				t.Errorf("%s has %q, want %q", body, got, want)
			}
		}
	}
	for _, header := range []string{
		"43", "-42", "42.5", "42.0000000000000001", "420", "4.2", "42e1", "", "+42", "042", "42.", ".42e2", "42e", "42e+", "4 2", "42x", "0x2a", "42,", "42.0.0",
		"42e1e1", "--42", "-", "e1", "Infinity", "NaN", "４２", "42\t", "true", "null", "42e99999999999999999999", "42e-99999999999999999999",
		"18446744073709551658", "9223372036854775850", "42e18446744073709551616", "42e-18446744073709551616",
	} {
		want := strings.TrimSpace(header) == "42"
		if err := check("42", header); (err == "") != want {
			t.Errorf("42 and %q: %s", header, err)
		}
	}
	if check("0", "") == "" || check("0", "x") == "" || check("0", "9007199254740992") == "" {
		t.Error("what is no number passes as 0")
	}
	for _, body := range []string{
		"9007199254740992", "-9007199254740992", "9007199254740993", "1e16", "1e400", "1e99999999999999999999", "12345678901234567890", "1" + zeros,
		"1.5", "1e-1", "0.1", "9007199254740991.5", "1e-99999999999999999999", "1" + zeros + "e-1001",
	} {
		if err := check(body, body); !strings.Contains(err, "expected an integer from -(2^53-1) to 2^53-1") {
			t.Errorf("%.30s passes: %s", body, err)
		}
		if got := headers(t, three, `{"i":`+body+`}`); !slices.Equal(got, []string{"Mcp-Param-I: " + body}) {
			t.Errorf("%.30s has %.60q", body, got)
		}
	}
}

// What a client sends, a server takes, whatever the value; and nothing else.
func TestHostileArguments(t *testing.T) {
	params := compile(t, three)
	for _, value := range hostile(t) {
		arguments := json.RawMessage(`{"o":{"p":` + string(jsonscan.AppendString(nil, value)) + `}}`)
		header := http.Header{}
		for name, value := range params.All(arguments) {
			header[name] = []string{value}
		}
		if err := params.Check(header.Values, arguments); err != nil {
			t.Errorf("%q: %v", value, err)
		}
		other := json.RawMessage(`{"o":{"p":` + string(jsonscan.AppendString(nil, value+" ")) + `}}`)
		if err := params.Check(header.Values, other); err == nil {
			t.Errorf("%q passes as %q", value, value+" ")
		}
	}
}

// However deep and wide, arguments are gone through once.
func TestManyProperties(t *testing.T) {
	var schema, arguments strings.Builder
	const depth = 120
	for range depth {
		schema.WriteString(`"o":{"properties":{"s":{"type":"string"},`)
		arguments.WriteString(`"s":"no","x":{"o":{"p":"no"}},"o":{`)
	}
	schema.WriteString(`"p":{"type":"string","x-mcp-header":"P"}` + strings.Repeat("}}", depth))
	arguments.WriteString(`"p":"yes"` + strings.Repeat("}", depth))
	if got := headers(t, withProperties(schema.String()), `{`+arguments.String()+`}`); !slices.Equal(got, []string{"Mcp-Param-P: yes"}) {
		t.Errorf("got %q", got)
	}
}
