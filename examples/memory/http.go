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
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// grace is how long calls may take to finish when the program is told to end.
const grace = 5 * time.Second

// serveHTTP serves at the path /mcp until ctx ends, and says where.
func serveHTTP(ctx context.Context, s *server.Server, address string, said io.Writer) error {
	endpoint := streamable.Handler(s, nil)
	mux := http.NewServeMux()
	mux.Handle("/mcp", endpoint)

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
	fmt.Fprintf(said, "serving http://%s/mcp\n", listener.Addr())
	select {
	case err = <-served:
	case <-ctx.Done():
	}

	// Calls may finish; then streams end, which the web server would wait for.
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	err = errors.Join(err, s.Shutdown(ending), endpoint.Close(), web.Shutdown(ending))
	<-served
	return err
}
