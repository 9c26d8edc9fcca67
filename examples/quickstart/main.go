// Quickstart runs an MCP server and a client in one process and shows what they
// say to each other, once in each era of the protocol:
//
//	go run ./examples/quickstart
package main

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, era := range []client.Era{client.Modern, client.Legacy} {
		if err := visit(ctx, era); err != nil {
			log.Fatal(err)
		}
	}
}

// visit connects to a fresh server and tries everything it offers.
func visit(ctx context.Context, era client.Era) error {
	changed := make(chan mcp.Change, 8)
	bakery := newBakery()
	session, err := client.Connect(ctx, transport.Pipe(bakery), &client.Options{
		Info:    mcp.Implementation{Name: "quickstart", Version: "1.0.0"},
		Era:     era,
		Elicit:  answer,
		Changed: func(_ context.Context, change mcp.Change) { changed <- change },
	})
	if err != nil {
		return err
	}
	defer session.Close()
	fmt.Printf("── connected to %s, speaking %s ──\n", session.Server().Name, session.Version())

	for tool, err := range session.Tools(ctx) {
		if err != nil {
			return err
		}
		fmt.Printf("tool        %s: %s\n", tool.Name, tool.Description)
	}
	for _, step := range []func(context.Context, *client.Session) error{add, order, bake, recipe, greet} {
		if err := step(ctx, session); err != nil {
			return err
		}
	}
	return watch(ctx, session, bakery, changed)
}
