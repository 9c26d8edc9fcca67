package memorytest

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/dovetail-go/dovetail/server/memory"
)

// RunReopen tests a store that lasts longer than the process, each property as a
// subtest. open opens the store in a folder, which is empty at first; the store has to
// keep to the limits.
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

// What was saved is there again, what was deleted is not.
func testReopenedRecords(f *fixture, reopen func(*memory.Limits)) {
	all := collections()
	for range 2 {
		for i, in := range all {
			f.lacks(in, "key")
			f.save(in, "key", "replaced")
			f.save(in, "key", fmt.Sprint("value\x00 ", i))
			f.save(in, "deleted", "")
			f.deletes(in, "deleted", true)
		}
		for _, key := range oddKeys() {
			f.save(about("odd"), key, key)
		}
		reopen(nil)
		for i, in := range all {
			f.holds(in, "key", fmt.Sprint("value\x00 ", i))
			f.lists(in, memory.Query{}, "key")
			f.deletes(in, "key", true)
		}
		f.lists(about("odd"), memory.Query{Values: true}, oddKeys()...)
		reopen(nil)
	}
}

// What is there counts. Limits that have become lower take nothing away.
func testReopenedLimits(f *fixture, reopen func(*memory.Limits)) {
	for i := range 2 * room {
		f.save(here(), fmt.Sprint("key ", i), "value")
	}
	reopen(&memory.Limits{Conversations: room})
	f.refuses(here(), "one more", "", room)
	f.save(here(), "key 1", "a longer value")
	for i := range room {
		f.deletes(here(), fmt.Sprint("key ", i), true)
	}
	f.refuses(here(), "one more", "", room)
	f.deletes(here(), "key 9", true)
	f.save(here(), "one more", "")

	limit := memory.Size(here(), memory.Record{Key: "key 5"})
	for _, limits := range []*memory.Limits{{OwnerBytes: limit}, {TotalBytes: limit}} {
		reopen(limits)
		f.refuses(about("ann"), "key", "", limit)
		f.refuses(here(), "key 5", "a longer value", limit)
		f.save(here(), "key 5", "short")
		f.save(here(), "key 5", "value")
		reopen(nil)
	}
}

// A closed store fails, and can be closed again.
func testClosed(f *fixture, _ func(*memory.Limits)) {
	if _, ok := f.store.(io.Closer); !ok {
		f.Skip("the store has nothing to close")
	}
	f.save(here(), "key", "value")
	f.close()
	f.close()
	if err := f.store.Save(f.ctx, here(), memory.Record{Key: "key"}); err == nil {
		f.Errorf("a closed store saves")
	}
	if _, err := f.store.Load(f.ctx, here(), "key"); err == nil || errors.Is(err, memory.ErrNotFound) {
		f.Errorf("a closed store loads: %v", err)
	}
}
