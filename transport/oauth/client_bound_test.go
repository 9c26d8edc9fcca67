package oauth_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/transport/oauth"
)

// A server that begins to demand bound tokens gets one, although there is a refresh token
// for another kind.
func TestServerThatBeginsToDemandBoundTokens(t *testing.T) {
	w := newWorld(t, nil)
	client := w.client(nil)
	for range 2 {
		w.welcome(client)
	}
	w.replace("resource/mcp", func(res http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.Header.Get("Authorization"), "DPoP ") {
			res.Header().Set("WWW-Authenticate", `DPoP error="invalid_token", algs="ES256"`)
			res.WriteHeader(http.StatusUnauthorized)
		}
	})
	for range 2 {
		w.welcome(client)
	}
	if len(w.opened) != 2 || w.count("issuer/token") != 2 {
		t.Errorf("%d browsers, %d tokens", len(w.opened), w.count("issuer/token"))
	}
}

// A client of bound tokens shows and refreshes no other one, which it may find in its store.
func TestStoredTokenThatIsNotBound(t *testing.T) {
	for _, ended := range []bool{false, true} {
		w, later, timed := hourly(t)
		kept := newStore()
		w.welcome(w.client(func(o *oauth.ClientOptions) { timed(o); o.Store = kept }))
		if ended {
			later()
		}
		bound := func(o *oauth.ClientOptions) { timed(o); o.Store, o.DPoP = kept, true }
		client := w.client(bound)
		if err := client.Login(t.Context(), w.mcp()); err != nil {
			t.Fatal(err)
		}
		w.welcome(client)
		w.welcome(w.client(bound))
		for _, token := range w.tokens[1:] {
			if !strings.HasPrefix(token, "DPoP ") {
				t.Errorf("shown was %.10s", token)
			}
		}
		for _, form := range w.forms("issuer/token") {
			if form.Has("refresh_token") {
				t.Errorf("asked for %v", form)
			}
		}
		if len(w.opened) != 2 {
			t.Errorf("%d browsers", len(w.opened))
		}
	}
}
