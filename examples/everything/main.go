// Everything is an MCP server that uses every feature of the library. It holds
// the tools, resources, prompts and completions that the official conformance
// suite (github.com/modelcontextprotocol/conformance) calls for, under the names
// and with the texts that it expects, and a few more to try clients on:
//
//	go run ./examples/everything [-http ADDRESS]
//
// It speaks over standard input and output, or over HTTP at an address such as
// 127.0.0.1:8080.
package main

import (
	"context"
	"flag"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/dovetail-go/dovetail/transport/stdio"
)

func main() {
	address := flag.String("http", "", "the `address` to serve HTTP at; port 0 takes a free one")
	flag.Parse()
	if err := run(*address); err != nil {
		log.Fatal(err)
	}
}

func run(address string) error {
	if address == "" {
		return stdio.Serve(context.Background(), newServer(), nil)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return serveHTTP(ctx, newServer(), address, os.Stderr)
}
