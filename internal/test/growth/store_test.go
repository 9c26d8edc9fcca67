//go:build soak

package growth

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/transport/store"
)

func newStore(tb testing.TB) store.Store {
	tb.Helper()
	s, err := store.NewMemory(&store.MemoryOptions{Bytes: 1 << 30})
	must(tb, err)
	tb.Cleanup(func() { must(tb, s.Close()) })
	return s
}

// storeRows are those of a store in memory.
func storeRows() []row {
	return []row{
		{of: "keys of a store in memory", operation: "get and update of one", n: 1000, prepare: func(tb testing.TB, n int) func() {
			s := newStore(tb)
			createKeys(tb, s, n)
			return func() {
				item, err := s.Get(tb.Context(), keyName(0))
				must(tb, err)
				_, err = s.Update(tb.Context(), keyName(0), item.Value, item.Revision, time.Hour)
				must(tb, err)
			}
		}},
		{of: "keys of a store in memory", operation: "creation and deletion of one", n: 1000, prepare: func(tb testing.TB, n int) func() {
			s := newStore(tb)
			createKeys(tb, s, n)
			return func() {
				_, err := s.Create(tb.Context(), "other/key", []byte("value"), time.Minute)
				must(tb, err)
				must(tb, s.Delete(tb.Context(), "other/key", 0))
			}
		}},
		{of: "keys of a store in memory", operation: "watch of another key, to its first value", n: 1000, reason: "each key is compared with the prefix", prepare: func(tb testing.TB, n int) func() {
			s := newStore(tb)
			createKeys(tb, s, n)
			_, err := s.Create(tb.Context(), "other/key", []byte("value"), time.Minute)
			must(tb, err)
			return func() {
				for _, err := range s.Watch(tb.Context(), "other") {
					must(tb, err)
					break
				}
			}
		}},
		{of: "watches of a store in memory", operation: "update of another key", n: 50, prepare: func(tb testing.TB, n int) func() {
			s := newStore(tb)
			createKeys(tb, s, n)
			for i := range n {
				inBackground(tb, func(ctx context.Context, begun func()) {
					for range s.Watch(ctx, keyName(i)) {
						begun()
					}
				})
			}
			_, err := s.Create(tb.Context(), "other/key", []byte("value"), time.Minute)
			must(tb, err)
			return func() {
				item, err := s.Get(tb.Context(), "other/key")
				must(tb, err)
				_, err = s.Update(tb.Context(), "other/key", item.Value, item.Revision, time.Minute)
				must(tb, err)
			}
		}},
		{of: "streams of a store in memory", operation: "append to one", n: 500, prepare: func(tb testing.TB, n int) func() {
			s := newStore(tb)
			for i := range n {
				_, err := s.Append(tb.Context(), keyName(i), []byte("value"))
				must(tb, err)
			}
			return func() {
				_, err := s.Append(tb.Context(), keyName(0), []byte("value"))
				must(tb, err)
			}
		}},
		{of: "entries of a stream of a store in memory", operation: "append, and read of the newest", n: 500, prepare: func(tb testing.TB, n int) func() {
			s := newStore(tb)
			last := appendEntries(tb, s, n)
			return func() {
				id, err := s.Append(tb.Context(), "stream", []byte("value"))
				must(tb, err)
				for entry, err := range s.Read(tb.Context(), "stream", last) {
					must(tb, err)
					last = entry.ID
				}
				if last != id {
					tb.Fatalf("the newest entry that was read has the id %d, expected %d", last, id)
				}
			}
		}},
		{of: "entries of a stream of a store in memory", operation: "read of the oldest", n: 500, reason: "the entry is found from the end of the stream, which has at most 10,000", prepare: func(tb testing.TB, n int) func() {
			s := newStore(tb)
			first := appendEntries(tb, s, 1)
			appendEntries(tb, s, n)
			return func() {
				for _, err := range s.Read(tb.Context(), "stream", first) {
					must(tb, err)
					break
				}
			}
		}},
		{of: "jobs of a queue of a store in memory", operation: "push, pull and acknowledgement of one", n: 500, prepare: func(tb testing.TB, n int) func() {
			s := newStore(tb)
			id := 0
			push := func() {
				id++
				must(tb, s.Push(tb.Context(), "queue", fmt.Sprint(id), []byte("value")))
			}
			for range n {
				push()
			}
			return func() {
				push()
				job, err := s.Pull(tb.Context(), "queue")
				must(tb, err)
				must(tb, s.Ack(tb.Context(), job))
			}
		}},
		{of: "subjects of a store in memory", operation: "message to one", n: 50, prepare: func(tb testing.TB, n int) func() {
			s, arrived := newStore(tb), newCounter(tb)
			for i := range n {
				_, err := s.Subscribe(tb.Context(), keyName(i), func(context.Context, store.Message) { arrived.add() })
				must(tb, err)
			}
			return func() {
				must(tb, s.Publish(tb.Context(), keyName(0), []byte("value")))
				arrived.wait(1)
			}
		}},
		{of: "subscribers of a subject of a store in memory", operation: "message to all", n: 50, whole: true, prepare: func(tb testing.TB, n int) func() {
			s, arrived := newStore(tb), newCounter(tb)
			for range n {
				_, err := s.Subscribe(tb.Context(), "subject", func(context.Context, store.Message) { arrived.add() })
				must(tb, err)
			}
			return func() {
				must(tb, s.Publish(tb.Context(), "subject", []byte("value")))
				arrived.wait(n)
			}
		}},
	}
}

func keyName(i int) string { return fmt.Sprint("key/", i) }

func createKeys(tb testing.TB, s store.Store, n int) {
	tb.Helper()
	for i := range n {
		_, err := s.Create(tb.Context(), keyName(i), []byte("value"), time.Hour)
		must(tb, err)
	}
}

func appendEntries(tb testing.TB, s store.Store, n int) (last uint64) {
	tb.Helper()
	for range n {
		id, err := s.Append(tb.Context(), "stream", []byte("value"))
		must(tb, err)
		last = id
	}
	return last
}

// inBackground runs a function until the test ends, and waits until it has begun.
func inBackground(tb testing.TB, run func(ctx context.Context, begun func())) {
	tb.Helper()
	ctx, cancel := context.WithCancel(tb.Context())
	begun, ended := newCounter(tb), make(chan struct{})
	go func() {
		defer close(ended)
		run(ctx, sync.OnceFunc(begun.add))
	}()
	tb.Cleanup(func() {
		cancel()
		<-ended
	})
	begun.wait(1)
}
