package oauth

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/dovetail-go/dovetail/transport/oauth/internal/syntax"
)

// JWTOptions configure a [JWTVerifier].
type JWTOptions struct {
	// Issuer is the authorization server. Required. Without KeysURL and Keys, it may differ from the
	// issuer in the metadata by one slash at the end. Tokens must name the issuer of the metadata
	// byte for byte, or without metadata this one.
	Issuer string
	// KeysURL is the URL of the issuer's keys (JWK Set, RFC 7517). Default the one in the
	// issuer's metadata (RFC 8414 or OpenID Connect Discovery).
	KeysURL string
	// Keys are the keys themselves, a JWK Set, for an issuer that publishes none. With it,
	// nothing is fetched.
	Keys json.RawMessage
	// Algorithms are the accepted signature algorithms. Default RS256, PS256, ES256, ES384,
	// ES512 and EdDSA; RS384, RS512, PS384 and PS512 are supported too. Symmetric algorithms
	// are not: with them, a key that verifies tokens can also make them.
	Algorithms []string
	// AnyType also accepts tokens whose header has the type "JWT", or none, instead of
	// "at+jwt". Many authorization servers issue such access tokens. Make sure that the
	// issuer signs no other kind of JWT for the same audience.
	AnyType bool
	// Skew is the tolerated difference between clocks. Default 30 s, at most 5 min.
	Skew time.Duration
	// AllowLoopback allows fetching from this machine, also over http. It is for
	// development.
	AllowLoopback bool
	// AllowNetworks lists networks that are allowed although they are not public, such as a
	// company's own. They still need https.
	AllowNetworks []netip.Prefix
	// Resolver looks up names. Default net.DefaultResolver.
	Resolver *net.Resolver
}

const (
	// defaultSkew is the default of [JWTOptions].Skew and [IntrospectionOptions].Skew.
	defaultSkew = 30 * time.Second
	maxSkew     = 5 * time.Minute
)

// A JWTVerifier verifies tokens that are JWTs (RFC 9068) with the keys that their issuer
// publishes. Use [NewJWTVerifier]. Its methods may be called concurrently.
//
// The first token fetches the keys. They are fetched again in the background every ten
// minutes, and when a token names an unknown key, but at most every five seconds. While
// fetching fails, known keys are used for a day. Verify waits for keys if no known key fits, or
// if the known keys are more than twenty minutes old because no token came. So a key that the
// issuer has withdrawn is accepted for at most twenty minutes, unless fetching fails.
type JWTVerifier struct {
	issuer     string
	algorithms []jose.SignatureAlgorithm
	anyType    bool
	skew       time.Duration
	keys       *keySource
}

var _ Verifier = (*JWTVerifier)(nil)

// NewJWTVerifier returns a verifier. It fetches nothing. It returns an error if the options
// are invalid.
func NewJWTVerifier(opts *JWTOptions) (*JWTVerifier, error) {
	o := *cmp.Or(opts, &JWTOptions{})
	v := &JWTVerifier{issuer: o.Issuer, anyType: o.AnyType, skew: cmp.Or(o.Skew, defaultSkew)}
	if err := v.configure(&o); err != nil {
		return nil, fmt.Errorf("oauth.NewJWTVerifier: %w", err)
	}
	return v, nil
}

func (v *JWTVerifier) configure(o *JWTOptions) (err error) {
	if err := syntax.CheckIdentifier("Issuer", o.Issuer); err != nil {
		return err
	}
	if v.skew < 0 || v.skew > maxSkew {
		return fmt.Errorf("expected a Skew of at most %v", maxSkew)
	}
	if v.algorithms, err = tokenAlgorithms(o.Algorithms); err != nil {
		return err
	}
	v.keys, err = keySourceOf(o)
	return err
}

func tokenAlgorithms(names []string) ([]jose.SignatureAlgorithm, error) {
	usual := []jose.SignatureAlgorithm{jose.RS256, jose.PS256, jose.ES256, jose.ES384, jose.ES512, jose.EdDSA}
	if len(names) == 0 {
		return usual, nil
	}
	known := append(usual, jose.RS384, jose.RS512, jose.PS384, jose.PS512)
	var all []jose.SignatureAlgorithm
	for _, name := range names {
		if !slices.Contains(known, jose.SignatureAlgorithm(name)) {
			return nil, fmt.Errorf("expected Algorithms out of %v, got %s", known, quote(name))
		}
		all = append(all, jose.SignatureAlgorithm(name))
	}
	return all, nil
}

// Verify verifies a token. The error is an [*InvalidTokenError], or says why the keys could
// not be fetched.
func (v *JWTVerifier) Verify(ctx context.Context, token Secret, audience string) (*Grant, error) {
	payload, err := v.payload(ctx, token)
	if err != nil {
		return nil, err
	}
	c, err := parseClaims(payload)
	if err != nil {
		return nil, err
	}
	issuer := v.issuer
	if set := v.keys.current.Load(); set.issuer != "" {
		issuer = set.issuer
	}
	g, err := c.verify(issuer, audience, v.skew, false)
	switch {
	case err != nil:
		return nil, err
	case g.Expires.IsZero():
		return nil, &InvalidTokenError{Reason: "it never expires"}
	case g.Subject == "":
		return nil, &InvalidTokenError{Reason: "it has no subject"}
	}
	return g, nil
}

// Close cancels the running fetch of keys, waits for it, and prevents further ones. A fetch
// ends by itself within ten seconds, so a program that exits need not call Close. The error
// is nil.
func (v *JWTVerifier) Close() error {
	v.keys.close(net.ErrClosed)
	return nil
}

var errTokenSigned = &InvalidTokenError{Reason: "it is not a JWT, or not signed with a trusted algorithm and key"}

// payload verifies the signature of a token and returns the claims.
func (v *JWTVerifier) payload(ctx context.Context, token Secret) ([]byte, error) {
	if len(token) > maxBearerToken || !isToken68(string(token)) { // Base64 decoders ignore line breaks
		return nil, errTokenSigned
	}
	parsed, err := jose.ParseSignedCompact(string(token), v.algorithms)
	if err != nil || len(parsed.Signatures) != 1 {
		return nil, errTokenSigned
	}
	header := &parsed.Signatures[0].Protected
	if !v.isAccessToken(header) {
		return nil, &InvalidTokenError{Reason: "its type is not the type of an access token"}
	}
	keys, err := v.keys.find(ctx, header.KeyID, jose.SignatureAlgorithm(header.Algorithm))
	if err != nil {
		return nil, err
	}
	for _, key := range keys {
		if payload, err := parsed.Verify(key); err == nil {
			return payload, nil
		}
	}
	return nil, errTokenSigned
}

// isAccessToken checks the type of a token. RFC 9068, section 4.
func (v *JWTVerifier) isAccessToken(header *jose.Header) bool {
	value, ok := header.ExtraHeaders[jose.HeaderType]
	typ, isText := value.(string)
	if isText && isType(typ, "at+jwt") {
		return true
	}
	return v.anyType && (!ok || isText && isType(typ, "JWT"))
}
