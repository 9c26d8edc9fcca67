package oauth

import "time"

const (
	// MaxBearerToken is how long a token may be that a request shows to [Protect], in
	// bytes.
	MaxBearerToken = 8 << 10
	// maxProof is how long a proof of possession may be, in bytes, and maxProofID its jti.
	maxProof   = 4 << 10
	maxProofID = 256
	// maxRequest is how long the request of a token lasts whose end is not known.
	maxRequest = time.Hour
	// metadataAge is how many seconds the metadata may be cached.
	metadataAge = "300"
	// maxClaim is how long the issuer, subject or client of a token may be, in bytes.
	maxClaim = 1 << 10
	// maxGranted is how many scopes, and how many audiences, a token may name.
	maxGranted = 256
	// maxNonceAge is how long a nonce is good.
	maxNonceAge = 5 * time.Minute
	// maxProofAge is the default and the most of [DPoPOptions].MaxAge.
	maxProofAge = 5 * time.Minute
	// maxDate is how many seconds since 1970 a time may have: to the year 9999.
	maxDate = 253402300800
	// maxProofs is how many proofs are remembered, and maxKeyProofs how many of one key.
	maxProofs    = 1 << 18
	maxKeyProofs = 1 << 15
)
