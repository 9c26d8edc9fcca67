// Memory is an MCP server that remembers conversations and facts about users:
//
//	go run ./examples/memory [-file PATH] [-http ADDRESS]
//
// It forgets when it ends, unless it is given a file. It speaks over standard input and
// output, or over HTTP at an address such as 127.0.0.1:8080. README.md says how to put
// it into a client.
package main

import (
	"context"
	"flag"
	"io"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/dovetail-go/dovetail/server/memory"
	"github.com/dovetail-go/dovetail/transport/stdio"
)

func main() {
	path := flag.String("file", "", "the JSON `file` to remember in; it is made if it is not there")
	address := flag.String("http", "", "the `address` to serve HTTP at; port 0 takes a free one")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *path, *address, os.Stderr); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, path, address string, said io.Writer) error {
	store, err := openStore(path)
	if err != nil {
		return err
	}
	s := memory.New(store, nil)
	if address != "" {
		return serveHTTP(ctx, s, address, said)
	}
	if err := stdio.Serve(ctx, s, nil); ctx.Err() == nil {
		return err
	}
	return nil // it was told to end
}

func openStore(path string) (memory.Store, error) {
	if path == "" {
		return memory.InMemory(nil), nil
	}
	return openFile(path, nil)
}
