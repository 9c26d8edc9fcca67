package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"

	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport/sse"
	"github.com/dovetail-go/dovetail/transport/streamable"
	"github.com/dovetail-go/dovetail/transport/ws"
)

// serveHTTP serves every HTTP transport until ctx ends, and says where.
func serveHTTP(ctx context.Context, s *server.Server, address string, said io.Writer) error {
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
		OnListen:   func(at net.Addr) { fmt.Fprintf(said, "serving http://%s/mcp and /sse, /ws, /health\n", at) },
	})
}
