package mirror_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/mirror"
	"github.com/dovetail-go/dovetail/jsonrpc"
)

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
		got, required := mirror.Name(decode(t, test.method, test.params))
		if got != test.want || required != test.required {
			t.Errorf("%s %s: %q, %t, want %q, %t", test.method, test.params, got, required, test.want, test.required)
		}
	}
}

// lines makes a header of lines "Name: value".
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
		{"tools/call", `{"name":"échö\n"}`, lines("Mcp-Method:tools/call", "Mcp-Name:"+mirror.Encode("échö\n")), ""},
		{"tools/call", `{"name":""}`, lines("Mcp-Method:tools/call", "Mcp-Name:"), ""},
		{"tools/call", `{"name":""}`, lines("Mcp-Method:tools/call"), `header Mcp-Name is missing, expected ""`},
		{"tools/call", `{"name":"echo"}`, lines("Mcp-Method:tools/call"), `header Mcp-Name is missing, expected "echo"`},
		{"tools/call", `{"name":"echo"}`, lines("Mcp-Method:tools/call", "Mcp-Name:Echo"), `header Mcp-Name is "Echo", but the body has "echo"`},
		{"tools/call", `{"name":"echo"}`, lines("Mcp-Method:tools/call", "Mcp-Name:echo", "mcp-name:other"), `header Mcp-Name is given 2 times, expected it once`},
		{"tools/call", `{"name":"échö"}`, lines("Mcp-Method:tools/call", "Mcp-Name:échö"), `header Mcp-Name has a malformed header value: expected printable ASCII, or Base64 between =?base64? and ?=`},
		{"tools/call", `{"name":"echo"}`, lines("Mcp-Method:tools/call", "Mcp-Name:=?base64?ZWNobw?="), `header Mcp-Name has a malformed header value: expected Base64 with padding between =?base64? and ?=`},
		{"tools/call", `{"name":" echo"}`, lines("Mcp-Method:tools/call", "Mcp-Name: echo"), `header Mcp-Name is "echo", but the body has " echo"`},
		{"resources/read", `{"uri":"file:///ä"}`, lines("Mcp-Method:resources/read", "Mcp-Name:"+mirror.Encode("file:///ä")), ""},
		{"resources/read", `{"uri":"file:///a"}`, lines("Mcp-Method:resources/read", "Mcp-Name:file:///b"), `header Mcp-Name is "file:///b", but the body has "file:///a"`},
		{"tasks/get", `{"taskId":"a"}`, lines("Mcp-Method:tasks/get", "Mcp-Name:a"), ""},
		{"tasks/get", `{"taskId":"a"}`, lines("Mcp-Method:tasks/get"), `header Mcp-Name is missing, expected "a"`},

		// A body without a name has no header either.
		{"tools/call", `{}`, lines("Mcp-Method:tools/call"), ""},
		{"tools/call", `{"name":7}`, lines("Mcp-Method:tools/call"), ""},
		{"tools/call", `{"name":7}`, lines("Mcp-Method:tools/call", "Mcp-Name:7"), `header Mcp-Name is "7", but the body has no value for params.name`},
		{"tools/call", `[]`, lines("Mcp-Method:tools/call", "Mcp-Name:"), `header Mcp-Name is "", but the body has no value for params.name`},
	} {
		err := mirror.CheckStandard(test.header.Values, decode(t, test.method, test.params))
		if got := message(t, err); got != test.want {
			t.Errorf("%s %s with %v:\n got %s\nwant %s", test.method, test.params, test.header, got, test.want)
		}
	}
}

// message is that of a HeaderError, or empty.
func message(t *testing.T, err error) string {
	t.Helper()
	if err == nil {
		return ""
	}
	if !errors.As(err, new(*mirror.HeaderError)) {
		t.Errorf("%v is a %T", err, err)
	}
	return err.Error()
}

// Whatever comes, an error stays short and on one line.
func TestErrorsAreBounded(t *testing.T) {
	long := strings.Repeat("\x1b[2J\u202e", 1<<16)
	req := decode(t, "tools/call", `{"name":`+string(jsonscan.AppendString(nil, long))+`}`)
	for _, header := range []http.Header{
		lines("Mcp-Method:tools/call"),
		lines("Mcp-Method:" + long),
		lines("Mcp-Method:tools/call", "Mcp-Name:"+mirror.Encode(long+"x")),
		lines("Mcp-Method:tools/call", "Mcp-Name:"+strings.Repeat("x", 1<<16)),
	} {
		got := message(t, mirror.CheckStandard(header.Values, req))
		if len(got) == 0 || len(got) > 4096 || strings.ContainsAny(got, "\n\x1b\u202e") {
			t.Errorf("%d bytes: %.100q", len(got), got)
		}
	}
}

func TestHostileNames(t *testing.T) {
	for _, name := range hostile(t) {
		req := decode(t, "tools/call", `{"name":`+string(jsonscan.AppendString(nil, name))+`}`)
		got, _ := mirror.Name(req)
		header := lines("Mcp-Method:tools/call", "Mcp-Name:"+mirror.Encode(got))
		if err := mirror.CheckStandard(header.Values, req); err != nil {
			t.Errorf("%q: %v", name, err)
		}
		header = lines("Mcp-Method:tools/call", "Mcp-Name:"+mirror.Encode(got+"."))
		if err := mirror.CheckStandard(header.Values, req); err == nil {
			t.Errorf("%q passes as %q", name, got+".")
		}
	}
}
