package oauth

import (
	"context"
	"encoding/json"
	"slices"
	"time"
)

// A Grant is what a valid token stands for. Do not change it: it is shared.
type Grant struct {
	// Issuer is the authorization server that issued the token.
	Issuer string
	// Subject is the resource owner, by the issuer's name for it; "" when a client acts
	// on its own and the issuer has no subject for that.
	Subject string
	// ClientID is the client, "" if it is not known.
	ClientID string
	// Scopes are what the token is good for.
	Scopes []string
	// Expires is when it ends; zero if that is not known.
	Expires time.Time
	// Confirmation is the SHA-256 thumbprint of the key that the token is bound to (RFC
	// 9449, section 6), "" for a bearer token.
	Confirmation string
	// Claims are all that the token, or the answer about it, says: one JSON object.
	Claims json.RawMessage
}

// Principal names who calls, for [transport.WithPrincipal]: the issuer, which has
// neither query nor fragment, then "#" and the subject or, without one, "?" and the
// client. So no two issuers' subjects are taken for one, nor a client for a subject. It
// is "" when the grant names nobody.
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

// Has says whether all of the scopes are among those of the grant. Which scopes imply
// others is known to [Protect], not to the grant: see [Require].
func (g *Grant) Has(scopes ...string) bool {
	for _, scope := range scopes {
		if !slices.Contains(g.Scopes, scope) {
			return false
		}
	}
	return true
}

// An admission is what [Protect] puts into the context of a request that it admits.
type admission struct {
	by    *protector
	grant *Grant
}

type admissionKey struct{}

func admissionOf(ctx context.Context) *admission {
	a, _ := ctx.Value(admissionKey{}).(*admission)
	return a
}

// FromContext returns the grant that the request of a call was admitted with, nil if it
// has not come through [Protect].
func FromContext(ctx context.Context) *Grant {
	if a := admissionOf(ctx); a != nil {
		return a.grant
	}
	return nil
}
