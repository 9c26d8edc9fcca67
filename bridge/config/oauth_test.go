package config_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-go/dovetail/bridge/config"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/httptransport"
)

func TestOAuthOfServer(t *testing.T) {
	for text, want := range map[string]*config.OAuth{
		`{"clientId":"app"}`: {ClientID: "app"},
		`{"clientId":"${ID}","clientSecret":"${SECRET}","issuer":"${AT}","callbackPort":8080,"scopes":["a","b"]}`: {ClientID: "${ID}", ClientSecret: "${SECRET}", Issuer: "${AT}", CallbackPort: 8080, Scopes: []string{"a", "b"}},
		`{"scope":"a ${B}"}`:             {Scopes: []string{"a ${B}"}},
		`{"scope":"a b","scopes":["c"]}`: {Scopes: []string{"a b", "c"}},
		`{"scope":"","scopes":[""]}`:     {},
		`{"enabled":true}`:               {},
		`{}`:                             {},
		`null`:                           nil,
		`false`:                          nil,
	} {
		file, err := config.Parse([]byte(`{"mcpServers":{"a":{"url":"https://mcp.example/mcp","oauth":`+text+`}}}`), "mcp.json")
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if diff := cmp.Diff(want, file.Servers[0].OAuth); diff != "" {
			t.Errorf("%s: %s", text, diff)
		}
		if warned := strings.Contains(fmt.Sprint(file.Warnings), "oauth.enabled: is unknown"); warned != strings.Contains(text, "enabled") {
			t.Errorf("%s: the warnings are %v", text, file.Warnings)
		}
	}
	for text, want := range map[string]string{
		`{"clientId":7}`:         "oauth.clientId: expected a string",
		`{"clientID":"x"}`:       `expected the spelling "clientId"`,
		`{"callbackPort":70000}`: "expected a port",
		`{"callbackPort":-1}`:    "expected an integer",
		`{"scopes":"a"}`:         "expected an array of strings",
		`{"scopes":[7]}`:         "expected a string",
		`{"scope":["a"]}`:        "oauth.scope: expected a string",
		`"x"`:                    "expected an object with clientId",
	} {
		_, err := config.Parse([]byte(`{"mcpServers":{"a":{"url":"https://mcp.example/mcp","oauth":`+text+`}}}`), "mcp.json")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// The registration is expanded, shown without its secret, and part of the fingerprint. The authorizer of the program
// gets it.
func TestRegistrationOfServer(t *testing.T) {
	resolved := func(oauth string) *config.Resolved {
		return resolve(t, `{"url":"https://mcp.example/mcp"`+oauth+`}`, map[string]string{"OAUTH_TEST_SECRET": canary})
	}
	r := resolved(`,"oauth":{"clientId":"app","clientSecret":"${OAUTH_TEST_SECRET}","callbackPort":8080,"scopes":["a"]}`)
	if r.ClientID.Reveal() != "app" || r.ClientSecret.Reveal() != canary || r.CallbackPort != 8080 || len(r.Scopes) != 1 {
		t.Errorf("the registration is %v, %v, %d, %v", r.ClientID, r.ClientSecret.Reveal() == canary, r.CallbackPort, r.Scopes)
	}
	if text := printHidden(t, r); leaks(text) {
		t.Errorf("the secret is printed: %s", text)
	}
	if launch := r.Launch(); !strings.Contains(launch, "(client app; scopes a)") {
		t.Errorf("the launch is described as %s", launch)
	}
	prints := make(map[string]bool)
	for _, oauth := range []string{
		"", `,"oauth":{"clientId":"app"}`, `,"oauth":{"clientId":"other"}`, `,"oauth":{"clientId":"app","clientSecret":"x"}`, `,"oauth":{"clientId":"app","scopes":["a"]}`,
		`,"oauth":{"clientId":"app","issuer":"https://a.example"}`, `,"oauth":{"clientId":"app","issuer":"https://b.example"}`,
	} {
		prints[resolved(oauth).Fingerprint()] = true
	}
	if len(prints) != 7 {
		t.Errorf("there are %d fingerprints of 7 registrations", len(prints))
	}
	var got *config.Resolved
	opts := &config.DialOptions{Authorizer: func(server *config.Resolved) httptransport.Authorizer {
		got = server
		return nil
	}}
	if _, err := r.Dialer(opts); err != nil || got != r {
		t.Errorf("the authorizer got %v, %v", got, err)
	}
	got = nil
	if _, err := resolve(t, `{"command":"x"}`, nil).Dialer(opts); err != nil || got != nil {
		t.Errorf("the authorizer of a child process got %v, %v", got, err)
	}
}

// With auth none no login is sent, and with none and shared all users share one session. Each user has an own one with user, which
// needs a program that knows the users' accounts.
func TestAuthOfServer(t *testing.T) {
	asked := 0
	opts := &config.DialOptions{Authorizer: func(*config.Resolved) httptransport.Authorizer {
		asked++
		return nil
	}}
	for auth, want := range map[string]struct{ sessions, asked int }{
		`{}`:                             {0, 1},
		`{"dovetail":{"sessions":3}}`:    {3, 1},
		`{"dovetail":{"auth":"none"}}`:   {1, 0},
		`{"dovetail":{"auth":"shared"}}`: {1, 1},
		`{"dovetail":{"auth":"shared", "sessions":1}}`: {1, 1},
	} {
		r := resolve(t, strings.Replace(`{"url":"https://mcp.example/mcp",`+strings.TrimPrefix(auth, "{"), ",}", "}", 1), nil)
		asked = 0
		c, err := r.Bridge(opts)
		if err != nil || c.Sessions != want.sessions || asked != want.asked || c.DialAs != nil {
			t.Errorf("%s: %d sessions, the authorizer is asked %d times, %v", auth, c.Sessions, asked, err)
		}
	}
	r := resolve(t, `{"url":"https://mcp.example/mcp","dovetail":{"auth":"user"}}`, nil)
	for _, opts := range []*config.DialOptions{nil, opts} {
		if _, err := r.Bridge(opts); err == nil || !strings.Contains(err.Error(), "server a: auth user needs a program") {
			t.Errorf("a program without accounts: %v", err)
		}
	}
	var of *config.Resolved
	opts.DialAs = func(server *config.Resolved) func(context.Context, string) (transport.Dialer, error) {
		of = server
		return func(context.Context, string) (transport.Dialer, error) { return nil, nil }
	}
	if c, err := r.Bridge(opts); err != nil || c.DialAs == nil || of != r {
		t.Errorf("a program with accounts: %v", err)
	}
}
