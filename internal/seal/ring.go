package seal

import (
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
)

// A Ring holds the keys that seal and open tokens. Make one with [NewRing].
type Ring struct {
	keys [][]byte // pseudorandom keys in the sense of RFC 5869
}

// NewRing makes a ring of up to [MaxKeys] keys, each of at least [MinKey] bytes from
// a cryptographic random source (not a password). The first one seals; all of them
// open, so that keys can be replaced while tokens are out: add the new key behind the
// old one everywhere, then move it to the front, then drop the old one when its
// tokens have expired.
//
// Without keys the ring gets a random one, and its tokens are lost with the process.
// The error is a [*KeyError].
func NewRing(keys ...[]byte) (*Ring, error) {
	if len(keys) == 0 {
		random := make([]byte, MinKey)
		rand.Read(random) // never fails
		keys = [][]byte{random}
	}
	if len(keys) > MaxKeys {
		return nil, &KeyError{fmt.Sprintf("%d keys given, at most %d accepted", len(keys), MaxKeys)}
	}
	r := &Ring{}
	for i, key := range keys {
		if len(key) < MinKey {
			return nil, &KeyError{fmt.Sprintf("key %d has %d bytes, at least %d expected", i+1, len(key), MinKey)}
		}
		extracted, err := hkdf.Extract(sha256.New, key, nil)
		if err != nil {
			return nil, &KeyError{fmt.Sprintf("key %d: %v", i+1, err)}
		}
		r.keys = append(r.keys, extracted)
	}
	return r, nil
}
