package buffer

import (
	"testing"

	"github.com/dovetail-go/dovetail/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

func TestIsWorthKeeping(t *testing.T) {
	for name, test := range map[string]struct {
		usage      Usage
		used, size int
		want       bool
	}{
		"unused":                    {Usage{}, 0, smallest, true},
		"small, hardly used":        {Usage{patience}, 1, common, true},
		"large, used":               {Usage{patience}, common, 4 * common, true},
		"large, hardly used":        {Usage{}, common - 1, 4 * common, true},
		"large, hardly used lately": {Usage{patience}, common - 1, 4 * common, false},
		"largest":                   {Usage{}, largest, largest, true},
		"more than is allowed":      {Usage{}, largest + 1, largest + 1, false},
	} {
		if got := test.usage.IsWorthKeeping(make([]byte, test.used, test.size)); got != test.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

// Large texts find the memory that they had, although small ones use it in between, but
// small ones alone do not hold it.
func TestUsage(t *testing.T) {
	var usage Usage
	small, large := make([]byte, 1, 4*common), make([]byte, 4*common)
	for round := range 3 {
		for range patience {
			if !usage.IsWorthKeeping(small) {
				t.Fatalf("round %d: gone between large texts", round)
			}
		}
		if !usage.IsWorthKeeping(large) {
			t.Fatalf("round %d: gone after a large text", round)
		}
	}
	for range patience {
		usage.IsWorthKeeping(small)
	}
	if usage.IsWorthKeeping(small) {
		t.Error("small texts keep it for ever")
	}
}

// What is cloned belongs to who has it until it is given back.
func TestCloneAndGive(t *testing.T) {
	var pool Pool
	for range 100 {
		one, two := pool.Clone([]byte("one")), pool.Clone([]byte("three"))
		if string(one) != "one" || string(two) != "three" {
			t.Fatalf("got %q and %q", one, two)
		}
		pool.Give(one)
		if next := pool.Get(); len(next.Bytes) != 0 {
			t.Fatalf("got a buffer with %q in it", next.Bytes)
		}
	}
}

// Who may keep what it gets does not keep much more than it needs.
func TestFit(t *testing.T) {
	var pool Pool
	for range 3 * patience {
		pool.Give(make([]byte, largest))
		if b := pool.Fit(largest / loose); len(b.Bytes) != 0 {
			t.Fatalf("got a buffer with %d bytes in it", len(b.Bytes))
		}
		pool.Give(make([]byte, largest))
		if size := cap(pool.Fit(common).Bytes); size > loose*common {
			t.Fatalf("got a buffer of %d bytes for %d", size, common)
		}
		pool.Give(make([]byte, largest))
		if size := cap(pool.Clone(make([]byte, common))); size > loose*common {
			t.Fatalf("got a buffer of %d bytes for %d", size, common)
		}
	}
}

// A buffer on loan belongs to one borrower, and is empty.
func TestPool(t *testing.T) {
	var pool Pool
	one, two := pool.Get(), pool.Get()
	one.Bytes = append(one.Bytes, "one"...)
	two.Bytes = append(two.Bytes, "two"...)
	if string(one.Bytes) != "one" || string(two.Bytes) != "two" {
		t.Errorf("got %q and %q", one.Bytes, two.Bytes)
	}
	one.Free()
	if next := pool.Get(); len(next.Bytes) != 0 {
		t.Errorf("got a buffer with %q in it", next.Bytes)
	}
}
