package auth_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/oauth"
	"github.com/dovetail-go/dovetail/transport/oauth/proxy"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// newServer returns a server with one tool for everyone and one that needs a scope.
func newServer(guards ...mcp.Guard) *server.Server {
	s := server.New(mcp.Implementation{Name: "notes", Version: "1.0.0"}, &server.Options{
		Guards: guards, Logger: slog.New(slog.DiscardHandler),
	})
	server.AddTool(s, server.Tool{Name: "whoami", Description: "Return the name of the caller."},
		func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
			return r.Caller().Principal, nil
		})
	server.AddTool(s, server.Tool{Name: "erase", Description: "Erase all notes.", Scopes: []string{"notes:erase"}},
		func(context.Context, *server.Request, struct{}) (string, error) { return "erased", nil })
	return s
}

// apiKeys are the owners of API keys, by the SHA-256 of the key.
type apiKeys map[[sha256.Size]byte]string

// authenticate passes on requests that have an API key, with the name of its owner.
func authenticate(keys apiKeys, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key, found := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		owner, valid := keys[sha256.Sum256([]byte(key))]
		if !found || !valid {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "an API key is required", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r.WithContext(transport.WithPrincipal(r.Context(), owner)))
	})
}

// checkScopes refuses callers that were not granted the scopes of what they call.
func checkScopes(granted map[string][]string) mcp.Guard {
	return mcp.Guard{Name: "scopes", Check: func(_ context.Context, call *mcp.Call) error {
		for _, scope := range call.Target().Scopes {
			if !slices.Contains(granted[call.Caller.Principal], scope) {
				return fmt.Errorf("%s needs the scope %s", call.Caller.Principal, scope) // for the log
			}
		}
		return nil
	}}
}

// protect admits requests with a token of the issuer only.
func protect(s *server.Server, endpoint http.Handler, resource, issuer string) (http.Handler, error) {
	verifier, err := oauth.NewJWTVerifier(&oauth.JWTOptions{
		Issuer:        issuer,
		AllowLoopback: true, // for development: the issuer is on this machine
	})
	if err != nil {
		return nil, err
	}
	return oauth.Protect(endpoint, &oauth.ProtectOptions{
		Resource:             resource, // "https://example.com/mcp"
		AuthorizationServers: []string{issuer},
		Verifier:             verifier,
		Scopes:               []string{"notes"}, // each request needs this scope
		CallScopes:           s.Scopes,          // and those that the tool declares
	})
}

// serveProtected serves until ctx ends, with HTTP, only requests with a token.
func serveProtected(ctx context.Context, address string, s *server.Server, resource, issuer string) error {
	var refused error
	err := streamable.Serve(ctx, address, s, &streamable.ServeOptions{
		Wrap: func(endpoint http.Handler) http.Handler {
			protected, err := protect(s, endpoint, resource, issuer)
			refused = err
			return protected // nil if it failed: then Serve returns an error
		},
	})
	return errors.Join(refused, err)
}

// A directory verifies tokens with a database of its own.
type directory struct {
	find func(ctx context.Context, hash [sha256.Size]byte) (user string, scopes []string, err error)
}

func (d directory) Verify(ctx context.Context, token oauth.Secret, _ string) (*oauth.Grant, error) {
	user, scopes, err := d.find(ctx, sha256.Sum256([]byte(token)))
	if err != nil {
		return nil, err // status 503
	}
	if user == "" {
		return nil, &oauth.InvalidTokenError{Reason: "the token is unknown"} // status 401
	}
	return &oauth.Grant{Issuer: "https://login.example.com", Subject: user, Scopes: scopes, Expires: time.Now().Add(time.Hour)}, nil
}

// newVerifier accepts API keys, and the tokens of employees and of partners.
func newVerifier(employees, partners *oauth.JWTVerifier, stored []oauth.APIKey) (oauth.Verifier, error) {
	keys, err := oauth.NewAPIKeyVerifier("https://example.com", stored)
	if err != nil {
		return nil, err
	}
	return oauth.Issuers{
		"https://login.example.com": employees,
		"https://partner.example":   partners,
		"":                          keys, // tokens that are not JWTs
	}, nil
}

// behindProxy serves an endpoint for people of an identity provider without registration.
func behindProxy(endpoint http.Handler, secret, key oauth.Secret, mayUse func(subject string) error) (http.Handler, error) {
	p, err := proxy.New(&proxy.Options{
		Issuer:   "https://example.com/oauth", // the redirect URI at the provider is this and "/callback"
		Resource: "https://example.com/mcp",
		Provider: "https://accounts.example.com",
		Client:   oauth.Registration{ClientID: "notes", Secret: secret},
		Scopes:   []string{"notes", "notes:erase"},
		Keys:     []oauth.Secret{key},
		Admit:    func(_ context.Context, login *proxy.Login) error { return mayUse(login.Subject) },
	})
	if err != nil {
		return nil, err
	}
	handler, err := oauth.Protect(endpoint, &oauth.ProtectOptions{
		Resource: "https://example.com/mcp", AuthorizationServers: []string{"https://example.com/oauth"}, Verifier: p,
	})
	return p.Wrap(handler), err
}
