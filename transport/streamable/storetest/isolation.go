package storetest

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/dovetail-go/dovetail/transport/streamable"
)

// names are pairs that are the same when they are put together carelessly.
func names() []streamable.StreamID {
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

// Each stream has numbers and events of its own.
func testStreams(f *fixture) {
	for i, id := range names() {
		f.purged(id, 0)
		f.keep(id, 1, fmt.Sprintf(`{"stream":%d}`, i))
	}
	for i, id := range names() {
		f.keep(id, 2, fmt.Sprintf(`{"second of":%d}`, i))
	}
	for i, id := range names() {
		f.replays(id, 0, fmt.Sprintf(`{"stream":%d}`, i), fmt.Sprintf(`{"second of":%d}`, i))
	}
}

// A stream belongs to one session, even if another has one of that name.
func testSessions(f *fixture) {
	mine := streamable.StreamID{Session: "mine", Stream: "stream"}
	theirs := streamable.StreamID{Session: "theirs", Stream: "stream"}
	f.keep(theirs, 1, `"theirs 1"`, `"theirs 2"`)
	f.purged(mine, 0)
	f.purged(mine, 1)
	f.keep(mine, 1, `"mine 1"`)
	f.replays(mine, 0, `"mine 1"`)
	f.replays(mine, 1)
	f.replays(theirs, 0, `"theirs 1"`, `"theirs 2"`)
}

// Forget drops all of one session and nothing of others.
func testForget(f *fixture) {
	f.forget("nobody")
	for _, id := range names() {
		f.keep(id, 1, `"kept"`)
	}
	f.forget("a")
	f.forget("a") // again
	for _, id := range names() {
		if id.Session == "a" {
			f.purged(id, 0)
			f.purged(id, 1)
		} else {
			f.replays(id, 0, `"kept"`)
		}
	}
}

const (
	users  = 8
	events = 100 // of each
)

// Streams are written and read at the same time; what is read has no gap in it and
// is the stream's own.
func testConcurrency(f *fixture) {
	var all sync.WaitGroup
	for i := range users {
		id := streamable.StreamID{Session: fmt.Sprint("session ", i/2), Stream: fmt.Sprint("stream ", i)}
		written := make(chan struct{})
		all.Go(func() {
			defer close(written)
			for number := range int64(events) {
				f.keep(id, number+1, ownMessage(id, number+1))
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

// Sessions end while others go on.
func testConcurrentForget(f *fixture) {
	var all sync.WaitGroup
	for i := range users {
		all.Go(func() {
			for round := range events {
				id := streamable.StreamID{Session: fmt.Sprintf("session %d.%d", i, round), Stream: "stream"}
				f.keep(id, 1, `"first"`, `"second"`)
				f.replays(id, 1, `"second"`)
				f.forget(id.Session)
				f.purged(id, 1)
			}
		})
	}
	all.Wait()
}
