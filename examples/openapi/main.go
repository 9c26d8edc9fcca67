// Openapi makes a REST service usable for MCP clients, out of its OpenAPI document:
//
//	go run ./examples/openapi [-http ADDRESS]
//
// The service, a store of notes in memory, runs in the same program, behind a URL and a
// key as any other would. The MCP server speaks over standard input and output, or over
// HTTP at an address such as 127.0.0.1:8080.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"os/signal"
	"syscall"

	"github.com/dovetail-go/dovetail/transport/stdio"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

func main() {
	address := flag.String("http", "", "the `address` to serve MCP over HTTP at; port 0 takes a free one")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *address, os.Stderr); err != nil {
		log.Fatal(err)
	}
}

// run starts the REST service, and serves MCP before it until ctx ends. It says where.
func run(ctx context.Context, address string, said io.Writer) (err error) {
	key := rand.Text()
	notes, err := listen("127.0.0.1:0", newService(key))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, notes.close()) }()
	fmt.Fprintf(said, "the REST service is at %s; its key is %s\n", notes.url, key)

	s, err := newServer(notes.url, key)
	if err != nil {
		return err
	}
	if err := s.Start(ctx); err != nil { // so that clients learn from the start what there is
		return err
	}
	if address == "" {
		return stdio.Serve(ctx, s, nil)
	}
	return streamable.Serve(ctx, address, s, &streamable.ServeOptions{
		Path:     "/",
		OnListen: func(at net.Addr) { fmt.Fprintf(said, "serving MCP at http://%s\n", at) },
	})
}
