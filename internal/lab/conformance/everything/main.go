// Everything is an MCP server that uses every feature of the library. It has the tools,
// resources, prompts and completions that the official conformance suite
// (github.com/modelcontextprotocol/conformance) expects, and more tools to test clients:
//
//	go run ./internal/lab/conformance/everything [-http ADDRESS [-replicas N]]
//
// It serves standard input and output, or HTTP at an address such as 127.0.0.1:8080. With
// -replicas, N servers with a common store serve streamable HTTP behind a balancer without
// affinity.
package main

import (
	"context"
	"errors"
	"flag"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/dovetail-go/dovetail/internal/lab/conformance/features"
	"github.com/dovetail-go/dovetail/transport/stdio"
	"github.com/dovetail-go/dovetail/transport/store"
)

func main() {
	address := flag.String("http", "", "the `address` to serve HTTP at; port 0 means a free port")
	servers := flag.Int("replicas", 1, "the `number` of servers behind the address")
	flag.Parse()
	if err := run(*address, *servers); err != nil {
		log.Fatal(err)
	}
}

func run(address string, servers int) error {
	if servers < 1 || address == "" && servers > 1 {
		return errors.New("-replicas needs -http, and at least one replica")
	}
	if address == "" {
		return stdio.Serve(context.Background(), features.NewServer(nil), nil)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if servers > 1 {
		shared, err := store.NewMemory(nil)
		if err != nil {
			return err
		}
		return errors.Join(features.ServeReplicas(ctx, servers, address, shared, os.Stderr), shared.Close())
	}
	return features.ServeHTTP(ctx, address, os.Stderr)
}
