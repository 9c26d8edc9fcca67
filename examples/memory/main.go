// Memory is an MCP server that remembers conversations and facts about users:
//
//	go run ./examples/memory [-file PATH] [-http ADDRESS]
//
// Without a file, the memory ends with the program. It serves standard input and output, or
// HTTP at an address such as 127.0.0.1:8080. README.md describes how to add it to a client.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"os/signal"
	"syscall"

	"github.com/dovetail-go/dovetail/server/memory"
	"github.com/dovetail-go/dovetail/transport/stdio"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

func main() {
	path := flag.String("file", "", "the JSON `file` that stores the memory; it is created if it does not exist")
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
	if address == "" {
		return stdio.Serve(ctx, s, nil)
	}
	return streamable.Serve(ctx, address, s, &streamable.ServeOptions{
		OnListen: func(at net.Addr) { fmt.Fprintf(said, "serving http://%s/mcp\n", at) },
	})
}

func openStore(path string) (memory.Store, error) {
	if path == "" {
		return memory.InMemory(nil), nil
	}
	return openFile(path, nil)
}
