package storetest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/dovetail-go/dovetail/transport/store"
)

// create creates a value that does not expire.
func (f *fixture) create(key, value string) (revision uint64) {
	f.Helper()
	revision, err := f.store.Create(f.ctx, key, []byte(value), 0)
	if err != nil {
		f.Fatalf("Create(%.50q): %v", key, err)
	}
	return revision
}

// wantValue checks a value at both replicas.
func (f *fixture) wantValue(key, want string) {
	f.Helper()
	for _, s := range f.replicas() {
		item, err := s.Get(f.ctx, key)
		if err != nil || item.Key != key || item.Revision == 0 || item.Deleted {
			f.Errorf("Get(%.50q): %.200v, %v", key, item, err)
			continue
		}
		f.wantBytes("Get", item.Value, []byte(want))
	}
}

// wantNone checks that no replica has a value.
func (f *fixture) wantNone(key string) {
	f.Helper()
	for _, s := range f.replicas() {
		_, err := s.Get(f.ctx, key)
		f.wantError("Get of a missing key", err, store.ErrNotFound)
	}
}

// Create creates a value once.
func testCreate(f *fixture) {
	f.wantNone("a")
	f.create("a", "first")
	f.wantValue("a", "first")
	for _, s := range f.replicas() {
		_, err := s.Create(f.ctx, "a", []byte("second"), time.Minute)
		f.wantError("Create of a key that exists", err, store.ErrExists)
	}
	f.wantValue("a", "first")
	_, err := f.store.Create(f.ctx, "b", nil, -time.Second)
	if err == nil {
		f.Error("Create with a negative time to live succeeded")
	}
	f.wantNone("b")
}

// Update replaces the value with the given revision and no other.
func testUpdate(f *fixture) {
	for _, revision := range []uint64{0, 1, 1 << 40} {
		_, err := f.store.Update(f.ctx, "a", []byte("new"), revision, 0)
		f.wantError(fmt.Sprintf("Update(%d) of a missing key", revision), err, store.ErrConflict)
	}
	f.wantNone("a")
	first := f.create("a", "first")
	other := f.create("b", "other")
	second, err := f.other.Update(f.ctx, "a", []byte("second"), first, 0)
	f.ok(err)
	f.wantValue("a", "second")
	for _, revision := range []uint64{0, first, other, second + 1000} {
		_, err := f.store.Update(f.ctx, "a", []byte("third"), revision, 0)
		f.wantError(fmt.Sprintf("Update(%d) of revision %d", revision, second), err, store.ErrConflict)
	}
	f.wantValue("a", "second")
	if item, err := f.store.Get(f.ctx, "a"); err != nil || item.Revision != second {
		f.Errorf("the revision is %d, %v, but Update returned %d", item.Revision, err, second)
	}
	if _, err := f.store.Update(f.ctx, "a", nil, second, -time.Second); err == nil {
		f.Error("Update with a negative time to live succeeded")
	}
	f.wantValue("b", "other")
}

// Delete deletes the value with the given revision, or any value.
func testDelete(f *fixture) {
	f.ok(f.store.Delete(f.ctx, "a", 0))
	f.wantError("Delete(1) of a missing key", f.store.Delete(f.ctx, "a", 1), store.ErrConflict)
	first := f.create("a", "first")
	second, err := f.store.Update(f.ctx, "a", []byte("second"), first, 0)
	f.ok(err)
	for _, revision := range []uint64{first, second + 1000} {
		err := f.store.Delete(f.ctx, "a", revision)
		f.wantError(fmt.Sprintf("Delete(%d) of revision %d", revision, second), err, store.ErrConflict)
	}
	f.wantValue("a", "second")
	f.ok(f.other.Delete(f.ctx, "a", second))
	f.wantNone("a")
	f.wantError("Delete again", f.store.Delete(f.ctx, "a", second), store.ErrConflict)
	_, err = f.store.Update(f.ctx, "a", []byte("third"), second, 0)
	f.wantError("Update after Delete", err, store.ErrConflict)
	f.create("a", "third")
	f.ok(f.store.Delete(f.ctx, "a", 0))
	f.wantNone("a")
}

// The revisions of a key increase, even if it is deleted in between.
func testRevisions(f *fixture) {
	last := uint64(0)
	check := func(operation string, revision uint64, err error) {
		f.Helper()
		f.ok(err)
		if revision <= last {
			f.Errorf("%s returned revision %d after %d", operation, revision, last)
		}
		last = revision
		if item, err := f.store.Get(f.ctx, "a"); err != nil || item.Revision != revision {
			f.Errorf("Get after %s returned revision %d, %v, want %d", operation, item.Revision, err, revision)
		}
	}
	for range 5 {
		revision, err := f.store.Create(f.ctx, "a", []byte("same"), time.Hour)
		check("Create", revision, err)
		for _, s := range f.replicas() {
			revision, err = s.Update(f.ctx, "a", []byte("same"), last, time.Hour)
			check("Update", revision, err)
		}
		f.ok(f.store.Delete(f.ctx, "a", last))
	}
}

// awaitExpiry waits until a value has expired. It fails if that is before a time.
func (f *fixture) awaitExpiry(key string, begin time.Time, ttl time.Duration) {
	f.Helper()
	f.eventually("the expiry of a value", func() bool {
		_, err := f.other.Get(f.ctx, key)
		if !errors.Is(err, store.ErrNotFound) {
			f.ok(err)
			return false
		}
		return true
	})
	if d := time.Since(begin); d < ttl-tolerance {
		f.Errorf("a value expired after %v, its time to live is %v", d, ttl)
	}
}

// A value expires after its time to live, rounded up to whole seconds.
func testExpiry(f *fixture) {
	f.create("stays", "value")
	begin := time.Now()
	for key, ttl := range map[string]time.Duration{"1ms": time.Millisecond, "1100ms": 1100 * time.Millisecond, "1h": time.Hour} {
		_, err := f.store.Create(f.ctx, key, []byte("value"), ttl)
		f.ok(err)
	}
	if time.Since(begin) < time.Second/2 {
		f.wantValue("1ms", "value")
	}
	_, err := f.store.Create(f.ctx, "recreated", nil, time.Second)
	f.ok(err)
	f.ok(f.store.Delete(f.ctx, "recreated", 0))
	f.create("recreated", "again")
	f.awaitExpiry("1ms", begin, time.Second)
	f.awaitExpiry("1100ms", begin, 2*time.Second)
	f.wantNone("1ms")
	f.wantNone("1100ms")
	for _, key := range []string{"stays", "1h"} {
		f.wantValue(key, "value")
	}
	f.create("1ms", "again")
	f.wantValue("1ms", "again")
	f.wantValue("recreated", "again") // the time to live of the value before is of no effect
	f.ok(f.store.Delete(f.ctx, "1100ms", 0))
}

// Update begins the time to live again. A value that has expired has no revision.
func testExpiryOfUpdates(f *fixture) {
	expires, err := f.store.Create(f.ctx, "expires", []byte("1"), 3*time.Second)
	f.ok(err)
	stays, err := f.store.Create(f.ctx, "stays", []byte("1"), 3*time.Second)
	f.ok(err)
	later := f.create("later", "1")
	f.wait(1200 * time.Millisecond)
	begin := time.Now()
	expires, err = f.store.Update(f.ctx, "expires", []byte("2"), expires, 3*time.Second)
	f.ok(err)
	_, err = f.store.Update(f.ctx, "stays", []byte("2"), stays, 0)
	f.ok(err)
	later, err = f.store.Update(f.ctx, "later", []byte("2"), later, time.Second)
	f.ok(err)
	f.awaitExpiry("later", begin, time.Second)
	f.awaitExpiry("expires", begin, 3*time.Second)
	f.wantValue("stays", "2")

	_, err = f.store.Update(f.ctx, "expires", []byte("3"), expires, 0)
	f.wantError("Update after the expiry", err, store.ErrConflict)
	f.wantError("Delete after the expiry", f.store.Delete(f.ctx, "expires", expires), store.ErrConflict)
	if again := f.create("later", "3"); again <= later {
		f.Errorf("Create after the expiry returned revision %d after %d", again, later)
	}
}

// Concurrent updates by revision lose no update.
func testConcurrentUpdates(f *fixture) {
	const workers, rounds = 8, 10
	f.create("counter", string(make([]byte, 8)))
	concurrently(workers, func(i int) {
		s := f.replicas()[i%2]
		for range rounds {
			for {
				item, err := s.Get(f.ctx, "counter")
				if err != nil || len(item.Value) != 8 {
					f.Errorf("Get: %v, %v", item, err)
					return
				}
				runtime.Gosched() // lets others update the value
				next := binary.BigEndian.AppendUint64(nil, binary.BigEndian.Uint64(item.Value)+1)
				if _, err = s.Update(f.ctx, "counter", next, item.Revision, 0); err == nil {
					break
				}
				if !errors.Is(err, store.ErrConflict) {
					f.Errorf("Update: %v", err)
					return
				}
			}
		}
	})
	f.wantValue("counter", string(binary.BigEndian.AppendUint64(nil, workers*rounds)))
}

// Of concurrent calls of Create, and of Delete by revision, one succeeds.
func testConcurrentCreates(f *fixture) {
	for round := range 10 {
		key := fmt.Sprint("key", round)
		var created, deleted atomic.Int32
		var revision atomic.Uint64
		concurrently(6, func(i int) {
			r, err := f.replicas()[i%2].Create(f.ctx, key, []byte{byte(i)}, 0)
			if err == nil {
				created.Add(1)
				revision.Store(r)
			} else {
				f.wantError("Create", err, store.ErrExists)
			}
		})
		concurrently(6, func(i int) {
			if err := f.replicas()[i%2].Delete(f.ctx, key, revision.Load()); err == nil {
				deleted.Add(1)
			} else {
				f.wantError("Delete", err, store.ErrConflict)
			}
		})
		if created.Load() != 1 || deleted.Load() != 1 {
			f.Errorf("%d calls of Create and %d of Delete succeeded, want 1", created.Load(), deleted.Load())
		}
	}
}

// watch collects what a Watch yields.
func (f *fixture) watch(s store.Store, prefix string) <-chan yielded[store.Item] {
	return collect(f, func(ctx context.Context) iter.Seq2[store.Item, error] { return s.Watch(ctx, prefix) })
}

// Watch yields the values below a prefix.
func testWatchValues(f *fixture) {
	want := map[string]bool{"a/b": true, "a/b/c": true, "a/b/c/d": true, "a/b/-": true}
	for key := range want {
		f.create(key, "value of "+key)
	}
	for _, key := range []string{"a", "a/bc", "a/B", "a/c", "b", "b/a/b", "a/a/b", "a-b/c"} {
		f.create(key, "other")
	}
	f.create("a/b/deleted", "value")
	f.ok(f.store.Delete(f.ctx, "a/b/deleted", 0))
	changes := f.watch(f.other, "a/b")
	for len(want) > 0 {
		item := nextOf(f, "Watch", changes)
		if !want[item.Key] || string(item.Value) != "value of "+item.Key || item.Deleted || item.Revision == 0 {
			f.Errorf("Watch yields %+v, want the values of %v", item, want)
		}
		delete(want, item.Key)
	}
	// Nothing else has been yielded if this is next.
	f.create("a/c2", "other")
	f.create("a/b/new", "new")
	if item := nextOf(f, "Watch", changes); item.Key != "a/b/new" {
		f.Errorf("Watch yields %+v, want a/b/new", item)
	}
}

// Watch yields each change that another replica makes.
func testWatchChanges(f *fixture) {
	watches := []<-chan yielded[store.Item]{f.watch(f.store, "a"), f.watch(f.other, "a"), f.watch(f.other, "a/b")}
	want := func(operation, value string, revision uint64, deleted bool) (item store.Item) {
		f.Helper()
		for _, changes := range watches {
			item = nextOf(f, "Watch after "+operation, changes)
			if item.Key != "a/b" || string(item.Value) != value || item.Revision < revision ||
				item.Deleted != deleted || !deleted && item.Revision != revision {
				f.Errorf("Watch yields %+v after %s at revision %d", item, operation, revision)
			}
		}
		return item
	}
	for range 2 {
		revision := f.create("a/b", "1")
		want("Create", "1", revision, false)
		revision, err := f.store.Update(f.ctx, "a/b", []byte("2"), revision, 0)
		f.ok(err)
		want("Update", "2", revision, false)
		_, err = f.store.Update(f.ctx, "a/b", []byte("3"), revision-1, 0)
		f.wantError("Update", err, store.ErrConflict)
		f.ok(f.store.Delete(f.ctx, "a/b", revision))
		deletion := want("Delete", "", revision+1, true).Revision
		_, err = f.store.Update(f.ctx, "a/b", []byte("4"), deletion, 0)
		f.wantError("Update with the revision of a deletion", err, store.ErrConflict)
		f.wantError("Delete with the revision of a deletion", f.store.Delete(f.ctx, "a/b", deletion), store.ErrConflict)
		f.ok(f.store.Delete(f.ctx, "a/b", 0)) // no change
	}
}

// While values change often, a Watch yields increasing revisions of each, and the last one.
func testWatchOrder(f *fixture) {
	const keys, rounds = 3, 20
	watches := []<-chan yielded[store.Item]{f.watch(f.store, "a"), f.watch(f.other, "a")}
	concurrently(keys, func(i int) {
		key, s := fmt.Sprint("a/", i), f.replicas()[i%2]
		for round := range rounds {
			revision, err := s.Create(f.ctx, key, []byte{byte(round)}, 0)
			if err == nil && round%2 == 0 {
				revision, err = s.Update(f.ctx, key, []byte{byte(round)}, revision, time.Hour)
			}
			if err == nil && round < rounds-1 {
				err = s.Delete(f.ctx, key, revision)
			}
			if err != nil {
				f.Errorf("round %d of %s: %v", round, key, err)
				return
			}
		}
	})
	for _, changes := range watches {
		last := map[string]uint64{}
		for complete := 0; complete < keys && !f.Failed(); {
			item := nextOf(f, "Watch", changes)
			if item.Revision <= last[item.Key] {
				f.Errorf("Watch yields revision %d of %s after %d", item.Revision, item.Key, last[item.Key])
			}
			last[item.Key] = item.Revision
			if string(item.Value) == string(byte(rounds-1)) && !item.Deleted {
				if now, err := f.store.Get(f.ctx, item.Key); err != nil || now.Revision != item.Revision {
					f.Errorf("Watch yields revision %d of %s as its last, Get returns %d, %v", item.Revision, item.Key, now.Revision, err)
				}
				complete++
			}
		}
	}
}

// Watch does not yield that a value has expired, and goes on. A value that expires before a slow store has passed it on may be
// missing.
func testWatchExpiry(f *fixture) {
	changes := f.watch(f.other, "a")
	begin := time.Now()
	_, err := f.store.Create(f.ctx, "a/expires", []byte("value"), time.Second)
	f.ok(err)
	f.awaitExpiry("a/expires", begin, time.Second)
	f.wait(time.Second)
	f.create("a/next", "value")
	item := nextOf(f, "Watch", changes)
	if item.Key == "a/expires" && !item.Deleted && string(item.Value) == "value" {
		item = nextOf(f, "Watch", changes)
	}
	if item.Key != "a/next" {
		f.Errorf("Watch yields %+v, want a/next", item)
	}
	f.create("a/expires", "again")
	if item := nextOf(f, "Watch", changes); item.Key != "a/expires" || string(item.Value) != "again" {
		f.Errorf("Watch yields %+v, want the new value of a/expires", item)
	}
}
