package oauth_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/transport/oauth"
)

const (
	adaKey   = "key-of-ada-0123456789"
	graceKey = "key-of-grace-0123456789"
)

func apiKeys(t testing.TB, keys ...oauth.APIKey) *oauth.APIKeyVerifier {
	t.Helper()
	v, err := oauth.NewAPIKeyVerifier("https://mcp.example.com", keys)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestAPIKeys(t *testing.T) {
	v := apiKeys(t,
		oauth.APIKey{Hash: oauth.HashAPIKey(adaKey), Subject: "ada", Scopes: []string{"mcp"}},
		oauth.APIKey{Hash: strings.ToUpper(oauth.HashAPIKey(graceKey)), Subject: "grace", Scopes: []string{"mcp", "orders:write"}},
	)
	h, err := oauth.Protect(&recordingHandler{}, &oauth.ProtectOptions{Resource: testResource, Verifier: v, Scopes: []string{"mcp"}, Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	for token, want := range map[string]int{adaKey: 200, graceKey: 200, adaKey + "x": 401, "short": 401, oauth.HashAPIKey(adaKey): 401} {
		res := post(h, bearer(token), "{}")
		if res.StatusCode != want {
			t.Errorf("%s: got %d, want %d", token, res.StatusCode, want)
		}
		if want == http.StatusUnauthorized {
			if c := challengeOf(t, res); c.Params["resource_metadata"] != "" || c.Params["error"] != "invalid_token" {
				t.Errorf("%s: the challenge is %v", token, c)
			}
		}
	}
	if res := do(h, http.MethodGet, "/.well-known/oauth-protected-resource", nil, ""); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("the metadata without an authorization server: got %d", res.StatusCode)
	}
	g, err := v.Verify(t.Context(), graceKey, testResource)
	if err != nil || g.Principal() != "https://mcp.example.com#grace" || !g.Has("orders:write") || !g.Expires.IsZero() {
		t.Errorf("got %+v, %v", g, err)
	}
	if text := printed(t, v); strings.Contains(text, "grace") || strings.Contains(text, oauth.HashAPIKey(adaKey)) {
		t.Errorf("printed as %s", text)
	}
}

func TestAPIKeyExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := apiKeys(t, oauth.APIKey{Hash: oauth.HashAPIKey(adaKey), Subject: "ada", Expires: time.Now().Add(time.Hour)})
		if _, err := v.Verify(t.Context(), adaKey, ""); err != nil {
			t.Error(err)
		}
		<-time.After(time.Hour) // of the clock of the test
		if _, err := v.Verify(t.Context(), adaKey, ""); !is[*oauth.InvalidTokenError](err) {
			t.Errorf("after its expiry: %v", err)
		}
	})
}

// TestReplacedAPIKeys: a key that is left out is revoked, and malformed keys replace nothing.
func TestReplacedAPIKeys(t *testing.T) {
	ada, grace := oauth.APIKey{Hash: oauth.HashAPIKey(adaKey), Subject: "ada"}, oauth.APIKey{Hash: oauth.HashAPIKey(graceKey), Subject: "grace"}
	v := apiKeys(t, ada)
	valid := func(key oauth.Secret) bool {
		_, err := v.Verify(t.Context(), key, "")
		return err == nil
	}
	if err := v.Replace([]oauth.APIKey{grace}); err != nil || valid(adaKey) || !valid(graceKey) {
		t.Errorf("after the replacement ada's key is valid: %t, grace's: %t; %v", valid(adaKey), valid(graceKey), err)
	}
	if err := v.Replace([]oauth.APIKey{ada, {Hash: "none"}}); err == nil || valid(adaKey) || !valid(graceKey) {
		t.Errorf("after malformed keys ada's key is valid: %t, grace's: %t; %v", valid(adaKey), valid(graceKey), err)
	}
}

func TestAPIKeysThatAreRefused(t *testing.T) {
	good := oauth.HashAPIKey(adaKey)
	for name, keys := range map[string][]oauth.APIKey{
		"no hash":       {{Subject: "ada"}},
		"a key":         {{Hash: adaKey, Subject: "ada"}},
		"a long hash":   {{Hash: good + "00", Subject: "ada"}},
		"no subject":    {{Hash: good}},
		"twice":         {{Hash: good, Subject: "ada"}, {Hash: good, Subject: "grace"}},
		"a bad scope":   {{Hash: good, Subject: "ada", Scopes: []string{"a b"}}},
		"too many keys": make([]oauth.APIKey, 100_000+1),
	} {
		if _, err := oauth.NewAPIKeyVerifier("https://mcp.example.com", keys); err == nil || strings.Contains(err.Error(), good) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if _, err := oauth.NewAPIKeyVerifier("me", nil); err == nil {
		t.Error("an issuer that is not a URL is taken")
	}
}
