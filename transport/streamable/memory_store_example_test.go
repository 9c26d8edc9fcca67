package streamable_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/dovetail-go/dovetail/transport/streamable"
)

// What a store keeps can be replayed from any event on that a client has seen.
func ExampleNewMemoryEvents() {
	ctx := context.Background()
	store := streamable.NewMemoryEvents(&streamable.MemoryLimits{EventsPerStream: 2})
	stream := streamable.StreamID{Session: "4kd8", Stream: "b1"}
	for number := range int64(3) {
		event := streamable.StoredEvent{Number: number + 1, Message: fmt.Appendf(nil, `{"step":%d}`, number+1)}
		if err := store.Append(ctx, stream, event); err != nil {
			fmt.Println(err)
			return
		}
	}
	for _, seen := range []int64{0, 1, 3} {
		missed, err := store.After(ctx, stream, seen)
		if errors.Is(err, streamable.ErrPurged) {
			fmt.Printf("after %d: %v\n", seen, err)
			continue
		}
		for _, event := range missed {
			fmt.Printf("after %d: event %d %s\n", seen, event.Number, event.Message)
		}
	}
	// Output:
	// after 0: the events that followed are not kept any more
	// after 1: event 2 {"step":2}
	// after 1: event 3 {"step":3}
}
