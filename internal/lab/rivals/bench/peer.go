package main

import (
	"context"
	"errors"
	"net/http"
)

// errAbsent is the error of a peer that does not support the work.
var errAbsent = errors.New("absent")

// A Peer is a library, or the bare transport.
type Peer interface {
	Name() string

	// Open starts a server for w and connects a client. For Start, Do does so each time.
	Open(ctx context.Context, w Work) (Rig, error)

	// Serve serves w on the standard streams of this process until they end.
	Serve(ctx context.Context, w Work) error

	// Handler returns the HTTP handler of a server for w, at the path "/", and a function that closes it
	// after the last request.
	Handler(w Work) (h http.Handler, end func() error, err error)

	// Register returns a server with w.Tools tools that is ready to serve. Nothing of the peer has run in
	// this process before.
	Register(w Work) (server any, err error)
}

// peers returns all peers. Each library also has a function that adds a tool which returns its
// arguments, for the program of [buildTypes]: addDovetail, addGoSDK and addMCPGo.
func peers() []Peer { return []Peer{dovetail{}, goSDK{}, mcpGo{}, wire{}} }

func peerNamed(peers []Peer, name string) Peer {
	for _, p := range peers {
		if p.Name() == name {
			return p
		}
	}
	panic("no peer " + name) // benchmarks name only those of peers
}

// A Rig is a client that is connected to a server.
type Rig interface {
	// Do does one operation and checks the response. w.Callers goroutines call it concurrently. The error is
	// a *lossError if notifications did not arrive.
	Do(ctx context.Context) error

	// Close ends the client and the server, and waits for both.
	Close() error
}

type rig struct {
	do func(ctx context.Context) error
	closers
}

func (r *rig) Do(ctx context.Context) error { return r.do(ctx) }
func (r *rig) Close() error                 { return r.close() }
