package jsonrpc_test

import (
	"context"
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

func (greeter) Notified(_ jsonrpc.Peer, note *jsonrpc.Request) {
	fmt.Println("notified:", note.Method)
}

// Two peers in one process, connected by pipes.
func ExampleNewConn() {
	clientIn, serverOut := io.Pipe()
	serverIn, clientOut := io.Pipe()
	bind := func(*jsonrpc.Conn) jsonrpc.Handler { return greeter{} }
	server := jsonrpc.NewConn(jsonrpc.NewLines(serverIn, serverOut, serverIn, nil), bind, nil)
	client := jsonrpc.NewConn(jsonrpc.NewLines(clientIn, clientOut, clientIn, nil), bind, nil)

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
	lines := jsonrpc.NewLines(transcript, os.Stdout, io.NopCloser(transcript), nil)
	conn := jsonrpc.NewConn(lines, func(*jsonrpc.Conn) jsonrpc.Handler { return greeter{} }, nil)
	if err := conn.Run(context.Background()); err != nil {
		fmt.Println(err)
	}
	// Output:
	// notified: hello
	// {"jsonrpc":"2.0","id":9007199254740993,"result":{"greeting":"Hello!"}}
}
