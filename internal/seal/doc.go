// Package seal makes tokens that a client can carry but neither read nor change.
//
// A token is "dt1." and unpadded base64url (RFC 4648, section 5) of
//
//	salt (12 bytes) | nonce (12 bytes) | AES-256-GCM(expiry (8 bytes) | plaintext)
//
// Each token has a key of its own, derived by HKDF-SHA-256 (RFC 5869) from the
// ring's key and the random salt. Salt and nonce together are 192 random bits, so
// one key seals any number of tokens; 96 bits alone would be good for 2^32 of them
// (NIST SP 800-38D, section 8.3).
//
// The binding is authenticated but not part of the token: a token opens only where
// the same binding is given, such as the principal and the method it was made for.
// Every token expires. A token can be used any number of times until then; whoever
// needs single use remembers what was used.
//
// A [Ring] is immutable and safe for concurrent use.
package seal
