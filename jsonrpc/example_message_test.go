package jsonrpc_test

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/dovetail-go/dovetail/jsonrpc"
)

func ExampleDecode() {
	message, err := jsonrpc.Decode([]byte(
		`{"jsonrpc":"2.0","id":9007199254740993,"method":"tools/call","params":{"name":"add","arguments":{"a":1.0}}}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	switch m := message.(type) {
	case *jsonrpc.Request:
		fmt.Println(m.Method, m.ID)
		fmt.Printf("%s %s\n", m.Member("name"), m.Member("arguments", "a"))
	case *jsonrpc.Response:
		fmt.Println("an answer")
	}
	// Output:
	// tools/call 9007199254740993
	// "add" 1.0
}

func ExampleDecodeError() {
	_, err := jsonrpc.Decode([]byte(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"safe","name":"unsafe"}}`))
	var refused *jsonrpc.DecodeError
	if errors.As(err, &refused) && !refused.Response {
		answer, _ := jsonrpc.Append(nil, &jsonrpc.Response{ID: refused.ID, Error: refused.Err})
		fmt.Printf("%s\n", answer)
	}
	// Output: {"jsonrpc":"2.0","id":7,"error":{"code":-32600,"message":"duplicate member \"name\" in params"}}
}

func ExampleAppend() {
	text, err := jsonrpc.Append(nil, &jsonrpc.Request{
		ID: jsonrpc.StringID("a-1"), Method: "resources/read", Params: json.RawMessage(`{"uri":"file:///a"}`),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s\n", text)
	// Output: {"jsonrpc":"2.0","id":"a-1","method":"resources/read","params":{"uri":"file:///a"}}
}

// A request that is part of something larger needs no allocation of its own.
func ExampleRequest_Init() {
	var call struct {
		request jsonrpc.Request
		tries   int
	}
	if err := call.request.Init(jsonrpc.IntID(1), "tools/call", json.RawMessage(`{"name":"add"}`)); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(string(call.request.Member("name")), call.tries)
	// Output: "add" 0
}

func ExampleNewRequest() {
	_, err := jsonrpc.NewRequest(jsonrpc.IntID(1), "tools/call", json.RawMessage(`{"name":"a","name":"b"}`))
	fmt.Println(err)
	// Output: jsonrpc: -32602 "duplicate member \"name\" in params"
}

func ExampleParseID() {
	a, _ := jsonrpc.ParseID([]byte(`1`))
	b, _ := jsonrpc.ParseID([]byte(`"1"`))
	_, err := jsonrpc.ParseID([]byte(`1.5`))
	fmt.Println(a == jsonrpc.IntID(1), b == jsonrpc.StringID("1"), a == b)
	fmt.Println(err)
	// Output:
	// true true false
	// jsonrpc: id must be a string or an integer, not 1.5
}

func ExampleSplitBatch() {
	items, err := jsonrpc.SplitBatch([]byte(`[{"jsonrpc":"2.0","method":"a"},{"jsonrpc":"2.0","method":"b"}]`), 10)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, item := range items {
		fmt.Printf("%s\n", item)
	}
	// Output:
	// {"jsonrpc":"2.0","method":"a"}
	// {"jsonrpc":"2.0","method":"b"}
}
