// Package features is an MCP server that uses every feature of the library, alone or in replicas: the tools,
// resources, prompts, completions and skills that the official conformance suite expects, and more tools
// to test clients.
package features

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport/sse"
	"github.com/dovetail-go/dovetail/transport/streamable"
	"github.com/dovetail-go/dovetail/transport/ws"
)

// ServeHTTP serves one server over every HTTP transport until ctx ends, and writes its address to output.
func ServeHTTP(ctx context.Context, address string, output io.Writer) error {
	s := NewServer(nil)
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

// NewServer returns a server with all entries. all is nil for a server that is no replica.
func NewServer(all *Replicas) *server.Server {
	if all == nil {
		all = new(Replicas)
	}
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
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
