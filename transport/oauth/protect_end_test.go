package oauth_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/transport/oauth"
)

// A token that has ended, which a verifier still lets pass, lets nobody into a request that
// would have ended too.
func TestTokenWhoseRequestHasEnded(t *testing.T) {
	for name, test := range map[string]struct {
		ended, grace time.Duration
		want         int
	}{
		"within the grace": {10 * time.Second, time.Minute, http.StatusOK},
		"after it":         {2 * time.Minute, time.Minute, http.StatusUnauthorized},
		"without a grace":  {time.Second, -1, http.StatusUnauthorized},
		"not yet":          {-time.Minute, -1, http.StatusOK},
	} {
		inside := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if err := r.Context().Err(); err != nil {
				t.Errorf("%s: the request begins with %v", name, err)
			}
		})
		h, err := oauth.Protect(inside, &oauth.ProtectOptions{
			Resource: testResource, AuthorizationServers: []string{testIssuer}, Grace: test.grace, Logger: quiet(),
			Verifier: always{&oauth.Grant{Issuer: testIssuer, Subject: "ada", Expires: time.Now().Add(-test.ended)}},
		})
		if err != nil {
			t.Fatal(err)
		}
		res := ask(h, "POST", "/mcp", bearer("t"), "{}")
		if res.StatusCode != test.want || test.want == http.StatusUnauthorized && !strings.Contains(res.Header.Get("WWW-Authenticate"), `error="invalid_token"`) {
			t.Errorf("%s: status %d, %v", name, res.StatusCode, res.Header)
		}
	}
}

// What strangers can make happen is not logged each time.
func TestFailuresAreLoggedSeldom(t *testing.T) {
	logs := &logbook{}
	h := protected(t, newMint(t, "k"), &visits{}, func(o *oauth.ProtectOptions) {
		o.Verifier, o.Logger = failing{errors.New("it has failed")}, logs.logger()
	})
	for range 100 {
		if res := ask(h, "POST", "/mcp", bearer("t"), "{}"); res.StatusCode != http.StatusServiceUnavailable {
			t.Fatalf("status %d", res.StatusCode)
		}
	}
	if lines := strings.Count(logs.String(), "it has failed"); lines == 0 || lines > 10 {
		t.Errorf("%d lines", lines)
	}
}
