package jsonrpc_test

import (
	"context"
	"fmt"

	"github.com/dovetail-go/dovetail/jsonrpc"
)

// letterbox is an outlet that keeps what leaves by it.
type letterbox chan string

func (l letterbox) Write(_ context.Context, msg []byte) error {
	l <- string(msg)
	return nil
}

func (l letterbox) Answer(msg []byte) { l <- string(msg) }

// Each message that comes in has a way of its own for what belongs to it.
func ExampleNewDispatcher() {
	d := jsonrpc.NewDispatcher(func(*jsonrpc.Dispatcher) jsonrpc.Handler { return handler{handle: echo} }, nil)
	defer d.Close()
	out := make(letterbox, 1)
	d.Route(context.Background(), out).Receive([]byte(`{"jsonrpc":"2.0","id":1,"method":"echo","params":["hello"]}`))
	fmt.Println(<-out)
	// Output: {"jsonrpc":"2.0","id":1,"result":["hello"]}
}

// A transport that answers each call where it came from needs no more than this.
func ExampleAnswer() {
	req, err := jsonrpc.NewRequest(jsonrpc.IntID(7), "echo", []byte(`["hello"]`))
	if err != nil {
		fmt.Println(err)
		return
	}
	var reply jsonrpc.Reply
	err = jsonrpc.Answer(context.Background(), handler{handle: echo}, nil, req, &reply)
	fmt.Println(string(reply.Buf), err)
	// Output: {"jsonrpc":"2.0","id":7,"result":["hello"]} <nil>
}
