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

// access is for who shows a token, by default a random one.
func (s *sandbox) access(token, principal string, open bool) (*gateway.Access, error) {
	opts := &gateway.AccessOptions{Open: open, Logger: s.logger}
	if token != "" {
		opts.Tokens = map[string]string{token: principal}
	}
	return gateway.NewAccess(opts)
}

// serveHTTP serves MCP at /mcp and the control routes beside it until ctx ends, and says
// where. Agents have one token, and who sets the sandbox up has another: no policy is asked
// about that.
func (s *sandbox) serveHTTP(ctx context.Context, said io.Writer) error {
	if s.token != "" && s.token == s.controlToken {
		return errors.New("-control-token: expected another than -token")
	}
	agents, err := s.access(s.token, "agent", s.open)
	if err != nil {
		return err
	}
	operators, err := s.access(s.controlToken, "operator", false)
	if err != nil {
		return err
	}
	if err := s.face.Start(ctx); err != nil {
		return err
	}
	endpoint := streamable.Handler(s.face, &streamable.Options{Logger: s.logger})
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", health)
	mux.Handle("/mcp", agents.Handler(endpoint))
	mux.Handle("/", operators.Handler(s.control.handler()))
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
	if token := agents.Token(); token != "" {
		fmt.Fprintf(said, "the token is %s\n", token)
	}
	if token := operators.Token(); token != "" {
		fmt.Fprintf(said, "the control token is %s\n", token)
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
