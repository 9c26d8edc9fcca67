package oauth

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-go/dovetail/transport/oauth/internal/syntax"
	"github.com/dovetail-go/dovetail/transport/store"
)

// defaultTokenGrace is the default of [ProtectOptions].Grace.
const defaultTokenGrace = time.Minute

// ErrTokenExpired is the cause with which the context of a request ends after its token has
// expired.
var ErrTokenExpired = errors.New("the token has expired")

// ProtectOptions configure [Protect].
type ProtectOptions struct {
	// Resource is the URL of the protected endpoint as clients use it, such as
	// "https://example.com/mcp": https, or http on a loopback host or with AllowHTTP, without
	// query and fragment. Required.
	Resource string
	// AllowHTTP allows a Resource with http, for a private network without TLS. Everyone in
	// that network can read and use the tokens. Clients of package oauth need the host in
	// [ClientOptions].AllowHTTP.
	AllowHTTP bool
	// AuthorizationServers are the issuers from which clients may obtain tokens: at least
	// one, https, or http on a loopback host. Verifier checks that tokens are from one of
	// them. Required, except with an [*APIKeyVerifier]: without an authorization server there
	// is no metadata of the resource, and no challenge names one.
	AuthorizationServers []string
	// Verifier verifies tokens. Required.
	Verifier Verifier
	// Audience is the required audience of tokens, for authorization servers that do not use
	// the URL of the resource. Default Resource.
	Audience string

	// Scopes are the scopes that every request needs.
	Scopes []string
	// CallScopes returns the scopes that a call needs in addition. nil: none. method is the
	// method of MCP. name is the name of the tool or prompt, the URI of the resource, or what
	// a completion is for; "" for other calls. For a call that listens to resources, it is
	// also called with resources/subscribe and each URI. It is called concurrently. The
	// method Scopes of a server.Server is such a function.
	CallScopes func(method, name string) []string
	// Implies lists the scopes that a scope includes, such as {"admin": {"read", "write"}}.
	// It is transitive.
	Implies map[string][]string
	// ScopesSupported are the scopes in the metadata. Default Scopes.
	ScopesSupported []string

	// DPoP, when set, offers clients to bind their tokens to a key (RFC 9449). A token that
	// is bound needs a proof in any case.
	DPoP *DPoPOptions
	// Store makes a DPoP proof that was used at one process invalid at all others with the same
	// Store and Resource. Then Nonces need a NonceKey. While the store fails, requests with a
	// proof are refused with status 503. Default: each process remembers the proofs that it has
	// accepted, in memory.
	Store store.KV

	// Origins are the web origins whose scripts may read refusals, as in the options of the
	// handler. Every origin may read the metadata.
	Origins []string
	// Name and Documentation are the name and the documentation URL of the resource, for
	// people. Both may be empty.
	Name          string
	Documentation string
	// Grace is how long an admitted request may continue after its token has expired: a call,
	// a stream, a socket. Then its context ends with the cause [ErrTokenExpired]. That ends a
	// stream or a socket, and cancels a call without a session; the client connects again
	// with another token. A token that expired earlier is refused, whatever Skew its verifier
	// has. The request of a token without a known expiry ends after an hour. Default 1 min;
	// negative means no grace.
	Grace time.Duration
	// Logger receives why tokens could not be verified, and why others than expired ones were
	// refused, without the tokens, each at most once a second. Default slog.Default().
	Logger *slog.Logger
}

// DPoPOptions configure proofs of possession (RFC 9449).
type DPoPOptions struct {
	// Required refuses tokens that are not bound to a key.
	Required bool
	// Nonces requires in each proof a nonce that this server issued at most five minutes
	// ago. Then proofs cannot be made in advance, and clients' clocks do not matter.
	Nonces bool
	// NonceKey authenticates nonces. Processes with the same key accept each other's nonces.
	// It needs at least 32 bytes. Default a random key. Required with [ProtectOptions].Store.
	NonceKey Secret
	// MaxAge is the maximum difference between the time of a proof and now. Proofs are
	// remembered for twice that time, or for 5 min with Nonces, to refuse replays. In that
	// time a process accepts 262,144 proofs, and 32,768 of one key; it refuses further requests
	// with status 503. So a server with more than 400 requests per second needs a lower
	// MaxAge. Default and maximum 5 min.
	MaxAge time.Duration
}

func (o *ProtectOptions) withDefaults() (ProtectOptions, error) {
	opts := *cmp.Or(o, &ProtectOptions{})
	if err := opts.check(); err != nil {
		return opts, err
	}
	opts.Audience = cmp.Or(opts.Audience, opts.Resource)
	opts.Grace = cmp.Or(opts.Grace, defaultTokenGrace)
	opts.AuthorizationServers = slices.Clone(opts.AuthorizationServers)
	opts.Scopes = slices.Clone(opts.Scopes)
	if opts.ScopesSupported == nil {
		opts.ScopesSupported = opts.Scopes
	}
	opts.Logger = cmp.Or(opts.Logger, slog.Default())
	return opts, nil
}

func (o *ProtectOptions) check() error {
	resource := o.Resource
	if rest, ok := strings.CutPrefix(resource, "http://"); ok && o.AllowHTTP {
		resource = "https://" + rest
	}
	if err := syntax.CheckIdentifier("Resource", resource); err != nil {
		return err
	}
	if _, keys := o.Verifier.(*APIKeyVerifier); !keys && len(o.AuthorizationServers) == 0 {
		return errors.New("expected an issuer in AuthorizationServers")
	}
	for _, issuer := range o.AuthorizationServers {
		if err := syntax.CheckIdentifier("AuthorizationServers", issuer); err != nil {
			return err
		}
	}
	if o.Verifier == nil {
		return errors.New("expected a Verifier")
	}
	if err := syntax.CheckScopes(slices.Concat(o.Scopes, o.ScopesSupported)); err != nil {
		return err
	}
	if o.Store != nil && o.DPoP != nil && o.DPoP.Nonces && o.DPoP.NonceKey == "" {
		return errors.New("expected a NonceKey, which processes with the same Store need to accept each other's nonces")
	}
	return o.DPoP.check()
}

func (o *DPoPOptions) check() error {
	if o != nil && (o.MaxAge < 0 || o.MaxAge > maxProofAge) {
		return fmt.Errorf("the MaxAge of proofs is %v; expected at most %v", o.MaxAge, maxProofAge)
	}
	return nil
}
