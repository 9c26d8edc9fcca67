package oauth_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/dovetail-go/dovetail/transport/oauth"
)

// What a request costs more that has a token: mostly the signature.
func BenchmarkProtect(b *testing.B) {
	inside := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	for name, m := range map[string]*mint{"ES256": newMint(b, "k"), "RS256": newRSAMint(b, "k", 2048)} {
		b.Run(name, func(b *testing.B) { benchmarkProtect(b, protected(b, m, inside, nil), m.token(b, usual(nil))) })
	}
	b.Run("nothing to verify", func(b *testing.B) {
		h := protected(b, newMint(b, "k"), inside, func(o *oauth.ProtectOptions) {
			o.Verifier, o.Scopes = always{&oauth.Grant{Issuer: testIssuer, Subject: "ada"}}, nil
		})
		benchmarkProtect(b, h, "x")
	})
}

func benchmarkProtect(b *testing.B, h http.Handler, token string) {
	r := httptest.NewRequest(http.MethodPost, testResource, http.NoBody)
	r.Header = bearer(token)
	w := httptest.NewRecorder()
	b.ReportAllocs()
	for b.Loop() {
		h.ServeHTTP(w, r)
	}
	if w.Code != http.StatusOK {
		b.Fatal(w.Code)
	}
}
