package oauth_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/policy"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/oauth"
	shared "github.com/dovetail-go/dovetail/transport/store"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

const hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`

// newSharedStore returns a store that the end of the test closes.
func newSharedStore(t testing.TB) shared.Store {
	t.Helper()
	memory, err := shared.NewMemory(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { memory.Close() })
	return memory
}

// A session does not exist for other principals.
func TestSessionOfAnother(t *testing.T) {
	m := newSigner(t, "k")
	other, err := oauth.NewJWTVerifier(&oauth.JWTOptions{Issuer: "https://other.example.com", Keys: keySet(t, m)})
	if err != nil {
		t.Fatal(err)
	}
	for name, common := range map[string]shared.Store{
		"own store":    nil,
		"shared store": newSharedStore(t),
	} {
		t.Run(name, func(t *testing.T) {
			endpoint := streamable.Handler(shopWith(t, common), &streamable.Options{Logger: quiet(), Hosts: []string{"mcp.example.com"}})
			defer endpoint.Close()
			h := protected(t, m, endpoint, func(o *oauth.ProtectOptions) {
				o.AuthorizationServers = append(o.AuthorizationServers, "https://other.example.com")
				o.Verifier = eitherVerifier{o.Verifier, other}
			})
			opened := post(h, bearer(m.token(t, validClaims(nil))), hello)
			id := opened.Header.Get("Mcp-Session-Id")
			if opened.StatusCode != http.StatusOK || id == "" {
				t.Fatalf("status %d: %s", opened.StatusCode, bodyOf(t, opened))
			}
			in := func(claims claimSet) http.Header {
				header := bearer(m.token(t, validClaims(claims)))
				header.Set("Mcp-Session-Id", id)
				return header
			}
			for who, claims := range map[string]claimSet{
				"eve":                      {"sub": "eve"},
				"eve by the same app":      {"sub": "eve", "client_id": "app"},
				"ada of another issuer":    {"iss": "https://other.example.com"},
				"somebody called like ada": {"sub": "ada "},
				"ada in capitals":          {"sub": "ADA"},
				"the app ada":              {"sub": "app", "client_id": "ada"},
			} {
				header := in(claims)
				for _, res := range []*http.Response{
					post(h, header, `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`),
					do(h, "GET", "/mcp", with(header, "Accept", "text/event-stream"), ""),
					do(h, "GET", "/mcp", with(with(header, "Accept", "text/event-stream"), "Last-Event-Id", "x-1"), ""),
					do(h, "DELETE", "/mcp", header, ""),
				} {
					if res.StatusCode != http.StatusNotFound {
						t.Errorf("%s: status %d: %s", who, res.StatusCode, bodyOf(t, res))
					}
				}
			}
			anyApp := in(claimSet{"client_id": "another app"})
			if res := post(h, anyApp, `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`); res.StatusCode != http.StatusOK {
				t.Errorf("ada: status %d: %s", res.StatusCode, bodyOf(t, res))
			}
			if res := do(h, "DELETE", "/mcp", anyApp, ""); res.StatusCode != http.StatusNoContent {
				t.Errorf("ada ends it: status %d", res.StatusCode)
			}
		})
	}
}

// eitherVerifier trusts two verifiers.
type eitherVerifier [2]oauth.Verifier

func (e eitherVerifier) Verify(ctx context.Context, token oauth.Secret, audience string) (*oauth.Grant, error) {
	if grant, err := e[0].Verify(ctx, token, audience); err == nil {
		return grant, nil
	}
	return e[1].Verify(ctx, token, audience)
}

func with(header http.Header, name, value string) http.Header {
	header = header.Clone()
	header.Set(name, value)
	return header
}

// The request state of a call is valid only for its caller.
func TestStateOfAnother(t *testing.T) {
	m := newSigner(t, "k")
	s := server.New(mcp.Implementation{Name: "x", Version: "1"}, &server.Options{Logger: quiet()})
	server.AddTool(s, server.Tool{Name: "ask"}, func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
		answer, err := server.Elicit[struct {
			Name string `json:"name"`
		}](r, "name", "What is your name?")
		return "hello " + answer.Name, err
	})
	h := protectServer(t, m, s, nil)
	call := func(claims claimSet, more string) *http.Response {
		header, body := modern(bearer(m.token(t, validClaims(claims))), mcp.MethodToolsCall, "ask", `,"name":"ask"`+more)
		return post(h, header, strings.Replace(body, `Capabilities":{}`, `Capabilities":{"elicitation":{"form":{}}}`, 1))
	}
	var first struct{ Result struct{ RequestState string } }
	if err := json.Unmarshal([]byte(bodyOf(t, call(nil, ""))), &first); err != nil || first.Result.RequestState == "" {
		t.Fatalf("%+v, %v", first, err)
	}
	again := `,"inputResponses":{"name":{"action":"accept","content":{"name":"Ada"}}},"requestState":"` + first.Result.RequestState + `"`
	for who, claims := range map[string]claimSet{"eve": {"sub": "eve"}, "nobody": {"sub": ""}, "ada": nil} {
		if got := bodyOf(t, call(claims, again)); strings.Contains(got, "hello Ada") != (who == "ada") {
			t.Errorf("%s: %s", who, got)
		}
	}
}

// A guard sees the grant, and a policy matches the principal.
func TestGuards(t *testing.T) {
	compiled, err := policy.Compile(&policy.Policy{Rules: []policy.Rule{
		{Effect: policy.Allow, Match: policy.Match{Principals: []string{testIssuer + "#ada"}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	m := newSigner(t, "k")
	for name, guard := range map[string]mcp.Guard{
		"policy": policy.Guard(compiled, nil),
		"tenant": {Name: "tenant", Check: func(ctx context.Context, _ *mcp.Call) error {
			var claims struct{ Tenant string }
			if err := json.Unmarshal(oauth.FromContext(ctx).Claims, &claims); err != nil || claims.Tenant != "blue" {
				return errors.New("another tenant")
			}
			return nil
		}},
	} {
		s := server.New(mcp.Implementation{Name: "x", Version: "1"}, &server.Options{Guards: []mcp.Guard{guard}, Logger: quiet()})
		server.AddTool(s, server.Tool{Name: "t"}, func(context.Context, *server.Request, struct{}) (string, error) { return "done", nil })
		h := protectServer(t, m, s, nil)
		for want, claims := range map[string]claimSet{`"done"`: {"sub": "ada", "tenant": "blue"}, "FORBIDDEN": {"sub": "eve", "tenant": "red"}} {
			header, body := modern(bearer(m.token(t, validClaims(claims))), mcp.MethodToolsCall, "t", `,"name":"t"`)
			if got := bodyOf(t, post(h, header, body)); !strings.Contains(got, want) {
				t.Errorf("%s, %v: %s", name, claims, got)
			}
		}
	}
}

// Streams and calls end soon after their token expires.
func TestTokenExpires(t *testing.T) {
	for name, test := range map[string]struct {
		grace time.Duration
		exp   time.Duration // 0: not known
		want  time.Duration
	}{
		"by default":   {0, 10 * time.Minute, 11 * time.Minute},
		"at once":      {-1, 10 * time.Minute, 10 * time.Minute},
		"in some time": {time.Hour, 10 * time.Minute, 70 * time.Minute},
		"unknown":      {0, 0, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				grant := &oauth.Grant{Issuer: testIssuer, Subject: "ada"}
				if test.exp > 0 {
					grant.Expires = began.Add(test.exp)
				}
				s := shop(t)
				var cause error
				server.AddTool(s, server.Tool{Name: "long"}, func(ctx context.Context, _ *server.Request, _ struct{}) (string, error) {
					<-ctx.Done()
					cause = context.Cause(ctx)
					return "", cause
				})
				endpoint := streamable.Handler(s, &streamable.Options{Limits: transport.Limits{SessionTTL: 24 * time.Hour}, Logger: quiet(), Hosts: []string{"mcp.example.com"}})
				defer endpoint.Close()
				h, err := oauth.Protect(endpoint, &oauth.ProtectOptions{
					Resource: testResource, AuthorizationServers: []string{testIssuer}, Verifier: fixedVerifier{grant}, Grace: test.grace,
				})
				if err != nil {
					t.Fatal(err)
				}
				wantEnd := func(what string, since time.Time) {
					t.Helper()
					end := test.want
					if test.exp > 0 {
						since = began
					}
					if took := time.Since(since); took != end {
						t.Errorf("%s ends after %v, want %v", what, took, end)
					}
				}
				opened := post(h, bearer("x"), hello)
				header := with(with(bearer("x"), "Mcp-Session-Id", opened.Header.Get("Mcp-Session-Id")), "Accept", "text/event-stream")

				if test.exp > 0 { // all requests end at the same time
					done := make(chan struct{})
					go func() {
						defer close(done)
						do(h, "GET", "/mcp", header, "")
						wantEnd("a session's stream", began)
					}()
					defer func() { <-done }()
				} else {
					since := time.Now()
					do(h, "GET", "/mcp", header, "")
					wantEnd("a session's stream", since)
				}
				since := time.Now()
				hear, body := modern(bearer("x"), mcp.MethodSubscriptionsListen, "", `,"notifications":{"toolsListChanged":true}`)
				post(h, hear, body)
				wantEnd("a subscription", since)
				since = time.Now()
				if test.exp > 0 {
					return
				}
				long, body := modern(bearer("x"), mcp.MethodToolsCall, "long", `,"name":"long"`)
				if res := post(h, long, body); !errors.Is(cause, oauth.ErrTokenExpired) {
					t.Errorf("the call has ended by %v: %s", cause, bodyOf(t, res))
				}
				wantEnd("a call", since)
			})
		})
	}
}

// fixedVerifier accepts every token.
type fixedVerifier struct{ grant *oauth.Grant }

func (a fixedVerifier) Verify(context.Context, oauth.Secret, string) (*oauth.Grant, error) {
	return a.grant, nil
}

// A verifier that fails or returns an incomplete grant admits no request.
func TestVerifierFails(t *testing.T) {
	for name, v := range map[string]oauth.Verifier{
		"no grant":     fixedVerifier{nil},
		"empty grant":  fixedVerifier{&oauth.Grant{}},
		"no issuer":    fixedVerifier{&oauth.Grant{Subject: "ada"}},
		"nobody":       fixedVerifier{&oauth.Grant{Issuer: testIssuer}},
		"another time": failingVerifier{errors.New("the sun is too hot")},
		"with a grant": failingVerifier{context.DeadlineExceeded},
	} {
		inner := &recordingHandler{}
		h := protected(t, newSigner(t, "k"), inner, func(o *oauth.ProtectOptions) { o.Verifier, o.Scopes = v, nil })
		res := do(h, "POST", "/mcp", bearer("x"), "{}")
		if body := bodyOf(t, res); res.StatusCode != http.StatusServiceUnavailable || inner.takeRequests() != nil || strings.Contains(body, "sun") {
			t.Errorf("%s: status %d: %s", name, res.StatusCode, body)
		}
	}
}

type failingVerifier struct{ err error }

func (f failingVerifier) Verify(context.Context, oauth.Secret, string) (*oauth.Grant, error) {
	return &oauth.Grant{Issuer: testIssuer, Subject: "ada"}, f.err
}

func TestPrincipal(t *testing.T) {
	names := map[string]oauth.Grant{}
	for _, g := range []oauth.Grant{
		{Issuer: "https://a", Subject: "b"}, {Issuer: "https://a", ClientID: "b"}, {Issuer: "https://a", Subject: "b?c"}, {Issuer: "https://a", ClientID: "#b"},
		{Issuer: "https://a/b", Subject: "c"}, {Issuer: "https://a", Subject: "/b#c"}, {Issuer: "https://a", Subject: "#b"}, {Issuer: "https://a", Subject: "?b"},
	} {
		name := g.Principal()
		if other, taken := names[name]; taken || name == "" {
			t.Errorf("%+v and %+v are both %q", g, other, name)
		}
		names[name] = g
	}
	for _, g := range []oauth.Grant{{}, {Subject: "a"}, {ClientID: "a"}, {Issuer: "https://a"}} {
		if got := g.Principal(); got != "" {
			t.Errorf("%+v is %q", g, got)
		}
	}
	g := oauth.Grant{Scopes: []string{"a", "b"}}
	if !g.Has() || !g.Has("a") || !g.Has("b", "a") || g.Has("a", "c") || g.Has("") {
		t.Error("Has")
	}
}
