package sse

import (
	"time"

	"github.com/dovetail-go/dovetail/jsonrpc"
)

// Defaults of [Options] and [DialOptions].
const (
	// DefaultMaxMessage is the longest message in bytes that a server takes.
	DefaultMaxMessage = 4 << 20
	// DefaultDialMaxMessage is the longest message in bytes that a client takes.
	DefaultDialMaxMessage = 16 << 20
	// DefaultWriteTimeout is how long a client may take to accept a write of at most
	// 64 KiB.
	DefaultWriteTimeout = 10 * time.Second
	// DefaultKeepAlive is how long a stream is silent before a comment is sent.
	DefaultKeepAlive = 15 * time.Second
	// DefaultMaxSessions is how many sessions a server has at a time.
	DefaultMaxSessions = 10_000
	// DefaultMaxPerPrincipal is how many of them one authenticated client may have.
	DefaultMaxPerPrincipal = 100
)

// Of a server.
const (
	// maxPosted is how many messages of a client may wait to be looked at.
	maxPosted = 4
	// postPatience is how long one more may wait before it is refused.
	postPatience = 10 * time.Second
	// maxQueued is how many bytes may wait to be sent before a writer waits.
	maxQueued = jsonrpc.DefaultMaxQueued
	// maxPooled is the largest buffer that is kept for reuse.
	maxPooled = 64 << 10
	// flushGrace bounds how long closing waits for what is queued to be sent.
	flushGrace = time.Second
	// closeGrace is how much longer than its sessions an endpoint waits for their
	// streams.
	closeGrace = 2 * time.Second
	// retryAfter is how many seconds a client that was one too many is told to wait.
	retryAfter = "5"
)

// Of a client.
const (
	// openTimeout bounds Dial, from looking up the name to the event "endpoint".
	openTimeout = 30 * time.Second
	// maxEndpoint is how long the URI of the event "endpoint" may be, in bytes.
	maxEndpoint = 8 << 10
	// cancelGrace is how long a message may go on being posted when its call is
	// cancelled: what cancels it should come after it.
	cancelGrace = 250 * time.Millisecond
	// endGrace is how long a message that met the end of its session waits to learn
	// of that.
	endGrace = 100 * time.Millisecond
)
