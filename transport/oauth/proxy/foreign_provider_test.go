package proxy_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/transport/oauth"
	"github.com/dovetail-go/dovetail/transport/oauth/proxy"
)

// startProvider starts the provider of .ci/interop/oauth-provider.mjs and returns its issuer.
func startProvider(t *testing.T, options map[string]any) string {
	t.Helper()
	text, err := json.Marshal(options)
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(context.WithoutCancel(t.Context()), "node", os.Getenv("DOVETAIL_TEST_PROVIDER"), string(text))
	command.Stderr = t.Output()
	in, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	t.Cleanup(func() {
		in.Close()
		if err := command.Wait(); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line)
}

var (
	formAction  = regexp.MustCompile(`<form[^>]*action="([^"]+)"`)
	hiddenField = regexp.MustCompile(`<input type="hidden" name="([^"]+)" value="([^"]*)"`)
)

// personWithForms is the Open function of a CodeFlow: a person who fills in every form.
func personWithForms(t *testing.T) func(context.Context, string) error {
	return func(_ context.Context, at string) error {
		b := newBrowser(t, "")
		res, page := b.open(at)
		for range 10 {
			action := formAction.FindStringSubmatch(page)
			if action == nil {
				if res.StatusCode != http.StatusOK {
					return errors.New("the last page has the status " + res.Status + ": " + page)
				}
				return nil
			}
			to, err := res.Request.URL.Parse(html.UnescapeString(action[1]))
			if err != nil {
				return err
			}
			form := url.Values{"login": {"ada"}, "password": {"x"}, "decision": {"allow"}}
			for _, field := range hiddenField.FindAllStringSubmatch(page, -1) {
				form.Set(field[1], html.UnescapeString(field[2]))
			}
			if res, err = b.client.PostForm(to.String(), form); err != nil {
				return err
			}
			page = bodyOf(t, res)
		}
		return errors.New("there is always another form")
	}
}

// protectAt protects an endpoint that shows its caller, at a URL of its own.
func protectAt(t *testing.T, prepare func(resource string) (issuer string, verifier oauth.Verifier, wrap func(http.Handler) http.Handler)) string {
	t.Helper()
	web := httptest.NewUnstartedServer(nil)
	resource := "http://" + web.Listener.Addr().String() + "/mcp"
	issuer, verifier, wrap := prepare(resource)
	handler, err := oauth.Protect(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, oauth.FromContext(r.Context()).Principal())
	}), &oauth.ProtectOptions{Resource: resource, AuthorizationServers: []string{issuer}, Verifier: verifier, Scopes: []string{"notes"}})
	if err != nil {
		t.Fatal(err)
	}
	web.Config.Handler = handler
	if wrap != nil {
		web.Config.Handler = wrap(handler)
	}
	web.Start()
	t.Cleanup(web.Close)
	return resource
}

// useProtected registers, logs in, refreshes and logs out with a client. It returns an access
// token that was revoked.
func useProtected(t *testing.T, resource string) oauth.Secret {
	t.Helper()
	now, logins := time.Now(), 0
	fill := personWithForms(t)
	open := func(ctx context.Context, at string) error {
		logins++
		return fill(ctx, at)
	}
	client := newClient(t, func() time.Time { return now }, 2*time.Minute, open)
	u, err := url.Parse(resource)
	if err != nil {
		t.Fatal(err)
	}
	var tokens []string
	for range 3 { // the login, and two refreshes with the rotated refresh token
		request(t, client, resource)
		req := &http.Request{Method: http.MethodPost, URL: u, Header: http.Header{}}
		if err := client.Authorize(t.Context(), u, req); err != nil {
			t.Fatal(err)
		}
		tokens = append(tokens, strings.TrimPrefix(req.Header.Get("Authorization"), "Bearer "))
		now = now.Add(2 * time.Hour)
	}
	if tokens[0] == tokens[1] || tokens[1] == tokens[2] || logins != 1 {
		t.Errorf("the token was not refreshed: %d logins", logins)
	}
	if err := client.Logout(t.Context(), resource); err != nil {
		t.Error(err)
	}
	return oauth.Secret(tokens[2])
}

// The client, the verifiers and the proxy with an authorization server that others wrote.
func TestForeignProvider(t *testing.T) {
	if os.Getenv("DOVETAIL_TEST_PROVIDER") == "" {
		t.Skip("DOVETAIL_TEST_PROVIDER names no provider; .ci/interop-oauth sets it")
	}
	noClients := []any{}
	t.Run("tokens that are JWTs", func(t *testing.T) {
		issuer := startProvider(t, map[string]any{"clients": noClients, "registration": true, "format": "jwt"})
		useProtected(t, protectAt(t, func(string) (string, oauth.Verifier, func(http.Handler) http.Handler) {
			verifier, err := oauth.NewJWTVerifier(&oauth.JWTOptions{Issuer: issuer, AllowLoopback: true})
			if err != nil {
				t.Fatal(err)
			}
			return issuer, verifier, nil
		}))
	})
	t.Run("opaque tokens", func(t *testing.T) {
		issuer := startProvider(t, map[string]any{"registration": true, "format": "opaque", "clients": []any{map[string]any{
			"client_id": "resource", "client_secret": "secret of the resource", "redirect_uris": []any{}, "grant_types": []any{}, "response_types": []any{},
		}}})
		var verifier oauth.Verifier
		resource := protectAt(t, func(string) (string, oauth.Verifier, func(http.Handler) http.Handler) {
			var err error
			verifier, err = oauth.NewIntrospection(&oauth.IntrospectionOptions{
				Issuer: issuer, Endpoint: issuer + "/token/introspection", CacheTime: -1, AllowLoopback: true,
				Client: oauth.Registration{ClientID: "resource", Secret: "secret of the resource"},
			})
			if err != nil {
				t.Fatal(err)
			}
			return issuer, verifier, nil
		})
		revoked := useProtected(t, resource)
		if _, err := verifier.Verify(t.Context(), revoked, resource); !isInvalidToken(err) {
			t.Errorf("after the logout: %v", err)
		}
	})
	t.Run("a proxy", func(t *testing.T) {
		var p *proxy.Proxy
		resource := protectAt(t, func(resource string) (string, oauth.Verifier, func(http.Handler) http.Handler) {
			at := strings.TrimSuffix(resource, "/mcp") + "/oauth"
			provider := startProvider(t, map[string]any{"registration": false, "format": "opaque", "clients": []any{map[string]any{
				"client_id": "proxy", "client_secret": "secret of the proxy", "redirect_uris": []any{at + "/callback"},
				"application_type": "native", "grant_types": []any{"authorization_code", "refresh_token"},
			}}})
			var err error
			p, err = proxy.New(&proxy.Options{
				Issuer: at, Resource: resource, Provider: provider, Client: oauth.Registration{ClientID: "proxy", Secret: "secret of the proxy"},
				Scopes: []string{"notes"}, AllowLoopback: true,
			})
			if err != nil {
				t.Fatal(err)
			}
			return at, p, p.Wrap
		})
		revoked := useProtected(t, resource)
		if _, err := p.Verify(t.Context(), revoked, resource); !isInvalidToken(err) {
			t.Errorf("after the logout: %v", err)
		}
	})
}
