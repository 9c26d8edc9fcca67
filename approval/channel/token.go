package channel

import (
	"crypto/sha256"
	"crypto/subtle"
)

// A secret is a token that is compared in constant time, whatever its length.
type secret [sha256.Size]byte

func secretOf(token string) secret { return sha256.Sum256([]byte(token)) }

func (s secret) is(token string) bool {
	given := secretOf(token)
	return subtle.ConstantTimeCompare(s[:], given[:]) == 1
}
