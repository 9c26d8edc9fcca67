package jsonrpc_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
)

// acceptedIDs returns valid ids.
func acceptedIDs() []string {
	ids := []string{
		`""`, `"a"`, `"1"`, `" "`, `"null"`, `"\u0061"`, `"a\/b"`, `"é"`, `"\u00e9"`, `"\uD83D\uDE00"`, `"\n"`, `"\u0000"`, `"<&>"`,
		`0`, `-0`, `-1`, `9007199254740991`, `9007199254740992`, `9007199254740993`, `-9007199254740993`,
		fmt.Sprint(math.MaxInt64), fmt.Sprint(math.MinInt64), fmt.Sprint(uint64(math.MaxUint64)), `18446744073709551616`,
		`2.0`, `-0.0`, `1e3`, `1E3`, `1.5e+3`, `0e0`, `9007199254740991.0`,
		strings.Repeat("9", 30), "-" + strings.Repeat("9", 30), strings.Repeat("9", 256),
		`"` + strings.Repeat("x", 256-2) + `"`,
	}
	for i := range 63 {
		ids = append(ids, fmt.Sprint(int64(1)<<i), fmt.Sprint(-(int64(1)<<i)-1))
	}
	for i := range 20 {
		ids = append(ids, fmt.Sprintf(`"request-%d"`, i*i), `"`+strings.Repeat("é", i)+`"`)
	}
	return ids
}

// refusedIDs returns invalid ids with their errors.
func refusedIDs() map[string]string {
	const kinds = "id must be a string or an integer, not "
	refused := map[string]string{
		`null`: kinds + "null", `true`: kinds + "a boolean", `false`: kinds + "a boolean",
		`{}`: kinds + "an object", `{"id":1}`: kinds + "an object", `[]`: kinds + "an array", `[1]`: kinds + "an array",
		`"` + strings.Repeat("x", 256) + `"`: "id must have at most 256 bytes, not 258",
		strings.Repeat("9", 256+1):           "id must have at most 256 bytes, not 257",
		"1." + strings.Repeat("0", 1000):     "id must have at most 256 bytes, not 1002",
	}
	for _, number := range []string{`1.5`, `1e-3`, `1.5e+2000`, `9007199254740993.0`, `-9007199254740992e0`, `1e400`} {
		refused[number] = kinds + number
	}
	return refused
}

func TestIDKeepsItsText(t *testing.T) {
	for _, text := range acceptedIDs() {
		id, err := jsonrpc.ParseID([]byte(" " + text + "\n"))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if id.String() != text || string(id.AppendJSON(nil)) != text || id.IsZero() {
			t.Errorf("%s became %s", text, id)
		}
		for _, message := range []string{
			`{"jsonrpc":"2.0","id":` + text + `,"method":"m"}`,
			`{"jsonrpc":"2.0","id":` + text + `,"result":{}}`,
			`{"jsonrpc":"2.0","id":` + text + `,"error":{"code":-1,"message":""}}`,
		} {
			m, err := jsonrpc.Decode([]byte(message))
			if err != nil {
				t.Errorf("%s: %v", message, err)
				continue
			}
			if got, err := jsonrpc.Append(nil, m); err != nil || string(got) != message {
				t.Errorf("%s became %s, %v", message, got, err)
			}
		}
	}
}

func TestParseIDRefuses(t *testing.T) {
	for text, want := range refusedIDs() {
		if _, err := jsonrpc.ParseID([]byte(text)); err == nil || err.Error() != "jsonrpc: "+want {
			t.Errorf("ParseID(%s): %v, want %s", text, err, want)
		}
		wantRefusal(t, `{"jsonrpc":"2.0","id":`+text+`,"method":"m"}`, jsonrpc.InvalidRequest, want)
		wantRefusal(t, `{"jsonrpc":"2.0","id":`+text+`,"result":{}}`, jsonrpc.InvalidRequest, want)
	}
	for _, text := range []string{``, `01`, `+1`, `"a`, `1 2`, `undefined`} {
		if id, err := jsonrpc.ParseID([]byte(text)); err == nil {
			t.Errorf("ParseID(%s) = %s", text, id)
		}
	}
}

func TestIDsCompareByText(t *testing.T) {
	parse := func(text string) jsonrpc.ID {
		t.Helper()
		id, err := jsonrpc.ParseID([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	if jsonrpc.IntID(1) != parse("1") || stringID("é\n") != parse(`"é\n"`) {
		t.Error("equal ids differ")
	}
	if jsonrpc.IntID(1) == stringID("1") || parse("9007199254740993") == parse("9007199254740992") {
		t.Error("different ids are equal")
	}
	if !(jsonrpc.ID{}).IsZero() || jsonrpc.IntID(0).IsZero() || stringID("").IsZero() {
		t.Error("IsZero must be true for the zero ID only")
	}
}

func TestIDMarshal(t *testing.T) {
	var v struct{ A, B, C jsonrpc.ID }
	if err := json.Unmarshal([]byte(`{"A":9007199254740993,"B":"b"}`), &v); err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(v)
	if want := `{"A":9007199254740993,"B":"b","C":null}`; err != nil || string(got) != want {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
	if err := json.Unmarshal([]byte(`{"A":1.5}`), &v); err == nil {
		t.Error("a fraction was accepted")
	}
}

func decodeRequest(t testing.TB, params string) *jsonrpc.Request {
	t.Helper()
	m, err := jsonrpc.Decode([]byte(` { "params" : ` + params + `, "jsonrpc":"2.0","id":1,"method":"m"}`))
	if err != nil {
		t.Fatal(err)
	}
	return m.(*jsonrpc.Request)
}

func TestMember(t *testing.T) {
	const params = ` { "name" : "echo" , "arguments":{ "a":1 ,"b":{"c":2}, "name":"inner"},"_meta":{"progressToken": "t" },
		"list":[{"x":1}], "\u0065scaped":{"\u0061":3}, "empty":{}, "n":null, "last":9 } `
	decoded := decodeRequest(t, params)
	made, err := jsonrpc.NewRequest(jsonrpc.IntID(1), "m", json.RawMessage(params))
	if err != nil {
		t.Fatal(err)
	}
	for form, req := range map[string]*jsonrpc.Request{
		"decoded":   decoded,
		"made":      made,
		"by hand":   {Params: json.RawMessage(params)},
		"a copy":    {Params: append(json.RawMessage(nil), decoded.Params...)},
		"a shallow": new(*decoded),
	} {
		for path, want := range map[string]string{
			"name": `"echo"`, "arguments": `{ "a":1 ,"b":{"c":2}, "name":"inner"}`, "arguments/a": `1`, "arguments/b": `{"c":2}`,
			"arguments/name": `"inner"`, "_meta/progressToken": `"t"`, "list": `[{"x":1}]`, "escaped": `{"\u0061":3}`, "escaped/a": `3`,
			"empty": `{}`, "n": "", "last": `9`,
			"Name": "", "a": "", "b": "", "c": "", "x": "", "progressToken": "", "empty/x": "", "list/x": "", "name/x": "", "n/x": "",
			"last/x": "", "arguments/c": "", "arguments/progressToken": "", "arguments/last": "", "missing": "", "missing/x": "",
			"arguments/b/c": "",
		} {
			got := req.Member(strings.Split(path, "/")...)
			if string(got) != want || (got == nil) != (want == "") {
				t.Errorf("%s: %s is %s, want %s", form, path, got, want)
			}
			if len(got) != cap(got) {
				t.Errorf("%s: appending to %s would write into what follows", form, path)
			}
		}
		if got := req.Member(); got != nil {
			t.Errorf("%s: no name gives %s", form, got)
		}
	}
}

func TestMemberWithWhiteSpace(t *testing.T) {
	msg, err := jsonrpc.Decode([]byte("{\"jsonrpc\":\"2.0\",\"method\":\"m\",\"params\":{ \"a\" \n:\t\r\n \"x\" , \"b:\\\"\" : { \"c\"\t: \"\" } }}"))
	if err != nil {
		t.Fatal(err)
	}
	req := msg.(*jsonrpc.Request)
	if got := string(req.Member("a")); got != `"x"` {
		t.Errorf("a is %s", got)
	}
	if got := string(req.Member(`b:"`, "c")); got != `""` {
		t.Errorf("c is %s", got)
	}
	var keys []string
	for key := range req.Keys() {
		keys = append(keys, string(key))
	}
	if want := []string{`"a"`, `"b:\""`}; !slices.Equal(keys, want) {
		t.Errorf("the keys are %s, want %s", keys, want)
	}
}

func TestKeys(t *testing.T) {
	many := `{"0":{}`
	for i := 1; i < 40; i++ {
		many += fmt.Sprintf(`,"%d":{"x":1}`, i)
	}
	many += `,"last":{"a":{"b":1},"c":[{"d":1}],"e":2}}`
	for params, keys := range map[string]map[string]string{
		` { "name" : "echo" , "b":{ "c":1 ,"d":{"e":2}, "n\u0061me":3},"list":[{"x":1}], "\u0062b":{}, "n":null } `: {
			"": `"name" "b" "list" "\u0062b" "n"`, "b": `"c" "d" "n\u0061me"`, "bb": "", "list": "", "name": "", "n": "", "missing": "", "b/d": `"e"`,
		},
		many: {"last": `"a" "c" "e"`, "39": `"x"`, "0": ""},
		`{}`: {"": "", "x": ""},
	} {
		decoded := decodeRequest(t, params)
		for form, req := range map[string]*jsonrpc.Request{
			"decoded": decoded,
			"by hand": {Params: json.RawMessage(params)},
			"none":    {},
		} {
			for path, want := range keys {
				var names []string
				if path != "" {
					names = strings.Split(path, "/")
				}
				if form == "none" {
					want = ""
				}
				if got := string(bytes.Join(slices.Collect(req.Keys(names...)), []byte(" "))); got != want {
					t.Errorf("%s: the keys of %q are %s, want %s", form, path, got, want)
				}
				for range req.Keys(names...) {
					break
				}
			}
		}
	}
}

func TestMemberOfOtherParams(t *testing.T) {
	for _, params := range []string{`[]`, `[{"name":1}]`, `{}`, `null`} {
		if got := decodeRequest(t, params).Member("name"); got != nil {
			t.Errorf("%s has %s", params, got)
		}
	}
	var none jsonrpc.Request
	if got := none.Member("name"); got != nil {
		t.Errorf("a request without params has %s", got)
	}
	broken := jsonrpc.Request{Params: json.RawMessage(`{"a":1,"b":`)}
	if got := broken.Member("b"); got != nil {
		t.Errorf("broken params have %s", got)
	}
}

// Member and Keys read replaced params, for example params that a middleware has set.
func TestMemberOfReplacedParams(t *testing.T) {
	req := decodeRequest(t, `{"name":"a","arguments":{"x":1}}`)
	req.Params = json.RawMessage(`{"arguments":{"y":2},"name":"b"}`)
	if got := string(req.Member("name")); got != `"b"` {
		t.Errorf("name is %s", got)
	}
	if got := string(req.Member("arguments", "y")); got != "2" {
		t.Errorf("arguments.y is %s", got)
	}
	if got := req.Member("arguments", "x"); got != nil {
		t.Errorf("arguments.x is %s", got)
	}
	req.Params = nil
	if got := req.Member("name"); got != nil {
		t.Errorf("name is %s", got)
	}
}

func TestMemberOfResult(t *testing.T) {
	for _, text := range []string{
		`{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","_meta":{"k":1}}}`,
		`{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","_meta":{"k":1}},"params":{"resultType":"other"}}`,
	} {
		m, err := jsonrpc.Decode([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		resp := m.(*jsonrpc.Response)
		if got := string(resp.Member("resultType")); got != `"complete"` {
			t.Errorf("resultType is %s", got)
		}
		if got := string(resp.Member("_meta", "k")); got != "1" {
			t.Errorf("_meta.k is %s", got)
		}
	}
}

func TestMemberOfBigParams(t *testing.T) {
	var b strings.Builder
	b.WriteByte('{')
	for i := range 40 {
		fmt.Fprintf(&b, `"k%d":{`, i)
		for j := range i {
			if j > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, `"%d":%d`, j, 1000*i+j)
		}
		b.WriteString(`},`)
	}
	b.WriteString(`"end":true}`)
	checkMembers(t, decodeRequest(t, b.String()))
}

// checkMembers compares the index of a message with the members that jsonscan reads.
func checkMembers(t *testing.T, m jsonrpc.Message) {
	t.Helper()
	text, member := json.RawMessage(nil), (func(...string) json.RawMessage)(nil)
	switch m := m.(type) {
	case *jsonrpc.Request:
		text, member = m.Params, m.Member
	case *jsonrpc.Response:
		text, member = m.Result, m.Member
	}
	if jsonscan.KindOf(text) != jsonscan.Object {
		return
	}
	first, err := jsonscan.ReadObject(text)
	if err != nil {
		t.Fatal(err)
	}
	for outer := range first.All() {
		if got := member(outer.Name()); string(got) != string(outer.Value) {
			t.Fatalf("%s: %q is %s", text, outer.Name(), got)
		}
		second, err := jsonscan.ReadObject(outer.Value)
		if err != nil {
			continue
		}
		for inner := range second.All() {
			if got := member(outer.Name(), inner.Name()); string(got) != string(inner.Value) {
				t.Fatalf("%s: %q, %q is %s", text, outer.Name(), inner.Name(), got)
			}
		}
	}
}

func TestMemberDoesNotAllocate(t *testing.T) {
	decoded := decodeRequest(t, `{"name":"a","_meta":{"progressToken":1}}`)
	byHand := &jsonrpc.Request{Params: json.RawMessage(`{"name":"a","_meta":{"progressToken":1}}`)}
	for _, req := range []*jsonrpc.Request{decoded, byHand} {
		if n := testing.AllocsPerRun(100, func() { req.Member("_meta", "progressToken") }); n != 0 {
			t.Errorf("%v allocations, want none", n)
		}
	}
}

func TestNewRequest(t *testing.T) {
	req, err := jsonrpc.NewRequest(jsonrpc.ID{}, "m", nil)
	if err != nil || !req.IsNotification() || req.Params != nil {
		t.Errorf("got %+v, %v", req, err)
	}
	req, err = jsonrpc.NewRequest(jsonrpc.IntID(0), "m", json.RawMessage(" [1] "))
	if err != nil || req.IsNotification() || string(req.Params) != "[1]" {
		t.Errorf("got %+v, %v", req, err)
	}
	for params, want := range map[string]string{
		``:                    "invalid JSON at byte 0: expected a value, found the end of the text",
		`{} {}`:               "invalid JSON at byte 3: expected the end of the text, found '{'",
		`"a"`:                 "params must be an object or an array, not a string",
		`null`:                "params must be an object or an array, not null",
		`{"a":1,"a":2}`:       `duplicate member "a" in params`,
		`{"a":{"b":1,"b":2}}`: `duplicate member "b" in member "a" of params`,
	} {
		_, err := jsonrpc.NewRequest(jsonrpc.IntID(1), "m", json.RawMessage(params))
		var got *jsonrpc.Error
		if !errors.As(err, &got) || got.Code != jsonrpc.InvalidParams || got.Message != want {
			t.Errorf("%s: %v, want %s", params, err, want)
		}
	}
}

func TestNewRequestMembers(t *testing.T) {
	for _, test := range []struct{ params, name, inner string }{
		{`{"name":"a","arguments":{"x":1}}`, `"a"`, `1`},
		{` {"arguments":{"y":1,"x":[2]} , "name":"b"}`, `"b"`, `[2]`},
		{`[1]`, "", ""},
		{`{"name":"c"}`, `"c"`, ""},
		{"", "", ""},
	} {
		var params json.RawMessage
		if test.params != "" {
			params = json.RawMessage(test.params)
		}
		req, err := jsonrpc.NewRequest(jsonrpc.IntID(1), "m", params)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(req.Member("name")); got != test.name || string(req.Member("arguments", "x")) != test.inner {
			t.Errorf("%s: name is %s, arguments.x %s", test.params, got, req.Member("arguments", "x"))
		}
		if string(req.Params) != strings.TrimSpace(test.params) || req.Method != "m" || req.ID != jsonrpc.IntID(1) {
			t.Errorf("%s: the request is %+v", test.params, req)
		}
	}
}

// TestCodes: peers know the codes of JSON-RPC 2.0, section 5.1, and clients of other libraries the code of a busy server.
func TestCodes(t *testing.T) {
	for code, want := range map[jsonrpc.Code]int{
		jsonrpc.ParseError: -32700, jsonrpc.InvalidRequest: -32600, jsonrpc.MethodNotFound: -32601,
		jsonrpc.InvalidParams: -32602, jsonrpc.InternalError: -32603, jsonrpc.Busy: 429,
	} {
		if int(code) != want {
			t.Errorf("the code is %d, want %d", code, want)
		}
	}
}
