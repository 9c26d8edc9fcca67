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
)

// JWTOptions configure a [JWTVerifier].
type JWTOptions struct {
	// Issuer is the authorization server whose tokens are valid, byte for byte as it
	// calls itself. It is required.
	Issuer string
	// KeysURL is where its keys are (JWK Set, RFC 7517). By default its metadata says
	// so (RFC 8414, or OpenID Connect Discovery).
	KeysURL string
	// Keys are the keys themselves, a JWK Set, for an issuer that publishes none. Then
	// nothing is fetched.
	Keys json.RawMessage
	// Algorithms are those that tokens may be signed with. Default RS256, PS256, ES256,
	// ES384, ES512 and EdDSA; RS384, RS512, PS384 and PS512 may be added. None that is
	// symmetric may, since then whoever can verify a token can make one.
	Algorithms []string
	// AnyType also admits tokens whose header says that they are a "JWT", or nothing,
	// rather than an "at+jwt". Many authorization servers issue such access tokens; it
	// must then be sure that what else they sign is not for the same audience.
	AnyType bool
	// Skew is how far the clocks here and there may differ. Default 30 s, at most 5 min.
	Skew time.Duration
	// AllowLoopback admits this machine, also by http, to fetch from. It is for
	// development.
	AllowLoopback bool
	// AllowNetworks lists networks to fetch from although they are not public, such as a
	// company's own. By https, still.
	AllowNetworks []netip.Prefix
	// Resolver looks up names. Default net.DefaultResolver.
	Resolver *net.Resolver
}

const (
	// DefaultSkew is the default of [JWTOptions].Skew and [IntrospectionOptions].Skew.
	DefaultSkew = 30 * time.Second
	maxSkew     = 5 * time.Minute
)

// A JWTVerifier verifies tokens that are JWTs (RFC 9068) by the keys that their issuer
// publishes. Keys are fetched when the first token comes, fetched anew every ten
// minutes and when a token names an unknown one, but not more often than every five
// seconds; while that fails, those that are known are good for a day. A token waits for
// keys only if there are none that will do. Use [NewJWTVerifier].
type JWTVerifier struct {
	issuer     string
	algorithms []jose.SignatureAlgorithm
	anyType    bool
	skew       time.Duration
	keys       *keySource
}

var _ Verifier = (*JWTVerifier)(nil)

// NewJWTVerifier returns a verifier. Nothing is fetched yet. The error is about the
// options.
func NewJWTVerifier(opts *JWTOptions) (*JWTVerifier, error) {
	var o JWTOptions
	if opts != nil {
		o = *opts
	}
	v := &JWTVerifier{issuer: o.Issuer, anyType: o.AnyType, skew: cmp.Or(o.Skew, DefaultSkew)}
	if err := checkIdentifier("Issuer", o.Issuer); err != nil {
		return nil, fmt.Errorf("oauth.NewJWTVerifier: %w", err)
	}
	if v.skew < 0 || v.skew > maxSkew {
		return nil, fmt.Errorf("oauth.NewJWTVerifier: expected a Skew of at most %v", maxSkew)
	}
	var err error
	if v.algorithms, err = tokenAlgorithms(o.Algorithms); err != nil {
		return nil, fmt.Errorf("oauth.NewJWTVerifier: %w", err)
	}
	if v.keys, err = newKeySource(&o); err != nil {
		return nil, fmt.Errorf("oauth.NewJWTVerifier: %w", err)
	}
	return v, nil
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
			return nil, fmt.Errorf("expected Algorithms out of %v, not %s", known, quote(name))
		}
		all = append(all, jose.SignatureAlgorithm(name))
	}
	return all, nil
}

// Verify verifies a token. The error is an [*InvalidTokenError], or says why the keys are
// not to be had.
func (v *JWTVerifier) Verify(ctx context.Context, token Secret, audience string) (*Grant, error) {
	payload, err := v.signed(ctx, token)
	if err != nil {
		return nil, err
	}
	c, err := readClaims(payload)
	if err != nil {
		return nil, err
	}
	g, err := c.grant()
	if err != nil {
		return nil, err
	}
	if g.Issuer != v.issuer {
		return nil, &InvalidTokenError{Reason: "it is of another issuer"}
	}
	if ok, err := c.isFor(audience); err != nil {
		return nil, err
	} else if !ok {
		return nil, &InvalidTokenError{Reason: "it is for another audience"}
	}
	if g.Expires, err = c.times(time.Now(), v.skew); err != nil {
		return nil, err
	}
	switch {
	case g.Expires.IsZero():
		return nil, &InvalidTokenError{Reason: "it never expires"}
	case g.Subject == "":
		return nil, &InvalidTokenError{Reason: "it has no subject"}
	}
	return g, nil
}

// Close ends fetching keys, and waits for that; it takes ten seconds at most by itself, so
// that a program that ends need not call it. The error is nil.
func (v *JWTVerifier) Close() error {
	v.keys.fetches.end(net.ErrClosed)
	return nil
}

var errTokenSigned = &InvalidTokenError{Reason: "it is no JWT, or not signed with an algorithm and a key that are trusted"}

// signed returns what the issuer has signed.
func (v *JWTVerifier) signed(ctx context.Context, token Secret) ([]byte, error) {
	if len(token) > MaxBearerToken || !isToken68(string(token)) { // decoders of Base64 overlook line breaks
		return nil, errTokenSigned
	}
	parsed, err := jose.ParseSignedCompact(string(token), v.algorithms)
	if err != nil || len(parsed.Signatures) != 1 {
		return nil, errTokenSigned
	}
	header := &parsed.Signatures[0].Protected
	if !v.isAccessToken(header) {
		return nil, &InvalidTokenError{Reason: "its type is not that of an access token"}
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

// isAccessToken looks at the type of a token. RFC 9068, section 4.
func (v *JWTVerifier) isAccessToken(header *jose.Header) bool {
	said, there := header.ExtraHeaders[jose.HeaderType]
	typ, isText := said.(string)
	if isText && isType(typ, "at+jwt") {
		return true
	}
	return v.anyType && (!there || isText && isType(typ, "JWT"))
}
