package jsonrpc

import (
	"cmp"
	"context"
	"time"
)

// Options configure a [Conn]. Zero values mean the defaults.
type Options struct {
	// MaxInFlight is how many calls of the peer may run at the same time. Further calls are
	// refused with [Busy]. Default 256. A call whose reply is being written does not count;
	// at most 64 replies more than MaxInFlight may be written at the same time.
	MaxInFlight int
	// Limiter, if set, counts the calls of the peer in addition to MaxInFlight, for example together with the calls of
	// other connections. It does not count calls that preempt others.
	Limiter Limiter
	// MaxPending is how many calls to the peer may wait for responses. Further calls fail
	// with [NotSent]. Default 1024.
	MaxPending int
	// FirstID is the id of the first call to the peer; the ids of later calls follow it. Connections
	// that get the responses to each other's calls need different ids. Default 1.
	FirstID int64
	// CallTimeout bounds calls to the peer whose context has no deadline. An MCP client
	// counts it from the last progress of the call. Default 60 s; negative means no bound.
	CallTimeout time.Duration
	// Drain is how long Run waits for running calls of the peer after the end of the input.
	// Default 10 s; negative means no wait.
	Drain time.Duration
	// Grace is how long Run and Close wait for handlers after their contexts have ended.
	// Default 2 s; negative means no wait.
	Grace time.Duration
	// SkipMalformed makes the connection ignore malformed messages instead of answering
	// them. It is for clients, since servers may print text to standard output.
	SkipMalformed bool
	// Authorize, if set, is called before the handler of each call of the peer, on the same
	// goroutine. If it returns an error, the handler is not called and the peer gets the
	// error as if the handler had returned it.
	Authorize func(ctx context.Context, req *Request) error
	// Malformed, if set, is called for each malformed message, for each response without a
	// pending call, for calls that are not answered before the connection ends
	// ([UnansweredError]), and for panics of handlers. It must not block, since it runs on the
	// goroutine that reads. It may be called concurrently.
	Malformed func(err error)
	// Wrap, if set, returns the stream that the connection uses in place of its own, such as one
	// that loses messages in a test. Transports without a stream ignore it.
	Wrap func(Stream) Stream
	// Trace, if set, is called for each frame that is sent or received. It must neither
	// block nor retain the frame, and may be called concurrently. conn is a random identifier of the
	// connection. A server over HTTP has one for each session, and one for each request without a session. [Received] and
	// [WithSent] join frames and calls.
	Trace func(conn string, sent bool, frame []byte)
}

// A Limiter limits running calls. Its methods may be called concurrently and must not block.
type Limiter interface {
	// Begin counts a call of a method. If it returns an error, the call is refused with [Busy] and
	// the text of the error.
	Begin(method string) error
	// End is called once for each call that Begin has counted, when the handler has returned.
	End(method string)
}

// WithDefaults returns a copy with the defaults in place of zero values. o may be nil.
func (o *Options) WithDefaults() Options {
	var opts Options
	if o != nil {
		opts = *o
	}
	opts.MaxInFlight = cmp.Or(opts.MaxInFlight, 256)
	opts.FirstID = cmp.Or(opts.FirstID, 1)
	opts.MaxPending = cmp.Or(opts.MaxPending, 1024)
	opts.CallTimeout = cmp.Or(opts.CallTimeout, 60*time.Second)
	opts.Drain = cmp.Or(opts.Drain, 10*time.Second)
	opts.Grace = cmp.Or(opts.Grace, 2*time.Second)
	return opts
}
