package dovetail_test

import (
	"context"
	"fmt"
	"log"
	"net/http/httptest"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// A bridge offers the tools of two servers as one.
func Example_bridge() {
	ctx := context.Background()
	calculator := server.New(mcp.Implementation{Name: "calc", Version: "1.0.0"}, nil)
	server.AddTool(calculator, server.Tool{Name: "add", Description: "Add two integers."}, add)
	hours := server.New(mcp.Implementation{Name: "clock", Version: "1.0.0"}, nil)
	server.AddTool(hours, server.Tool{Name: "hour", Description: "Say what time it is."},
		func(context.Context, *server.Request, struct{}) (string, error) { return "noon", nil })
	endpoint := streamable.Handler(hours, nil)
	defer endpoint.Close()
	clock := httptest.NewServer(endpoint)
	defer clock.Close()

	face := server.New(mcp.Implementation{Name: "face", Version: "1.0.0"}, nil)
	servers, err := bridge.New(nil,
		bridge.Config{Alias: "calc", Dialer: transport.Pipe(calculator)}, // or: stdio.Command("./calc", nil, nil)
		bridge.Config{Alias: "time", Dialer: streamable.Dial(clock.URL, nil)},
	)
	if err != nil {
		log.Fatal(err)
	}
	if err := face.Mount(servers, nil); err != nil {
		log.Fatal(err)
	}
	defer face.Shutdown(ctx)

	session, err := client.Connect(ctx, transport.Pipe(face), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	for tool, err := range session.Tools(ctx, nil) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(tool.Name)
	}
	sum, err := client.CallAs[int](ctx, session, "calc__add", AddIn{A: 2, B: 3}, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(sum)
	// Output:
	// calc__add
	// time__hour
	// 5
}
