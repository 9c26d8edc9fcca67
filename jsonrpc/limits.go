package jsonrpc

import "time"

// Defaults of [Options] and [LineOptions].
const (
	// DefaultMaxInFlight is how many calls of the peer run at once.
	DefaultMaxInFlight = 256
	// DefaultMaxPending is how many own calls may wait for their answers.
	DefaultMaxPending = 1024
	// DefaultMaxBatch is how many messages a batch may hold.
	DefaultMaxBatch = 64
	// DefaultMaxLine is the longest line in bytes.
	DefaultMaxLine = 16 << 20
	// DefaultMaxQueued is how many bytes may wait to be written before a
	// writer has to wait.
	DefaultMaxQueued = 1 << 20
	// DefaultDrain is how long calls may go on after the peer has sent its last message.
	DefaultDrain = 10 * time.Second
	// DefaultGrace is how long handlers may take to notice that their context has ended.
	DefaultGrace = 2 * time.Second
	// DefaultCallTimeout bounds a call whose context has no deadline.
	DefaultCallTimeout = 60 * time.Second

	// spareAnswers is how many answers may be on their way at once beside MaxInFlight.
	spareAnswers = 64
	// flushGrace bounds how long closing waits for queued bytes to be written.
	flushGrace = time.Second
	// maxRecycled is the largest frame whose memory a stream keeps for the next one.
	maxRecycled = 4 << 10
	// lentFrom is from how many bytes on the frame of an answer is on loan to who has asked.
	lentFrom = 8 << 10
	// maxPooledMethod is the longest method of a notification that is kept for reuse.
	maxPooledMethod = 64
)
