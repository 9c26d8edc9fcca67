package authserver

import (
	"time"

	"github.com/go-jose/go-jose/v4"
)

// Options configure a [Server]. The zero value is good.
type Options struct {
	// Clients are known without registering.
	Clients []Client
	// Scopes are those that there are; others are not given. Empty means any.
	Scopes []string
	// Subject is the person. Default "demo-person".
	Subject string
	// TokenLife is how long a token is good for. Default 5 minutes.
	TokenLife time.Duration
	// Nonces has proofs need a nonce, which changes with each token.
	Nonces bool
	// NoRegistration has only Clients known.
	NoRegistration bool
	// Clock tells the time. Default time.Now.
	Clock func() time.Time
}

// A Client is known to a [Server].
type Client struct {
	ID string
	// Secret is the password; empty for a public client.
	Secret string
	// Key checks assertions (private_key_jwt), if it is set.
	Key *jose.JSONWebKey
	// RedirectURIs are where answers may go; at a loopback address, at any port (RFC 8252,
	// section 7.3).
	RedirectURIs []string
}

func (o *Options) withDefaults() Options {
	var opts Options
	if o != nil {
		opts = *o
	}
	if opts.Subject == "" {
		opts.Subject = "demo-person"
	}
	if opts.TokenLife == 0 {
		opts.TokenLife = 5 * time.Minute
	}
	if opts.Clock == nil {
		opts.Clock = time.Now
	}
	return opts
}

const (
	// codeLife is how long a code can be exchanged.
	codeLife = time.Minute
	// proofLife is how far the time of a proof may be off.
	proofLife = 5 * time.Minute
	// maxBody is how long a request may be, in bytes.
	maxBody = 64 << 10
	// maxKept is how many clients, codes and tokens are kept; then all are forgotten.
	maxKept = 10_000
)
