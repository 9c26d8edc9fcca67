package buffer

import (
	"testing"

	"github.com/dovetail-go/dovetail/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

func TestIsWorthKeeping(t *testing.T) {
	for name, test := range map[string]struct {
		used, size int
		want       bool
	}{
		"unused":               {0, smallest, true},
		"small, hardly used":   {1, common, true},
		"large, used":          {common, 4 * common, true},
		"large, hardly used":   {common - 1, 4 * common, false},
		"largest":              {largest, largest, true},
		"more than is allowed": {largest + 1, largest + 1, false},
	} {
		if got := isWorthKeeping(test.used, test.size); got != test.want {
			t.Errorf("%s: got %v", name, got)
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
