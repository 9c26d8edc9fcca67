package oauth

import (
	"crypto/sha256"
	"sync"
	"time"
)

const (
	// maxProofs is the number of proofs in a generation, and maxKeyProofs that of one key.
	maxProofs    = 1 << 18
	maxKeyProofs = 1 << 15
)

// usedProofs remembers DPoP proofs for as long as they are valid, in two generations. The
// older generation is dropped as a whole when all its proofs are invalid. It is not an LRU
// cache: evicting a valid proof would allow a replay. When a generation is full, further
// proofs are refused. The limit per key prevents that one client fills it alone.
type usedProofs struct {
	life     time.Duration
	capacity int
	perKey   int

	mu      sync.Mutex
	started time.Time // of the current generation
	current generation
	old     generation
}

type generation struct {
	proofs map[proofHash]struct{}
	keys   map[proofHash]int // the number of proofs of each key
}

type proofHash [16]byte

func hashOf(text string) proofHash {
	whole := sha256.Sum256([]byte(text))
	return proofHash(whole[:])
}

// newUsedProofs returns an empty set that remembers each proof for at least life.
func newUsedProofs(life time.Duration) *usedProofs {
	return &usedProofs{life: life, current: newGeneration(), capacity: maxProofs, perKey: maxKeyProofs}
}

func newGeneration() generation {
	return generation{make(map[proofHash]struct{}), make(map[proofHash]int)}
}

// add adds the proof with a key and an ID. It returns errProofUsed if the proof was added
// before, and errTooManyUsed if the generation is full.
func (u *usedProofs) add(now time.Time, key, id string) error {
	hash, owner := hashOf(key+"\x00"+id), hashOf(key)
	u.mu.Lock()
	defer u.mu.Unlock()
	u.rotate(now)
	_, inOld := u.old.proofs[hash]
	_, inCurrent := u.current.proofs[hash]
	switch {
	case inOld || inCurrent:
		return errProofUsed
	case len(u.current.proofs) >= u.capacity || u.current.keys[owner] >= u.perKey:
		return errTooManyUsed
	}
	u.current.proofs[hash] = struct{}{}
	u.current.keys[owner]++
	return nil
}

// rotate starts a new generation when the current one is older than life.
func (u *usedProofs) rotate(now time.Time) {
	switch age := now.Sub(u.started); {
	case age < u.life:
		return
	case age < 2*u.life:
		u.old = u.current
	default:
		u.old = generation{}
	}
	u.current, u.started = newGeneration(), now
}
