package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport/sse"
	"github.com/dovetail-go/dovetail/transport/streamable"
	"github.com/dovetail-go/dovetail/transport/ws"
)

// grace is how long calls may take to finish when the program is told to end.
const grace = 5 * time.Second

// serveHTTP serves every HTTP transport until ctx ends, and says where.
func serveHTTP(ctx context.Context, s *server.Server, address string, said io.Writer) error {
	main := streamable.Handler(s, nil)
	events := sse.Handler(s, &sse.Options{Messages: "/messages"}) // of protocol version 2024-11-05
	sockets := ws.Handler(s, nil)

	mux := http.NewServeMux()
	mux.Handle("/mcp", main)
	mux.Handle("/sse", events)
	mux.Handle("/messages", events)
	mux.Handle("/ws", sockets)
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })

	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	web := &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: 5 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
	}
	served := make(chan error, 1)
	go func() {
		served <- web.Serve(listener)
		close(served)
	}()
	fmt.Fprintf(said, "serving http://%s/mcp and /sse, /ws, /health\n", listener.Addr())
	select {
	case err = <-served:
	case <-ctx.Done():
	}

	// Calls may finish; then streams and sockets end, which the web server would
	// wait for or does not know.
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	err = errors.Join(err, s.Shutdown(ending), main.Close(), events.Close(), sockets.Close())
	// What is left are connections on which nothing has come: browsers and Node open
	// some in advance.
	last, cancelLast := context.WithTimeout(ending, time.Second)
	defer cancelLast()
	if web.Shutdown(last) != nil {
		err = errors.Join(err, web.Close())
	}
	<-served
	return err
}
