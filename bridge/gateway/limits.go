package gateway

import (
	"time"

	"github.com/dovetail-go/dovetail/internal/edge"
)

// Defaults of [Options].
const (
	// DefaultCallTimeout bounds a call. Waiting for a person does not count.
	DefaultCallTimeout = 5 * time.Minute
	// DefaultMaxBody is the longest body of a request, in bytes.
	DefaultMaxBody = 4 << 20
	// DefaultMaxRequests is how many requests may be served at once.
	DefaultMaxRequests = 1024
	// DefaultMaxPerCaller is how many of them may be one principal's.
	DefaultMaxPerCaller = 256
)

const (
	// MinToken is how many characters a token has at least.
	MinToken = edge.MinToken
	// MaxSeries is how many counters there can be in [Metrics].
	MaxSeries = 10_000

	// maxSegments is how many segments a path may have.
	maxSegments = 16
	// maxShown is how many bytes of a name are shown or logged.
	maxShown = 256
	// writeTimeout is how long a client may take to accept a piece of an answer.
	writeTimeout = 10 * time.Second
	// writePiece is how many bytes such a piece has.
	writePiece = 64 << 10
)
