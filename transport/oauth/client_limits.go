package oauth

import "time"

// MaxChallenges is how many challenges a WWW-Authenticate header may have.
const MaxChallenges = 16

const (
	// maxChallengeBytes is how long a WWW-Authenticate header may be, all lines of it.
	maxChallengeBytes = 16 << 10
	// maxChallengeParams is how many parameters a challenge may have.
	maxChallengeParams = 32
	// maxDocument is how long a metadata document, or an answer of a token or
	// registration endpoint, may be, in bytes.
	maxDocument = 1 << 20
	// fetchTimeout bounds each request of an authorization, from looking up the name to
	// the last byte.
	fetchTimeout = 10 * time.Second
	// refreshTimeout bounds a refresh, which two requests may be needed for, and keeping
	// what comes of it.
	refreshTimeout = 25 * time.Second
	// DefaultLoginTimeout is how long a person may take to log in.
	DefaultLoginTimeout = 5 * time.Minute
	// expiryMargin is how long before its end a token is not used any more.
	expiryMargin = 10 * time.Second
	// maxServers is how many servers a client remembers between requests.
	maxServers = 1024
	// maxStepUps is how often more scopes are asked for because of the same challenge.
	maxStepUps = 2
	// maxChallengedScopes is of how many different challenges of a server that is counted.
	maxChallengedScopes = 64
	// maxScopes is how many scopes are asked for at most, and maxScope how long all of
	// them are together, in bytes.
	maxScopes = 128
	maxScope  = 8 << 10
	// maxIssuers is how many authorization servers a resource may name.
	maxIssuers = 16
	// maxNonce is how long a nonce for proofs may be, in bytes.
	maxNonce = 1 << 10
	// maxToken is how long a token may be, in bytes.
	maxToken = 64 << 10
	// assertionLife is how long a client's assertion is valid.
	assertionLife = time.Minute
	// maxAnswer is how long a request to a receiver may be, in bytes.
	maxAnswer = 16 << 10
	// maxShown is how much of a peer's words an error repeats, in bytes.
	maxShown = 256
)
