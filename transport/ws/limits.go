package ws

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
	// DefaultWriteTimeout is how long writing one message may take.
	DefaultWriteTimeout = 10 * time.Second
	// DefaultKeepAlive is how often a ping is sent.
	DefaultKeepAlive = 15 * time.Second
	// DefaultMaxSessions is how many sessions a server has at a time.
	DefaultMaxSessions = 10_000
	// DefaultMaxPerPrincipal is how many of them one authenticated client may have.
	DefaultMaxPerPrincipal = 100

	// maxQueued is how many bytes may wait to be written before a writer waits.
	maxQueued = jsonrpc.DefaultMaxQueued
	// maxSpare is the largest buffer that a socket keeps to write from.
	maxSpare = 64 << 10
	// maxScratch is the largest buffer to read into that is kept for all sockets.
	maxScratch = 1 << 20
	// clientFrame is the size of a client's frames: it has to mask what it sends, and
	// copies it for that.
	clientFrame = 32 << 10
	// maxReason is how many bytes of text a close frame can hold: RFC 6455, section 5.5.
	maxReason = 123

	// flushGrace bounds how long closing waits for what is queued to be written.
	flushGrace = time.Second
	// closeGrace bounds how long closing waits for the peer's close frame.
	closeGrace = time.Second
	// maxHandshake is how many bytes a server may send to open a socket, certificates
	// among them.
	maxHandshake = 256 << 10
	// retryAfter is how many seconds a client that was one too many is told to wait.
	retryAfter = "5"
)
