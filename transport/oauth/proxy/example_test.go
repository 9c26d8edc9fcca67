package proxy_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport/oauth"
	"github.com/dovetail-go/dovetail/transport/oauth/proxy"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// A server whose identity provider has no dynamic registration. Clients register with the proxy
// of the server, which has one registration at the provider.
func ExampleNew() {
	const issuer, resource = "https://mcp.example.com/oauth", "https://mcp.example.com/mcp"
	p, err := proxy.New(&proxy.Options{
		Issuer: issuer, Resource: resource, Name: "Notes",
		Provider: "https://login.example.com",
		Client:   oauth.Registration{ClientID: "notes", Secret: "from the environment"}, // its redirect URI is https://mcp.example.com/oauth/callback
		Scopes:   []string{"notes"},
		Keys:     []oauth.Secret{"at least 32 random bytes, also from the environment"},
		Admit: func(_ context.Context, login *proxy.Login) error {
			var claims struct {
				Domain string `json:"hd"`
			}
			if err := json.Unmarshal(login.Claims, &claims); err != nil || claims.Domain != "example.com" {
				return errors.New("only for people of example.com")
			}
			return nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	s := server.New(mcp.Implementation{Name: "notes", Version: "1.0.0"}, nil)
	endpoint := streamable.Handler(s, nil)
	defer endpoint.Close()
	protected, err := oauth.Protect(endpoint, &oauth.ProtectOptions{
		Resource: resource, AuthorizationServers: []string{issuer}, Verifier: p, Scopes: []string{"notes"},
	})
	if err != nil {
		log.Fatal(err)
	}
	handler := p.Wrap(protected)

	registration := httptest.NewRequest(http.MethodPost, issuer+"/register", strings.NewReader(`{"client_name":"An app","redirect_uris":["https://app.example/back"]}`))
	for _, request := range []*http.Request{httptest.NewRequest(http.MethodPost, resource, nil), registration} {
		response := httptest.NewRecorder()
		handler.ServeHTTP(response, request)
		fmt.Println(request.URL.Path, response.Code)
	}
	// Output:
	// /mcp 401
	// /oauth/register 201
}
