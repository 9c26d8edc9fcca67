// Bridge offers the servers of a configuration, such as editors and chat programs have,
// as one MCP server:
//
//	go run ./examples/bridge -config mcp.json
//	go run ./examples/bridge -config mcp.json -http 127.0.0.1:8080
//
// It speaks over standard input and output, or over HTTP at /mcp. A tool is called
// alias__tool. When the file changes, so do the servers; those that stand in it as before
// are left alone.
package main

import (
	"context"
	"flag"
	"io"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/dovetail-go/dovetail/transport/stdio"
)

func main() {
	path := flag.String("config", "mcp.json", "the `file` that names the servers")
	address := flag.String("http", "", "the `address` to serve HTTP at; port 0 takes a free one")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *path, *address, os.Stderr); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, path, address string, said io.Writer) error {
	desk, err := open(ctx, path, slog.New(slog.NewTextHandler(said, nil)))
	if err != nil {
		return err
	}
	following, stop := context.WithCancel(ctx)
	followed := make(chan struct{})
	go func() {
		defer close(followed)
		desk.follow(following, 0)
	}()
	if address == "" {
		err = stdio.Serve(ctx, desk.face, nil)
	} else {
		err = desk.serveHTTP(ctx, address, said)
	}
	stop()
	<-followed
	return err
}
