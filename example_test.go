package dovetail_test

import (
	"context"
	"fmt"
	"log"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

type AddIn struct {
	A int `json:"a" jsonschema_description:"first summand"`
	B int `json:"b" jsonschema_description:"second summand, not negative" jsonschema:"minimum=0"`
}

func add(_ context.Context, _ *server.Request, in AddIn) (int, error) {
	return in.A + in.B, nil
}

// A client calls a tool of a server in memory.
func Example() {
	ctx := context.Background()
	s := server.New(mcp.Implementation{Name: "calc", Version: "1.0.0"}, nil)
	server.AddTool(s, server.Tool{Name: "add", Description: "Add two integers."}, add)

	session, err := client.Connect(ctx, transport.Pipe(s), nil) // or: stdio.Command("./calc", nil, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()

	sum, err := client.CallAs[int](ctx, session, "add", AddIn{A: 2, B: 3}, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(sum)
	// Output: 5
}
