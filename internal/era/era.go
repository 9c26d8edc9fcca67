// Package era knows the two eras of the Model Context Protocol, and is the only
// package below the HTTP transport that does.
//
// Since 2026-07-28, the modern era, a request describes itself: it carries its
// version, who calls and what the caller can be asked for; a question to the
// caller is a result, and the answer comes with the next request. Until
// 2025-11-25, the legacy era, a handshake opens a session that remembers all
// this, and a server asks by sending requests of its own.
//
// The modern era is the general one. [Server] turns a legacy session into modern
// calls: it puts what the session remembers on each call and asks the questions
// itself, running the call again with the answers. [Session] does the same for a
// client. Their users see calls, results and errors, and cannot tell the eras apart.
//
// Package forward carries calls of others through a [Session].
package era

import (
	"context"
	"time"

	"github.com/dovetail-go/dovetail/mcp"
)

// A Core is a server without an era.
type Core interface {
	// Describe says what the server is now, without waiting for its start, which it
	// begins. The description must not change; a changed server has another one. The
	// error is that of a server that cannot serve.
	Describe() (*Description, error)
	// Serve answers one call: any method that is not the protocol's own. It waits until
	// the server has started.
	Serve(ctx context.Context, call *mcp.Call) (mcp.Result, error)
	// Failed is told of an error that the caller must not be shown, and says what
	// the caller is shown instead.
	Failed(method string, err error) error
	// Watch reports changes that match the filter, until stop is called, to the caller of
	// a call that subscribes. It returns the part of the filter that it has agreed to:
	// resources that do not exist for the caller are left out. ctx is that of the call, not
	// of the subscription. notify does not block.
	Watch(ctx context.Context, call *mcp.Call, filter mcp.SubscriptionFilter, notify func(mcp.Change)) (agreed mcp.SubscriptionFilter, stop func(), err error)
	// Stopping is closed when the server shuts down.
	Stopping() <-chan struct{}
}

// A Description is what a server tells of itself.
type Description struct {
	Info         mcp.Implementation
	Capabilities mcp.ServerCapabilities
	Instructions string
	// CacheHint is for the description and the lists, 2026-07-28 only.
	CacheHint mcp.CacheHint
}

// Limits of both ends.
const (
	// MaxRounds is how often one call may ask.
	MaxRounds = 10
	// MaxListens is how many subscriptions one connection may hold open.
	MaxListens = 32
	// MaxSubscribed is how many resources one connection may watch.
	MaxSubscribed = 1024
	// InputTimeout bounds how long a person may take to answer.
	InputTimeout = 10 * time.Minute
	// StateLifetime is how long a sealed state may wait for its answers.
	StateLifetime = time.Hour
)
