package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/dovetail-go/dovetail/bridge/gateway"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// serveHTTP serves MCP at /mcp and the control routes beside it until ctx ends, and says
// where. Everything but /health takes a token.
func (s *sandbox) serveHTTP(ctx context.Context, said io.Writer) error {
	access := &gateway.AccessOptions{Open: s.open, Logger: s.logger}
	if s.token != "" {
		access.Tokens = map[string]string{s.token: "agent"}
	}
	gate, err := gateway.NewAccess(access)
	if err != nil {
		return err
	}
	endpoint := streamable.Handler(s.face, &streamable.Options{Logger: s.logger})
	guarded := http.NewServeMux()
	guarded.Handle("/mcp", endpoint)
	s.control.routes(guarded)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", health)
	mux.Handle("/", gate.Handler(guarded))
	listener, err := net.Listen("tcp", s.address)
	if err != nil {
		return errors.Join(err, endpoint.Close())
	}
	web := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10}
	served := make(chan error, 1)
	go func() {
		defer close(served)
		served <- web.Serve(listener)
	}()
	fmt.Fprintf(said, "serving http://%s/mcp\n", listener.Addr())
	if token := gate.Token(); token != "" {
		fmt.Fprintf(said, "the token is %s\n", token)
	}
	select {
	case err = <-served:
	case <-ctx.Done():
	}
	// Calls may finish; then what is left are connections on which nothing has come.
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	err = errors.Join(err, s.face.Shutdown(ending), endpoint.Close(), web.Close())
	<-served
	return err
}
