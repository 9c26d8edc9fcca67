package oauth_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/dovetail-go/dovetail/transport/oauth"
)

// verifierFunc is a verifier that calls a function.
type verifierFunc func(token oauth.Secret) (*oauth.Grant, error)

func (f verifierFunc) Verify(_ context.Context, token oauth.Secret, _ string) (*oauth.Grant, error) {
	return f(token)
}

func TestIssuers(t *testing.T) {
	ours, theirs := newSigner(t, "1"), newSigner(t, "1")
	const partner = "https://partner.example"
	partners, err := oauth.NewJWTVerifier(&oauth.JWTOptions{Issuer: partner, Keys: keySet(t, theirs)})
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	fetching := serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked++ }))
	remote, err := oauth.NewJWTVerifier(&oauth.JWTOptions{Issuer: fetching.URL, AllowLoopback: true})
	if err != nil {
		t.Fatal(err)
	}
	all := oauth.Issuers{
		testIssuer: verifier(t, ours), partner: partners, fetching.URL: remote,
		"https://liar.example": verifierFunc(func(oauth.Secret) (*oauth.Grant, error) {
			return &oauth.Grant{Issuer: testIssuer, Subject: "ada"}, nil
		}),
		"": apiKeys(t, oauth.APIKey{Hash: oauth.HashAPIKey(adaKey), Subject: "ada"}),
	}
	for name, test := range map[string]struct{ token, want string }{
		"of the first":           {ours.token(t, validClaims(nil)), testIssuer + "#ada"},
		"of the second":          {theirs.token(t, validClaims(claimSet{"iss": partner})), partner + "#ada"},
		"an API key":             {adaKey, "https://mcp.example.com#ada"},
		"of an unknown issuer":   {ours.token(t, validClaims(claimSet{"iss": "https://other.example"})), ""},
		"without an issuer":      {ours.token(t, validClaims(claimSet{"iss": nil})), ""},
		"with the wrong key":     {theirs.token(t, validClaims(nil)), ""},
		"of each other's issuer": {ours.token(t, validClaims(claimSet{"iss": partner})), ""},
		"not a token":            {"a.b.c", ""},
		"an unknown key":         {graceKey, ""},
	} {
		g, err := all.Verify(t.Context(), oauth.Secret(test.token), testResource)
		switch {
		case test.want == "" && !is[*oauth.InvalidTokenError](err):
			t.Errorf("%s: got %v, %v", name, g, err)
		case test.want != "" && (err != nil || g.Principal() != test.want):
			t.Errorf("%s: got %v, %v", name, g, err)
		}
	}
	if asked != 0 {
		t.Errorf("%d requests to the network", asked)
	}
	if _, err := all.Verify(t.Context(), oauth.Secret(ours.token(t, validClaims(claimSet{"iss": "https://liar.example"}))), testResource); err == nil || is[*oauth.InvalidTokenError](err) {
		t.Errorf("a grant of another issuer: %v", err)
	}
	delete(all, "")
	if _, err := all.Verify(t.Context(), adaKey, testResource); !is[*oauth.InvalidTokenError](err) {
		t.Errorf("an API key without a verifier for it: %v", err)
	}
}
