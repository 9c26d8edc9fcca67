package memorytest

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/server/memory"
)

// room is how many records the tests of limits allow.
const room = 5

// RunLimits tests a store that keeps to [memory.Limits], each property as a subtest.
// open returns an empty store with these limits; it is called once for each subtest
// and may use t.Cleanup.
func RunLimits(t *testing.T, open func(t *testing.T, limits *memory.Limits) memory.Store) {
	for _, property := range []struct {
		name   string
		limits *memory.Limits
		test   func(f *fixture)
	}{
		{"Conversations", &memory.Limits{Conversations: room, Facts: -1}, testCounts(here(), memory.Collection{Owner: "another", Kind: memory.Conversations})},
		{"Facts", &memory.Limits{Facts: room, Conversations: -1}, testCounts(about("ann"), about("bob"))},
		{"OwnerBytes", &memory.Limits{OwnerBytes: roomBytes(), TotalBytes: -1}, testBytes("")},
		{"TotalBytes", &memory.Limits{TotalBytes: roomBytes(), OwnerBytes: -1}, testBytes("another")},
		{"OwnersApart", &memory.Limits{OwnerBytes: roomBytes()}, testOwnersApart},
		{"Defaults", nil, testDefaults},
		{"NoBounds", &memory.Limits{Conversations: -1, Facts: -1, OwnerBytes: -1, TotalBytes: -1}, testNoBounds},
		{"ConcurrentSaves", &memory.Limits{Conversations: room}, testConcurrentSaves},
	} {
		t.Run(property.name, func(t *testing.T) {
			f := newFixture(t)
			f.store = open(t, property.limits)
			defer f.close()
			property.test(f)
		})
	}
}

// refuses checks that there is no room for a record, and that what was there stays.
func (f *fixture) refuses(in memory.Collection, key, value string, limit int64) {
	f.Helper()
	before, errBefore := f.store.Load(f.ctx, in, key)
	err := f.store.Save(f.ctx, in, memory.Record{Key: key, Value: value})
	if full, ok := errors.AsType[*memory.FullError](err); !ok || full.Limit != limit {
		f.Errorf("Save(%+v, %q): %v, want a *FullError of limit %d", in, key, err, limit)
	}
	if after, errAfter := f.store.Load(f.ctx, in, key); after != before || !errors.Is(errAfter, errBefore) {
		f.Errorf("a refused record has changed %q from %.50q, %v to %.50q, %v", key, before, errBefore, after, errAfter)
	}
}

// A collection has so many records and no more; what is saved over, and others, do not
// count.
func testCounts(in, other memory.Collection) func(f *fixture) {
	return func(f *fixture) {
		for i := range room {
			f.save(in, fmt.Sprint("key ", i), "value")
		}
		f.refuses(in, "one more", "", room)
		f.save(in, "key 0", "a longer value")
		f.refuses(in, "one more", "", room)
		for i := range room {
			f.save(other, fmt.Sprint("key ", i), "")
		}
		f.save(memory.Collection{Owner: in.Owner, Kind: memory.Facts, User: "else"}, "key", "")
		f.deletes(in, "key 1", true)
		f.deletes(in, "key 1", false)
		f.save(in, "one more", "")
		f.refuses(in, "key 1", "", room)
	}
}

// fullValue makes a record of here() one of room that fill the bytes.
const fullValue = 1000

func roomBytes() int64 {
	return room * memory.Size(here(), memory.Record{Key: "key 0", Value: strings.Repeat("x", fullValue)})
}

// All collections count, to the byte; bytes that are given back can be used again. One
// collection is another owner's.
func testBytes(owner string) func(f *fixture) {
	return func(f *fixture) {
		full := strings.Repeat("x", fullValue)
		for i := range room - 1 {
			f.save(here(), fmt.Sprint("key ", i), full)
		}
		other := memory.Collection{Owner: owner, Kind: memory.Facts, User: "ann"}
		exact := full[len(other.Owner)+len(other.User):] // names count too
		f.refuses(other, "key 4", exact+"x", roomBytes())
		f.save(other, "key 4", exact)

		f.refuses(here(), "key 0", full+"x", roomBytes())
		f.refuses(other, "key 5", "", roomBytes())
		f.save(here(), "key 0", full) // as large as before
		f.save(here(), "key 0", full[1:])
		f.save(here(), "key 1", full+"x")
		f.refuses(here(), "key 0", full, roomBytes())
		f.deletes(here(), "key 1", true)
		f.save(here(), "key 0", full+full[1:])
		f.deletes(other, "key 4", true)
		f.save(here(), "key 4", full)
		f.save(here(), "key 0", "")
		f.save(here(), "key 5", full[:fullValue-1])
	}
}

// An owner without room takes none of another's.
func testOwnersApart(f *fixture) {
	other := memory.Collection{Owner: "o", Kind: memory.Conversations}
	full := strings.Repeat("x", fullValue)
	for i := range room {
		f.save(here(), fmt.Sprint("key ", i), full)
	}
	f.refuses(here(), "key", "", roomBytes())
	for i := range room {
		f.save(other, fmt.Sprint("key ", i), full[1:]) // the owner's name counts
	}
	f.refuses(other, "key", "", roomBytes())
}

// Without limits of its own a store has the defaults.
func testDefaults(f *fixture) {
	for i := range memory.DefaultFacts {
		f.save(about("ann"), fmt.Sprint("key ", i), "")
	}
	f.refuses(about("ann"), "one more", "", memory.DefaultFacts)
	f.refuses(here(), "key", strings.Repeat("x", memory.DefaultOwnerBytes), memory.DefaultOwnerBytes)
}

// A negative limit is none.
func testNoBounds(f *fixture) {
	for i := range memory.DefaultFacts + 1 {
		f.save(about("ann"), fmt.Sprint("key ", i), "")
	}
	f.save(here(), "key", strings.Repeat("x", memory.DefaultOwnerBytes))
}
