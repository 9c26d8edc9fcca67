package main

import (
	"context"
	"encoding/json"
	"io"
	"log"
	"log/slog"
	"net/http"

	"github.com/mark3labs/mcp-go/client/transport"
	mcpgoserver "github.com/mark3labs/mcp-go/server"
)

// mcpGo is github.com/mark3labs/mcp-go.
type mcpGo struct{}

func (mcpGo) Name() string { return "mcp-go" }

// Open connects over what the library's documentation names for each transport.
func (p mcpGo) Open(ctx context.Context, w Work) (Rig, error) {
	if w.Way != Direct {
		return nil, errAbsent
	}
	if w.Transport == Bytes {
		return openMCPGoBytes(w)
	}
	var closing closers
	dial, err := p.host(ctx, w, &closing)
	if err != nil {
		return nil, closing.after(err)
	}
	c := newMCPGoClient(w, dial)
	if w.Kind == Session {
		return newRig(c.visit, closing...), nil
	}
	session, err := c.connect(ctx)
	if err != nil {
		return nil, closing.after(err)
	}
	closing.add(session.Close)
	return newRig(func(ctx context.Context) error { return c.work(ctx, session) }, closing...), nil
}

// An mcpGoDial makes a transport to the server, for one client.
type mcpGoDial func() (transport.Interface, error)

// host starts the server.
func (p mcpGo) host(ctx context.Context, w Work, closing *closers) (mcpGoDial, error) {
	switch w.Transport {
	case Pipe:
		if w.Kind == Progress {
			return nil, errAbsent // in memory, notifications are handed over as they are
		}
		// The library's way to stay in memory. It encodes and decodes requests and
		// answers, and is faster than its stdio transports are over an io.Pipe.
		server := newMCPGoServer(w)
		return func() (transport.Interface, error) { return transport.NewInProcessTransport(server), nil }, nil
	case Stdio:
		return func() (transport.Interface, error) {
			cmd, err := child(ctx, "serve", p.Name(), w)
			if err != nil {
				return nil, err
			}
			quiet := transport.WithCommandLogger(slog.New(slog.DiscardHandler))
			return transport.NewStdioWithOptions(cmd.Path, cmd.Env, cmd.Args[1:], quiet), nil
		}, nil
	}
	return p.hostHTTP(ctx, w, closing)
}

func (p mcpGo) hostHTTP(ctx context.Context, w Work, closing *closers) (mcpGoDial, error) {
	handler, closeHandler, err := p.Handler(w)
	if err != nil {
		return nil, err
	}
	carrier := &http.Transport{MaxIdleConnsPerHost: w.InFlight}
	web, quiet := &http.Client{Transport: carrier}, slog.New(slog.DiscardHandler)
	closing.add(func() error { carrier.CloseIdleConnections(); return nil })
	url, err := closing.serve(handler, closeHandler)
	if err != nil {
		return nil, err
	}
	return func() (transport.Interface, error) {
		if w.Transport == SSE {
			return transport.NewSSE(url, transport.WithHTTPClient(web), transport.WithSSELogger(quiet))
		}
		return transport.NewStreamableHTTP(url, transport.WithHTTPBasicClient(web), transport.WithHTTPLogger(quiet))
	}, openSessions(ctx, url, w)
}

// Handler serves both eras over Streamable HTTP.
func (mcpGo) Handler(w Work) (http.Handler, func() error, error) {
	server := newMCPGoServer(w)
	switch {
	case w.Transport == Streamable:
		h := mcpgoserver.NewStreamableHTTPServer(server, mcpgoserver.WithStreamableHTTPLogger(slog.New(slog.DiscardHandler)))
		return h, func() error { h.CloseSessions(context.Background()); return nil }, nil
	case w.Transport == SSE && w.Era == Legacy:
		h := mcpgoserver.NewSSEServer(server, mcpgoserver.WithSSEEndpoint("/"), mcpgoserver.WithMessageEndpoint("/messages"))
		return h, func() error { h.CloseSessions(); return nil }, nil
	}
	return nil, nil, errAbsent
}

func (mcpGo) Serve(_ context.Context, w Work) error {
	quiet := mcpgoserver.WithErrorLogger(log.New(io.Discard, "", 0))
	return mcpgoserver.ServeStdio(newMCPGoServer(w), quiet)
}

// Build registers the tools: there is nothing else to be done before a server serves.
// Validators are compiled when a tool is called first.
func (mcpGo) Build(w Work) (any, error) { return newMCPGoServer(w), nil }

// openMCPGoBytes gives the server bytes.
func openMCPGoBytes(w Work) (Rig, error) {
	if w.Kind != Call {
		return nil, errAbsent
	}
	server, e := newMCPGoServer(w), newEcho(w)
	request := e.request(w.Era)
	return newRig(func(ctx context.Context) error {
		answer, err := json.Marshal(server.HandleMessage(ctx, request))
		if err != nil {
			return err
		}
		return e.checkBytes(answer)
	}), nil
}
