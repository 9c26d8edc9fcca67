package storetest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/transport/streamable"
)

// timeout bounds a subtest.
const timeout = 20 * time.Second

var errTimeout = errors.New("the test has not finished within " + timeout.String())

// Run tests a store, each property in a subtest. open returns an empty store. It is called
// once for each subtest and may use t.Cleanup.
func Run(t *testing.T, open func(t *testing.T) streamable.EventStore) {
	for _, property := range []struct {
		name string
		test func(f *fixture)
	}{
		{"Order", testOrder},
		{"Bytes", testBytes},
		{"Copies", testCopies},
		{"UnknownStream", testUnknownStream},
		{"FirstNumber", testFirstNumber},
		{"Gaps", testGaps},
		{"BigEvents", testBigEvents},
		{"Streams", testStreams},
		{"Sessions", testSessions},
		{"Forget", testForget},
		{"Concurrency", testConcurrency},
		{"ConcurrentForget", testConcurrentForget},
	} {
		t.Run(property.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeoutCause(t.Context(), timeout, errTimeout)
			defer cancel()
			property.test(&fixture{T: t, ctx: ctx, store: open(t)})
		})
	}
}

// A fixture is one subtest.
type fixture struct {
	*testing.T
	ctx   context.Context // of this subtest
	store streamable.EventStore
}

// append appends messages. The first one has the given number.
func (f *fixture) append(id streamable.StreamID, number int64, messages ...string) {
	f.Helper()
	for i, message := range messages {
		event := streamable.StoredEvent{Number: number + int64(i), Message: []byte(message)}
		if err := f.store.Append(f.ctx, id, event); err != nil {
			f.Errorf("Append(%q, %d): %v", id, event.Number, err)
			return
		}
	}
}

// checkReplay checks that exactly these messages follow a number.
func (f *fixture) checkReplay(id streamable.StreamID, after int64, want ...string) {
	f.Helper()
	events, err := f.store.After(f.ctx, id, after)
	if err != nil {
		f.Errorf("After(%q, %d): %v, want %d events", id, after, err, len(want))
		return
	}
	got := make([]string, len(events))
	for i, event := range events {
		got[i] = string(event.Message)
		if event.Number != after+1+int64(i) {
			f.Errorf("After(%q, %d): event %d comes where %d has to", id, after, event.Number, after+1+int64(i))
			return
		}
	}
	if a, b := strings.Join(got, "\n"), strings.Join(want, "\n"); a != b || len(got) != len(want) {
		f.Errorf("After(%q, %d): %d events\n%.300s\nwant %d\n%.300s", id, after, len(got), a, len(want), b)
	}
}

// checkPurged checks that the store cannot replay what follows a number.
func (f *fixture) checkPurged(id streamable.StreamID, after int64) {
	f.Helper()
	events, err := f.store.After(f.ctx, id, after)
	if !errors.Is(err, streamable.ErrPurged) {
		f.Errorf("After(%q, %d): %d events, error %v, want ErrPurged", id, after, len(events), err)
	}
}

func (f *fixture) forget(session string) {
	f.Helper()
	if err := f.store.Forget(f.ctx, session); err != nil {
		f.Errorf("Forget(%q): %v", session, err)
	}
}
