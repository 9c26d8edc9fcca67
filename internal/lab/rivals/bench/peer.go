package main

import (
	"context"
	"errors"
	"net/http"
)

// errAbsent is the error of a peer that has no such thing.
var errAbsent = errors.New("absent")

// A Peer is a library that does the work, or the bare transport without one.
type Peer interface {
	Name() string

	// Open starts a server for w and connects a client to it. With Sessions there is
	// one client, and idle sessions that openSessions has opened; for Kind Session
	// none is connected before Do.
	// The error is errAbsent when the peer does not have the transport, the era or
	// the way.
	Open(ctx context.Context, w Work) (Rig, error)

	// Serve serves w on the standard streams of this process until they end. It is
	// what Open starts for Stdio, by child.
	Serve(ctx context.Context, w Work) error
}

// A Rig is a client and its server, ready to work.
type Rig interface {
	// Do does one operation and checks the answer. InFlight goroutines call it at
	// once. The error is a *lossError when notifications did not arrive.
	Do(ctx context.Context) error

	// Close ends client and server, and has waited for both.
	Close() error
}

// A coldStarter is a peer that can be started cold.
type coldStarter interface {
	// Build makes a server that could begin to serve, with w.Tools tools
	// and no other. Nothing of that has happened in this process before.
	Build(w Work) (server any, err error)
}

// An idler is a peer that serves HTTP.
type idler interface {
	// Handler is the HTTP handler of a server for w, with the tool echo. It is served
	// at "/", and closed when no more requests come.
	// The error is errAbsent when the peer does not have the transport or the era.
	Handler(w Work) (h http.Handler, close func() error, err error)
}
