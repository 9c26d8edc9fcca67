package storetest

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"

	"github.com/dovetail-go/dovetail/transport/streamable"
)

// stream returns the stream of tests that need only one.
func stream() streamable.StreamID { return streamable.StreamID{Session: "session", Stream: "stream"} }

// manyEvents is how many events a store must keep.
const manyEvents = 1000

// Events are returned oldest first, after any number that a client may have seen.
func testOrder(f *fixture) {
	messages := make([]string, manyEvents)
	for i := range messages {
		messages[i] = fmt.Sprintf(`{"event":%d,"pad":"%0*d"}`, i+1, i, 0)
	}
	for i, message := range messages {
		f.append(stream(), int64(i+1), message)
		if i%97 == 0 {
			f.checkReplay(stream(), int64(i), message)
			f.checkReplay(stream(), int64(i+1))
		}
	}
	for _, after := range []int{0, 1, 2, 9, 10, 11, 99, 100, 255, 256, 500, manyEvents - 2, manyEvents - 1, manyEvents} {
		f.checkReplay(stream(), int64(after), messages[after:]...)
	}
	for _, after := range []int64{manyEvents + 1, math.MaxInt32 + 1, math.MaxInt64} {
		f.checkReplay(stream(), after) // there are no newer ones
	}
	for _, after := range []int64{-1, math.MinInt64} {
		if events, err := f.store.After(f.ctx, stream(), after); err != nil || len(events) != manyEvents {
			f.Errorf("After(%d): %d events, error %v, want all %d", after, len(events), err, manyEvents)
		}
	}
}

// Messages are returned byte for byte.
func testBytes(f *fixture) {
	messages := []string{
		`{}`, `[]`, `""`, `0`,
		` { "z" : 1, "a":2,"Z":3 } `,
		"{\n\t\"lines\": [\r\n1]}",
		`{"n":[9007199254740993,1.0,1e400,-0,0.1000]}`,
		`{"s":"\u0041\/\n\u2028<&>` + "\u2028\u00e9\U0001f600\x7f" + `"}`,
		`{"quotes":"'; DROP TABLE events; --","percent":"%s%00"}`,
	}
	f.append(stream(), 1, messages...)
	f.checkReplay(stream(), 0, messages...)
}

// The store copies messages, since the caller reuses their memory.
func testCopies(f *fixture) {
	buf := []byte(`{"kept":1}`)
	if err := f.store.Append(f.ctx, stream(), streamable.StoredEvent{Number: 1, Message: buf}); err != nil {
		f.Fatalf("Append: %v", err)
	}
	copy(buf, `{"lost":2}`)
	f.checkReplay(stream(), 0, `{"kept":1}`)
}

// A stream without events is unknown, whatever the number.
func testUnknownStream(f *fixture) {
	for _, after := range []int64{0, 1, math.MaxInt64} {
		f.checkPurged(stream(), after)
	}
	f.append(stream(), 1, `1`)
	f.checkPurged(streamable.StreamID{Session: "session", Stream: "other"}, 0)
	f.checkPurged(streamable.StreamID{Session: "other", Stream: "stream"}, 0)
	f.checkPurged(streamable.StreamID{}, 0)
}

// The first event of a stream may have any number, since the store may have lost earlier
// ones.
func testFirstNumber(f *fixture) {
	f.append(stream(), 5, `5`, `6`)
	f.checkReplay(stream(), 4, `5`, `6`)
	f.checkReplay(stream(), 5, `6`)
	f.checkReplay(stream(), 6)
	for after := range int64(4) {
		f.checkPurged(stream(), after)
	}
}

// A number that does not follow the last one is refused and changes nothing.
func testGaps(f *fixture) {
	for _, first := range []int64{0, -1, math.MinInt64} {
		f.checkRefused(first)
	}
	f.checkPurged(stream(), 0)
	f.append(stream(), 1, `1`, `2`)
	for _, number := range []int64{4, 2, 1, 0, -1, math.MaxInt64, math.MinInt64} {
		f.checkRefused(number)
	}
	f.checkReplay(stream(), 0, `1`, `2`)
	f.append(stream(), 3, `3`)
	f.checkReplay(stream(), 1, `2`, `3`)
}

func (f *fixture) checkRefused(number int64) {
	f.Helper()
	event := streamable.StoredEvent{Number: number, Message: []byte(`"refuse me"`)}
	if err := f.store.Append(f.ctx, stream(), event); err == nil {
		f.Errorf("Append of event %d was not refused", number)
	}
}

// A long event is stored, or After returns ErrPurged. The next event is stored.
func testBigEvents(f *fixture) {
	for i, size := range []int{1 << 16, 1 << 20, 16 << 20} {
		before, big := int64(3*i+1), int64(3*i+2)
		message := `"` + strings.Repeat("x", size) + `"`
		f.append(stream(), before, `"before"`, message, `"behind"`)
		f.checkReplay(stream(), big, `"behind"`)
		switch events, err := f.store.After(f.ctx, stream(), before); {
		case err != nil:
			f.checkPurged(stream(), before)
		case len(events) != 2:
			f.Errorf("After(%d): %d events, want 2 or ErrPurged", before, len(events))
		default:
			f.checkReplay(stream(), before, message, `"behind"`)
		}
	}
}

// streamIDs returns ids that are equal if session and stream are joined carelessly.
func streamIDs() []streamable.StreamID {
	return []streamable.StreamID{
		{Session: "a", Stream: "bc"}, {Session: "ab", Stream: "c"},
		{Session: "a/b", Stream: "c"}, {Session: "a", Stream: "b/c"},
		{Session: "a:b", Stream: "c"}, {Session: "a", Stream: "b:c"},
		{Session: "a%2Fb", Stream: "c"}, {Session: "A", Stream: "BC"},
		{Session: "a*", Stream: "bc"}, {Session: "a", Stream: "b?"},
		{Session: "a", Stream: "b"}, {Session: "b", Stream: "a"},
		{Session: "..", Stream: "a"}, {Session: ".", Stream: "../a"},
		{Session: "a", Stream: strings.Repeat("b", 300)}, {Session: "a", Stream: strings.Repeat("b", 301)},
	}
}

// Each stream has its own numbers and events.
func testStreams(f *fixture) {
	for i, id := range streamIDs() {
		f.checkPurged(id, 0)
		f.append(id, 1, fmt.Sprintf(`{"stream":%d}`, i))
	}
	for i, id := range streamIDs() {
		f.append(id, 2, fmt.Sprintf(`{"second of":%d}`, i))
	}
	for i, id := range streamIDs() {
		f.checkReplay(id, 0, fmt.Sprintf(`{"stream":%d}`, i), fmt.Sprintf(`{"second of":%d}`, i))
	}
}

// A stream belongs to one session, even if another session has a stream of that name.
func testSessions(f *fixture) {
	mine := streamable.StreamID{Session: "mine", Stream: "stream"}
	theirs := streamable.StreamID{Session: "theirs", Stream: "stream"}
	f.append(theirs, 1, `"theirs 1"`, `"theirs 2"`)
	f.checkPurged(mine, 0)
	f.checkPurged(mine, 1)
	f.append(mine, 1, `"mine 1"`)
	f.checkReplay(mine, 0, `"mine 1"`)
	f.checkReplay(mine, 1)
	f.checkReplay(theirs, 0, `"theirs 1"`, `"theirs 2"`)
}

// Forget deletes everything of one session and nothing else.
func testForget(f *fixture) {
	f.forget("nobody")
	for _, id := range streamIDs() {
		f.append(id, 1, `"kept"`)
	}
	f.forget("a")
	f.forget("a") // again
	for _, id := range streamIDs() {
		if id.Session == "a" {
			f.checkPurged(id, 0)
			f.checkPurged(id, 1)
		} else {
			f.checkReplay(id, 0, `"kept"`)
		}
	}
}

const (
	users  = 8
	events = 100 // of each
)

// Streams are written and read concurrently. A reader sees no gap and no foreign event.
func testConcurrency(f *fixture) {
	var all sync.WaitGroup
	for i := range users {
		id := streamable.StreamID{Session: fmt.Sprint("session ", i/2), Stream: fmt.Sprint("stream ", i)}
		written := make(chan struct{})
		all.Go(func() {
			defer close(written)
			for number := range int64(events) {
				f.append(id, number+1, ownMessage(id, number+1))
			}
		})
		all.Go(func() { f.follow(id, written) })
	}
	all.Wait()
}

// follow reads a stream until it has all events.
func (f *fixture) follow(id streamable.StreamID, written <-chan struct{}) {
	seen := int64(0)
	for last := false; !last; {
		select {
		case <-written:
			last = true
		default:
		}
		found, err := f.store.After(f.ctx, id, seen)
		if errors.Is(err, streamable.ErrPurged) && seen == 0 && !last {
			continue // its first event has not been written
		}
		if err != nil {
			f.Errorf("After(%q, %d): %v", id, seen, err)
			return
		}
		for _, event := range found {
			seen++
			if event.Number != seen || string(event.Message) != ownMessage(id, seen) {
				f.Errorf("%q: event %d is %.100s, want event %d, %s", id, event.Number, event.Message, seen, ownMessage(id, seen))
				return
			}
		}
	}
	if seen != events {
		f.Errorf("%q: %d events were read, want %d", id, seen, events)
	}
}

func ownMessage(id streamable.StreamID, number int64) string {
	return fmt.Sprintf(`{"session":%q,"stream":%q,"number":%d}`, id.Session, id.Stream, number)
}

// Sessions end while others continue.
func testConcurrentForget(f *fixture) {
	var all sync.WaitGroup
	for i := range users {
		all.Go(func() {
			for round := range events {
				id := streamable.StreamID{Session: fmt.Sprintf("session %d.%d", i, round), Stream: "stream"}
				f.append(id, 1, `"first"`, `"second"`)
				f.checkReplay(id, 1, `"second"`)
				f.forget(id.Session)
				f.checkPurged(id, 1)
			}
		})
	}
	all.Wait()
}
