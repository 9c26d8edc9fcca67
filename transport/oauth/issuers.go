package oauth

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

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

// Verify verifies a token. The error is that of the issuer's verifier, or an
// [*InvalidTokenError] if the issuer is unknown.
func (all Issuers) Verify(ctx context.Context, token Secret, audience string) (*Grant, error) {
	if len(token) > MaxBearerToken {
		return nil, errUnknownIssuer
	}
	issuer := issuerOf(string(token))
	verifier := all[issuer]
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
	return text(claims.Get("iss"))
}

// Format prints the number of issuers, and nothing of their verifiers.
func (all Issuers) Format(to fmt.State, _ rune) {
	_, _ = fmt.Fprintf(to, "oauth.Issuers(%d)", len(all))
}
