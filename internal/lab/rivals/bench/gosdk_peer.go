package main

import (
	"context"
	"net/http"
	"slices"

	gosdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// goSDK is the official SDK for Go, github.com/modelcontextprotocol/go-sdk.
type goSDK struct{}

func (goSDK) Name() string { return "go-sdk" }

// Open connects over what the SDK's documentation names for each transport.
func (p goSDK) Open(ctx context.Context, w Work) (Rig, error) {
	if w.Way != Direct {
		return nil, errAbsent
	}
	if w.Transport == Bytes {
		return openGoSDKBytes(ctx, w)
	}
	var closing closers
	dial, err := p.host(ctx, w, &closing)
	if err != nil {
		return nil, closing.after(err)
	}
	c := newGoSDKClient(w, dial)
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

// A goSDKDial makes a transport to the server, for one connection.
type goSDKDial func(ctx context.Context) (gosdk.Transport, error)

// host starts the server.
func (p goSDK) host(ctx context.Context, w Work, closing *closers) (goSDKDial, error) {
	switch w.Transport {
	case Pipe:
		server := newGoSDKServer(w)
		closing.add(func() error { return closeGoSDK(server) })
		return func(ctx context.Context) (gosdk.Transport, error) {
			near, far := gosdk.NewInMemoryTransports()
			_, err := server.Connect(ctx, far, nil)
			return near, err
		}, nil
	case Stdio:
		return func(ctx context.Context) (gosdk.Transport, error) {
			cmd, err := child(ctx, "serve", p.Name(), w)
			return &gosdk.CommandTransport{Command: cmd}, err
		}, nil
	}
	return p.hostHTTP(ctx, w, closing)
}

func (p goSDK) hostHTTP(ctx context.Context, w Work, closing *closers) (goSDKDial, error) {
	handler, closeHandler, err := p.Handler(w)
	if err != nil {
		return nil, err
	}
	carrier := &http.Transport{MaxIdleConnsPerHost: w.InFlight}
	web := &http.Client{Transport: carrier}
	closing.add(func() error { carrier.CloseIdleConnections(); return nil })
	url, err := closing.serve(handler, closeHandler)
	if err != nil {
		return nil, err
	}
	return func(context.Context) (gosdk.Transport, error) {
		if w.Transport == SSE {
			return &gosdk.SSEClientTransport{Endpoint: url, HTTPClient: web}, nil
		}
		// Nothing here comes outside of an answer. The SDK recommends this where only
		// requests and their answers are needed: it saves a stream per session.
		return &gosdk.StreamableClientTransport{Endpoint: url, HTTPClient: web, DisableStandaloneSSE: true}, nil
	}, openSessions(ctx, url, w)
}

// Handler serves one era: the SDK's handler is stateless for the modern one, and has
// sessions for the legacy one. Where nothing precedes the answer it answers with JSON,
// which is less work for both sides than a stream.
func (goSDK) Handler(w Work) (http.Handler, func() error, error) {
	server := newGoSDKServer(w)
	serve := func(*http.Request) *gosdk.Server { return server }
	closeServer := func() error { return closeGoSDK(server) }
	switch {
	case w.Transport == Streamable:
		return gosdk.NewStreamableHTTPHandler(serve, &gosdk.StreamableHTTPOptions{
			Stateless:    w.Era == Modern,
			JSONResponse: w.Kind != Progress && w.Kind != Idle,
		}), closeServer, nil
	case w.Transport == SSE && w.Era == Legacy:
		return gosdk.NewSSEHandler(serve, nil), closeServer, nil
	}
	return nil, nil, errAbsent
}

// closeGoSDK ends the sessions of a server, which cannot do so by itself.
func closeGoSDK(server *gosdk.Server) error {
	for _, session := range slices.Collect(server.Sessions()) {
		session.Close() // complains of clients that have left first
	}
	return nil
}

func (goSDK) Serve(ctx context.Context, w Work) error {
	return newGoSDKServer(w).Run(ctx, &gosdk.StdioTransport{})
}

// Build registers the tools: there is nothing else to be done before a server serves.
func (goSDK) Build(w Work) (any, error) { return newGoSDKServer(w), nil }
