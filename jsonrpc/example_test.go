package jsonrpc_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/dovetail-go/dovetail/jsonrpc"
)

// greeter answers "greet" and prints notifications.
type greeter struct{}

func (greeter) Handle(_ context.Context, _ jsonrpc.Peer, req *jsonrpc.Request, reply *jsonrpc.Reply) error {
	if req.Method != "greet" {
		return &jsonrpc.Error{Code: jsonrpc.MethodNotFound, Message: "there is only greet"}
	}
	return reply.Write(jsonrpc.Raw(`{"greeting":"Hello!"}`))
}

func (greeter) HandleNotification(_ jsonrpc.Peer, note *jsonrpc.Request) {
	fmt.Println("notified:", note.Method)
}

// Two peers in one process, connected by pipes.
func ExampleNewConn() {
	clientIn, serverOut := io.Pipe()
	serverIn, clientOut := io.Pipe()
	bind := func(*jsonrpc.Conn) jsonrpc.Handler { return greeter{} }
	server := jsonrpc.NewConn(jsonrpc.NewLines(serverIn, serverOut, serverIn, 0), bind, nil)
	client := jsonrpc.NewConn(jsonrpc.NewLines(clientIn, clientOut, clientIn, 0), bind, nil)

	ctx := context.Background()
	go server.Run(ctx)
	go client.Run(ctx)

	resp, err := client.Call(ctx, "greet", nil)
	fmt.Println(string(resp.Result), err)
	_, err = client.Call(ctx, "sing", jsonrpc.Raw(`{"loud":true}`))
	fmt.Println(err)

	client.Close()
	server.Close()
	// Output:
	// {"greeting":"Hello!"} <nil>
	// jsonrpc: -32601 "there is only greet"
}

// A transcript is served line by line until it ends.
func ExampleNewLines() {
	transcript := strings.NewReader(`{"jsonrpc":"2.0","method":"hello"}
{"jsonrpc":"2.0","id":9007199254740993,"method":"greet"}
`)
	lines := jsonrpc.NewLines(transcript, os.Stdout, io.NopCloser(transcript), 0)
	conn := jsonrpc.NewConn(lines, func(*jsonrpc.Conn) jsonrpc.Handler { return greeter{} }, nil)
	if err := conn.Run(context.Background()); err != nil {
		fmt.Println(err)
	}
	// Output:
	// notified: hello
	// {"jsonrpc":"2.0","id":9007199254740993,"result":{"greeting":"Hello!"}}
}

// postbox keeps the replies.
type postbox chan string

func (p postbox) Reply(msg []byte) { p <- string(msg) }

// Without a stream, each message comes with something that sends the reply.
func ExampleConn_Receive() {
	conn := jsonrpc.NewConn(nil, func(*jsonrpc.Conn) jsonrpc.Handler { return greeter{} }, nil)
	defer conn.Close()
	replies := make(postbox, 1)
	conn.Receive(context.Background(), conn, replies, []byte(`{"jsonrpc":"2.0","id":1,"method":"greet"}`))
	fmt.Println(<-replies)
	// Output: {"jsonrpc":"2.0","id":1,"result":{"greeting":"Hello!"}}
}

// A transport without sessions needs no Conn.
func ExampleAnswer() {
	req, err := jsonrpc.NewRequest(jsonrpc.IntID(7), "greet", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	var reply jsonrpc.Reply
	err = jsonrpc.Answer(context.Background(), greeter{}, nil, req, &reply)
	fmt.Println(string(reply.Buf), err)
	// Output: {"jsonrpc":"2.0","id":7,"result":{"greeting":"Hello!"}} <nil>
}

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
	id, err := jsonrpc.ParseID([]byte(`"a-1"`))
	if err != nil {
		fmt.Println(err)
		return
	}
	text, err := jsonrpc.Append(nil, &jsonrpc.Request{
		ID: id, Method: "resources/read", Params: json.RawMessage(`{"uri":"file:///a"}`),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s\n", text)
	// Output: {"jsonrpc":"2.0","id":"a-1","method":"resources/read","params":{"uri":"file:///a"}}
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
	fmt.Println(a == jsonrpc.IntID(1), b, a == b)
	fmt.Println(err)
	// Output:
	// true "1" false
	// jsonrpc: id must be a string or an integer, not 1.5
}

func ExampleSplitBatch() {
	items, err := jsonrpc.SplitBatch([]byte(`[{"jsonrpc":"2.0","method":"a"},{"jsonrpc":"2.0","method":"b"}]`))
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
