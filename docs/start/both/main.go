// Both is a server of docs/start.md that serves standard input and output, and HTTP, at the same time:
//
//	go run ./docs/start/both [-http ADDRESS]
package main

import (
	"context"
	"errors"
	"flag"
	"log"
	"os/signal"
	"syscall"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport/stdio"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

func main() {
	address := flag.String("http", "127.0.0.1:8080", "serve HTTP at this `address` too")
	flag.Parse()
	s := server.New(mcp.Implementation{Name: "both", Version: "1.0.0"}, nil)
	server.AddTool(s, server.Tool{Name: "ping", Description: "Return pong."},
		func(context.Context, *server.Request, struct{}) (string, error) { return "pong", nil })

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := serveBoth(ctx, s, *address); err != nil {
		log.Fatal(err)
	}
}

// serveBoth serves the client that has started the program, and others over HTTP, with the same tools and data. It
// returns when ctx or the input ends, or HTTP cannot be served: each of the two shuts the server down when it ends, and
// the other one ends with the server.
func serveBoth(ctx context.Context, s *server.Server, address string) error {
	web := make(chan error, 1)
	go func() { web <- streamable.Serve(ctx, address, s, nil) }()
	err := stdio.Serve(ctx, s, nil)
	return errors.Join(err, <-web)
}
