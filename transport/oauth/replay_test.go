package oauth

import (
	"crypto/sha256"
	"fmt"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/internal/test/racetest"
)

// A proof is remembered for at least its life, and for at most twice that.
func TestUsedProofsExpire(t *testing.T) {
	const life = 10 * time.Minute
	start := time.Now()
	for second := range 3 * int(life/time.Second) {
		if second%7 != 0 {
			continue
		}
		used := start.Add(time.Duration(second) * time.Second)
		r := newUsedProofs(life)
		r.add(start, "key", "first")
		if got := r.add(used, "key", "x"); got != nil {
			t.Fatalf("after %v: %v", used.Sub(start), got)
		}
		r.add(used.Add(life/3), "key", "between")
		if got := r.add(used.Add(life-time.Second), "key", "x"); got != errProofUsed {
			t.Fatalf("after %v, just before its life ends: %v", used.Sub(start), got)
		}
		r.add(used.Add(2*life), "key", "later")
		if len(r.current.proofs)+len(r.old.proofs) > 2 {
			t.Fatalf("after %v: %d and %d proofs are remembered", used.Sub(start), len(r.current.proofs), len(r.old.proofs))
		}
	}
}

// Proofs of different keys differ although their IDs are equal.
func TestUsedProofsOfKeys(t *testing.T) {
	r, now := newUsedProofs(time.Minute), time.Now()
	for _, p := range [][2]string{{"a", "bc"}, {"ab", "c"}, {"a", "b"}, {"b", "b"}} {
		if got := r.add(now, p[0], p[1]); got != nil {
			t.Errorf("%q: %v", p, got)
		}
		if got := r.add(now, p[0], p[1]); got != errProofUsed {
			t.Errorf("%q again: %v", p, got)
		}
	}
}

// One key cannot fill a generation. When it is full, new proofs are refused and used ones are
// still detected.
func TestUsedProofsAreBounded(t *testing.T) {
	r, now := newUsedProofs(time.Minute), time.Now()
	r.capacity, r.perKey = 100, 10
	for i := range 20 {
		if got, want := r.add(now, "greedy", strconv.Itoa(i)), i >= 10; (got == errTooManyUsed) != want {
			t.Fatalf("proof %d of the greedy: %v", i, got)
		}
	}
	for key := range 9 {
		for i := range 10 {
			if got := r.add(now, fmt.Sprint("key", key), strconv.Itoa(i)); got != nil {
				t.Fatalf("proof %d of key %d: %v", i, key, got)
			}
		}
	}
	if got := r.add(now, "late", "x"); got != errTooManyUsed {
		t.Errorf("one too many: %v", got)
	}
	if got := r.add(now, "greedy", "1"); got != errProofUsed {
		t.Errorf("a used one, when there is no room: %v", got)
	}
	if got := r.add(now.Add(time.Minute), "late", "x"); got != nil {
		t.Errorf("a minute later: %v", got)
	}
}

// A flood of proofs, each of its own key, is held in a bounded amount of memory: two
// generations of maxProofs take less than 56 MiB. The test fills a sixteenth.
func TestLimitOfUsedProofs(t *testing.T) {
	const proofs, limit = maxProofs / 16, 56 << 20 / 16
	r, now := newUsedProofs(time.Minute), time.Now()
	r.capacity = proofs
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for generation := range 2 {
		now = now.Add(time.Minute)
		for i := range proofs + 1 {
			key := fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(nil, "%d %d", generation, i))) // longer than a thumbprint
			if got := r.add(now, key, "id"); (got == errTooManyUsed) != (i == proofs) {
				t.Fatalf("proof %d: %v", i, got)
			}
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if held := int64(after.HeapAlloc) - int64(before.HeapAlloc); held > limit {
		t.Errorf("%d proofs take %d bytes, want at most %d", 2*proofs, held, limit)
	}
	runtime.KeepAlive(r)
}

// A proof is accepted once, whoever uses it at the same time.
func TestUsedProofsConcurrently(t *testing.T) {
	const n = 300
	r, now := newUsedProofs(time.Minute), time.Now()
	var accepted [2]int
	use := func(i int) func(int) {
		return func(round int) {
			if r.add(now, "key", strconv.Itoa(round)) == nil {
				accepted[i]++
			}
		}
	}
	racetest.Together(n, use(0), use(1))
	if all := accepted[0] + accepted[1]; all != n || len(r.current.proofs) != n {
		t.Errorf("%d proofs were accepted and %d remembered, want %d", all, len(r.current.proofs), n)
	}
}
