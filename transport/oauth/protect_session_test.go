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
	"github.com/dovetail-go/dovetail/transport/oauth"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

const hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`

// A session is whose it is: to everybody else it does not exist.
func TestSessionOfAnother(t *testing.T) {
	m := newMint(t, "k")
	other, err := oauth.NewJWTVerifier(&oauth.JWTOptions{Issuer: "https://other.example.com", Keys: keySet(t, m)})
	if err != nil {
		t.Fatal(err)
	}
	for name, opts := range map[string]streamable.Options{
		"random ids": {},
		"sealed ids": {SessionKeys: [][]byte{[]byte("0123456789abcdef0123456789abcdef")}},
	} {
		t.Run(name, func(t *testing.T) {
			opts.Logger, opts.Hosts = quiet(), []string{"mcp.example.com"}
			endpoint := streamable.Handler(shop(t), &opts)
			defer endpoint.Close()
			h := protected(t, m, endpoint, func(o *oauth.ProtectOptions) {
				o.AuthorizationServers = append(o.AuthorizationServers, "https://other.example.com")
				o.Verifier = either{o.Verifier, other}
			})
			opened := post(h, bearer(m.token(t, usual(nil))), hello)
			id := opened.Header.Get("Mcp-Session-Id")
			if opened.StatusCode != http.StatusOK || id == "" {
				t.Fatalf("status %d: %s", opened.StatusCode, bodyOf(t, opened))
			}
			in := func(claims said) http.Header {
				header := bearer(m.token(t, usual(claims)))
				header.Set("Mcp-Session-Id", id)
				return header
			}
			for who, claims := range map[string]said{
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
					ask(h, "GET", "/mcp", with(header, "Accept", "text/event-stream"), ""),
					ask(h, "GET", "/mcp", with(with(header, "Accept", "text/event-stream"), "Last-Event-Id", "x-1"), ""),
					ask(h, "DELETE", "/mcp", header, ""),
				} {
					if res.StatusCode != http.StatusNotFound {
						t.Errorf("%s: status %d: %s", who, res.StatusCode, bodyOf(t, res))
					}
				}
			}
			anyApp := in(said{"client_id": "another app"})
			if res := post(h, anyApp, `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`); res.StatusCode != http.StatusOK {
				t.Errorf("ada: status %d: %s", res.StatusCode, bodyOf(t, res))
			}
			if res := ask(h, "DELETE", "/mcp", anyApp, ""); res.StatusCode != http.StatusNoContent {
				t.Errorf("ada ends it: status %d", res.StatusCode)
			}
		})
	}
}

// either trusts two verifiers.
type either [2]oauth.Verifier

func (e either) Verify(ctx context.Context, token oauth.Secret, audience string) (*oauth.Grant, error) {
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

// What a caller carries between the rounds of a call is good in the caller's hands only.
func TestStateOfAnother(t *testing.T) {
	m := newMint(t, "k")
	s := server.New(mcp.Implementation{Name: "x", Version: "1"}, &server.Options{Logger: quiet()})
	server.AddTool(s, server.Tool{Name: "ask"}, func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
		answer, err := server.Elicit[struct {
			Name string `json:"name"`
		}](r, "name", "What is your name?")
		return "hello " + answer.Name, err
	})
	endpoint := streamable.Handler(s, &streamable.Options{Hosts: []string{"mcp.example.com"}})
	defer endpoint.Close()
	h := protected(t, m, endpoint, nil)
	call := func(claims said, more string) *http.Response {
		header, body := modern(bearer(m.token(t, usual(claims))), mcp.MethodToolsCall, "ask", `,"name":"ask"`+more)
		return post(h, header, strings.Replace(body, `Capabilities":{}`, `Capabilities":{"elicitation":{"form":{}}}`, 1))
	}
	var first struct{ Result struct{ RequestState string } }
	if err := json.Unmarshal([]byte(bodyOf(t, call(nil, ""))), &first); err != nil || first.Result.RequestState == "" {
		t.Fatalf("%+v, %v", first, err)
	}
	again := `,"inputResponses":{"name":{"action":"accept","content":{"name":"Ada"}}},"requestState":"` + first.Result.RequestState + `"`
	for who, claims := range map[string]said{"eve": {"sub": "eve"}, "nobody": {"sub": ""}, "ada": nil} {
		if got := bodyOf(t, call(claims, again)); strings.Contains(got, "hello Ada") != (who == "ada") {
			t.Errorf("%s: %s", who, got)
		}
	}
}

// A policy knows callers by the same name.
func TestPrincipalInPolicy(t *testing.T) {
	m := newMint(t, "k")
	compiled, err := policy.Compile(&policy.Policy{Rules: []policy.Rule{
		{Effect: policy.Allow, Match: policy.Match{Principals: []string{testIssuer + "#ada"}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	s := server.New(mcp.Implementation{Name: "x", Version: "1"}, &server.Options{Guards: []mcp.Guard{policy.Guard(compiled, nil)}, Logger: quiet()})
	server.AddTool(s, server.Tool{Name: "t"}, func(context.Context, *server.Request, struct{}) (string, error) { return "done", nil })
	endpoint := streamable.Handler(s, &streamable.Options{Hosts: []string{"mcp.example.com"}})
	defer endpoint.Close()
	h := protected(t, m, endpoint, nil)
	for who, want := range map[string]string{"ada": `"done"`, "eve": "FORBIDDEN"} {
		header, body := modern(bearer(m.token(t, usual(said{"sub": who}))), mcp.MethodToolsCall, "t", `,"name":"t"`)
		if got := bodyOf(t, post(h, header, body)); !strings.Contains(got, want) {
			t.Errorf("%s: %s", who, got)
		}
	}
}

// A stream does not outlast its token for long, nor does a call.
func TestTokenExpires(t *testing.T) {
	for name, test := range map[string]struct {
		grace time.Duration
		exp   time.Duration // 0: it is not known
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
				endpoint := streamable.Handler(s, &streamable.Options{Logger: quiet(), Hosts: []string{"mcp.example.com"}, SessionTTL: 24 * time.Hour})
				defer endpoint.Close()
				h, err := oauth.Protect(endpoint, &oauth.ProtectOptions{
					Resource: testResource, AuthorizationServers: []string{testIssuer}, Verifier: always{grant}, Grace: test.grace,
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

				if test.exp > 0 { // the first request ends the time of all
					done := make(chan struct{})
					go func() {
						defer close(done)
						ask(h, "GET", "/mcp", header, "")
						wantEnd("a session's stream", began)
					}()
					defer func() { <-done }()
				} else {
					since := time.Now()
					ask(h, "GET", "/mcp", header, "")
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

// always lets everybody in.
type always struct{ grant *oauth.Grant }

func (a always) Verify(context.Context, oauth.Secret, string) (*oauth.Grant, error) {
	return a.grant, nil
}

// A verifier that fails in whatever way lets nobody in.
func TestVerifierFails(t *testing.T) {
	for name, v := range map[string]oauth.Verifier{
		"no grant":     always{nil},
		"empty grant":  always{&oauth.Grant{}},
		"no issuer":    always{&oauth.Grant{Subject: "ada"}},
		"nobody":       always{&oauth.Grant{Issuer: testIssuer}},
		"another time": failing{errors.New("the sun is too hot")},
		"with a grant": failing{context.DeadlineExceeded},
	} {
		inside := &visits{}
		h := protected(t, newMint(t, "k"), inside, func(o *oauth.ProtectOptions) { o.Verifier, o.Scopes = v, nil })
		res := ask(h, "POST", "/mcp", bearer("x"), "{}")
		if body := bodyOf(t, res); res.StatusCode != http.StatusServiceUnavailable || inside.take() != nil || strings.Contains(body, "sun") {
			t.Errorf("%s: status %d: %s", name, res.StatusCode, body)
		}
	}
}

type failing struct{ err error }

func (f failing) Verify(context.Context, oauth.Secret, string) (*oauth.Grant, error) {
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
