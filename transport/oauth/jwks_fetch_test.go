package oauth_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/internal/netguard"
	"github.com/dovetail-go/dovetail/internal/test/waittest"
	"github.com/dovetail-go/dovetail/transport/oauth"
)

// issuerOf starts an issuer on this machine, at a URL with a path.
func issuerOf(t *testing.T, routes map[string]http.HandlerFunc) (issuer string) {
	t.Helper()
	mux := http.NewServeMux()
	for path, handler := range routes {
		mux.HandleFunc(path, handler)
	}
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.URL + "/tenant"
}

func localVerifier(t *testing.T, issuer, keysURL string) *oauth.JWTVerifier {
	t.Helper()
	v, err := oauth.NewJWTVerifier(&oauth.JWTOptions{Issuer: issuer, KeysURL: keysURL, AllowLoopback: true})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// The keys are found through the metadata, at each of the well-known locations.
func TestKeysByDiscovery(t *testing.T) {
	m := newSigner(t, "k")
	for _, place := range []string{
		"/.well-known/oauth-authorization-server/tenant", "/.well-known/openid-configuration/tenant", "/tenant/.well-known/openid-configuration",
	} {
		var issuer string
		issuer = issuerOf(t, map[string]http.HandlerFunc{
			place: func(w http.ResponseWriter, r *http.Request) {
				respondJSON(fmt.Sprintf(`{"issuer":%q,"jwks_uri":"%s/keys"}`, issuer, issuer))(w, r)
			},
			"/tenant/keys": respondJSON(string(keySet(t, m))),
		})
		wantValid(t, place, localVerifier(t, issuer, ""), m.token(t, validClaims(claimSet{"iss": issuer})))
	}
}

// The issuer in the options may differ from the one in the metadata by a slash. Tokens must name the latter.
func TestIssuerWithSlash(t *testing.T) {
	m := newSigner(t, "k")
	for _, option := range []string{"", "/"} {
		for _, own := range []string{"", "/"} {
			var issuer string
			issuer = issuerOf(t, map[string]http.HandlerFunc{
				"/.well-known/oauth-authorization-server/tenant": func(w http.ResponseWriter, r *http.Request) {
					respondJSON(fmt.Sprintf(`{"issuer":%q,"jwks_uri":"%s/keys"}`, issuer+own, issuer))(w, r)
				},
				"/tenant/keys": respondJSON(string(keySet(t, m))),
			})
			one := localVerifier(t, issuer+option, "")
			for name, v := range map[string]oauth.Verifier{"one": one, "of several": oauth.Issuers{issuer + option: one}} {
				for _, iss := range []string{"", "/", "//"} {
					token := m.token(t, validClaims(claimSet{"iss": issuer + iss}))
					grant, err := v.Verify(t.Context(), oauth.Secret(token), testResource)
					if (err == nil) != (iss == own) || err == nil && grant.Issuer != issuer+own {
						t.Errorf("%s: the option has %q, the metadata %q, the token %q: %v, %v", name, option, own, iss, grant, err)
					}
				}
			}
		}
	}
	// Without metadata, tokens name the issuer of the options.
	issuer := issuerOf(t, map[string]http.HandlerFunc{"/tenant/keys": respondJSON(string(keySet(t, m)))})
	v := localVerifier(t, issuer, issuer+"/keys")
	for iss, valid := range map[string]bool{issuer: true, issuer + "/": false} {
		if _, err := v.Verify(t.Context(), oauth.Secret(m.token(t, validClaims(claimSet{"iss": iss}))), testResource); (err == nil) != valid {
			t.Errorf("with keys at a URL, the token of %s: %v", iss, err)
		}
	}
}

// Metadata and keys that are missing or not trustworthy refuse requests, and do not make
// a token invalid.
func TestKeysThatAreNotToBeHad(t *testing.T) {
	m := newSigner(t, "k")
	good := respondJSON(string(keySet(t, m)))
	var issuer string
	metadata := func(format string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			respondJSON(strings.ReplaceAll(format, "ISSUER", issuer))(w, r)
		}
	}
	const place = "/.well-known/oauth-authorization-server/tenant"
	for name, test := range map[string]struct {
		metadata http.HandlerFunc
		keys     http.HandlerFunc
		want     any
	}{
		"another issuer":          {metadata(`{"issuer":"ISSUER//","jwks_uri":"ISSUER/keys"}`), good, new(*oauth.IssuerError)},
		"no issuer":               {metadata(`{"jwks_uri":"ISSUER/keys"}`), good, new(*oauth.IssuerError)},
		"no keys named":           {metadata(`{"issuer":"ISSUER"}`), good, new(*oauth.MetadataError)},
		"keys of a kind":          {metadata(`{"issuer":"ISSUER","jwks_uri":1}`), good, new(*oauth.MetadataError)},
		"issuer twice":            {metadata(`{"issuer":"x","issuer":"ISSUER","jwks_uri":"ISSUER/keys"}`), good, new(*oauth.MetadataError)},
		"no JSON":                 {metadata(`<html>`), good, new(*oauth.MetadataError)},
		"no metadata":             {http.NotFound, good, new(*oauth.MetadataError)},
		"keys in the cloud":       {metadata(`{"issuer":"ISSUER","jwks_uri":"http://169.254.169.254/latest/meta-data"}`), good, new(*netguard.RefusedError)},
		"keys inside":             {metadata(`{"issuer":"ISSUER","jwks_uri":"https://10.0.0.1/keys"}`), good, new(*netguard.RefusedError)},
		"keys in a file":          {metadata(`{"issuer":"ISSUER","jwks_uri":"file:///etc/passwd"}`), good, new(*netguard.RefusedError)},
		"keys of a user":          {metadata(`{"issuer":"ISSUER","jwks_uri":"http://u:p@localhost/keys"}`), good, new(*netguard.RefusedError)},
		"keys elsewhere":          {metadata(`{"issuer":"ISSUER","jwks_uri":"ISSUER/keys"}`), redirectTo("http://10.0.0.1/"), new(*netguard.RefusedError)},
		"keys in a circle":        {metadata(`{"issuer":"ISSUER","jwks_uri":"ISSUER/keys"}`), redirectTo("/tenant/keys"), new(*netguard.RefusedError)},
		"metadata elsewhere":      {redirectTo("http://localhost:1/copy"), good, new(*oauth.URLError)},
		"metadata that is away":   {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) }, good, new(*oauth.MetadataError)},
		"too much metadata":       {metadata(`{"issuer":"ISSUER","x":"` + strings.Repeat("a", 2<<20) + `","jwks_uri":"ISSUER/keys"}`), good, new(*netguard.SizeError)},
		"too many keys":           {metadata(`{"issuer":"ISSUER","jwks_uri":"ISSUER/keys"}`), respondJSON(strings.Repeat(" ", 2<<20)), new(*netguard.SizeError)},
		"keys that are not there": {metadata(`{"issuer":"ISSUER","jwks_uri":"ISSUER/keys"}`), http.NotFound, new(*netguard.StatusError)},
		"no JWK Set":              {metadata(`{"issuer":"ISSUER","jwks_uri":"ISSUER/keys"}`), respondJSON(`{"keys":{}}`), nil},
		"an empty JWK Set":        {metadata(`{"issuer":"ISSUER","jwks_uri":"ISSUER/keys"}`), respondJSON(`{"keys":[]}`), nil},
	} {
		issuer = issuerOf(t, map[string]http.HandlerFunc{place: test.metadata, "/tenant/keys": test.keys})
		v := localVerifier(t, issuer, "")
		_, err := v.Verify(t.Context(), oauth.Secret(m.token(t, validClaims(claimSet{"iss": issuer}))), testResource)
		if _, invalid := errors.AsType[*oauth.InvalidTokenError](err); err == nil || invalid {
			t.Errorf("%s: %v", name, err)
		}
		if test.want != nil && !errors.As(err, test.want) {
			t.Errorf("%s: the error is a %T: %v, want a %T", name, err, err, test.want)
		}
	}
}

func redirectTo(url string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, url, http.StatusFound) }
}

// A document that arrives slowly fails within a time limit.
func TestKeysThatDrip(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	m := newSigner(t, "k")
	issuer := issuerOf(t, map[string]http.HandlerFunc{"/tenant/keys": func(w http.ResponseWriter, r *http.Request) {
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				_, _ = w.Write([]byte(" "))
				_ = http.NewResponseController(w).Flush()
			case <-r.Context().Done():
				return
			}
		}
	}})
	waittest.Within(t, "the timeout of the document", func(ctx context.Context) {
		_, err := localVerifier(t, issuer, issuer+"/keys").Verify(ctx, oauth.Secret(m.token(t, validClaims(claimSet{"iss": issuer}))), testResource)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the error is %v", err)
		}
	})
}

// A request whose token cannot be verified is refused without details.
func TestIssuerIsDownForClients(t *testing.T) {
	m, inner, logs := newSigner(t, "k"), &recordingHandler{}, &logBuffer{}
	issuer := issuerOf(t, nil)
	v := localVerifier(t, issuer, issuer+"/keys")
	h := protected(t, m, inner, func(o *oauth.ProtectOptions) { o.Verifier, o.Logger = v, logs.logger() })
	token := m.token(t, validClaims(claimSet{"iss": issuer}))
	res := do(h, "POST", "/mcp", bearer(token), "{}")
	body := bodyOf(t, res)
	if res.StatusCode != http.StatusServiceUnavailable || res.Header.Get("Retry-After") == "" || inner.takeRequests() != nil {
		t.Errorf("status %d, %v", res.StatusCode, res.Header)
	}
	if strings.Contains(body, issuer) || !json.Valid([]byte(body)) {
		t.Errorf("the client is told %s", body)
	}
	if !strings.Contains(logs.String(), "404") || strings.Contains(logs.String(), token) {
		t.Errorf("the log: %s", logs)
	}
}
