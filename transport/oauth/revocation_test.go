package oauth_test

import (
	"net/http"
	"slices"
	"testing"

	"github.com/dovetail-go/dovetail/transport/oauth"
)

// Logout deletes the tokens and revokes them at their authorization server.
func TestLogoutRevokes(t *testing.T) {
	w, kept := newFixture(t, nil), newStore()
	client := w.client(func(o *oauth.ClientOptions) { o.Store = kept })
	w.mustSucceed(client)
	if err := client.Logout(t.Context(), w.mcp()); err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, form := range w.forms("issuer/revoke") {
		kinds = append(kinds, form.Get("token_type_hint"))
		if form.Get("token") == "" || form.Get("client_id") == "" {
			t.Errorf("revoked with %v", form)
		}
	}
	if !slices.Equal(kinds, []string{"refresh_token", "access_token"}) {
		t.Errorf("revoked: %q", kinds)
	}
	if slices.Contains(kept.keys(), "login "+w.mcp()) {
		t.Error("the store still has the token")
	}
	if err := client.Logout(t.Context(), w.mcp()); err != nil || w.count("issuer/revoke") != 2 {
		t.Errorf("a second logout: %v, %d revocations", err, w.count("issuer/revoke"))
	}
}

// Whatever the authorization server does, the tokens are deleted here.
func TestLogoutThatIsNotConfirmed(t *testing.T) {
	for name, test := range map[string]struct {
		edit   func(metadata map[string]any)
		answer http.HandlerFunc
		fails  bool
	}{
		"no endpoint":                      {func(m map[string]any) { delete(m, "revocation_endpoint") }, nil, false},
		"not its type":                     {nil, refuseWith(http.StatusBadRequest, "unsupported_token_type"), false},
		"refused":                          {nil, refuseWith(http.StatusBadRequest, "invalid_request"), true},
		"failing":                          {nil, refuseWith(http.StatusServiceUnavailable, ""), true},
		"a redirect":                       {nil, func(res http.ResponseWriter, r *http.Request) { http.Redirect(res, r, "/token", http.StatusFound) }, true},
		"an endpoint that may not be used": {func(m map[string]any) { m["revocation_endpoint"] = "http://example.com/revoke" }, nil, true},
	} {
		w, kept := newFixture(t, nil), newStore()
		w.editMetadata = func(m map[string]any) {
			if test.edit != nil {
				test.edit(m)
			}
		}
		if test.answer != nil {
			w.replace("issuer/revoke", test.answer)
		}
		client := w.client(func(o *oauth.ClientOptions) { o.Store = kept })
		w.mustSucceed(client)
		err := client.Logout(t.Context(), w.mcp())
		if test.fails != is[*oauth.RevocationError](err) || !test.fails && err != nil {
			t.Errorf("%s: got %v", name, err)
		}
		if slices.Contains(kept.keys(), "login "+w.mcp()) {
			t.Errorf("%s: the store still has the token", name)
		}
	}
}

func refuseWith(status int, code string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		writeJSON(w, map[string]string{"error": code})
	}
}
