// Command compat is a program with a server, a client and a bridge. .ci/compat builds it together with other libraries.
package main

import (
	"context"
	"fmt"
	"log"
	"log/slog"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

type addIn struct{ A, B int }

func main() {
	ctx := context.Background()
	calculator := server.New(mcp.Implementation{Name: "calculator", Version: "1.0.0"}, nil)
	server.AddTool(calculator, server.Tool{Name: "add"},
		func(_ context.Context, _ *server.Request, in addIn) (int, error) { return in.A + in.B, nil })
	servers, err := bridge.New(&bridge.Options{Logger: slog.New(slog.DiscardHandler)}, bridge.Config{Alias: "calc", Dialer: transport.Pipe(calculator), Required: true})
	if err != nil {
		log.Fatal(err)
	}
	face := server.New(mcp.Implementation{Name: "compat", Version: "1.0.0"}, nil)
	if err := face.Mount(servers, nil); err != nil {
		log.Fatal(err)
	}
	session, err := client.Connect(ctx, transport.Pipe(face), nil)
	if err != nil {
		log.Fatal(err)
	}
	sum, err := client.CallAs[int](ctx, session, "calc__add", addIn{1, 2}, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(sum)
}
