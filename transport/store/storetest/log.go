package storetest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-go/dovetail/transport/store"
)

// append appends entries and returns their ids.
func (f *fixture) append(stream string, entries ...string) (ids []uint64) {
	f.Helper()
	for _, entry := range entries {
		id, err := f.store.Append(f.ctx, stream, []byte(entry))
		if err != nil {
			f.Fatalf("Append(%.50q): %v", stream, err)
		}
		ids = append(ids, id)
	}
	return ids
}

// read returns the entries after the one with an id.
func (f *fixture) read(s store.Store, stream string, after uint64) (ids []uint64, entries []string, failed error) {
	for entry, err := range s.Read(f.ctx, stream, after) {
		if failed != nil {
			return nil, nil, fmt.Errorf("reading went on after the error %w", failed)
		}
		if err != nil {
			failed = err
			continue
		}
		ids, entries = append(ids, entry.ID), append(entries, string(entry.Data))
	}
	return ids, entries, failed
}

// wantEntries checks the entries after the one with an id, at both replicas.
func (f *fixture) wantEntries(stream string, after uint64, want ...string) {
	f.Helper()
	for _, s := range f.replicas() {
		if _, got, err := f.read(s, stream, after); err != nil || !slices.Equal(got, want) {
			f.Errorf("Read(%.50q, %d): %.200q, %v, want %.200q", stream, after, got, err, want)
		}
	}
}

// wantPurged checks that neither replica can read the entries after one.
func (f *fixture) wantPurged(stream string, after uint64) {
	f.Helper()
	for _, s := range f.replicas() {
		_, got, err := f.read(s, stream, after)
		if len(got) > 0 || !errors.Is(err, store.ErrPurged) {
			f.Errorf("Read(%.50q, %d): %.200q, %v, want ErrPurged", stream, after, got, err)
		}
		for entry, err := range s.Follow(f.ctx, stream, after) {
			if !errors.Is(err, store.ErrPurged) {
				f.Errorf("Follow(%.50q, %d): %.200v, %v, want ErrPurged", stream, after, entry, err)
				break
			}
		}
	}
}

// numbers returns the numbers from first to last as entries.
func numbers(first, last int) []string {
	var entries []string
	for i := first; i <= last; i++ {
		entries = append(entries, fmt.Sprint(i))
	}
	return entries
}

// Entries are read in order after any of them, and their ids increase.
func testLogOrder(f *fixture) {
	entries := numbers(1, 300)
	other := f.append("b", "other")
	ids := f.append("a", entries...)
	f.append("b", "other")
	last := uint64(0)
	for _, id := range ids {
		if id <= last {
			f.Fatalf("Append returned the id %d after %d", id, last)
		}
		last = id
	}
	for _, s := range f.replicas() {
		got, _, err := f.read(s, "a", 0)
		if err != nil || !slices.Equal(got, ids) {
			f.Errorf("Read yields the ids %d, %v, want the ids of Append: %d", got, err, ids)
		}
	}
	f.wantEntries("a", 0, entries...)
	for _, i := range []int{0, 1, 62, 63, 64, 127, 128, 298, 299} {
		f.wantEntries("a", ids[i], entries[i+1:]...)
	}
	f.wantEntries("b", other[0], "other")
	for entry, err := range f.store.Read(f.ctx, "a", 0) { // a reader may end early
		f.ok(err)
		f.wantBytes("Read", entry.Data, []byte("1"))
		break
	}
}

// Entries after one that is not stored cannot be read.
func testLogUnknown(f *fixture) {
	f.wantEntries("a", 0)
	f.wantPurged("a", 1)
	f.wantPurged("a", 1<<63)
	ids := f.append("a", "1", "2")
	foreign := f.append("b", "1")
	f.wantPurged("a", ids[1]+1<<20)
	if ids[0] > 1 {
		f.wantPurged("a", ids[0]-1)
	}
	f.wantPurged("b", ids[1]+1<<20)
	f.wantPurged("c", foreign[0])
	f.wantPurged("a/b", ids[0])
	f.wantEntries("a", 0, "1", "2")
}

// A stream has a maximum number of entries. The oldest are deleted.
func testLogEntries(f *fixture) {
	n := f.limits.LogEntries
	f.append("b", numbers(1, n)...)
	ids := f.append("a", numbers(1, 3*n)...)
	f.wantEntries("a", 0, numbers(2*n+1, 3*n)...)
	f.wantEntries("a", ids[2*n], numbers(2*n+2, 3*n)...)
	f.wantEntries("a", ids[3*n-1])
	f.wantPurged("a", ids[2*n-1])
	f.wantPurged("a", ids[0])
	f.wantEntries("b", 0, numbers(1, n)...)
}

// awaitAge waits until a stream has no entries, and fails if that is too early.
func (f *fixture) awaitAge(stream string, begin time.Time) {
	f.Helper()
	f.eventually("the deletion of entries", func() bool {
		_, entries, err := f.read(f.store, stream, 0)
		f.ok(err)
		return len(entries) == 0
	})
	if d := time.Since(begin); d < f.limits.LogAge-tolerance {
		f.Errorf("entries were deleted after %v, they are stored for %v", d, f.limits.LogAge)
	}
}

// Entries are deleted when they reach an age.
func testLogAge(f *fixture) {
	begin := time.Now()
	ids := f.append("a", "old 1", "old 2")
	f.wantEntries("a", ids[0], "old 2")
	f.wait(f.limits.LogAge / 2)
	young := f.append("b", "young")
	f.awaitAge("a", begin)
	f.wantPurged("a", ids[0])
	f.wantPurged("a", ids[1])
	if time.Since(begin) < f.limits.LogAge*5/4 {
		f.wantEntries("b", 0, "young")
	}
	again := f.append("a", "new")
	f.wantEntries("a", 0, "new")
	f.wantEntries("a", again[0])
	f.wantPurged("a", ids[1])
	f.awaitAge("b", begin.Add(f.limits.LogAge/2))
	f.wantPurged("b", young[0])
}

// Drop deletes a stream. Later entries have greater ids.
func testLogDrop(f *fixture) {
	f.ok(f.store.Drop(f.ctx, "a"))
	kept := f.append("a/b", "kept")
	last := uint64(0)
	for range 20 {
		ids := f.append("a", "1", "2")
		if ids[0] <= last || ids[1] <= ids[0] {
			f.Errorf("ids %d after %d", ids, last)
		}
		f.ok(f.other.Drop(f.ctx, "a"))
		f.wantEntries("a", 0)
		f.wantPurged("a", ids[0])
		f.wantPurged("a", ids[1])
		last = ids[1]
	}
	f.append("a", "new")
	f.wantPurged("a", last)
	f.wantEntries("a", 0, "new")
	f.wantEntries("a/b", 0, "kept")
	f.wantEntries("a/b", kept[0])
}

// follow collects what a Follow yields.
func (f *fixture) follow(s store.Store, stream string, after uint64) <-chan yielded[store.Entry] {
	return collect(f, func(ctx context.Context) iter.Seq2[store.Entry, error] { return s.Follow(ctx, stream, after) })
}

// wantNext checks the next entries of a Follow.
func (f *fixture) wantNext(entries <-chan yielded[store.Entry], want ...string) {
	f.Helper()
	for _, data := range want {
		if entry := nextOf(f, "Follow", entries); string(entry.Data) != data {
			f.Fatalf("Follow yields %q, want %q", entry.Data, data)
		}
	}
}

// Follow yields the entries that are stored, and then new ones.
func testFollow(f *fixture) {
	early := []<-chan yielded[store.Entry]{f.follow(f.store, "a", 0), f.follow(f.other, "a", 0)}
	ids := f.append("a", numbers(1, 100)...)
	late := []<-chan yielded[store.Entry]{f.follow(f.store, "a", ids[49]), f.follow(f.other, "a", ids[49])}
	end := []<-chan yielded[store.Entry]{f.follow(f.store, "a", ids[99]), f.follow(f.other, "a", ids[99])}
	f.append("b", "other")
	f.append("a", numbers(101, 200)...)
	for i := range early {
		f.wantNext(early[i], numbers(1, 200)...)
		f.wantNext(late[i], numbers(51, 200)...)
		f.wantNext(end[i], numbers(101, 200)...)
	}
	ids = f.append("a", "last")
	for _, entries := range slices.Concat(early, late, end) {
		if entry := nextOf(f, "Follow", entries); entry.ID != ids[0] || string(entry.Data) != "last" {
			f.Errorf("Follow yields %v, want the entry %d", entry, ids[0])
		}
	}
}

// Follow goes on when all entries that it has yielded have been deleted.
func testFollowIdle(f *fixture) {
	begin := time.Now()
	ids := f.append("a", "1", "2")
	var all, empty []<-chan yielded[store.Entry]
	for _, s := range f.replicas() {
		all = append(all, f.follow(s, "a", 0), f.follow(s, "a", ids[0]))
		empty = append(empty, f.follow(s, "b", 0))
	}
	for i, entries := range all {
		f.wantNext(entries, numbers(1+i%2, 2)...)
	}
	f.awaitAge("a", begin)
	f.append("a", "3", "4")
	f.append("b", "3", "4")
	for _, entries := range append(all, empty...) {
		f.wantNext(entries, "3", "4")
	}
}

// A Follow that is too slow yields ErrPurged, and omits nothing before.
func testFollowSlowly(f *fixture) {
	n := 20 * f.limits.LogEntries
	for _, s := range f.replicas() {
		f.ok(f.store.Drop(f.ctx, "a"))
		f.append("a", "1")
		next := 1
		for entry, err := range s.Follow(f.ctx, "a", 0) {
			if errors.Is(err, store.ErrPurged) {
				break
			}
			f.ok(err)
			if string(entry.Data) != fmt.Sprint(next) {
				f.Fatalf("Follow yields %q after %d", entry.Data, next-1)
			}
			if next == 1 {
				f.append("a", numbers(2, n)...)
			}
			if next++; next > n {
				break // the store had buffered all
			}
		}
	}
}

// Many streams can be followed.
func testFollowMany(f *fixture) {
	const streams = 100
	var all []<-chan yielded[store.Entry]
	for i := range streams {
		all = append(all, f.follow(f.replicas()[i%2], fmt.Sprint("a/", i), 0))
	}
	for _, round := range []string{"first", "second"} {
		for i := range streams {
			f.append(fmt.Sprint("a/", i), fmt.Sprint(round, " of ", i))
		}
		for i, entries := range all {
			f.wantNext(entries, fmt.Sprint(round, " of ", i))
		}
	}
}

// Entries that are appended concurrently are each yielded once, in one order, at both replicas.
func testLogConcurrency(f *fixture) {
	const writers, each = 6, 20
	followers := []<-chan yielded[store.Entry]{f.follow(f.store, "a", 0), f.follow(f.other, "a", 0)}
	concurrently(writers, func(i int) {
		for n := range each {
			if _, err := f.replicas()[i%2].Append(f.ctx, "a", fmt.Appendf(nil, "%d:%d", i, n)); err != nil {
				f.Errorf("Append: %v", err)
				return
			}
		}
	})
	if f.Failed() {
		return
	}
	var orders []string
	for _, entries := range followers {
		last, next := uint64(0), [writers]int{}
		var order strings.Builder
		for range writers * each {
			entry := nextOf(f, "Follow", entries)
			var writer, number int
			if _, err := fmt.Sscanf(string(entry.Data), "%d:%d", &writer, &number); err != nil {
				f.Fatalf("Follow yields %q: %v", entry.Data, err)
			}
			if entry.ID <= last || number != next[writer] {
				f.Fatalf("Follow yields entry %d, %q, after entry %d, want number %d of this writer", entry.ID, entry.Data, last, next[writer])
			}
			last, next[writer] = entry.ID, number+1
			fmt.Fprintf(&order, "%s ", entry.Data)
		}
		orders = append(orders, order.String())
	}
	_, stored, err := f.read(f.store, "a", 0)
	f.ok(err)
	if want := strings.Join(stored, " ") + " "; orders[0] != want || orders[1] != want {
		f.Errorf("the followers have other orders than Read:\n%s\n%s\n%s", orders[0], orders[1], want)
	}
}
