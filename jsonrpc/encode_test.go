package jsonrpc_test

import (
	"encoding/json"
	"testing"

	"github.com/dovetail-go/dovetail/jsonrpc"
)

func TestAppend(t *testing.T) {
	for _, test := range []struct {
		message jsonrpc.Message
		want    string
	}{
		{&jsonrpc.Request{Method: "m"}, `{"jsonrpc":"2.0","method":"m"}`},
		{
			&jsonrpc.Request{ID: stringID("<é>"), Method: "a\"<b", Params: json.RawMessage(`{ "x" : 1.0, "x":"<\u003c" }`)},
			`{"jsonrpc":"2.0","id":"<é>","method":"a\"<b","params":{ "x" : 1.0, "x":"<\u003c" }}`,
		},
		{&jsonrpc.Response{ID: jsonrpc.IntID(-7), Result: json.RawMessage(`null`)}, `{"jsonrpc":"2.0","id":-7,"result":null}`},
		{
			&jsonrpc.Response{ID: jsonrpc.IntID(1), Error: &jsonrpc.Error{Code: jsonrpc.MethodNotFound, Message: "no <m>", Data: json.RawMessage(`[1e400]`)}},
			`{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no <m>","data":[1e400]}}`,
		},
		{
			&jsonrpc.Response{ID: jsonrpc.IntID(1), Error: &jsonrpc.Error{Code: 7, Message: "m", Data: json.RawMessage{}}},
			`{"jsonrpc":"2.0","id":1,"error":{"code":7,"message":"m"}}`,
		},
		{
			&jsonrpc.Response{ID: jsonrpc.IntID(1), Error: &jsonrpc.Error{Code: 7, Message: "m", Data: json.RawMessage(`1 2`)}},
			`{"jsonrpc":"2.0","id":1,"error":{"code":7,"message":"m"}}`,
		},
		{&jsonrpc.Response{Error: &jsonrpc.Error{Code: jsonrpc.ParseError}}, `{"jsonrpc":"2.0","error":{"code":-32700,"message":""}}`},
	} {
		got, err := jsonrpc.Append([]byte("head"), test.message)
		if err != nil || string(got) != "head"+test.want {
			t.Errorf("got %s, %v, want %s", got, err, test.want)
		}
	}
}

func TestAppendRefuses(t *testing.T) {
	result := json.RawMessage(`{}`)
	for _, test := range []struct {
		message jsonrpc.Message
		want    string
	}{
		{nil, "no message to append"},
		{&jsonrpc.Response{ID: jsonrpc.IntID(1)}, "a response must have a result or an error"},
		{&jsonrpc.Response{Result: result}, "a response with a result must have an id"},
		{&jsonrpc.Response{ID: jsonrpc.IntID(1), Result: result, Error: &jsonrpc.Error{}}, "a response must not have both a result and an error"},
	} {
		got, err := jsonrpc.Append([]byte("head"), test.message)
		if err == nil || err.Error() != "jsonrpc: "+test.want || string(got) != "head" {
			t.Errorf("got %s, %v, want %s", got, err, test.want)
		}
	}
}

func TestAppendDoesNotAllocate(t *testing.T) {
	buf := make([]byte, 0, 1024)
	for _, text := range []string{
		call100B,
		`{"jsonrpc":"2.0","id":1,"result":{"a":1}}`,
		`{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m"}}`,
	} {
		m, err := jsonrpc.Decode([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if n := testing.AllocsPerRun(100, func() { buf, _ = jsonrpc.Append(buf[:0], m) }); n != 0 {
			t.Errorf("%s: %v allocations, want none", text, n)
		}
		if string(buf) != text {
			t.Errorf("%s became %s", text, buf)
		}
	}
}

func TestRaw(t *testing.T) {
	for raw, want := range map[string]string{"": "null", `{"a": 1}`: `{"a": 1}`} {
		got, err := jsonrpc.Raw(raw).AppendJSON([]byte("x"))
		if err != nil || string(got) != "x"+want {
			t.Errorf("%q: %s, %v, want %s", raw, got, err, want)
		}
	}
}

func TestErrorText(t *testing.T) {
	e := &jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: "a <b>\n"}
	if got, want := e.Error(), `jsonrpc: -32602 "a <b>\n"`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
