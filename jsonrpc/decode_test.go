package jsonrpc_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/dovetail-go/dovetail/internal/test/racetest"
	"github.com/dovetail-go/dovetail/internal/test/testsuites"
	"github.com/dovetail-go/dovetail/jsonrpc"
)

// compareMessages ignores the index of a message.
var compareMessages = cmp.Options{
	cmpopts.IgnoreUnexported(jsonrpc.Request{}, jsonrpc.Response{}),
	cmp.Comparer(func(a, b jsonrpc.ID) bool { return a == b }),
}

func TestDecode(t *testing.T) {
	for _, test := range []struct {
		text string
		want jsonrpc.Message
	}{
		{
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}`,
			&jsonrpc.Request{ID: jsonrpc.IntID(1), Method: "tools/call", Params: json.RawMessage(`{"name":"a"}`)},
		},
		{
			" {\n\"params\" : [ 1 ] , \"method\":\"m\" ,\r\n \"id\" : \"x\" , \"jsonrpc\" : \"2.0\" } ",
			&jsonrpc.Request{ID: stringID("x"), Method: "m", Params: json.RawMessage(`[ 1 ]`)},
		},
		{`{"jsonrpc":"2.0","method":"note"}`, &jsonrpc.Request{Method: "note"}},
		{`{"jsonrpc":"2.0","method":""}`, &jsonrpc.Request{}},
		{`{"jsonrpc":"2.0","method":"note","params":null}`, &jsonrpc.Request{Method: "note"}},
		{`{"jsonrpc":"2.0","method":"note","params":{}}`, &jsonrpc.Request{Method: "note", Params: json.RawMessage(`{}`)}},
		{`{"jsonrpc":"2.0","method":"t\u00e9\/s"}`, &jsonrpc.Request{Method: "té/s"}},
		{`{"jsonrpc":"2\u002e0","m\u0065thod":"m","i\u0064":7}`, &jsonrpc.Request{ID: jsonrpc.IntID(7), Method: "m"}},
		{
			`{"jsonrpc":"2.0","id":1,"method":"m","ID":2,"Method":3,"PARAMS":[],"Result":{},"x":{"y":1,"y":2}}`,
			&jsonrpc.Request{ID: jsonrpc.IntID(1), Method: "m"},
		},
		{`{"jsonrpc":"2.0","id":1,"result":{"a":1.0}}`, &jsonrpc.Response{ID: jsonrpc.IntID(1), Result: json.RawMessage(`{"a":1.0}`)}},
		{`{"jsonrpc":"2.0","id":1,"result":null}`, &jsonrpc.Response{ID: jsonrpc.IntID(1), Result: json.RawMessage(`null`)}},
		{
			`{"jsonrpc":"2.0","id":1,"result":{"a":1},"params":{"b":2}}`,
			&jsonrpc.Response{ID: jsonrpc.IntID(1), Result: json.RawMessage(`{"a":1}`)},
		},
		{
			`{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"n\u006f","data":{"x":1e400},"extra":true}}`,
			&jsonrpc.Response{ID: jsonrpc.IntID(1), Error: &jsonrpc.Error{Code: -32601, Message: "no", Data: json.RawMessage(`{"x":1e400}`)}},
		},
		{
			`{"jsonrpc":"2.0","id":1,"params":{"code":2},"error":{"code":1,"message":""}}`,
			&jsonrpc.Response{ID: jsonrpc.IntID(1), Error: &jsonrpc.Error{Code: 1}},
		},
		{`{"jsonrpc":"2.0","id":null,"method":"notifications/initialized"}`, &jsonrpc.Request{Method: "notifications/initialized"}},
		{`{"jsonrpc":"2.0","id":1,"result":{"a":"\uD83D"}}`, &jsonrpc.Response{ID: jsonrpc.IntID(1), Result: json.RawMessage(`{"a":"\uD83D"}`)}},
		{`{"jsonrpc":"2.0","id":null,"error":{"code":0,"message":""}}`, &jsonrpc.Response{Error: &jsonrpc.Error{}}},
		{`{"jsonrpc":"2.0","error": {"message":"m","code":1} }`, &jsonrpc.Response{Error: &jsonrpc.Error{Code: 1, Message: "m"}}},
		{
			`{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"","data":null}}`,
			&jsonrpc.Response{ID: jsonrpc.IntID(1), Error: &jsonrpc.Error{Code: 1, Data: json.RawMessage(`null`)}},
		},
	} {
		got, err := jsonrpc.Decode([]byte(test.text))
		if err != nil {
			t.Errorf("%s: %v", test.text, err)
			continue
		}
		if diff := cmp.Diff(test.want, got, compareMessages); diff != "" {
			t.Errorf("%s:\n%s", test.text, diff)
		}
	}
}

// Peers send what is absent as null, codes as text, a byte order mark, bytes of another encoding, and members of a
// result twice.
func TestDecodeUnusualForms(t *testing.T) {
	request := &jsonrpc.Request{ID: jsonrpc.IntID(1), Method: "ping"}
	response := func(result string) *jsonrpc.Response {
		return &jsonrpc.Response{ID: jsonrpc.IntID(1), Result: json.RawMessage(result)}
	}
	failure := func(code jsonrpc.Code, message string) *jsonrpc.Response {
		return &jsonrpc.Response{ID: jsonrpc.IntID(1), Error: &jsonrpc.Error{Code: code, Message: message}}
	}
	for members, want := range map[string]jsonrpc.Message{
		`"method":"ping","params":null`:                             request,
		`"method":"ping","params":null,"result":null,"error":null`:  request,
		`"error":null,"result":null,"method":"ping"`:                request,
		`"result":{"a":1},"error":null`:                             response(`{"a":1}`),
		`"error":null,"result":{"a":1}`:                             response(`{"a":1}`),
		`"method":null,"params":null,"result":{"a":1},"error":null`: response(`{"a":1}`),
		`"method":null,"result":{"a":1}`:                            response(`{"a":1}`),
		`"result":null,"error":null`:                                response(`null`),
		`"method":null,"result":null`:                               response(`null`),
		`"result":null,"error":{"code":-32000,"message":"m"}`:       failure(-32000, "m"),
		`"method":null,"error":{"code":-32000,"message":"m"}`:       failure(-32000, "m"),
		`"error":{"code":"-32000","message":"m"}`:                   failure(-32000, "m"),
		`"error":{"code":-32000.0,"message":"m"}`:                   failure(-32000, "m"),
		`"error":{"code":"-3.2e4","message":"m"}`:                   failure(-32000, "m"),
		`"error":{"code":"ENOENT","message":"m"}`:                   failure(jsonrpc.InternalError, "m"),
		`"error":{"code":-32000.5,"message":"m"}`:                   failure(jsonrpc.InternalError, "m"),
		`"error":{"code":1e999,"message":"m"}`:                      failure(jsonrpc.InternalError, "m"),
		`"error":{"code":"","message":"m"}`:                         failure(jsonrpc.InternalError, "m"),
		`"error":{"code":"NaN","message":"m"}`:                      failure(jsonrpc.InternalError, "m"),
		`"error":{"code":null,"message":"m"}`:                       failure(jsonrpc.InternalError, "m"),
		`"error":{"code":true,"message":"m"}`:                       failure(jsonrpc.InternalError, "m"),
		`"error":{"code":[1],"message":"m"}`:                        failure(jsonrpc.InternalError, "m"),
		`"error":{"message":"m"}`:                                   failure(jsonrpc.InternalError, "m"),
		`"error":{"code":7}`:                                        failure(7, ""),
		`"error":{"code":7,"message":null}`:                         failure(7, ""),
		`"error":{"code":7,"message":{"text":"m"}}`:                 failure(7, `{"text":"m"}`),
		`"error":{}`:               failure(jsonrpc.InternalError, ""),
		`"error":"no\u0074 found"`: failure(jsonrpc.InternalError, "not found"),
		`"result":{"structuredContent":{"a":1,"a":2}}`:     response(`{"structuredContent":{"a":1,"a":2}}`),
		`"result":{"a":"` + "\xff\xfe é" + `"}`:            response(`{"a":"` + "\uFFFD é" + `"}`),
		`"error":{"code":7,"message":"caf` + "\xe9" + `"}`: failure(7, "caf\uFFFD"),
	} {
		for form, text := range map[string]string{
			"":                   `{"jsonrpc":"2.0","id":1,` + members + `}`,
			"the id last":        `{"jsonrpc":"2.0",` + members + `,"id":1}`,
			"byte order mark":    "\uFEFF" + ` {"jsonrpc":"2.0","id":1,` + members + `}`,
			"white space around": "\r\n" + `{"jsonrpc":"2.0","id":1,` + members + `}` + "\t\n",
		} {
			got, err := jsonrpc.Decode([]byte(text))
			if err != nil {
				t.Errorf("%s: %s: %v", form, text, err)
			} else if diff := cmp.Diff(want, got, compareMessages); diff != "" {
				t.Errorf("%s: %s:\n%s", form, text, diff)
			}
		}
	}
}

// What two readers could read differently stays refused, where it decides something.
func TestDecodeStaysStrict(t *testing.T) {
	for _, members := range []string{
		`"result":{"a":1,"a":2}`, `"result":{"_meta":{"a":1,"a":2}}`, `"result":{"isError":true,"isError":false}`,
		`"result":{"inputRequests":{"a":{},"a":{}}}`, `"result":{"action":"accept","content":{"decision":"no","decision":"yes"}}`, `"result":{"content":[],"content":[]}`, `"result":{"structuredContent":1,"structuredContent":2}`,
		`"error":{"code":1,"code":2,"message":""}`, `"result":{},"result":null`, `"method":null,"method":"m"`, `"error":null,"error":null,"result":{}`,
		`"method":"m","result":{}`, `"method":"m","error":{}`, `"method":"m","params":{"_meta":{"a":1,"a":2}}`, `"method":"m","params":{"content":{"a":1,"a":2}}`,
		`"method":"m","params":{"structuredContent":{"a":1,"a":2}}`, `"method":"m","params":{"arguments":{},"arguments":{}}`,
		`"method":"m","params":{"name":"` + "\xff" + `"}`, `"method":"m","params":{"arguments":{"a":"` + "\xff" + `"}}`, `"method":"` + "\xff" + `"`,
		`"result":{"` + "\xfe" + `":1,"` + "\xff" + `":2}`,
		`"error":null,"m\u0065thod":"m","params":{"arguments":{"a":"` + "\xff" + `"}}`, `"result":null,"\u006dethod":"m","params":{"a":"` + "\xff" + `"}`,
	} {
		if m, err := jsonrpc.Decode([]byte(`{"jsonrpc":"2.0","id":1,` + members + `}`)); err == nil {
			t.Errorf("%s: decoded as %v", members, m)
		}
	}
}

func orNil(want string) string {
	if want == "" {
		return "<nil>"
	}
	return want
}

// nested returns a value inside of arrays.
func nested(depth int, value string) string {
	return strings.Repeat("[", depth) + value + strings.Repeat("]", depth)
}

// Duplicates in arguments are found at any depth.
func TestArgumentsError(t *testing.T) {
	for arguments, want := range map[string]string{
		`{"a":1,"b":{"a":1},"c":[{"a":1},{"a":1}]}`: "",
		`null`:                        "",
		`"text"`:                      "",
		`{"a":1,"\u0061":2}`:          `arguments: duplicate member "a"`,
		`{"a":{"b":[{"c":1,"c":1}]}}`: `arguments: duplicate member "c"`,
		`[[{"c":1,"c":1}]]`:           `arguments: duplicate member "c"`,
		`{"a":[{"b":` + nested(20, `{"x":0,"x":0}`) + `}]}`: `arguments: duplicate member "x"`,
		`{"a\u0000":1}`:       `arguments: a name must not contain NUL: member "a\x00"`,
		`{"b":{"a\u0000":1}}`: `arguments: a name must not contain NUL: member "a\x00"`,
	} {
		params := `{"name":"t","arguments":` + arguments + `,"last":{"x":1}}`
		req := decodeRequest(t, params)
		if got := fmt.Sprint(req.ArgumentsError()); got != orNil(want) {
			t.Errorf("%s: %s, want %s", arguments, got, want)
		}
		if got := req.Member("last", "x"); string(got) != "1" {
			t.Errorf("%s: the member after it is %s", arguments, got)
		}
		made, err := jsonrpc.NewRequest(jsonrpc.IntID(1), "m", json.RawMessage(params))
		if err == nil && made.ArgumentsError() == nil && want != "" || err != nil && want == "" {
			t.Errorf("NewRequest: %s: %v", arguments, err)
		}
	}
}

// wantRefusal checks that Decode refuses a text, and returns the error.
func wantRefusal(t *testing.T, text string, code jsonrpc.Code, message string) *jsonrpc.DecodeError {
	t.Helper()
	m, err := jsonrpc.Decode([]byte(text))
	var got *jsonrpc.DecodeError
	if !errors.As(err, &got) || m != nil {
		t.Errorf("%.200s: got %.200v, %v, want a DecodeError", text, m, err)
		return new(jsonrpc.DecodeError)
	}
	if got.Err.Code != code || got.Err.Message != message {
		t.Errorf("%.200s:\n got %v: %s\nwant %v: %s", text, got.Err.Code, got.Err.Message, code, message)
	}
	return got
}

func TestDecodeInvalidRequest(t *testing.T) {
	for _, test := range []struct {
		text, want string
		id         jsonrpc.ID
		response   bool
	}{
		{text: `[]`, want: "a message must be an object, not an array"},
		{text: ` "a" `, want: "a message must be an object, not a string"},
		{text: `null`, want: "a message must be an object, not null"},
		{text: `{}`, want: `jsonrpc must be "2.0", not missing`},
		{text: `{"JSONRPC":"2.0","method":"m"}`, want: `jsonrpc must be "2.0", not missing`},
		{text: `{"jsonrpc":"1.0","id":5,"method":"m"}`, want: `jsonrpc must be "2.0", not "1.0"`, id: jsonrpc.IntID(5)},
		{text: `{"jsonrpc":2.0,"method":"m"}`, want: `jsonrpc must be "2.0", not the number "2.0"`},
		{text: `{"jsonrpc":"2.0"}`, want: "a message must have a method, a result or an error"},
		{text: `{"jsonrpc":"2.0","id":5}`, want: "a message must have a method, a result or an error", id: jsonrpc.IntID(5)},
		{text: `{"jsonrpc":"2.0","METHOD":"m"}`, want: "a message must have a method, a result or an error"},

		{text: `{"jsonrpc":"2.0","method":7,"id":"x"}`, want: "method must be a string, not a number", id: stringID("x")},
		{text: `{"jsonrpc":"2.0","method":null}`, want: "a message must have a method, a result or an error"},
		{text: `{"jsonrpc":"2.0","id":5,"method":7,"result":{}}`, want: "method must be a string, not a number", id: jsonrpc.IntID(5), response: true},
		{text: `{"jsonrpc":"2.0","id":5,"error":null}`, want: "error must be an object, not null", id: jsonrpc.IntID(5), response: true},
		{text: `{"jsonrpc":"2.0","id":5,"method":"m","params":"p"}`, want: "params must be an object or an array, not a string", id: jsonrpc.IntID(5)},
		{text: `{"jsonrpc":"2.0","id":5,"method":"m","result":{}}`, want: "a message must not have both a method and a result or an error", id: jsonrpc.IntID(5)},
		{text: `{"jsonrpc":"2.0","id":5,"method":"m","error":{"code":1,"message":""}}`, want: "a message must not have both a method and a result or an error", id: jsonrpc.IntID(5)},

		{text: `{"jsonrpc":"2.0","id":5,"result":1,"error":{"code":1,"message":""}}`, want: "a response must not have both a result and an error", id: jsonrpc.IntID(5), response: true},
		{text: `{"jsonrpc":"2.0","result":{}}`, want: "a response with a result must have an id", response: true},
		{text: `{"jsonrpc":"2.0","id":null,"result":{}}`, want: "id must be a string or an integer, not null", response: true},
		{text: `{"jsonrpc":"2.0","id":1.5,"error":{"code":1,"message":""}}`, want: "id must be a string or an integer, not 1.5", response: true},
		{text: `{"jsonrpc":"2.0","id":5,"error":["no"]}`, want: "error must be an object, not an array", id: jsonrpc.IntID(5), response: true},

		{text: `{"jsonrpc":"2.0","id":5,"id":5,"method":"m"}`, want: `duplicate member "id" in the message`},
		{text: `{"jsonrpc":"2.0","id":5,"method":"m","i\u0064":6}`, want: `duplicate member "id" in the message`},
		{text: `{"jsonrpc":"2.0","method":"m","method":"n","id":5}`, want: `duplicate member "method" in the message`, id: jsonrpc.IntID(5)},
		{text: `{"jsonrpc":"2.0","jsonrpc":"2.0","method":"m"}`, want: `duplicate member "jsonrpc" in the message`},
		{text: `{"jsonrpc":"2.0","method":"m","x":1,"x":1}`, want: `duplicate member "x" in the message`},
		{text: `{"jsonrpc":"2.0","method":"m","params":{"name":1,"name":2},"id":5}`, want: `duplicate member "name" in params`, id: jsonrpc.IntID(5)},
		{text: `{"jsonrpc":"2.0","method":"m","params":{"n\u0061me":1,"name":2}}`, want: `duplicate member "name" in params`},
		{text: `{"jsonrpc":"2.0","id":5,"result":{"a":1,"a":2}}`, want: `duplicate member "a" in result`, id: jsonrpc.IntID(5), response: true},
		{text: `{"jsonrpc":"2.0","id":5,"result":{"_meta":{"a":1,"a":2}}}`, want: `duplicate member "a" in member "_meta" of result`, id: jsonrpc.IntID(5), response: true},
		{text: `{"jsonrpc":"2.0","id":5,"error":{"code":1,"code":2,"message":""}}`, want: `duplicate member "code" in error`, id: jsonrpc.IntID(5), response: true},
		{text: `{"jsonrpc":"2.0","id":5,"method":"m","a\u0000":1}`, want: `a name must not contain NUL: member "a\x00" in the message`, id: jsonrpc.IntID(5)},
		{text: `{"jsonrpc":"2.0","id":5,"method":"m","params":{"a\u0000":1}}`, want: `a name must not contain NUL: member "a\x00" in params`, id: jsonrpc.IntID(5)},
	} {
		got := wantRefusal(t, test.text, jsonrpc.InvalidRequest, test.want)
		if got.ID != test.id || got.Response != test.response {
			t.Errorf("%s: id %s, response %v, want %s, %v", test.text, got.ID, got.Response, test.id, test.response)
		}
	}
}

func TestDecodeInvalidJSON(t *testing.T) {
	for _, test := range []struct {
		text, want string
		id         jsonrpc.ID
		response   bool
	}{
		{text: ``, want: "invalid JSON at byte 0: expected a value, found the end of the text"},
		{text: "\uFEFF", want: "invalid JSON at byte 0: expected a value, found the end of the text"},
		{text: "\uFEFF\uFEFF{}", want: "invalid JSON at byte 0: expected a value, found a byte order mark"},
		{text: `{"jsonrpc":"2.0","method":"m"} {}`, want: "invalid JSON at byte 31: expected the end of the text, found '{'"},
		{text: `{"jsonrpc":"2.0","method":"m"}` + "\x00", want: "invalid JSON at byte 30: expected the end of the text, found the byte 0x00"},
		{text: `[1`, want: "invalid JSON at byte 2: expected ',' or ']' after an element, found the end of the text"},
		{text: `{"jsonrpc":"2.0","method":"m","params":{"a":"` + "\xff" + `","id":6},"id":5}`, want: "invalid JSON at byte 45: a string must be valid UTF-8, found the byte 0xFF", id: jsonrpc.IntID(5)},
		{text: `{"jsonrpc":"2.0","result":{"a":"\",` + "\x02" + `\"id\":6"},"id":"x"}`, want: "invalid JSON at byte 35: a control character in a string must be escaped, found the byte 0x02", id: stringID("x"), response: true},
		{text: `{"jsonrpc":"2.0","id":5,"result":}, "id":6}`, want: "invalid JSON at byte 33: expected a value, found '}'", id: jsonrpc.IntID(5), response: true},
		{text: `{"jsonrpc":"2.0","id":5,"result":[,],"id":5}`, want: "invalid JSON at byte 34: expected a value, found ','", response: true},
		{text: `x{"jsonrpc":"2.0","id":5,"result":{}}`, want: "invalid JSON at byte 0: expected a value, found 'x'"},
		{text: `{"jsonrpc":"2.0","id":{"id":5},"result":x}`, want: "invalid JSON at byte 40: expected a value, found 'x'", response: true},
		{text: `{"jsonrpc":"2.0","id":5,"result":{},"x":}`, want: "invalid JSON at byte 40: expected a value, found '}'", id: jsonrpc.IntID(5), response: true},
		// Invalid JSON is a parse error, even if the message is also invalid.
		{text: `{"jsonrpc":"2.0","id":5,"id":6,"method":7,}`, want: "invalid JSON at byte 42: expected the name of a member, found '}'"},
	} {
		got := wantRefusal(t, test.text, jsonrpc.ParseError, test.want)
		if got.ID != test.id || got.Response != test.response {
			t.Errorf("%s: id %s, response %v, want %s, %v", test.text, got.ID, got.Response, test.id, test.response)
		}
	}
}

func TestErrorsAreShort(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	for _, text := range []string{
		`{"jsonrpc":"2.0","method":"m","params":{"` + long + `":{"` + long + `":1,"` + long + `":2}}}`,
		`{"jsonrpc":"` + long + `","method":"m"}`,
		`{"jsonrpc":"2.0","error":{"` + long + `":"","` + long + `":1}}`,
	} {
		if _, err := jsonrpc.Decode([]byte(text)); err == nil || len(err.Error()) > 700 {
			t.Errorf("%.60s…: an error of %d bytes", text, len(fmt.Sprint(err)))
		}
	}
	e := &jsonrpc.Error{Code: -1, Message: "a\nb" + long}
	if text := e.Error(); len(text) > 300 || strings.Contains(text, "\n") {
		t.Errorf("an error of %d bytes: %.40s", len(text), text)
	}
}

// Decode accepts duplicate members below the second level. The reader of such an object must
// refuse them.
func TestDecodeReadsTwoLevels(t *testing.T) {
	for _, text := range []string{
		`{"jsonrpc":"2.0","method":"m","params":{"a":{"b":{"c":1,"c":2}}}}`,
		`{"jsonrpc":"2.0","method":"m","params":[{"c":1,"c":2}]}`,
		`{"jsonrpc":"2.0","id":1,"result":{"content":[{"c":1,"c":2}]}}`,
		`{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"","data":{"c":1,"c":2}}}`,
	} {
		if _, err := jsonrpc.Decode([]byte(text)); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestDecodeMaxMembers(t *testing.T) {
	if _, err := jsonrpc.Decode(callOfKeys(65_536)); err != nil {
		t.Error(err)
	}
	wantRefusal(t, string(callOfKeys(65_537)), jsonrpc.InvalidRequest, `an object may have at most 65536 members in member "arguments" of params`)
}

func TestDecodeTruncated(t *testing.T) {
	for _, text := range []string{
		call100B,
		`{"jsonrpc":"2.0","id":"é\n","method":"m","params":{"a":[1.5e3,true,null],"_meta":{"b":"\uD83D\uDE00"}}}`,
		`{"id":1,"result":{"content":[{"type":"text","text":"x"}]},"jsonrpc":"2.0"}`,
		`{"error":{"code":-32601,"message":"m","data":[{}]},"jsonrpc":"2.0","id":null}`,
	} {
		if _, err := jsonrpc.Decode([]byte(text)); err != nil {
			t.Fatal(err)
		}
		for end := range len(text) {
			var got *jsonrpc.DecodeError
			if _, err := jsonrpc.Decode([]byte(text[:end])); !errors.As(err, &got) || got.Err.Code != jsonrpc.ParseError {
				t.Errorf("%s: %v", text[:end], err)
			}
		}
	}
}

// Decode refuses a message with invalid JSON or an ambiguous name inside its params.
func TestSuiteInParams(t *testing.T) {
	dir, ok := testsuites.Dir(t, "json/test_parsing")
	if !ok {
		dir = filepath.Join("..", "internal", "jsonscan", "testdata", "parsing")
	}
	paths, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no files in %s: %v", dir, err)
	}
	ambiguous := map[string]bool{
		"y_object_duplicated_key.json":           true,
		"y_object_duplicated_key_and_value.json": true,
		"y_object_escaped_null_in_key.json":      true,
		"y_duplicate_name.json":                  true,
	}
	for _, path := range paths {
		name := filepath.Base(path)
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, frame := range []string{
			`{"jsonrpc":"2.0","id":1,"method":"m","params":{"arguments":%s}}`,
			`{"jsonrpc":"2.0","id":1,"result":{"structuredContent":%s}}`,
			`{"jsonrpc":"2.0","id":1,"result":%s}`,
		} {
			text := fmt.Sprintf(frame, data)
			msg, err := jsonrpc.Decode([]byte(text))
			var got *jsonrpc.DecodeError
			errors.As(err, &got)
			switch {
			case name[0] == 'n' && (got == nil || got.Err.Code != jsonrpc.ParseError):
				t.Errorf("%s: %v, want a parse error", name, err)
			case name[0] == 'n' || name[0] == 'i':
			case strings.Contains(frame, "arguments"):
				if err == nil && (msg.(*jsonrpc.Request).ArgumentsError() != nil) != ambiguous[name] {
					t.Errorf("%s: ArgumentsError: %v", name, msg.(*jsonrpc.Request).ArgumentsError())
				}
			case strings.Contains(frame, "structuredContent"):
				if err != nil {
					t.Errorf("%s: %v", name, err)
				}
			case name[0] == 'y' && ambiguous[name] && (got == nil || got.Err.Code != jsonrpc.InvalidRequest):
				t.Errorf("%s: %v, want an invalid request", name, err)
			case name[0] == 'y' && !ambiguous[name] && err != nil:
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

func TestDecodeAllocations(t *testing.T) {
	racetest.Skip(t)
	for name, text := range map[string]string{
		"call":         call100B,
		"10 KB":        string(callOf(10_000)),
		"records":      string(callOfRecords(100)),
		"escapes":      `{"jsonrpc":"2.0","id":"a\u0062","method":"a\/b","params":{"a":{"b":1}}}`,
		"response":     `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"hi"}]}}`,
		"notification": `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":1,"progressToken":"x"}}`,
	} {
		data := []byte(text)
		n := testing.AllocsPerRun(100, func() {
			if _, err := jsonrpc.Decode(data); err != nil {
				t.Fatal(err)
			}
		})
		if n > 2 {
			t.Errorf("%s: %v allocations, want at most 2: the message, and its id with the method", name, n)
		}
	}
}

// The sizes of messages fit their size classes of the allocator.
func TestMessageSize(t *testing.T) {
	for of, limit := range map[reflect.Type]uintptr{
		reflect.TypeFor[jsonrpc.Request]():  240,
		reflect.TypeFor[jsonrpc.Response](): 256,
	} {
		if of.Size() > limit {
			t.Errorf("a %v takes %d bytes, want at most %d", of, of.Size(), limit)
		}
	}
}

// Append returns the text of a decoded message, and Decode of that text the same message.
func FuzzDecode(f *testing.F) {
	for _, text := range []string{
		call100B,
		`{"jsonrpc":"2.0","method":"é\n","params":[1,{"a":2}]}`,
		`{"jsonrpc":"2.0","id":"\u00e9","result":{"a":{"b":1,"c":[]},"d":"\uD83D\uDE00"}}`,
		`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"m","data":null}}`,
		`{"jsonrpc":"2.0","id":9007199254740993,"method":"m","params":{"a":1,"a":2}}`,
		`[{"jsonrpc":"2.0","method":"m"}]`, `{"jsonrpc":"2.0","id":1.5,"method":"m"}`, `{"id":1,`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := jsonrpc.Decode(data)
		if err != nil {
			var refusal *jsonrpc.DecodeError
			if !errors.As(err, &refusal) || refusal.Err == nil {
				t.Fatalf("%v is not a DecodeError", err)
			}
			if json.Valid(data) && refusal.Err.Code != jsonrpc.InvalidRequest && refusal.Err.Code != jsonrpc.ParseError {
				t.Fatalf("code %v", refusal.Err.Code)
			}
			if !json.Valid(data) && refusal.Err.Code != jsonrpc.ParseError {
				t.Fatalf("%v for what is not JSON", refusal.Err.Code)
			}
			return
		}
		text, err := jsonrpc.Append(nil, m)
		if err != nil {
			t.Fatal(err)
		}
		again, err := jsonrpc.Decode(text)
		if err != nil {
			t.Fatalf("%s became %s: %v", data, text, err)
		}
		if diff := cmp.Diff(m, again, compareMessages); diff != "" {
			t.Fatalf("%s became %s:\n%s", data, text, diff)
		}
		checkMembers(t, m)
	})
}
