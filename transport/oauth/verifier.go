package oauth

import "context"

// A Verifier says what a token stands for: a [*JWTVerifier], an [*Introspection] or one
// of your own. It must be safe for concurrent use.
type Verifier interface {
	// Verify checks everything about a token but whether it is bound to the key of who
	// shows it: that it is genuine and of an issuer that is trusted, that it is meant for
	// the audience, and that now lies within its time. A token that is not valid is a
	// [*InvalidTokenError]; any other error means that it is not known, and the request is
	// refused as well, with status 503. No error repeats the token.
	Verify(ctx context.Context, token Secret, audience string) (*Grant, error)
}

// An InvalidTokenError is a token that is not valid.
type InvalidTokenError struct {
	// Reason says why, in printable ASCII. Whoever has shown the token is told.
	Reason string
}

// Error names the reason.
func (e *InvalidTokenError) Error() string { return "the token is not valid: " + e.Reason }
