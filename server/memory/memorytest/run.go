package memorytest

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/server/memory"
)

// Run tests the requirements of every store, each in a subtest. open returns an empty store.
// It is called once per subtest and may use t.Cleanup.
func Run(t *testing.T, open func(t *testing.T) memory.Store) {
	for _, property := range []struct {
		name string
		test func(f *fixture)
	}{
		{"Values", testValues},
		{"Keys", testKeys},
		{"Replacing", testReplacing},
		{"Missing", testMissing},
		{"Deleting", testDeleting},
		{"Order", testOrder},
		{"Prefixes", testPrefixes},
		{"Pages", testPages},
		{"Collections", testCollections},
		{"EndedContext", testEndedContext},
		{"Concurrency", testConcurrency},
		{"OneKey", testOneKey},
		{"OneDeletes", testOneDeletes},
	} {
		t.Run(property.name, func(t *testing.T) {
			f := newFixture(t)
			f.store = open(t)
			defer f.close()
			property.test(f)
		})
	}
}

// maxRecords is the limit of records in the tests of limits.
const maxRecords = 5

// RunLimits tests a store that enforces [memory.Limits]. open returns an empty store with the
// given limits. It is called once per subtest and may use t.Cleanup.
func RunLimits(t *testing.T, open func(t *testing.T, limits *memory.Limits) memory.Store) {
	for _, property := range []struct {
		name   string
		limits *memory.Limits
		test   func(f *fixture)
	}{
		{"Conversations", &memory.Limits{Conversations: maxRecords, Facts: -1}, testCounts(conversations(), memory.Collection{Owner: "another", Kind: memory.Conversations})},
		{"Facts", &memory.Limits{Facts: maxRecords, Conversations: -1}, testCounts(factsAbout("ann"), factsAbout("bob"))},
		{"OwnerBytes", &memory.Limits{OwnerBytes: maxBytes(), TotalBytes: -1}, testBytes("")},
		{"TotalBytes", &memory.Limits{TotalBytes: maxBytes(), OwnerBytes: -1}, testBytes("another")},
		{"OwnersApart", &memory.Limits{OwnerBytes: maxBytes()}, testOwnersApart},
		{"Defaults", nil, testDefaults},
		{"NoBounds", &memory.Limits{Conversations: -1, Facts: -1, OwnerBytes: -1, TotalBytes: -1}, testNoBounds},
		{"ConcurrentSaves", &memory.Limits{Conversations: maxRecords}, testConcurrentSaves},
	} {
		t.Run(property.name, func(t *testing.T) {
			f := newFixture(t)
			f.store = open(t, property.limits)
			defer f.close()
			property.test(f)
		})
	}
}

// wantFull checks that the store has no room for a record and keeps the old value.
func (f *fixture) wantFull(in memory.Collection, key, value string, limit int64) {
	f.Helper()
	before, errBefore := f.store.Load(f.ctx, in, key)
	err := f.store.Save(f.ctx, in, memory.Record{Key: key, Value: value})
	if full, ok := errors.AsType[*memory.FullError](err); !ok || full.Limit != limit {
		f.Errorf("Save(%+v, %q): %v, want a *FullError of limit %d", in, key, err, limit)
	}
	if after, errAfter := f.store.Load(f.ctx, in, key); after != before || !errors.Is(errAfter, errBefore) {
		f.Errorf("a rejected record has changed %q from %.50q, %v to %.50q, %v", key, before, errBefore, after, errAfter)
	}
}

// The number of records of a collection is bounded. Replaced records and other collections do
// not count.
func testCounts(in, other memory.Collection) func(f *fixture) {
	return func(f *fixture) {
		for i := range maxRecords {
			f.save(in, fmt.Sprint("key ", i), "value")
		}
		f.wantFull(in, "one more", "", maxRecords)
		f.save(in, "key 0", "a longer value")
		f.wantFull(in, "one more", "", maxRecords)
		for i := range maxRecords {
			f.save(other, fmt.Sprint("key ", i), "")
		}
		f.save(memory.Collection{Owner: in.Owner, Kind: memory.Facts, User: "else"}, "key", "")
		f.wantDelete(in, "key 1", true)
		f.wantDelete(in, "key 1", false)
		f.save(in, "one more", "")
		f.wantFull(in, "key 1", "", maxRecords)
	}
}

// fullValue is the length of a value of which maxRecords fill maxBytes.
const fullValue = 1000

func maxBytes() int64 {
	return maxRecords * memory.Size(conversations(), memory.Record{Key: "key 0", Value: strings.Repeat("x", fullValue)})
}

// The bytes of all collections count exactly, and released bytes can be used again. One
// collection belongs to the given owner.
func testBytes(owner string) func(f *fixture) {
	return func(f *fixture) {
		full := strings.Repeat("x", fullValue)
		for i := range maxRecords - 1 {
			f.save(conversations(), fmt.Sprint("key ", i), full)
		}
		other := memory.Collection{Owner: owner, Kind: memory.Facts, User: "ann"}
		exact := full[len(other.Owner)+len(other.User):] // names count, too
		f.wantFull(other, "key 4", exact+"x", maxBytes())
		f.save(other, "key 4", exact)

		f.wantFull(conversations(), "key 0", full+"x", maxBytes())
		f.wantFull(other, "key 5", "", maxBytes())
		f.save(conversations(), "key 0", full) // as large as before
		f.save(conversations(), "key 0", full[1:])
		f.save(conversations(), "key 1", full+"x")
		f.wantFull(conversations(), "key 0", full, maxBytes())
		f.wantDelete(conversations(), "key 1", true)
		f.save(conversations(), "key 0", full+full[1:])
		f.wantDelete(other, "key 4", true)
		f.save(conversations(), "key 4", full)
		f.save(conversations(), "key 0", "")
		f.save(conversations(), "key 5", full[:fullValue-1])
	}
}

// An owner at the limit does not affect other owners.
func testOwnersApart(f *fixture) {
	other := memory.Collection{Owner: "o", Kind: memory.Conversations}
	full := strings.Repeat("x", fullValue)
	for i := range maxRecords {
		f.save(conversations(), fmt.Sprint("key ", i), full)
	}
	f.wantFull(conversations(), "key", "", maxBytes())
	for i := range maxRecords {
		f.save(other, fmt.Sprint("key ", i), full[1:]) // the owner's name counts
	}
	f.wantFull(other, "key", "", maxBytes())
}

// nil limits mean the defaults.
func testDefaults(f *fixture) {
	for i := range 200 {
		f.save(factsAbout("ann"), fmt.Sprint("key ", i), "")
	}
	f.wantFull(factsAbout("ann"), "one more", "", 200)
	f.wantFull(conversations(), "key", strings.Repeat("x", 32<<20), 32<<20)
}

// A negative limit means no limit.
func testNoBounds(f *fixture) {
	for i := range 200 + 1 {
		f.save(factsAbout("ann"), fmt.Sprint("key ", i), "")
	}
	f.save(conversations(), "key", strings.Repeat("x", 32<<20))
}

// RunReopen tests a store that outlasts the process. open opens the store in a folder, which is
// empty for the first call of a subtest. The store must enforce the limits.
func RunReopen(t *testing.T, open func(t *testing.T, folder string, limits *memory.Limits) memory.Store) {
	for _, property := range []struct {
		name string
		test func(f *fixture, reopen func(limits *memory.Limits))
	}{
		{"Records", testReopenedRecords},
		{"Limits", testReopenedLimits},
		{"Closed", testClosed},
	} {
		t.Run(property.name, func(t *testing.T) {
			f, folder := newFixture(t), t.TempDir()
			f.store = open(t, folder, nil)
			defer func() { f.close() }()
			property.test(f, func(limits *memory.Limits) {
				t.Helper()
				f.close()
				f.store = open(t, folder, limits)
			})
		})
	}
}

// A reopened store has the records that were saved, except those that were deleted.
func testReopenedRecords(f *fixture, reopen func(*memory.Limits)) {
	all := collections()
	for range 2 {
		for i, in := range all {
			f.wantMissing(in, "key")
			f.save(in, "key", "replaced")
			f.save(in, "key", fmt.Sprint("value\x00 ", i))
			f.save(in, "deleted", "")
			f.wantDelete(in, "deleted", true)
		}
		for _, key := range oddKeys() {
			f.save(factsAbout("odd"), key, key)
		}
		reopen(nil)
		for i, in := range all {
			f.wantValue(in, "key", fmt.Sprint("value\x00 ", i))
			f.wantKeys(in, memory.Query{}, "key")
			f.wantDelete(in, "key", true)
		}
		f.wantKeys(factsAbout("odd"), memory.Query{Values: true}, oddKeys()...)
		reopen(nil)
	}
}

// Existing records count. Lowered limits delete nothing.
func testReopenedLimits(f *fixture, reopen func(*memory.Limits)) {
	for i := range 2 * maxRecords {
		f.save(conversations(), fmt.Sprint("key ", i), "value")
	}
	reopen(&memory.Limits{Conversations: maxRecords})
	f.wantFull(conversations(), "one more", "", maxRecords)
	f.save(conversations(), "key 1", "a longer value")
	for i := range maxRecords {
		f.wantDelete(conversations(), fmt.Sprint("key ", i), true)
	}
	f.wantFull(conversations(), "one more", "", maxRecords)
	f.wantDelete(conversations(), "key 9", true)
	f.save(conversations(), "one more", "")

	limit := memory.Size(conversations(), memory.Record{Key: "key 5"})
	for _, limits := range []*memory.Limits{{OwnerBytes: limit}, {TotalBytes: limit}} {
		reopen(limits)
		f.wantFull(factsAbout("ann"), "key", "", limit)
		f.wantFull(conversations(), "key 5", "a longer value", limit)
		f.save(conversations(), "key 5", "short")
		f.save(conversations(), "key 5", "value")
		reopen(nil)
	}
}

// The operations of a closed store fail, and it can be closed again.
func testClosed(f *fixture, _ func(*memory.Limits)) {
	if _, ok := f.store.(io.Closer); !ok {
		f.Skip("the store does not implement io.Closer")
	}
	f.save(conversations(), "key", "value")
	f.close()
	f.close()
	if err := f.store.Save(f.ctx, conversations(), memory.Record{Key: "key"}); err == nil {
		f.Errorf("a closed store saves")
	}
	if _, err := f.store.Load(f.ctx, conversations(), "key"); err == nil || errors.Is(err, memory.ErrNotFound) {
		f.Errorf("a closed store loads: %v", err)
	}
}
