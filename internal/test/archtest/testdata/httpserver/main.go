// Httpserver is the server of ../stdioserver over HTTP. A test measures its size.
package main

import (
	"context"
	"log"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

type AddIn struct {
	A int `json:"a" jsonschema_description:"first summand"`
	B int `json:"b" jsonschema_description:"second summand, not negative" jsonschema:"minimum=0"`
}

func main() {
	s := server.New(mcp.Implementation{Name: "calc", Version: "1.0.0"}, nil)
	server.AddTool(s, server.Tool{Name: "add", Description: "Add two integers."},
		func(ctx context.Context, r *server.Request, in AddIn) (int, error) {
			return in.A + in.B, nil
		})
	if err := streamable.Run(":8080", s, nil); err != nil {
		log.Fatal(err)
	}
}
