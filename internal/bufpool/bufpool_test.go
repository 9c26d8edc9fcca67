package bufpool

import (
	"testing"

	"github.com/dovetail-go/dovetail/internal/test/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func TestIsWorthKeeping(t *testing.T) {
	for name, test := range map[string]struct {
		wasted, used, size int
		want               bool
	}{
		"unused":                    {0, 0, minSize, true},
		"small, hardly used":        {maxWasted, 1, smallSize, true},
		"large, used":               {maxWasted, smallSize, 4 * smallSize, true},
		"large, hardly used":        {0, smallSize - 1, 4 * smallSize, true},
		"large, hardly used lately": {maxWasted, smallSize - 1, 4 * smallSize, false},
		"largest":                   {0, maxSize, maxSize, true},
		"more than is allowed":      {0, maxSize + 1, maxSize + 1, false},
	} {
		b := Buffer{wasted: test.wasted, Bytes: make([]byte, test.used, test.size)}
		if got := b.isWorthKeeping(); got != test.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

// A large buffer is kept while some texts need it, although small ones use it in between, and
// not for small texts alone.
func TestLargeBufferIsKept(t *testing.T) {
	b := Buffer{Bytes: make([]byte, 4*smallSize)}
	isKept := func(used int) bool {
		b.Bytes = b.Bytes[:used]
		return b.isWorthKeeping()
	}
	for round := range 3 {
		for range maxWasted {
			if !isKept(1) {
				t.Fatalf("round %d: dropped between large texts", round)
			}
		}
		if !isKept(4 * smallSize) {
			t.Fatalf("round %d: dropped after a large text", round)
		}
	}
	for range maxWasted {
		isKept(1)
	}
	if isKept(1) {
		t.Error("kept for small texts alone")
	}
}

// Fit does not return a buffer that is much larger than the text.
func TestFit(t *testing.T) {
	var pool Pool
	for range 3 * maxWasted {
		(&Buffer{Bytes: make([]byte, 0, maxSize), pool: &pool}).Free()
		if b := pool.Fit(maxSize / maxExcess); len(b.Bytes) != 0 {
			t.Fatalf("got a buffer with %d bytes in it", len(b.Bytes))
		}
		(&Buffer{Bytes: make([]byte, 0, maxSize), pool: &pool}).Free()
		if size := cap(pool.Fit(smallSize).Bytes); size > maxExcess*smallSize {
			t.Fatalf("got a buffer of %d bytes for %d", size, smallSize)
		}
	}
}

// A buffer has one owner, and is empty.
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
