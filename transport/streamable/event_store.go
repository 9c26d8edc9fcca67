package streamable

import (
	"context"
	"encoding/json"
	"errors"
)

// A StreamID names one event stream of a session. Stream names are random and
// never used again.
type StreamID struct {
	Session string
	Stream  string
}

// A StoredEvent is one message of a stream. The numbers of a stream's events go
// up by one, beginning with 1.
type StoredEvent struct {
	Number  int64
	Message json.RawMessage
}

// ErrPurged means that events after the one asked for are not kept any more, or
// never were: nothing can be replayed without a gap.
var ErrPurged = errors.New("the events that followed are not kept any more")

// An EventStore keeps the events of sessions' streams, so that a client whose
// connection broke can have the ones that it missed (Last-Event-ID, from version
// 2025-03-26 to 2025-11-25). It may lose events at any time, oldest first, and
// must say so with [ErrPurged]: it never leaves out one between others.
//
// It must be safe for concurrent use. The events of one stream are appended one
// after the other. Package storetest tests an implementation.
type EventStore interface {
	// Append keeps one event; the message is copied. A stream is known from its
	// first event on, which may have any number from 1: the store may have lost
	// the ones before. After that, a number which does not follow the last one is
	// an error.
	Append(ctx context.Context, stream StreamID, event StoredEvent) error
	// After returns the events of a stream with a number above after, oldest
	// first: none if there are no newer ones; ErrPurged if any of them is gone or
	// the stream is unknown. The messages must not be changed.
	After(ctx context.Context, stream StreamID, after int64) ([]StoredEvent, error)
	// Forget drops everything of a session, if there is anything.
	Forget(ctx context.Context, session string) error
}
