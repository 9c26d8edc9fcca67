// Hello is a server over HTTP with one tool.
package main

import (
	"context"
	"log"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport/streamable"
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
	if err := streamable.Run("127.0.0.1:8080", s, nil); err != nil {
		log.Fatal(err)
	}
}
