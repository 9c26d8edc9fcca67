package main

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/internal/test/leaktest"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport/oauth"
	"github.com/dovetail-go/dovetail/transport/oauth/oauthtest"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// The client authorizes itself at a protected server with two of its flows.
func TestRun(t *testing.T) {
	as, err := oauthtest.Start(&oauthtest.Options{Clients: []oauthtest.Client{{ID: "robot", Secret: "password"}}})
	if err != nil {
		t.Fatal(err)
	}
	defer as.Close()
	s := server.New(mcp.Implementation{Name: "tested", Version: "1.0.0"}, nil)
	called := 0
	server.AddTool(s, server.Tool{Name: "test-tool", Description: "Count."}, func(context.Context, *server.Request, struct{}) (int, error) {
		called++
		return called, nil
	})
	endpoint := streamable.Handler(s, nil)
	defer endpoint.Close()
	web := httptest.NewUnstartedServer(nil)
	at := "http://" + web.Listener.Addr().String() + "/mcp"
	verifier, err := oauth.NewJWTVerifier(&oauth.JWTOptions{Issuer: as.URL, AllowLoopback: true})
	if err != nil {
		t.Fatal(err)
	}
	if web.Config.Handler, err = oauth.Protect(endpoint, &oauth.ProtectOptions{Resource: at, AuthorizationServers: []string{as.URL}, Verifier: verifier}); err != nil {
		t.Fatal(err)
	}
	web.Start()
	defer web.Close()
	for scenario, params := range map[string]string{
		"auth/metadata-default":         "",
		"auth/client-credentials-basic": `{"client_id":"robot","client_secret":"password"}`,
	} {
		environment := map[string]string{"MCP_CONFORMANCE_SCENARIO": scenario, "MCP_CONFORMANCE_CONTEXT": params}
		if err := run(t.Context(), []string{"client", at}, func(name string) string { return environment[name] }); err != nil {
			t.Errorf("%s: %v", scenario, err)
		}
	}
	if called != 2 {
		t.Errorf("the tool was called %d times", called)
	}
}

func TestRunRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		line              []string
		scenario, context string
		want              string
	}{
		"no URL":      {[]string{"client"}, "x", "", "expected a URL"},
		"no scenario": {[]string{"client", "http://127.0.0.1:1"}, "", "", "expected a URL"},
		"no JSON":     {[]string{"client", "http://127.0.0.1:1"}, "x", "{", "MCP_CONFORMANCE_CONTEXT"},
		"no key":      {[]string{"client", "http://127.0.0.1:1"}, "x", `{"client_id":"x","private_key_pem":"x"}`, "PEM"},
	} {
		environment := map[string]string{"MCP_CONFORMANCE_SCENARIO": test.scenario, "MCP_CONFORMANCE_CONTEXT": test.context}
		if err := run(t.Context(), test.line, func(name string) string { return environment[name] }); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
