package proxy_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport/oauth"
	"github.com/dovetail-go/dovetail/transport/oauth/proxy"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// TestServePublishesMetadata checks that streamable.Serve serves the paths of the handlers that Wrap returns, without which
// no client can log in. All other paths belong to Other.
func TestServePublishesMetadata(t *testing.T) {
	const resource, issuer = "https://example.com/tools", "https://example.com/oauth"
	p, err := proxy.New(&proxy.Options{
		Issuer: issuer, Resource: resource, Provider: "https://accounts.example.com",
		Client: oauth.Registration{ClientID: "proxy", Secret: "upstream-secret"}, Logger: quiet(),
	})
	if err != nil {
		t.Fatal(err)
	}
	keys, err := oauth.NewAPIKeyVerifier("https://example.com", nil)
	if err != nil {
		t.Fatal(err)
	}
	protect := func(endpoint http.Handler, verifier oauth.Verifier, issuers ...string) http.Handler {
		handler, err := oauth.Protect(endpoint, &oauth.ProtectOptions{Resource: resource, AuthorizationServers: issuers, Verifier: verifier, Logger: quiet()})
		if err != nil {
			t.Error(err)
		}
		return handler
	}
	const other = http.StatusTeapot
	for name, test := range map[string]struct {
		wrap                func(endpoint http.Handler) http.Handler
		resource, authority int // statuses of the metadata
	}{
		"protect": {
			func(endpoint http.Handler) http.Handler { return protect(endpoint, p, issuer) }, http.StatusOK, other,
		},
		"proxy around protect": {
			func(endpoint http.Handler) http.Handler { return p.Wrap(protect(endpoint, p, issuer)) }, http.StatusOK, http.StatusOK,
		},
		"API keys": {
			func(endpoint http.Handler) http.Handler { return protect(endpoint, keys) }, other, other,
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			listening, ended := make(chan string, 1), make(chan error, 1)
			go func() {
				ended <- streamable.Serve(ctx, "127.0.0.1:0", server.New(mcp.Implementation{Name: "tools", Version: "1"}, nil), &streamable.ServeOptions{
					Path: "/tools", Wrap: test.wrap, OnListen: func(at net.Addr) { listening <- at.String() },
					Other: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(other) }),
				})
			}()
			at := "http://" + <-listening
			for path, want := range map[string]int{
				"/tools":                                http.StatusUnauthorized,
				"/.well-known/oauth-protected-resource": test.resource,
				"/.well-known/oauth-protected-resource/tools":    test.resource,
				"/.well-known/oauth-authorization-server/oauth":  test.authority,
				"/.well-known/oauth-protected-resource/tools/x":  other,
				"/.well-known/oauth-authorization-server/oauth/": other,
				"/x": other,
			} {
				res, err := http.Get(at + path)
				if err != nil {
					t.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, res.Body)
				res.Body.Close()
				if res.StatusCode != want {
					t.Errorf("%s answers %d, want %d", path, res.StatusCode, want)
				}
			}
			http.DefaultClient.CloseIdleConnections()
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}
