// Stdioserver is a small server over standard input and output. README.md shows it, and a
// test measures its size.
package main

import (
	"context"
	"log"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport/stdio"
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
	if err := stdio.Run(s, nil); err != nil { // or: streamable.Run(":8080", s, nil)
		log.Fatal(err)
	}
}
