package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"

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
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", health)
	mux.Handle("/", operators.Handler(s.control.handler()))
	return streamable.Serve(ctx, s.address, s.face, &streamable.ServeOptions{
		Options: streamable.Options{Logger: s.logger},
		Wrap:    agents.Handler,
		Other:   mux,
		OnListen: func(at net.Addr) {
			fmt.Fprintf(said, "serving http://%s/mcp\n", at)
			if token := agents.Token(); token != "" {
				fmt.Fprintf(said, "the token is %s\n", token)
			}
			if token := operators.Token(); token != "" {
				fmt.Fprintf(said, "the control token is %s\n", token)
			}
		},
	})
}
