package oauth_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/oauth"
	"github.com/dovetail-go/dovetail/transport/sse"
	"github.com/dovetail-go/dovetail/transport/streamable"
	"github.com/dovetail-go/dovetail/transport/ws"
)

// Without a token, every path, method and header is refused, except the metadata.
func TestEveryRouteIsDenied(t *testing.T) {
	m := newSigner(t, "k")
	s := shop(t)
	endpoint, events, sockets := streamable.Handler(s, nil), sse.Handler(s, nil), ws.Handler(s, nil)
	defer endpoint.Close()
	defer events.Close()
	defer sockets.Close()
	open := &recordingHandler{}
	mux := http.NewServeMux()
	mux.Handle("/mcp", endpoint)
	mux.Handle("/sse", events)
	mux.Handle("/messages", events)
	mux.Handle("/ws", sockets)
	mux.Handle("/", open)
	h := protected(t, m, mux, nil)

	handshake := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`
	headers := map[string]http.Header{
		"none":         {},
		"JSON":         {"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}},
		"session":      {"Mcp-Session-Id": {"x"}, "Content-Type": {"application/json"}, "Accept": {"text/event-stream"}},
		"modern":       {"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {"tools/list"}, "Content-Type": {"application/json"}},
		"WebSocket":    {"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Version": {"13"}, "Sec-Websocket-Key": {"dGhlIHNhbXBsZSBub25jZQ=="}, "Sec-Websocket-Protocol": {"mcp"}},
		"preflight":    {"Origin": {"https://app.example.com"}, "Access-Control-Request-Method": {"POST"}},
		"basic":        {"Authorization": {"Basic YTpi"}},
		"other scheme": {"Authorization": {"Token " + m.token(t, validClaims(nil))}},
		"wrong header": {"X-Authorization": {"Bearer " + m.token(t, validClaims(nil))}, "Proxy-Authorization": {"Bearer " + m.token(t, validClaims(nil))}},
		"cookie":       {"Cookie": {"access_token=" + m.token(t, validClaims(nil))}},
	}
	paths := []string{
		"/mcp", "/mcp/", "/MCP", "/sse", "/messages", "/messages?sessionId=x", "/ws", "/", "/debug", "/mcp/../debug", "//mcp",
		"/mcp?access_token=" + m.token(t, validClaims(nil)), "/.well-known/oauth-authorization-server", "/.well-known/oauth-protected-resource/",
		"/.well-known/oauth-protected-resource/mcp/", "/.well-known/oauth-protected-resource/mcp/x", "/.well-known/oauth-protected-resourcex",
		"/x/.well-known/oauth-protected-resource", "/mcp/.well-known/oauth-protected-resource", "/.well-known/../mcp",
	}
	for _, path := range paths {
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE", "X"} {
			for name, header := range headers {
				res := do(h, method, path, header, handshake)
				challenge := challengeOf(t, res)
				if res.StatusCode != http.StatusUnauthorized || !challenge.Is("Bearer") ||
					challenge.Params["resource_metadata"] != "https://mcp.example.com/.well-known/oauth-protected-resource/mcp" {
					t.Errorf("%s %s, %s: status %d, %v", method, path, name, res.StatusCode, challenge)
				}
				if challenge.Params["error"] != "" {
					t.Errorf("%s %s, %s: nothing was shown, but the error is %q", method, path, name, challenge.Params["error"])
				}
			}
		}
	}
	if seen := open.takeRequests(); seen != nil {
		t.Errorf("%d requests get through", len(seen))
	}
	for _, path := range []string{"/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-protected-resource"} {
		if res := do(h, "GET", path, nil, ""); res.StatusCode != http.StatusOK {
			t.Errorf("%s: status %d", path, res.StatusCode)
		}
	}
}

func TestMetadata(t *testing.T) {
	h := protected(t, newSigner(t, "k"), &recordingHandler{}, func(o *oauth.ProtectOptions) {
		o.Name, o.Documentation = "The shop", "https://example.com/docs"
		o.ScopesSupported = []string{"mcp", "orders:write"}
		o.DPoP = &oauth.DPoPOptions{Required: true}
	})
	const path = "/.well-known/oauth-protected-resource/mcp"
	res := do(h, "GET", path, http.Header{"Origin": {"https://anyone.example"}}, "")
	var got map[string]any
	if err := json.Unmarshal([]byte(bodyOf(t, res)), &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"resource": testResource, "authorization_servers": []any{testIssuer}, "resource_name": "The shop",
		"resource_documentation": "https://example.com/docs", "scopes_supported": []any{"mcp", "orders:write"},
		"bearer_methods_supported": []any{"header"}, "dpop_signing_alg_values_supported": []any{"ES256", "ES384", "EdDSA", "RS256", "PS256"},
		"dpop_bound_access_tokens_required": true,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Access-Control-Allow-Origin": "*", "Cache-Control": "public, max-age=300",
	} {
		if got := res.Header.Get(name); got != value {
			t.Errorf("%s: %q, want %q", name, got, value)
		}
	}
	if res := do(h, "HEAD", path, nil, ""); res.StatusCode != http.StatusOK {
		t.Errorf("HEAD: status %d", res.StatusCode)
	}
	preflight := do(h, "OPTIONS", path, http.Header{"Origin": {"https://anyone.example"}, "Access-Control-Request-Method": {"GET"}, "Access-Control-Request-Headers": {"mcp-protocol-version"}}, "")
	if preflight.StatusCode != http.StatusNoContent || preflight.Header.Get("Access-Control-Allow-Headers") != "MCP-Protocol-Version" {
		t.Errorf("preflight: status %d, %v", preflight.StatusCode, preflight.Header)
	}
	if res := do(h, "POST", path, nil, "{}"); res.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("POST: status %d", res.StatusCode)
	}
}

// The path of the metadata. RFC 9728, section 3.1.
func TestMetadataPath(t *testing.T) {
	for resource, path := range map[string]string{
		"https://mcp.example.com":           "/.well-known/oauth-protected-resource",
		"https://mcp.example.com/":          "/.well-known/oauth-protected-resource",
		"https://mcp.example.com/a/b":       "/.well-known/oauth-protected-resource/a/b",
		"https://mcp.example.com/a%20b":     "/.well-known/oauth-protected-resource/a%20b",
		"http://localhost:8080/mcp":         "/.well-known/oauth-protected-resource/mcp",
		"http://[::1]:8080/mcp/":            "/.well-known/oauth-protected-resource/mcp",
		"https://mcp.example.com:8443/mcp/": "/.well-known/oauth-protected-resource/mcp",
	} {
		h := protected(t, newSigner(t, "k"), &recordingHandler{}, func(o *oauth.ProtectOptions) { o.Resource = resource })
		if res := do(h, "GET", path, nil, ""); res.StatusCode != http.StatusOK {
			t.Errorf("%s: %s has status %d", resource, path, res.StatusCode)
		}
		challenge := challengeOf(t, do(h, "GET", "/", nil, ""))
		if got := challenge.Params["resource_metadata"]; !strings.HasSuffix(got, path) {
			t.Errorf("%s: the challenge names %s", resource, got)
		}
	}
}

// A request with a valid token is admitted, has a principal and a grant, and loses the
// token.
func TestAdmission(t *testing.T) {
	m, inner := newSigner(t, "k"), &recordingHandler{}
	h := protected(t, m, inner, nil)
	header := bearer(m.token(t, validClaims(claimSet{"scope": "mcp orders:write"})))
	header.Set("DPoP", "x")
	for _, scheme := range []string{"Bearer ", "bearer ", "BEARER   "} {
		header.Set("Authorization", scheme+m.token(t, validClaims(claimSet{"scope": "mcp orders:write"})))
		if res := do(h, "PUT", "/any/path?q", header, "body"); res.StatusCode != http.StatusOK {
			t.Fatalf("%q: status %d: %s", scheme, res.StatusCode, bodyOf(t, res))
		}
		seen := inner.takeRequests()
		if len(seen) != 1 {
			t.Fatalf("%d requests get through", len(seen))
		}
		r := seen[0]
		if r.Header.Get("Authorization") != "" || r.Header.Get("DPoP") != "" {
			t.Error("the credentials are passed on")
		}
		if got := transport.Principal(r.Context()); got != testIssuer+"#ada" {
			t.Errorf("the principal is %q", got)
		}
		grant := oauth.FromContext(r.Context())
		if grant == nil || grant.Issuer != testIssuer || grant.Subject != "ada" || grant.ClientID != "app" || !slices.Equal(grant.Scopes, []string{"mcp", "orders:write"}) {
			t.Errorf("the grant is %+v", grant)
		}
		if _, there := r.Context().Deadline(); !there {
			t.Error("the request never ends")
		}
	}
	if header.Get("DPoP") == "" {
		t.Error("the caller's header has been changed")
	}
}

func TestCredentials(t *testing.T) {
	m, inner := newSigner(t, "k"), &recordingHandler{}
	h := protected(t, m, inner, nil)
	token := m.token(t, validClaims(nil))
	for name, test := range map[string]struct {
		lines  []string
		status int
		code   string
	}{
		"two headers":            {[]string{"Bearer " + token, "Bearer " + token}, 400, ""},
		"two schemes":            {[]string{"Basic YTpi", "Bearer " + token}, 400, ""},
		"an empty line first":    {[]string{"", "Bearer " + token}, 400, ""},
		"no token":               {[]string{"Bearer"}, 400, ""},
		"an empty token":         {[]string{"Bearer "}, 400, ""},
		"two tokens":             {[]string{"Bearer " + token + " " + token}, 400, ""},
		"two in a list":          {[]string{"Bearer " + token + ", Bearer " + token}, 400, ""},
		"odd characters":         {[]string{"Bearer " + token + "\x00"}, 400, ""},
		"a quoted token":         {[]string{`Bearer "` + token + `"`}, 400, ""},
		"no ASCII":               {[]string{"Bearer ä" + token}, 400, ""},
		"a tab":                  {[]string{"Bearer\t" + token}, 401, ""},
		"a huge token":           {[]string{"Bearer " + strings.Repeat("a", 8<<10+1)}, 400, ""},
		"an empty header":        {[]string{""}, 401, ""},
		"the largest":            {[]string{"Bearer " + strings.Repeat("a", 8<<10)}, 401, "invalid_token"},
		"no JWT":                 {[]string{"Bearer abc"}, 401, "invalid_token"},
		"padding":                {[]string{"Bearer " + token + "=="}, 401, "invalid_token"},
		"a scheme it has not":    {[]string{"DPoP " + token}, 401, "invalid_token"},
		"a part":                 {[]string{"Bearer " + token[:len(token)-1]}, 401, "invalid_token"},
		"a JWT without any part": {[]string{"Bearer .."}, 401, "invalid_token"},
	} {
		res := do(h, "POST", "/mcp", http.Header{"Authorization": test.lines}, "{}")
		if res.StatusCode != test.status {
			t.Errorf("%s: status %d, want %d", name, res.StatusCode, test.status)
		}
		if body := bodyOf(t, res); strings.Contains(body, token) || !json.Valid([]byte(body)) {
			t.Errorf("%s: the body is %s", name, body)
		}
		if res.StatusCode == http.StatusUnauthorized {
			if got := challengeOf(t, res).Params["error"]; got != test.code {
				t.Errorf("%s: the error is %q", name, got)
			}
		}
		if inner.takeRequests() != nil {
			t.Errorf("%s gets through", name)
		}
	}
}

// A token in the query is ignored.
func TestTokenInQuery(t *testing.T) {
	m, inner := newSigner(t, "k"), &recordingHandler{}
	h := protected(t, m, inner, nil)
	good, bad := m.token(t, validClaims(nil)), newSigner(t, "k").token(t, validClaims(nil))
	form := http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}
	if res := do(h, "POST", "/mcp?access_token="+good, form, "access_token="+good); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("status %d", res.StatusCode)
	}
	if res := do(h, "POST", "/mcp?access_token="+good, bearer(bad), ""); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("beside a bad one: status %d", res.StatusCode)
	}
	if res := do(h, "POST", "/mcp?access_token="+bad, bearer(good), ""); res.StatusCode != http.StatusOK {
		t.Errorf("beside a good one: status %d", res.StatusCode)
	}
}

// Only scripts of listed origins can read refusals.
func TestRefusalsForPages(t *testing.T) {
	h := protected(t, newSigner(t, "k"), &recordingHandler{}, func(o *oauth.ProtectOptions) { o.Origins = []string{"https://app.example.com"} })
	for origin, allowed := range map[string]string{"https://app.example.com": "https://app.example.com", "https://evil.example": "", "null": ""} {
		res := do(h, "POST", "/mcp", http.Header{"Origin": {origin}}, "")
		if got := res.Header.Get("Access-Control-Allow-Origin"); res.StatusCode != http.StatusUnauthorized || got != allowed {
			t.Errorf("%s: status %d, allowed %q", origin, res.StatusCode, got)
		}
		res = do(h, "OPTIONS", "/mcp", http.Header{"Origin": {origin}, "Access-Control-Request-Method": {"POST"}, "Access-Control-Request-Headers": {"authorization"}}, "")
		want := http.StatusUnauthorized
		if allowed != "" {
			want = http.StatusNoContent
		}
		if res.StatusCode != want || res.Header.Get("Access-Control-Allow-Origin") != allowed {
			t.Errorf("%s: preflight: status %d, %v", origin, res.StatusCode, res.Header)
		}
	}
}

func TestProtectOptions(t *testing.T) {
	v := verifier(t, newSigner(t, "k"))
	for name, change := range map[string]func(*oauth.ProtectOptions){
		"no resource":        func(o *oauth.ProtectOptions) { o.Resource = "" },
		"http":               func(o *oauth.ProtectOptions) { o.Resource = "http://mcp.example.com/mcp" },
		"a query":            func(o *oauth.ProtectOptions) { o.Resource = "https://mcp.example.com/mcp?x" },
		"an empty query":     func(o *oauth.ProtectOptions) { o.Resource = "https://mcp.example.com/mcp?" },
		"a fragment":         func(o *oauth.ProtectOptions) { o.Resource = "https://mcp.example.com/mcp#x" },
		"a user":             func(o *oauth.ProtectOptions) { o.Resource = "https://u@mcp.example.com/mcp" },
		"a path":             func(o *oauth.ProtectOptions) { o.Resource = "/mcp" },
		"opaque":             func(o *oauth.ProtectOptions) { o.Resource = "https:mcp.example.com" },
		"no server":          func(o *oauth.ProtectOptions) { o.AuthorizationServers = nil },
		"a server with http": func(o *oauth.ProtectOptions) { o.AuthorizationServers = []string{"http://login.example.com"} },
		"no verifier":        func(o *oauth.ProtectOptions) { o.Verifier = nil },
		"no scope":           func(o *oauth.ProtectOptions) { o.Scopes = []string{"a b"} },
		"an empty scope":     func(o *oauth.ProtectOptions) { o.ScopesSupported = []string{""} },
		"no origin":          func(o *oauth.ProtectOptions) { o.Origins = []string{"*"} },
		"no nonce key":       func(o *oauth.ProtectOptions) { o.Store, o.DPoP = newSharedStore(t), &oauth.DPoPOptions{Nonces: true} },
		"a short key": func(o *oauth.ProtectOptions) {
			o.DPoP = &oauth.DPoPOptions{Nonces: true, NonceKey: oauth.Secret(make([]byte, 31))}
		},
		"old proofs": func(o *oauth.ProtectOptions) { o.DPoP = &oauth.DPoPOptions{MaxAge: 1 << 40} },
	} {
		opts := &oauth.ProtectOptions{Resource: testResource, AuthorizationServers: []string{testIssuer}, Verifier: v}
		change(opts)
		if _, err := oauth.Protect(&recordingHandler{}, opts); err == nil || !strings.HasPrefix(err.Error(), "oauth.Protect: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := oauth.Protect(&recordingHandler{}, nil); err == nil {
		t.Error("nil options are taken")
	}
}

// A token that expired longer ago than Grace is refused, although its verifier accepts
// it.
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
		inner := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if err := r.Context().Err(); err != nil {
				t.Errorf("%s: the request begins with %v", name, err)
			}
		})
		h, err := oauth.Protect(inner, &oauth.ProtectOptions{
			Resource: testResource, AuthorizationServers: []string{testIssuer}, Grace: test.grace, Logger: quiet(),
			Verifier: fixedVerifier{&oauth.Grant{Issuer: testIssuer, Subject: "ada", Expires: time.Now().Add(-test.ended)}},
		})
		if err != nil {
			t.Fatal(err)
		}
		res := do(h, "POST", "/mcp", bearer("t"), "{}")
		if res.StatusCode != test.want || test.want == http.StatusUnauthorized && !strings.Contains(res.Header.Get("WWW-Authenticate"), `error="invalid_token"`) {
			t.Errorf("%s: status %d, %v", name, res.StatusCode, res.Header)
		}
	}
}

// A refused token does not keep a failure of the same second out of the log.
func TestRefusalsHideNoFailures(t *testing.T) {
	logs := &logBuffer{}
	h := protected(t, newSigner(t, "k"), &recordingHandler{}, func(o *oauth.ProtectOptions) {
		o.Verifier, o.Logger = failsForFail{}, logs.logger()
	})
	do(h, "POST", "/mcp", bearer("refuse"), "{}")
	do(h, "POST", "/mcp", bearer("fail"), "{}")
	if text := logs.String(); !strings.Contains(text, "level=WARN") || !strings.Contains(text, "level=ERROR") {
		t.Errorf("the log is %s", text)
	}
}

type failsForFail struct{}

func (failsForFail) Verify(_ context.Context, token oauth.Secret, _ string) (*oauth.Grant, error) {
	if token == "fail" {
		return nil, errors.New("it has failed")
	}
	return nil, &oauth.InvalidTokenError{Reason: "not one"}
}

// Failures that anyone can cause are logged at most once a second. A token that has expired is no failure.
func TestFailuresAreLoggedSeldom(t *testing.T) {
	expired := map[string]any{"exp": time.Now().Add(-time.Hour).Unix()}
	for name, test := range map[string]struct {
		verifier oauth.Verifier // nil for that of the claims
		claims   map[string]any
		status   int
		want     string // in the log; "" for nothing
	}{
		"a verifier that fails": {failingVerifier{errors.New("it has failed")}, nil, http.StatusServiceUnavailable, "it has failed"},
		"another audience":      {nil, map[string]any{"aud": "bank"}, http.StatusUnauthorized, "audience=" + testResource},
		"an expired token":      {nil, expired, http.StatusUnauthorized, ""},
	} {
		logs, signer := &logBuffer{}, newSigner(t, "k")
		h := protected(t, signer, &recordingHandler{}, func(o *oauth.ProtectOptions) {
			o.Logger = logs.logger()
			if test.verifier != nil {
				o.Verifier = test.verifier
			}
		})
		token := signer.token(t, validClaims(test.claims))
		for range 100 {
			if res := do(h, "POST", "/mcp", bearer(token), "{}"); res.StatusCode != test.status {
				t.Fatalf("%s: status %d", name, res.StatusCode)
			}
		}
		lines := strings.Count(logs.String(), "level=")
		if lines > 10 || (lines > 0) != (test.want != "") || !strings.Contains(logs.String(), test.want) {
			t.Errorf("%s: %d lines: %s", name, lines, logs.String())
		}
	}
}

// The cost of a request with a token is mostly the signature.
func BenchmarkProtect(b *testing.B) {
	inner := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	for name, m := range map[string]*tokenSigner{"ES256": newSigner(b, "k"), "RS256": newRSASigner(b, "k", 2048)} {
		b.Run(name, func(b *testing.B) { benchmarkProtect(b, protected(b, m, inner, nil), m.token(b, validClaims(nil))) })
	}
	b.Run("nothing to verify", func(b *testing.B) {
		h := protected(b, newSigner(b, "k"), inner, func(o *oauth.ProtectOptions) {
			o.Verifier, o.Scopes = fixedVerifier{&oauth.Grant{Issuer: testIssuer, Subject: "ada"}}, nil
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
