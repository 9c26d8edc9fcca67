package oauth

import (
	"context"
	"net/url"
)

// A Receiver takes the answers of authorization servers, which a browser brings.
type Receiver interface {
	// Open gets ready for one answer: that with a state, which nobody else knows. before
	// is the redirect URI of an earlier answer from the same server, "" if there was none:
	// the same one again spares a registration.
	Open(ctx context.Context, state, before string) (Reception, error)
}

// A Reception waits for one answer.
type Reception interface {
	// RedirectURI is where the browser is to bring the answer.
	RedirectURI() string
	// Wait returns the query of the answer. It ends with ctx.
	Wait(ctx context.Context) (url.Values, error)
	// Close stops waiting, and frees everything.
	Close() error
}
