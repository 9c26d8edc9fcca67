package oauth

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"time"
)

// DefaultTokenGrace is the default of [ProtectOptions].Grace.
const DefaultTokenGrace = time.Minute

// ProtectOptions configure [Protect].
type ProtectOptions struct {
	// Resource is the URL of the protected endpoint as clients have it, such as
	// "https://example.com/mcp": https, or http on a loopback host, without query and
	// fragment. It is required, also because tokens are for it.
	Resource string
	// AuthorizationServers are the issuers whose tokens are good here, for clients to
	// choose from: https, or http on a loopback host. There must be one. That tokens are
	// of one of them is for Verifier to check.
	AuthorizationServers []string
	// Verifier checks tokens. It is required.
	Verifier Verifier
	// Audience is what tokens must be for, where authorization servers have another name
	// for the resource. Default Resource.
	Audience string

	// Scopes are needed by every request.
	Scopes []string
	// CallScopes, when set, are needed by a call in addition. The method is that of MCP;
	// the name is that of the tool or prompt, the URI of the resource, and what a
	// completion is for; else "". A call that listens to resources is asked about as
	// resources/subscribe for each of them. It is called concurrently. The method Scopes
	// of a server.Server is one: it knows what tools and others declare.
	CallScopes func(method, name string) []string
	// Implies are the scopes that a scope includes: {"admin": {"read", "write"}}. Those
	// that they imply are included too.
	Implies map[string][]string
	// ScopesSupported is what the metadata lists. Default Scopes.
	ScopesSupported []string

	// DPoP, when set, offers clients to bind their tokens to a key (RFC 9449). Without
	// it, a token that is bound needs its proof all the same.
	DPoP *DPoPOptions

	// Origins are those of the web pages whose scripts may read refusals, as in the
	// options of the handler. The metadata may be read by all.
	Origins []string
	// Name and Documentation are of the resource, for people: a name and a URL. Both may
	// be empty.
	Name          string
	Documentation string
	// Grace is how long a request that was admitted may outlast its token: a call, a
	// stream, a socket. Then its context ends, with [ErrTokenExpired] as the cause; that
	// ends a stream or a socket, to which the client comes back with another token, and
	// cancels a call that needs no session. Default 1 min; negative means not at all. A token
	// that ended before that is not admitted, whatever Skew its verifier has. The request of
	// a token whose end is not known ends after an hour.
	Grace time.Duration
	// Logger is told of tokens that could not be verified, without them. Default
	// slog.Default().
	Logger *slog.Logger
}

// DPoPOptions configure proofs of possession.
type DPoPOptions struct {
	// Required refuses tokens that are not bound to a key.
	Required bool
	// Nonces demands of each proof a nonce that this server has given, at most five
	// minutes ago. Proofs cannot then be made in advance, and clients' clocks do not
	// matter.
	Nonces bool
	// NonceKey makes the nonces of one process good in others with the same key; it has
	// at least 32 bytes. Default a random one.
	NonceKey []byte
	// MaxAge is how long before or after now a proof may have been made. Default 5 min,
	// which is the most; what proofs there have been is remembered as long.
	MaxAge time.Duration
}

// shownDPoP is options for people to read.
type shownDPoP struct {
	Required bool
	Nonces   bool
	NonceKey any
	MaxAge   time.Duration
}

func (o DPoPOptions) shown() shownDPoP {
	return shownDPoP{o.Required, o.Nonces, shownSecret(o.NonceKey != nil), o.MaxAge}
}

// Format does not tell the key.
func (o DPoPOptions) Format(to fmt.State, verb rune) {
	fmt.Fprintf(to, fmt.FormatString(to, verb), o.shown())
}

// LogValue does not tell the key.
func (o DPoPOptions) LogValue() slog.Value { return slog.AnyValue(o.shown()) }

// MarshalJSON does not tell the key.
func (o DPoPOptions) MarshalJSON() ([]byte, error) { return json.Marshal(o.shown()) }

// ErrTokenExpired is the cause of the end of a request that has outlasted its token.
var ErrTokenExpired = errors.New("the token has expired")

func (o *ProtectOptions) withDefaults() (ProtectOptions, error) {
	var opts ProtectOptions
	if o != nil {
		opts = *o
	}
	if err := opts.check(); err != nil {
		return opts, err
	}
	opts.Audience = cmp.Or(opts.Audience, opts.Resource)
	opts.Grace = cmp.Or(opts.Grace, DefaultTokenGrace)
	opts.AuthorizationServers = slices.Clone(opts.AuthorizationServers)
	opts.Scopes = slices.Clone(opts.Scopes)
	if opts.ScopesSupported == nil {
		opts.ScopesSupported = opts.Scopes
	}
	if opts.Logger == nil {
		opts.Logger = slog.Default()
	}
	return opts, nil
}

func (o *ProtectOptions) check() error {
	if err := checkIdentifier("Resource", o.Resource); err != nil {
		return err
	}
	if len(o.AuthorizationServers) == 0 {
		return errors.New("expected an issuer in AuthorizationServers")
	}
	for _, issuer := range o.AuthorizationServers {
		if err := checkIdentifier("AuthorizationServers", issuer); err != nil {
			return err
		}
	}
	if o.Verifier == nil {
		return errors.New("expected a Verifier")
	}
	for _, scope := range slices.Concat(o.Scopes, o.ScopesSupported) {
		if !isScope(scope) {
			return fmt.Errorf("%s is no scope; expected printable characters without space, quote and backslash (RFC 6749, section 3.3)", quote(scope))
		}
	}
	return o.DPoP.check()
}

func (o *DPoPOptions) check() error {
	switch {
	case o == nil:
		return nil
	case o.MaxAge < 0 || o.MaxAge > maxProofAge:
		return fmt.Errorf("the MaxAge of proofs is %v; expected at most %v", o.MaxAge, maxProofAge)
	}
	return nil
}

// checkIdentifier checks the URL of a resource or the name of an issuer. RFC 9728, section
// 1.2; RFC 8414, section 2.
func checkIdentifier(field, text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil || strings.ContainsAny(text, "?# ") || u.Opaque != "" ||
		u.Scheme != "https" && (u.Scheme != "http" || !isLoopback(u.Hostname())) {
		return fmt.Errorf("%s: expected a URL that is https, or http on a loopback host, without user, query and fragment, not %s", field, quote(text))
	}
	return nil
}
