package paramheader_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/paramheader"
	"github.com/dovetail-go/dovetail/jsonrpc"
)

func compile(t testing.TB, schema json.RawMessage) *paramheader.Params {
	t.Helper()
	params, err := paramheader.Compile(schema)
	if err != nil {
		t.Fatal(err)
	}
	return params
}

// The arguments and headers of the protocol's conformance suite.
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

func TestAllStops(t *testing.T) {
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

// Without annotations, Check and All do nothing.
func TestNoParams(t *testing.T) {
	for _, params := range []*paramheader.Params{nil, {}} {
		for range params.All(json.RawMessage(`{"a":1}`)) {
			t.Error("there is a header")
		}
		header := func(string) []string { t.Error("a header was read"); return nil }
		if err := params.Check(header, json.RawMessage(`not JSON`)); err != nil {
			t.Error(err)
		}
	}
}

// three returns a schema with an annotation of each type, and one in an object.
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

		// A value of another type is compared as it is. The decoder of the arguments refuses it.
		{`{"s":7}`, lines("Mcp-Param-S:7.0"), ""},
		{`{"i":"7"}`, lines("Mcp-Param-I:7"), ""},
		{`{"i":"7"}`, lines("Mcp-Param-I:7.0"), `header Mcp-Param-I is "7.0", but the body has "7"`},

		// A duplicate member is ambiguous. The first two levels of params, and so the arguments themselves, are checked
		// when they are decoded.
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

// Check returns an error for malformed arguments, although a decoded request cannot have
// them.
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

// Integers are compared exactly by value, within the range of a float64.
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

// A server accepts exactly the headers that a client sends for the same arguments.
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

// Arguments are scanned once, whatever their depth.
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

func decode(t testing.TB, method, params string) *jsonrpc.Request {
	t.Helper()
	text := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%s,"params":%s}`, jsonscan.AppendString(nil, method), params)
	m, err := jsonrpc.Decode([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return m.(*jsonrpc.Request)
}

func TestName(t *testing.T) {
	for _, test := range []struct {
		method, params string
		want           string
		required       bool
	}{
		{"tools/call", `{"name":"echo","uri":"x"}`, "echo", true},
		{"tools/call", `{"name":"\u00e9\n"}`, "é\n", true},
		{"tools/call", `{"name":""}`, "", true},
		{"prompts/get", `{"name":"summary"}`, "summary", true},
		{"resources/read", `{"name":"x","uri":"file:///a"}`, "file:///a", true},
		{"tasks/get", `{"taskId":"t1"}`, "t1", true},
		{"tasks/update", `{"taskId":"t2"}`, "t2", true},
		{"tasks/cancel", `{"taskId":"t3"}`, "t3", true},
		{"tasks/list", `{"taskId":"t3"}`, "", false},
		{"tools/list", `{"name":"x"}`, "", false},
		{"completion/complete", `{"name":"x"}`, "", false},
		{"resources/subscribe", `{"uri":"x"}`, "", false},
		{"TOOLS/CALL", `{"name":"x"}`, "", false},
		{"tools/call", `{}`, "", false},
		{"tools/call", `[]`, "", false},
		{"tools/call", `{"name":7}`, "", false},
		{"tools/call", `{"name":null}`, "", false},
		{"tools/call", `{"name":["x"]}`, "", false},
	} {
		got, required := paramheader.Name(decode(t, test.method, test.params))
		if got != test.want || required != test.required {
			t.Errorf("%s %s: %q, %t, want %q, %t", test.method, test.params, got, required, test.want, test.required)
		}
	}
}

// lines returns a header of lines "Name: value".
func lines(list ...string) http.Header {
	h := http.Header{}
	for _, line := range list {
		name, value, _ := strings.Cut(line, ":")
		h.Add(name, value)
	}
	return h
}

func TestCheckStandard(t *testing.T) {
	for _, test := range []struct {
		method, params string
		header         http.Header
		want           string // the error, empty for none
	}{
		{"tools/list", `{}`, lines("Mcp-Method:tools/list"), ""},
		{"tools/list", `{}`, lines("mcp-method:tools/list"), ""},
		{"tools/list", `{}`, lines("MCP-METHOD: \ttools/list\t "), ""},
		{"tools/list", `{}`, lines("Mcp-Method:tools/list", "Mcp-Name:whatever"), ""},
		{"notifications/x", `{}`, lines("Mcp-Method:notifications/x"), ""},
		{"tools/list", `{}`, lines(), `header Mcp-Method is missing, expected "tools/list"`},
		{"tools/list", `{}`, lines("Mcp-Method:"), `header Mcp-Method is "", but the body has "tools/list"`},
		{"tools/list", `{}`, lines("Mcp-Method:prompts/list"), `header Mcp-Method is "prompts/list", but the body has "tools/list"`},
		{"tools/list", `{}`, lines("Mcp-Method:TOOLS/LIST"), `header Mcp-Method is "TOOLS/LIST", but the body has "tools/list"`},
		{"tools/list", `{}`, lines("Mcp-Method:tools/list", "Mcp-Method:tools/list"), `header Mcp-Method is given 2 times, expected it once`},
		{"tools/list", `{}`, lines("Mcp-Method:tools/list, tools/list"), `header Mcp-Method is "tools/list, tools/list", but the body has "tools/list"`},
		// Only names and parameters come in Base64.
		{"tools/list", `{}`, lines("Mcp-Method:=?base64?dG9vbHMvbGlzdA==?="), `header Mcp-Method is "=?base64?dG9vbHMvbGlzdA==?=", but the body has "tools/list"`},

		{"tools/call", `{"name":"echo"}`, lines("Mcp-Method:tools/call", "Mcp-Name:echo"), ""},
		{"tools/call", `{"name":"echo"}`, lines("Mcp-Method:tools/call", "MCP-NAME:  echo  "), ""},
		{"tools/call", `{"name":"\u0065cho"}`, lines("Mcp-Method:tools/call", "Mcp-Name:echo"), ""},
		{"tools/call", `{"name":"echo"}`, lines("Mcp-Method:tools/call", "Mcp-Name:=?base64?ZWNobw==?="), ""},
		{"tools/call", `{"name":"=?base64?ZWNobw==?="}`, lines("Mcp-Method:tools/call", "Mcp-Name:=?base64?ZWNobw==?="), `header Mcp-Name is "echo", but the body has "=?base64?ZWNobw==?="`},
		{"tools/call", `{"name":"échö\n"}`, lines("Mcp-Method:tools/call", "Mcp-Name:"+paramheader.Encode("échö\n")), ""},
		{"tools/call", `{"name":""}`, lines("Mcp-Method:tools/call", "Mcp-Name:"), ""},
		{"tools/call", `{"name":""}`, lines("Mcp-Method:tools/call"), `header Mcp-Name is missing, expected ""`},
		{"tools/call", `{"name":"echo"}`, lines("Mcp-Method:tools/call"), `header Mcp-Name is missing, expected "echo"`},
		{"tools/call", `{"name":"echo"}`, lines("Mcp-Method:tools/call", "Mcp-Name:Echo"), `header Mcp-Name is "Echo", but the body has "echo"`},
		{"tools/call", `{"name":"echo"}`, lines("Mcp-Method:tools/call", "Mcp-Name:echo", "mcp-name:other"), `header Mcp-Name is given 2 times, expected it once`},
		{"tools/call", `{"name":"échö"}`, lines("Mcp-Method:tools/call", "Mcp-Name:échö"), `header Mcp-Name has a malformed header value: expected printable ASCII, or Base64 between =?base64? and ?=`},
		{"tools/call", `{"name":"echo"}`, lines("Mcp-Method:tools/call", "Mcp-Name:=?base64?ZWNobw?="), `header Mcp-Name has a malformed header value: expected Base64 with padding between =?base64? and ?=`},
		{"tools/call", `{"name":" echo"}`, lines("Mcp-Method:tools/call", "Mcp-Name: echo"), `header Mcp-Name is "echo", but the body has " echo"`},
		{"resources/read", `{"uri":"file:///ä"}`, lines("Mcp-Method:resources/read", "Mcp-Name:"+paramheader.Encode("file:///ä")), ""},
		{"resources/read", `{"uri":"file:///a"}`, lines("Mcp-Method:resources/read", "Mcp-Name:file:///b"), `header Mcp-Name is "file:///b", but the body has "file:///a"`},
		{"tasks/get", `{"taskId":"a"}`, lines("Mcp-Method:tasks/get", "Mcp-Name:a"), ""},
		{"tasks/get", `{"taskId":"a"}`, lines("Mcp-Method:tasks/get"), `header Mcp-Name is missing, expected "a"`},

		// A body without a name has no header either.
		{"tools/call", `{}`, lines("Mcp-Method:tools/call"), ""},
		{"tools/call", `{"name":7}`, lines("Mcp-Method:tools/call"), ""},
		{"tools/call", `{"name":7}`, lines("Mcp-Method:tools/call", "Mcp-Name:7"), `header Mcp-Name is "7", but the body has no value for params.name`},
		{"tools/call", `[]`, lines("Mcp-Method:tools/call", "Mcp-Name:"), `header Mcp-Name is "", but the body has no value for params.name`},
	} {
		err := paramheader.CheckStandard(test.header.Values, decode(t, test.method, test.params))
		if got := message(t, err); got != test.want {
			t.Errorf("%s %s with %v:\n got %s\nwant %s", test.method, test.params, test.header, got, test.want)
		}
	}
}

// message returns the message of a HeaderError, or "".
func message(t *testing.T, err error) string {
	t.Helper()
	if err == nil {
		return ""
	}
	if !errors.As(err, new(*paramheader.HeaderError)) {
		t.Errorf("%v is a %T", err, err)
	}
	return err.Error()
}

// Errors are short and have one line.
func TestErrorsAreBounded(t *testing.T) {
	long := strings.Repeat("\x1b[2J\u202e", 1<<16)
	req := decode(t, "tools/call", `{"name":`+string(jsonscan.AppendString(nil, long))+`}`)
	for _, header := range []http.Header{
		lines("Mcp-Method:tools/call"),
		lines("Mcp-Method:" + long),
		lines("Mcp-Method:tools/call", "Mcp-Name:"+paramheader.Encode(long+"x")),
		lines("Mcp-Method:tools/call", "Mcp-Name:"+strings.Repeat("x", 1<<16)),
	} {
		got := message(t, paramheader.CheckStandard(header.Values, req))
		if len(got) == 0 || len(got) > 4096 || strings.ContainsAny(got, "\n\x1b\u202e") {
			t.Errorf("%d bytes: %.100q", len(got), got)
		}
	}
}

func TestHostileNames(t *testing.T) {
	for _, name := range hostile(t) {
		req := decode(t, "tools/call", `{"name":`+string(jsonscan.AppendString(nil, name))+`}`)
		got, _ := paramheader.Name(req)
		header := lines("Mcp-Method:tools/call", "Mcp-Name:"+paramheader.Encode(got))
		if err := paramheader.CheckStandard(header.Values, req); err != nil {
			t.Errorf("%q: %v", name, err)
		}
		header = lines("Mcp-Method:tools/call", "Mcp-Name:"+paramheader.Encode(got+"."))
		if err := paramheader.CheckStandard(header.Values, req); err == nil {
			t.Errorf("%q passes as %q", name, got+".")
		}
	}
}

// withProperties is an input schema.
func withProperties(properties string) json.RawMessage {
	return json.RawMessage(`{"type":"object","properties":{` + properties + `}}`)
}

// headers returns the headers of a schema.
func headers(t testing.TB, schema json.RawMessage, arguments string) []string {
	t.Helper()
	params, err := paramheader.Compile(schema)
	if err != nil {
		t.Fatalf("%s: %v", schema, err)
	}
	var list []string
	for name, value := range params.All(json.RawMessage(arguments)) {
		list = append(list, name+": "+value)
	}
	return list
}

func TestCompile(t *testing.T) {
	for _, test := range []struct {
		schema    json.RawMessage
		arguments string
		want      []string
	}{
		{withProperties(`"region":{"type":"string","x-mcp-header":"Region"}`), `{"region":"eu"}`, []string{"Mcp-Param-Region: eu"}},
		{withProperties(`"n":{"x-mcp-header":"N","type":"integer"},"b":{"type":"boolean","x-mcp-header":"B"}`), `{"b":true,"n":7}`, []string{"Mcp-Param-N: 7", "Mcp-Param-B: true"}},
		{withProperties(`"m":{"type":"string","x-mcp-header":"Method"}`), `{"m":"x"}`, []string{"Mcp-Param-Method: x"}},
		{withProperties(`"m":{"type":"string","x-mcp-header":"!#$%&'*+-.^_` + "`" + `|~09azAZ"}`), `{"m":"x"}`, []string{"Mcp-Param-!#$%&'*+-.^_`|~09azaz: x"}},
		{withProperties(`"m":{"type":"string","x-mcp-header":"x"},"y":{"type":"string","x-mcp-header":"x-"},"z":{"type":"string","x-mcp-header":"-x"}`), `{"m":"1","y":"2","z":"3"}`,
			[]string{"Mcp-Param-X: 1", "Mcp-Param-X-: 2", "Mcp-Param--X: 3"}},

		// Below objects, through properties only.
		{withProperties(`"a":{"type":"object","properties":{"b":{"properties":{"c":{"type":"string","x-mcp-header":"C"}}},"d":{"type":"integer","x-mcp-header":"D"}}}`),
			`{"a":{"d":1,"b":{"c":"x"},"c":"no"},"b":{"c":"no"},"c":"no"}`, []string{"Mcp-Param-C: x", "Mcp-Param-D: 1"}},
		{withProperties(`"properties":{"properties":{"properties":{"type":"string","x-mcp-header":"P"}}}`), `{"properties":{"properties":"x"}}`, []string{"Mcp-Param-P: x"}},
		{withProperties(`"":{"properties":{"a/b~c":{"type":"string","x-mcp-header":"P"}}}`), `{"":{"a/b~c":"x"}}`, []string{"Mcp-Param-P: x"}},

		// Names with escapes, in the schema and in the arguments.
		{withProperties(`"a":{"type":"str\u0069ng","\u0078-mcp-header":"\u0050"}`), `{"a":"x"}`, []string{"Mcp-Param-P: x"}},
		{json.RawMessage(`{"pr\u006fperties":{"\u00e9":{"type":"string","x-mcp-header":"E"}}}`), `{"é":"x"}`, []string{"Mcp-Param-E: x"}},
		{withProperties(`"é":{"type":"string","x-mcp-header":"E"}`), `{"\u00e9":"x"}`, []string{"Mcp-Param-E: x"}},

		// Other keywords next to an annotation have no effect.
		{withProperties(`"a":{"$ref":"#/$defs/a","type":"string","enum":["x"],"x-mcp-header":"A"}`), `{"a":"x"}`, []string{"Mcp-Param-A: x"}},
		{withProperties(`"a":true,"b":{"type":"string","x-mcp-header":"B"},"c":false`), `{"a":"x","b":"y"}`, []string{"Mcp-Param-B: y"}},
		{json.RawMessage(`{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"A"}},"required":["a"],"oneOf":[{"required":["a"]}],"additionalProperties":false}`), `{"a":"y"}`, []string{"Mcp-Param-A: y"}},

		// A property with that name, and data that look like an annotation.
		{withProperties(`"x-mcp-header":{"type":"string","description":"x-mcp-header"}`), `{"x-mcp-header":"x"}`, nil},
		{withProperties(`"x-mcp-header":{"type":"string","x-mcp-header":"X"}`), `{"x-mcp-header":"x"}`, []string{"Mcp-Param-X: x"}},
		{withProperties(`"a":{"const":{"x-mcp-header":"A"},"enum":[{"x-mcp-header":""}],"default":{"x-mcp-header":1},"examples":[{"x-mcp-header":null}]}`), `{"a":"x"}`, nil},
		{json.RawMessage(`{"required":["x-mcp-header"],"dependentRequired":{"x-mcp-header":["a"]},"dependencies":{"x-mcp-header":["a"]},"$defs":{"x-mcp-header":{}}}`), `{"a":"x"}`, nil},
	} {
		if got := headers(t, test.schema, test.arguments); !slices.Equal(got, test.want) {
			t.Errorf("%s of %s: %q, want %q", test.schema, test.arguments, got, test.want)
		}
	}
}

// A schema without annotations has no Params and is usually not scanned.
func TestCompileWithoutAnnotations(t *testing.T) {
	for _, schema := range []string{
		"", "null", "true", "{}", `{"type":"object"}`, "not JSON", `{"type":"object",`, `{"a":1,"a":2}`, `"\u00"`, `"\u00zz"`, `\u00`, `\u007`, `"\u00e9\u003c`,
		`{"description":"x-mcp-header"}`, `{"properties":{"x-mcp-header":true}}`, `"\\u0078-mcp-header"`,
	} {
		if params, err := paramheader.Compile(slices.Clip(json.RawMessage(schema))); params != nil || err != nil {
			t.Errorf("%s: %v, %v, want neither", schema, params, err)
		}
	}
}

// Invalid annotations. The first ten are from the protocol's conformance suite.
func TestCompileRefuses(t *testing.T) {
	inTree := func(before, after string) json.RawMessage {
		return json.RawMessage(`{"type":"object",` + before + `{"type":"string","x-mcp-header":"A"}` + after + `}`)
	}
	const primitive = `needs "type":"string", "integer" or "boolean"`
	for _, test := range []struct {
		schema          json.RawMessage
		pointer, reason string
	}{
		{withProperties(`"value":{"type":"string","x-mcp-header":""}`), "/properties/value", "is not empty"},
		{withProperties(`"data":{"type":"object","x-mcp-header":"Data"}`), "/properties/data", primitive},
		{withProperties(`"items":{"type":"array","items":{"type":"string"},"x-mcp-header":"Items"}`), "/properties/items", primitive},
		{withProperties(`"nil":{"type":"null","x-mcp-header":"Nil"}`), "/properties/nil", primitive},
		{withProperties(`"field1":{"type":"string","x-mcp-header":"Region"},"field2":{"type":"string","x-mcp-header":"Region"}`), "/properties/field2", "another property has the header Mcp-Param-Region"},
		{withProperties(`"field1":{"type":"string","x-mcp-header":"MyField"},"field2":{"type":"string","x-mcp-header":"myfield"}`), "/properties/field2", "another property has the header Mcp-Param-Myfield"},
		{withProperties(`"value":{"type":"string","x-mcp-header":"My Region"}`), "/properties/value", `not of ' '`},
		{withProperties(`"value":{"type":"string","x-mcp-header":"Region:Primary"}`), "/properties/value", `not of ':'`},
		{withProperties(`"value":{"type":"string","x-mcp-header":"Région"}`), "/properties/value", `not of '\u00e9'`},
		{withProperties(`"value":{"type":"string","x-mcp-header":"Region\t1"}`), "/properties/value", `not of '\t'`},

		{withProperties(`"v":{"type":"string","x-mcp-header":"a\r\nHost: evil"}`), "/properties/v", `not of '\r'`},
		{withProperties(`"v":{"type":"string","x-mcp-header":"a\u0000"}`), "/properties/v", `not of '\x00'`},
		{withProperties(`"v":{"type":"string","x-mcp-header":"a\u007f"}`), "/properties/v", `not of '\x7f'`},
		{withProperties(`"v":{"type":"string","x-mcp-header":"a/b"}`), "/properties/v", `not of '/'`},
		{withProperties(`"v":{"type":"string","x-mcp-header":"\uff21"}`), "/properties/v", `not of '\uff21'`},
		{withProperties(`"v":{"type":"string","x-mcp-header":"\u212a"}`), "/properties/v", `not of '\u212a'`}, // lower case: k
		{withProperties(`"v":{"type":"string","x-mcp-header":"` + strings.Repeat("a", paramheader.MaxParamName+1) + `"}`), "/properties/v", "at most 256 bytes"},
		{withProperties(`"v":{"type":"string","x-mcp-header":7}`), "/properties/v", "a string, not a number"},
		{withProperties(`"v":{"type":"string","x-mcp-header":null}`), "/properties/v", "a string, not null"},
		{withProperties(`"v":{"type":"string","x-mcp-header":false}`), "/properties/v", "a string, not a boolean"},
		{withProperties(`"v":{"type":"string","x-mcp-header":["A"]}`), "/properties/v", "a string, not an array"},
		{withProperties(`"v":{"type":"string","x-mcp-header":{"name":"A"}}`), "/properties/v", "a string, not an object"},
		{withProperties(`"v":{"type":"number","x-mcp-header":"A"}`), "/properties/v", primitive},
		{withProperties(`"v":{"x-mcp-header":"A"}`), "/properties/v", primitive},
		{withProperties(`"v":{"type":["string"],"x-mcp-header":"A"}`), "/properties/v", primitive},
		{withProperties(`"v":{"type":["string","null"],"x-mcp-header":"A"}`), "/properties/v", primitive},
		{withProperties(`"v":{"type":"String","x-mcp-header":"A"}`), "/properties/v", primitive},
		{withProperties(`"v":{"$ref":"#/$defs/v","x-mcp-header":"A"}`), "/properties/v", primitive},
		{withProperties(`"v":{"enum":["a"],"x-mcp-header":"A"}`), "/properties/v", primitive},
		{withProperties(`"v":{"type":"object","properties":{"w":{"type":"string","x-mcp-header":"A"}},"x-mcp-header":"B"}`), "/properties/v", primitive},
		{withProperties(`"a/b":{"properties":{"c~":{"type":"string","x-mcp-header":""}}}`), "/properties/a~1b/properties/c~0", "is not empty"},
		{withProperties(`"v":{"type":"string","\u0078\u002d\u006d\u0063\u0070\u002d\u0068\u0065\u0061\u0064\u0065\u0072":""}`), "/properties/v", "is not empty"},
		{withProperties(`"a":{"type":"string","x-mcp-header":"A"},"b":{"properties":{"c":{"type":"string","x-mcp-header":"a"}}}`), "/properties/b/properties/c", "another property"},

		// Where no chain of properties leads.
		{json.RawMessage(`{"type":"object","x-mcp-header":"A"}`), "", "only a property"},
		{json.RawMessage(`{"type":"string","x-mcp-header":"A"}`), "", "only a property"},
		{inTree(`"items":`, ``), "/items", `through "items"`},
		{inTree(`"items":[`, `]`), "/items/0", `through "items"`},
		{inTree(`"prefixItems":[true,`, `]`), "/prefixItems/1", `through "prefixItems"`},
		{inTree(`"contains":`, ``), "/contains", `through "contains"`},
		{inTree(`"additionalItems":`, ``), "/additionalItems", `through "additionalItems"`},
		{inTree(`"unevaluatedItems":`, ``), "/unevaluatedItems", `through "unevaluatedItems"`},
		{inTree(`"additionalProperties":`, ``), "/additionalProperties", `through "additionalProperties"`},
		{inTree(`"unevaluatedProperties":`, ``), "/unevaluatedProperties", `through "unevaluatedProperties"`},
		{inTree(`"patternProperties":{"properties":`, `}`), "/patternProperties/properties", `through "patternProperties"`},
		{inTree(`"propertyNames":`, ``), "/propertyNames", `through "propertyNames"`},
		{inTree(`"dependentSchemas":{"a":`, `}`), "/dependentSchemas/a", `through "dependentSchemas"`},
		{inTree(`"dependencies":{"a":`, `}`), "/dependencies/a", `through "dependencies"`},
		{inTree(`"contentSchema":`, ``), "/contentSchema", `through "contentSchema"`},
		{inTree(`"oneOf":[{},`, `]`), "/oneOf/1", `through "oneOf"`},
		{inTree(`"anyOf":[`, `]`), "/anyOf/0", `through "anyOf"`},
		{inTree(`"allOf":[{"properties":{"a":`, `}}]`), "/allOf/0/properties/a", `through "allOf"`},
		{inTree(`"not":`, ``), "/not", `through "not"`},
		{inTree(`"if":{"properties":{"a":`, `}}`), "/if/properties/a", `through "if"`},
		{inTree(`"then":{"properties":{"a":`, `}}`), "/then/properties/a", `through "then"`},
		{inTree(`"else":`, ``), "/else", `through "else"`},
		{inTree(`"$defs":{"a":`, `}`), "/$defs/a", `through "$defs"`},
		{inTree(`"$defs":{"properties":{"properties":{"a":`, `}}}`), "/$defs/properties/properties/a", `through "$defs"`},
		{inTree(`"definitions":{"a":`, `}`), "/definitions/a", `through "definitions"`},
		{inTree(`"properties":{"a":{"items":{"properties":{"b":`, `}}}}`), "/properties/a/items/properties/b", `through "items"`},
		{inTree(`"properties":{"a":{"properties":{"properties":{"anyOf":[`, `]}}}}`), "/properties/a/properties/properties/anyOf/0", `through "anyOf"`},
		{inTree(`"x-own":`, ``), "/x-own", `through "x-own"`},
		{inTree(`"properties":{"a":{"x-mcp-header ":`, `}}`), "/properties/a/x-mcp-header ", `through "x-mcp-header "`},
	} {
		params, err := paramheader.Compile(test.schema)
		var refused *paramheader.AnnotationError
		if !errors.As(err, &refused) || params != nil {
			t.Errorf("%s: %v, %v, want an AnnotationError", test.schema, params, err)
			continue
		}
		if refused.Pointer != test.pointer || !strings.Contains(refused.Reason, test.reason) {
			t.Errorf("%s:\n got %s, %s\nwant %s, %s", test.schema, refused.Pointer, refused.Reason, test.pointer, test.reason)
		}
	}
}

// Ambiguous schemas are refused.
func TestCompileRefusesBadJSON(t *testing.T) {
	for _, text := range []string{
		`"x-mcp-header`, `{"x-mcp-header":}`, `{"properties":{"a":{"type":"string","x-mcp-header":"A"}}`, `{"properties":{"a":{"type":"string","x-mcp-header":"A"}}}}`,
		`{"x-own":[{"x-mcp-header":]}`, `{"x-own":["x-mcp-header",]}`, strings.Repeat(`{"properties":{"a":`, 600) + `{"type":"string","x-mcp-header":"A"}` + strings.Repeat("}}", 600),
	} {
		if params, err := paramheader.Compile(json.RawMessage(text)); !errors.As(err, new(*jsonscan.SyntaxError)) || params != nil {
			t.Errorf("%.100s: %v, %v", text, params, err)
		}
	}
	for _, text := range []string{
		`{"properties":{"a":{"type":"string","x-mcp-header":"A","x-mcp-header":"B"}}}`,
		`{"properties":{"a":{"type":"string","x-mcp-header":"A","type":"array"}}}`,
		`{"properties":{"a":{"type":"string","x-mcp-header":"A"},"\u0061":{}}}`,
		`{"properties":{"a":{"type":"string","x-mcp-header":"A"}},"properties":{}}`,
	} {
		if params, err := paramheader.Compile(json.RawMessage(text)); !errors.As(err, new(*jsonscan.DuplicateError)) || params != nil {
			t.Errorf("%s: %v, %v", text, params, err)
		}
	}
}

func TestMaxParams(t *testing.T) {
	schema := func(n int) json.RawMessage {
		var list []string
		for i := range n {
			list = append(list, fmt.Sprintf(`"p%d":{"type":"string","x-mcp-header":"P%d"}`, i, i))
		}
		return withProperties(strings.Join(list, ","))
	}
	if got := headers(t, schema(paramheader.MaxParams), `{"p0":"a","p127":"z"}`); !slices.Equal(got, []string{"Mcp-Param-P0: a", "Mcp-Param-P127: z"}) {
		t.Errorf("got %q", got)
	}
	if _, err := paramheader.Compile(schema(paramheader.MaxParams + 1)); err == nil || !strings.Contains(err.Error(), "at most 128 headers") {
		t.Errorf("got %v", err)
	}
	name := strings.Repeat("a", paramheader.MaxParamName)
	if got := headers(t, withProperties(`"v":{"type":"string","x-mcp-header":"`+name+`"}`), `{"v":"x"}`); len(got) != 1 {
		t.Errorf("got %q", got)
	}
}

// Header names have the canonical form of net/http.
func TestCanonicalNames(t *testing.T) {
	want := map[string]bool{}
	var list []string
	for i, name := range []string{"a", "ABC", "x-y-Z", "-", "--a", "1a-b", "~x", "WWW-authenticate", "Authorization", "Host", "a_b.c"} {
		list = append(list, fmt.Sprintf(`"p%d":{"type":"string","x-mcp-header":%q}`, i, name))
		want[http.CanonicalHeaderKey("Mcp-Param-"+name)] = true
	}
	params, err := paramheader.Compile(withProperties(strings.Join(list, ",")))
	if err != nil {
		t.Fatal(err)
	}
	arguments := `{"p0":"","p1":"","p2":"","p3":"","p4":"","p5":"","p6":"","p7":"","p8":"","p9":"","p10":""}`
	got := map[string]bool{}
	for name := range params.All(json.RawMessage(arguments)) {
		got[name] = true
	}
	if !maps.Equal(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
}
