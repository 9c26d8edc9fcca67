//go:build unix

package stdio_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/stdio"
)

// greeter is a server with one stateless method.
type greeter struct{}

func (g greeter) Bind(transport.Link) jsonrpc.Handler { return g }

func (greeter) Handle(_ context.Context, _ jsonrpc.Peer, req *jsonrpc.Request, reply *jsonrpc.Reply) error {
	if req.Method != "greet" {
		return &jsonrpc.Error{Code: jsonrpc.MethodNotFound, Message: "there is only greet"}
	}
	fmt.Fprintln(os.Stderr, "somebody is greeted") // for people; standard output is the protocol's
	return reply.Write(jsonrpc.Raw(`{"greeting":"Hello!"}`))
}

func (greeter) HandleNotification(jsonrpc.Peer, *jsonrpc.Request) {}

// A server on given streams; without options it serves standard input and output.
func ExampleServe() {
	input := strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"greet"}` + "\n")
	err := stdio.Serve(context.Background(), greeter{}, &stdio.ServeOptions{In: io.NopCloser(input), Out: os.Stdout})
	if err != nil {
		fmt.Println(err)
	}
	// Output: {"jsonrpc":"2.0","id":1,"result":{"greeting":"Hello!"}}
}

// A client and its server, which is this program as a child process.
func ExampleCommand() {
	dialer := stdio.Command(os.Args[0], nil, &stdio.CommandOptions{
		Env: []string{childVariable + "=greeter"},
	})
	ctx := context.Background()
	conn, err := dialer.Dial(ctx, silent{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()
	resp, err := conn.Call(ctx, "greet", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(string(resp.Result))
	// Output: {"greeting":"Hello!"}
}
