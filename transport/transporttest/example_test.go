package transporttest_test

import (
	"context"
	"fmt"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/transporttest"
)

// A server process runs Server; here it is connected by a pipe.
func ExampleServer() {
	ctx := context.Background()
	conn, err := transport.Pipe(transporttest.Server()).Dial(ctx, silent{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()
	resp, err := conn.Call(ctx, "echo", jsonrpc.Raw(`{"n":9007199254740993}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(string(resp.Result))
	// Output: {"n":9007199254740993}
}

// silent is a client without methods.
type silent struct{}

func (silent) Handle(context.Context, jsonrpc.Peer, *jsonrpc.Request, *jsonrpc.Reply) error {
	return &jsonrpc.Error{Code: jsonrpc.MethodNotFound, Message: "nothing is answered here"}
}

func (silent) HandleNotification(jsonrpc.Peer, *jsonrpc.Request) {}
