// Package token seals data in tokens that a client can carry but neither read nor change.
//
//	ring, err := token.NewRing(key)
//	sealed, err := ring.Seal(state, token.Binding(principal, method), expires)
//	state, err := ring.Open(sealed, token.Binding(principal, method), time.Now())
//
// A token is "dt1." and unpadded base64url (RFC 4648, section 5) of
//
//	salt (12 bytes) | nonce (12 bytes) | AES-256-GCM(expiry (8 bytes) | plaintext)
//
// [Ring.SealBytes] seals data of any size that do not expire, without the text encoding.
//
// Guarantees:
//
//  1. Each token has its own key, derived by HKDF-SHA-256 (RFC 5869) from the ring's key
//     and the random salt. Salt and nonce together are 192 random bits, so one key can seal
//     any number of tokens. With a 96-bit nonce alone, the limit is 2^32 tokens (NIST SP
//     800-38D, section 8.3).
//  2. The binding is authenticated and not part of the token. A token opens only with the
//     same binding, such as the principal and the method for which it was made.
//  3. Every token expires. Until then it can be opened any number of times; a caller that
//     needs single use must remember the used tokens.
//  4. A [Ring] is immutable and safe for concurrent use.
package token
