package storetest

import (
	"fmt"
	"math"
	"strings"

	"github.com/dovetail-go/dovetail/transport/streamable"
)

// stream is the one for tests that need no other.
func stream() streamable.StreamID { return streamable.StreamID{Session: "session", Stream: "stream"} }

// manyEvents is how many a store must keep here.
const manyEvents = 1000

// Events come back oldest first, from behind any number that a client may have
// seen.
func testOrder(f *fixture) {
	messages := make([]string, manyEvents)
	for i := range messages {
		messages[i] = fmt.Sprintf(`{"event":%d,"pad":"%0*d"}`, i+1, i, 0)
	}
	for i, message := range messages {
		f.keep(stream(), int64(i+1), message)
		if i%97 == 0 {
			f.replays(stream(), int64(i), message)
			f.replays(stream(), int64(i+1))
		}
	}
	for _, after := range []int{0, 1, 2, 9, 10, 11, 99, 100, 255, 256, 500, manyEvents - 2, manyEvents - 1, manyEvents} {
		f.replays(stream(), int64(after), messages[after:]...)
	}
	for _, after := range []int64{manyEvents + 1, math.MaxInt32 + 1, math.MaxInt64} {
		f.replays(stream(), after) // there are no newer ones
	}
	for _, after := range []int64{-1, math.MinInt64} {
		if events, err := f.store.After(f.ctx, stream(), after); err != nil || len(events) != manyEvents {
			f.Errorf("After(%d): %d events, error %v, want all %d", after, len(events), err, manyEvents)
		}
	}
}

// Messages come back as the bytes that they were.
func testBytes(f *fixture) {
	messages := []string{
		`{}`, `[]`, `""`, `0`,
		` { "z" : 1, "a":2,"Z":3 } `,
		"{\n\t\"lines\": [\r\n1]}",
		`{"n":[9007199254740993,1.0,1e400,-0,0.1000]}`,
		`{"s":"\u0041\/\n\u2028<&>` + "\u2028\u00e9\U0001f600\x7f" + `"}`,
		`{"quotes":"'; DROP TABLE events; --","percent":"%s%00"}`,
	}
	f.keep(stream(), 1, messages...)
	f.replays(stream(), 0, messages...)
}

// The caller writes its next message over the one that it gave to the store.
func testCopies(f *fixture) {
	buf := []byte(`{"kept":1}`)
	if err := f.store.Append(f.ctx, stream(), streamable.StoredEvent{Number: 1, Message: buf}); err != nil {
		f.Fatalf("Append: %v", err)
	}
	copy(buf, `{"lost":2}`)
	f.replays(stream(), 0, `{"kept":1}`)
}

// Of a stream without events nothing is known, not even that there are none.
func testUnknownStream(f *fixture) {
	for _, after := range []int64{0, 1, math.MaxInt64} {
		f.purged(stream(), after)
	}
	f.keep(stream(), 1, `1`)
	f.purged(streamable.StreamID{Session: "session", Stream: "other"}, 0)
	f.purged(streamable.StreamID{Session: "other", Stream: "stream"}, 0)
	f.purged(streamable.StreamID{}, 0)
}

// A store may see a stream for the first time in the middle: it has lost the rest.
func testFirstNumber(f *fixture) {
	f.keep(stream(), 5, `5`, `6`)
	f.replays(stream(), 4, `5`, `6`)
	f.replays(stream(), 5, `6`)
	f.replays(stream(), 6)
	for after := range int64(4) {
		f.purged(stream(), after)
	}
}

// A number that does not follow the last one is refused, and changes nothing.
func testGaps(f *fixture) {
	for _, first := range []int64{0, -1, math.MinInt64} {
		f.refuses(first)
	}
	f.purged(stream(), 0)
	f.keep(stream(), 1, `1`, `2`)
	for _, number := range []int64{4, 2, 1, 0, -1, math.MaxInt64, math.MinInt64} {
		f.refuses(number)
	}
	f.replays(stream(), 0, `1`, `2`)
	f.keep(stream(), 3, `3`)
	f.replays(stream(), 1, `2`, `3`)
}

func (f *fixture) refuses(number int64) {
	f.Helper()
	event := streamable.StoredEvent{Number: number, Message: []byte(`"refuse me"`)}
	if err := f.store.Append(f.ctx, stream(), event); err == nil {
		f.Errorf("Append of event %d was not refused", number)
	}
}

// A big event is kept, or it is lost and the store says so; the next one is kept.
func testBigEvents(f *fixture) {
	for i, size := range []int{1 << 16, 1 << 20, 16 << 20} {
		before, big := int64(3*i+1), int64(3*i+2)
		message := `"` + strings.Repeat("x", size) + `"`
		f.keep(stream(), before, `"before"`, message, `"behind"`)
		f.replays(stream(), big, `"behind"`)
		switch events, err := f.store.After(f.ctx, stream(), before); {
		case err != nil:
			f.purged(stream(), before)
		case len(events) != 2:
			f.Errorf("After(%d): %d events, want 2 or ErrPurged", before, len(events))
		default:
			f.replays(stream(), before, message, `"behind"`)
		}
	}
}
