package oauth

import (
	"fmt"
	"strconv"
	"testing"
	"time"
)

// A proof is remembered for as long as it could be used again, and no longer than twice
// that.
func TestReplaysAreRemembered(t *testing.T) {
	const life = 10 * time.Minute
	start := time.Now()
	for second := range 3 * int(life/time.Second) {
		if second%7 != 0 {
			continue
		}
		used := start.Add(time.Duration(second) * time.Second)
		r := newReplays(life)
		r.add(start, "key", "first")
		if got := r.add(used, "key", "x"); got != added {
			t.Fatalf("after %v: %v", used.Sub(start), got)
		}
		r.add(used.Add(life/3), "key", "between")
		if got := r.add(used.Add(life-time.Second), "key", "x"); got != replayed {
			t.Fatalf("after %v, and just before its time is up: %v", used.Sub(start), got)
		}
		r.add(used.Add(2*life), "key", "later")
		if len(r.young.proofs)+len(r.old.proofs) > 2 {
			t.Fatalf("after %v: %d and %d proofs are remembered", used.Sub(start), len(r.young.proofs), len(r.old.proofs))
		}
	}
}

// The same id is another proof when the key is another one.
func TestReplaysOfKeys(t *testing.T) {
	r, now := newReplays(time.Minute), time.Now()
	for _, p := range [][2]string{{"a", "bc"}, {"ab", "c"}, {"a", "b"}, {"b", "b"}} {
		if got := r.add(now, p[0], p[1]); got != added {
			t.Errorf("%q: %v", p, got)
		}
		if got := r.add(now, p[0], p[1]); got != replayed {
			t.Errorf("%q again: %v", p, got)
		}
	}
}

// No key takes the room of others, and all together no more than there is: what could not
// be remembered is not good.
func TestReplaysAreBounded(t *testing.T) {
	r, now := newReplays(time.Minute), time.Now()
	r.capacity, r.perKey = 100, 10
	for i := range 20 {
		if got, want := r.add(now, "greedy", strconv.Itoa(i)), i >= 10; (got == crowded) != want {
			t.Fatalf("proof %d of the greedy: %v", i, got)
		}
	}
	for key := range 9 {
		for i := range 10 {
			if got := r.add(now, fmt.Sprint("key", key), strconv.Itoa(i)); got != added {
				t.Fatalf("proof %d of key %d: %v", i, key, got)
			}
		}
	}
	if got := r.add(now, "late", "x"); got != crowded {
		t.Errorf("one too many: %v", got)
	}
	if got := r.add(now, "greedy", "1"); got != replayed {
		t.Errorf("a used one, when there is no room: %v", got)
	}
	if got := r.add(now.Add(time.Minute), "late", "x"); got != added {
		t.Errorf("a minute later: %v", got)
	}
}
