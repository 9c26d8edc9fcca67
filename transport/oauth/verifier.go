package oauth

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/transport/oauth/internal/syntax"
)

const (
	// maxClaim is the maximum length of a token's issuer, subject or client, in bytes.
	maxClaim = 1 << 10
	// maxGranted is the number of scopes, and of audiences, that a token may have.
	maxGranted = 256
	// maxDate is the latest time in a token, in seconds since 1970: the year 9999.
	maxDate = 253402300800
)

// A Verifier verifies tokens: a [*JWTVerifier], an [*APIKeyVerifier], the result of [NewIntrospection],
// [Issuers] for several of them, a proxy.Proxy or your own. It must be safe for concurrent use.
type Verifier interface {
	// Verify checks that a token is genuine, from a trusted issuer, for the audience, and
	// valid at this time. It does not check a DPoP proof. For an invalid token it returns an
	// [*InvalidTokenError]. Any other error means that the token could not be verified; the
	// request is then refused with status 503. No error contains the token.
	Verify(ctx context.Context, token Secret, audience string) (*Grant, error)
}

// An InvalidTokenError says that a token is not valid.
type InvalidTokenError struct {
	// Reason is in printable ASCII. The client receives it.
	Reason string
}

// Error contains the reason.
func (e *InvalidTokenError) Error() string { return "the token is not valid: " + e.Reason }

// A Grant is what a valid token grants. It is shared and must not be changed.
type Grant struct {
	// Issuer is the authorization server that issued the token.
	Issuer string
	// Subject is the issuer's ID of the resource owner. It may be "" when a client acts on
	// its own behalf.
	Subject string
	// ClientID is the client, "" if it is not known.
	ClientID string
	// Scopes are the scopes of the token.
	Scopes []string
	// Expires is when the token expires; zero if that is not known.
	Expires time.Time
	// Confirmation is the SHA-256 thumbprint of the key to which the token is bound (RFC
	// 9449, section 6), "" for a bearer token.
	Confirmation string
	// Claims are all claims of the token, or the introspection response: a JSON object.
	Claims json.RawMessage
}

// Principal returns the caller's name for [transport.WithPrincipal]: the issuer, then "#"
// and the subject or, without a subject, "?" and the client ID. An issuer has neither query
// nor fragment, so names of different issuers, and of subjects and clients, differ. It
// returns "" if the grant has no issuer, or neither a subject nor a client.
func (g *Grant) Principal() string {
	switch {
	case g.Issuer == "":
		return ""
	case g.Subject != "":
		return g.Issuer + "#" + g.Subject
	case g.ClientID != "":
		return g.Issuer + "?" + g.ClientID
	}
	return ""
}

// Has reports whether the grant has all of the scopes. It does not know which scopes imply
// others; [Require] does.
func (g *Grant) Has(scopes ...string) bool { return containsAll(g.Scopes, scopes) }

// An authorization is the context value of a request that [Protect] has admitted.
type authorization struct {
	by    *protector
	grant *Grant
}

type authorizationKey struct{}

func authorizationOf(ctx context.Context) *authorization {
	a, _ := ctx.Value(authorizationKey{}).(*authorization)
	return a
}

// FromContext returns the grant of the request to which a call belongs. It returns nil if
// the request was not admitted by [Protect].
func FromContext(ctx context.Context) *Grant {
	if a := authorizationOf(ctx); a != nil {
		return a.grant
	}
	return nil
}

// claims are the claims of a token, or an introspection response: a JSON object without
// duplicate members. RFC 7519, section 4.1; RFC 7662, section 2.2; RFC 9068.
type claims struct {
	members jsonscan.Members
	raw     json.RawMessage
}

func parseClaims(raw []byte) (*claims, error) {
	members, err := jsonscan.ReadObject(raw)
	if err != nil {
		return nil, &InvalidTokenError{Reason: "its claims are not a JSON object"}
	}
	return &claims{members, raw}, nil
}

// verify returns the grant of the claims, after checking the issuer, the audience and the
// times. With defaultIssuer, claims without an issuer count as claims of the issuer.
func (c *claims) verify(issuer, audience string, skew time.Duration, defaultIssuer bool) (*Grant, error) {
	g, err := c.grant()
	if err != nil {
		return nil, err
	}
	if g.Issuer == "" && defaultIssuer {
		g.Issuer = issuer
	}
	if g.Issuer != issuer {
		return nil, &InvalidTokenError{Reason: "it is from another issuer"}
	}
	audiences, err := c.texts("aud")
	if err != nil {
		return nil, err
	}
	if !slices.Contains(audiences, audience) {
		return nil, &InvalidTokenError{Reason: "it is for another audience"}
	}
	if g.Expires, err = c.checkTimes(time.Now(), skew); err != nil {
		return nil, err
	}
	return g, nil
}

// checkTimes checks the claims exp, nbf and iat, which may be absent. It returns exp.
func (c *claims) checkTimes(now time.Time, skew time.Duration) (time.Time, error) {
	var at [3]time.Time
	for i, name := range [...]string{"exp", "nbf", "iat"} {
		raw := c.members.Get(name)
		if raw == nil {
			continue
		}
		var ok bool
		if at[i], ok = numericDate(raw); !ok {
			return time.Time{}, &InvalidTokenError{Reason: "its claim " + name + " is not a time"}
		}
	}
	switch expires, notBefore, issued := at[0], at[1], at[2]; {
	case !expires.IsZero() && !now.Before(expires.Add(skew)):
		return time.Time{}, errExpired
	case now.Before(notBefore.Add(-skew)), now.Before(issued.Add(-skew)):
		return time.Time{}, &InvalidTokenError{Reason: "it is not valid yet"}
	default:
		return expires, nil
	}
}

var errExpired = &InvalidTokenError{Reason: "it has expired"}

// numericDate decodes a time. RFC 7519, section 2.
func numericDate(raw json.RawMessage) (time.Time, bool) {
	if jsonscan.KindOf(raw) != jsonscan.Number {
		return time.Time{}, false
	}
	var seconds float64
	if err := json.Unmarshal(raw, &seconds); err != nil || !(seconds > 0 && seconds < maxDate) {
		return time.Time{}, false
	}
	return time.Unix(int64(seconds), 0), true
}

func (c *claims) grant() (*Grant, error) {
	g := &Grant{Claims: c.raw}
	var err error
	for _, claim := range []struct {
		name string
		into *string
	}{{"iss", &g.Issuer}, {"sub", &g.Subject}, {"client_id", &g.ClientID}} {
		if *claim.into, err = c.text(claim.name); err != nil {
			return nil, err
		}
	}
	if g.ClientID == "" { // in OpenID Connect
		if g.ClientID, err = c.text("azp"); err != nil {
			return nil, err
		}
	}
	if g.Scopes, err = c.scopes(); err != nil {
		return nil, err
	}
	g.Confirmation, err = c.confirmation()
	return g, err
}

// text returns a claim that is a string, "" if it is absent.
func (c *claims) text(name string) (string, error) {
	raw := c.members.Get(name)
	if raw == nil {
		return "", nil
	}
	value := syntax.Text(raw)
	if value == "" || len(value) > maxClaim {
		return "", &InvalidTokenError{Reason: fmt.Sprintf("its claim %s is not a string of 1 to %d bytes", name, maxClaim)}
	}
	return value, nil
}

// texts returns a claim that is a string or a list of strings.
func (c *claims) texts(name string) ([]string, error) {
	raw := c.members.Get(name)
	var all []string
	var err error
	switch jsonscan.KindOf(raw) {
	case jsonscan.EOF:
		return nil, nil
	case jsonscan.String:
		return []string{syntax.Text(raw)}, nil
	case jsonscan.Array:
		err = json.Unmarshal(raw, &all)
	default:
		err = errors.ErrUnsupported
	}
	if err != nil || len(all) > maxGranted {
		return nil, &InvalidTokenError{Reason: fmt.Sprintf("its claim %s is neither a string nor a list of at most %d strings", name, maxGranted)}
	}
	return all, nil
}

// scopes returns the claim scope (RFC 8693, section 4.2), else scp, which some servers use.
func (c *claims) scopes() ([]string, error) {
	name := "scope"
	if c.members.Get(name) == nil {
		name = "scp"
	}
	all, err := c.texts(name)
	if err == nil && len(all) == 1 {
		all = strings.Fields(all[0])
	}
	if len(all) > maxGranted {
		return nil, &InvalidTokenError{Reason: fmt.Sprintf("it has more than %d scopes", maxGranted)}
	}
	return all, err
}

// confirmation returns the thumbprint of the key to which a token is bound. A token that is
// bound in another way is not valid, because nothing here can check the binding. RFC 7800,
// section 3.1.
func (c *claims) confirmation() (string, error) {
	raw := c.members.Get("cnf")
	if raw == nil {
		return "", nil
	}
	bound, err := jsonscan.ReadObject(raw)
	if err == nil && bound.Len() == 1 {
		if thumbprint := syntax.Text(bound.Get("jkt")); thumbprint != "" {
			return thumbprint, nil
		}
	}
	return "", &InvalidTokenError{Reason: "it is bound in an unknown way"}
}

// Issuers is a [Verifier] for tokens of several issuers: the verifier of each issuer, by its
// URL. A JWT is verified by the verifier of the issuer that its claim "iss" names. All other
// tokens, such as API keys and opaque tokens, are verified by the verifier with the key "", if
// there is one.
//
//	verifier := oauth.Issuers{
//		"https://login.example.com": employees,
//		"https://partner.example":   partners,
//		"":                          apiKeys,
//	}
//
// The claim is read before the token is verified, and only to choose the verifier: that one
// then verifies the token with the keys of its own issuer. A token of an unknown issuer is
// refused without a request to the network. The map must not change after its first use; then
// it is safe for concurrent use.
type Issuers map[string]Verifier

var _ Verifier = Issuers(nil)

var errUnknownIssuer = &InvalidTokenError{Reason: "it is from an unknown issuer"}

// Verify verifies a token. It returns the error of the issuer's verifier, or an
// [*InvalidTokenError] if the issuer is unknown.
func (all Issuers) Verify(ctx context.Context, token Secret, audience string) (*Grant, error) {
	if len(token) > maxBearerToken {
		return nil, errUnknownIssuer
	}
	issuer := issuerOf(string(token))
	verifier := all[issuer]
	if verifier == nil { // its metadata may name it with or without a slash at the end
		without, slash := strings.CutSuffix(issuer, "/")
		if verifier = all[without]; !slash {
			verifier = all[issuer+"/"]
		}
	}
	if verifier == nil {
		return nil, errUnknownIssuer
	}
	grant, err := verifier.Verify(ctx, token, audience)
	if err == nil && issuer != "" && (grant == nil || grant.Issuer != issuer) {
		return nil, fmt.Errorf("the verifier of %s returned a grant of another issuer", quote(issuer))
	}
	return grant, err
}

// issuerOf returns the claim "iss" of a JWT whose signature was not verified. It returns "" if
// the token is not a JWT. RFC 7519, section 7.2.
func issuerOf(token string) string {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return ""
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return ""
	}
	claims, err := jsonscan.ReadObject(payload)
	if err != nil {
		return ""
	}
	return syntax.Text(claims.Get("iss"))
}

// Format prints the number of issuers, and nothing of their verifiers.
func (all Issuers) Format(to fmt.State, _ rune) {
	_, _ = fmt.Fprintf(to, "oauth.Issuers(%d)", len(all))
}
