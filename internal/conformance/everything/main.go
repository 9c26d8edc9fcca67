// Everything is an MCP server that uses every feature of the library. It has the tools,
// resources, prompts and completions that the official conformance suite
// (github.com/modelcontextprotocol/conformance) expects, and more tools to test clients:
//
//	go run ./internal/conformance/everything [-http ADDRESS [-replicas N]]
//
// It serves standard input and output, or HTTP at an address such as 127.0.0.1:8080. With
// -replicas, N servers with a common store serve streamable HTTP behind a balancer without
// affinity.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport/sse"
	"github.com/dovetail-go/dovetail/transport/stdio"
	"github.com/dovetail-go/dovetail/transport/streamable"
	"github.com/dovetail-go/dovetail/transport/ws"
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
		return stdio.Serve(context.Background(), newServer(new(replicas)), nil)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if servers > 1 {
		return serveReplicas(ctx, servers, address, os.Stderr)
	}
	return serveHTTP(ctx, newServer(new(replicas)), address, os.Stderr)
}

// serveHTTP serves every HTTP transport until ctx ends, and writes its address to output.
func serveHTTP(ctx context.Context, s *server.Server, address string, output io.Writer) error {
	events := sse.Handler(s, &sse.Options{Messages: "/messages"}) // of protocol version 2024-11-05
	sockets := ws.Handler(s, nil)
	mux := http.NewServeMux()
	mux.Handle("/sse", events)
	mux.Handle("/messages", events)
	mux.Handle("/ws", sockets)
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	return streamable.Serve(ctx, address, s, &streamable.ServeOptions{
		Other:      mux,
		OnShutdown: func() error { return errors.Join(events.Close(), sockets.Close()) },
		OnListen:   func(at net.Addr) { fmt.Fprintf(output, "serving http://%s/mcp and /sse, /ws, /health\n", at) },
	})
}

// newServer returns a server with all entries, which is one of the replicas.
func newServer(all *replicas) *server.Server {
	s := server.New(mcp.Implementation{Name: "everything", Title: "Everything", Version: "1.0.0"}, &server.Options{
		Instructions: "Every tool here tries one feature of the protocol.",
		CacheHint:    mcp.CacheHint{TTLMs: time.Minute.Milliseconds(), Scope: mcp.CachePublic},
		Store:        all.store,
	})
	addContent(s)
	addSchemas(s)
	addReports(s)
	addQuestions(s)
	addForms(s)
	addRounds(s)
	all.addChanges(s)
	addWaiting(s)
	addJobs(s)
	addResources(s)
	addPrompts(s)
	addCompletions(s)
	addSkills(s)
	return s
}

// pause waits for d or until ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
