package jsonrpc

import (
	"context"
	"time"
)

// Options configure a [Conn] or a [Dispatcher]. Zero values mean the defaults.
type Options struct {
	// MaxInFlight is how many calls of the peer may run at once; one more is
	// answered with [Busy]. Default [DefaultMaxInFlight]. Calls that have run do not
	// count, but as many answers and 64 more may wait to be taken.
	MaxInFlight int
	// MaxPending is how many own calls may wait for answers; one more fails
	// with NotSent. Default [DefaultMaxPending].
	MaxPending int
	// MaxBatch is how many messages a batch may hold. Default [DefaultMaxBatch].
	MaxBatch int
	// CallTimeout bounds a call whose context has no deadline. A client of MCP counts it
	// from the last progress of the call. Default [DefaultCallTimeout]; negative means no
	// bound.
	CallTimeout time.Duration
	// Drain is how long calls of a Conn may go on after the end of input.
	// Default [DefaultDrain]; negative means not at all.
	Drain time.Duration
	// Grace is how long handlers may take to return once their context has
	// ended, before Run or Close returns without them. Default [DefaultGrace].
	Grace time.Duration
	// SkipMalformed makes the connection skip what is not a message instead of
	// answering it: right for a client whose server prints a banner.
	SkipMalformed bool
	// Admit, when set, is asked about each call of the peer before its handler is, on the
	// same goroutine. Its error is the answer, as if the handler had returned it.
	Admit func(ctx context.Context, req *Request) error
	// Malformed, when set, is told of everything that was not a message. It
	// must not block, since what came after waits for it, and may be called
	// concurrently.
	Malformed func(err error)
	// Trace, when set, is shown every frame that is sent or was received. It
	// must neither block nor keep the slice, and may be called concurrently.
	Trace func(sent bool, frame []byte)
}

func (o *Options) withDefaults() Options {
	var opts Options
	if o != nil {
		opts = *o
	}
	setDefault(&opts.MaxInFlight, DefaultMaxInFlight)
	setDefault(&opts.MaxPending, DefaultMaxPending)
	setDefault(&opts.MaxBatch, DefaultMaxBatch)
	setDefault(&opts.CallTimeout, DefaultCallTimeout)
	setDefault(&opts.Drain, DefaultDrain)
	setDefault(&opts.Grace, DefaultGrace)
	return opts
}

func setDefault[T int | time.Duration](field *T, value T) {
	if *field == 0 {
		*field = value
	}
}
