package jsonrpc

import (
	"context"
	"fmt"
)

// A Stream carries whole messages, one JSON text each, both ways.
type Stream interface {
	// Read returns the next message; the slice is the caller's. io.EOF is the
	// end. A *[FrameError] is one bad frame, after which Read can go on. Read is
	// called by one goroutine at a time.
	Read() ([]byte, error)

	// Write takes one message, copying what it keeps. It waits while too much
	// is queued, as long as ctx allows. It may be called concurrently. When it
	// fails the message counts as not sent, unless the error is a *[CallError]:
	// its Delivery and Err are what Call and Notify fail with.
	Write(ctx context.Context, msg []byte) error

	// Close sends what is queued, within a bound, and ends Read and Write. It
	// may be called more than once.
	Close() error
}

// A Recycler is a [Stream] that can use the memory of messages again.
type Recycler interface {
	// Recycle takes back what Read has returned, once nobody uses it any more.
	// The goroutine that reads calls it; with a message of 8 KiB or more, any
	// goroutine may.
	Recycle(msg []byte)
}

// A Peeker is a [Stream] where a call that comes alone is run by the goroutine that has
// read it, while another one reads on: so it does not wait for a goroutine to wake up.
// [Lines] are none: their peer is most often another process of the same machine, which
// pays for that with processor time.
type Peeker interface {
	// HasMore says whether another message is known to have come. The goroutine that
	// reads calls it.
	HasMore() bool
}

// A FrameError is a frame that cannot be a message, and has been skipped.
type FrameError struct {
	// Size is the frame's length in bytes, as far as it was read.
	Size int
	// Reason says what is wrong with it.
	Reason string
}

// Error describes the frame.
func (e *FrameError) Error() string {
	return fmt.Sprintf("frame of %d bytes skipped: %s", e.Size, e.Reason)
}
