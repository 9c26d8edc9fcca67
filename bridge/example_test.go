package bridge_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/bridge/llm"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

type addIn struct{ A, B int }

// calculator is the server of the examples; any other is reached by stdio.Command or
// streamable.Dial.
func calculator() transport.Dialer {
	s := server.New(mcp.Implementation{Name: "calculator", Version: "1"}, nil)
	server.AddTool(s, server.Tool{Name: "add"}, func(_ context.Context, _ *server.Request, in addIn) (int, error) { return in.A + in.B, nil })
	return transport.Pipe(s)
}

func ExampleNew() {
	ctx := context.Background()
	b, err := bridge.New(nil, bridge.Config{Alias: "calc", Dialer: calculator(), Required: true})
	if err != nil {
		log.Fatal(err)
	}
	stop, err := b.Start(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer stop()
	tools, err := b.Tools(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(tools[0].Name)
	result, err := b.CallTool(ctx, "calc__add", json.RawMessage(`{"A":1,"B":2}`))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(llm.Text(result))
	// Output:
	// calc__add
	// 3 <nil>
}

func ExampleProxy() {
	ctx := context.Background()
	frontend := server.New(mcp.Implementation{Name: "frontend", Version: "1"}, nil)
	sums := bridge.Proxy(calculator(), &bridge.ProxyOptions{Rename: map[string]string{"add": "sum"}})
	if err := frontend.Mount(sums, &server.MountOptions{Prefix: "math_"}); err != nil {
		log.Fatal(err)
	}
	if err := frontend.Start(ctx); err != nil {
		log.Fatal(err)
	}
	defer frontend.Shutdown(ctx)

	session, err := client.Connect(ctx, transport.Pipe(frontend), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	sum, err := client.CallAs[int](ctx, session, "math_sum", addIn{1, 2}, nil)
	fmt.Println(sum, err)
	// Output: 3 <nil>
}
