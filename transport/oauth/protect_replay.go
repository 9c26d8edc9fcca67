package oauth

import (
	"crypto/sha256"
	"sync"
	"time"
)

// replays remembers the proofs that there have been, for as long as they could be used
// again: in two generations, of which the older one is dropped as a whole. No key may
// fill it, and when many have, no further proof is good.
type replays struct {
	life time.Duration

	mu       sync.Mutex
	since    time.Time // the young generation
	young    generation
	old      generation
	capacity int
	perKey   int
}

// A generation is proofs by their hash, and how many there are of a key.
type generation struct {
	proofs map[proofHash]struct{}
	keys   map[string]int
}

type proofHash [16]byte

// newReplays remembers each proof for at least life.
func newReplays(life time.Duration) *replays {
	return &replays{life: life, young: newGeneration(), capacity: maxProofs, perKey: maxKeyProofs}
}

func newGeneration() generation {
	return generation{make(map[proofHash]struct{}), make(map[string]int)}
}

type remembered int

const (
	added remembered = iota
	replayed
	crowded
)

// add remembers a proof, which is known by its key and its id.
func (r *replays) add(now time.Time, key, id string) remembered {
	whole := sha256.Sum256([]byte(key + "\x00" + id))
	hash := proofHash(whole[:])
	r.mu.Lock()
	defer r.mu.Unlock()
	r.age(now)
	if _, seen := r.old.proofs[hash]; seen {
		return replayed
	}
	if _, seen := r.young.proofs[hash]; seen {
		return replayed
	}
	if len(r.young.proofs) >= r.capacity || r.young.keys[key] >= r.perKey {
		return crowded
	}
	r.young.proofs[hash] = struct{}{}
	r.young.keys[key]++
	return added
}

// age begins another generation when the young one has lived long enough.
func (r *replays) age(now time.Time) {
	switch lived := now.Sub(r.since); {
	case lived < r.life:
		return
	case lived < 2*r.life:
		r.old = r.young
	default:
		r.old = generation{}
	}
	r.young, r.since = newGeneration(), now
}
