// Hello is a server over stdio with one tool.
package main

import (
	"context"
	"log"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport/stdio"
)

type echo struct {
	Message string `json:"message"`
	N       int    `json:"n"`
}

func main() {
	s := server.New(mcp.Implementation{Name: "hello", Version: "1"}, nil)
	server.AddTool(s, server.Tool{Name: "echo"}, func(_ context.Context, _ *server.Request, in echo) (echo, error) {
		return in, nil
	})
	if err := stdio.Run(s, nil); err != nil {
		log.Fatal(err)
	}
}
