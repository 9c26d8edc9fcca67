package oauth_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/oauth"
	"github.com/dovetail-go/dovetail/transport/oauth/oauthtest"
)

// Each refresh token is used once.
func TestRefreshWithRotation(t *testing.T) {
	now := time.Now()
	var mu sync.Mutex
	clock := func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
	w := newFixture(t, &oauthtest.Options{Clock: clock, TokenLife: time.Hour})
	client := w.client(func(o *oauth.ClientOptions) { o.Clock = clock })
	w.mustSucceed(client)
	for range 3 {
		mu.Lock()
		now = now.Add(time.Hour)
		mu.Unlock()
		w.mustSucceed(client)
	}
	used := map[string]bool{}
	for _, form := range w.forms("issuer/token")[1:] {
		token := form.Get("refresh_token")
		if form.Get("grant_type") != "refresh_token" || form.Has("scope") || used[token] || form.Get("resource") != w.mcp() {
			t.Errorf("asked for %v", form)
		}
		used[token] = true
	}
	if len(w.opened) != 1 || len(used) != 3 {
		t.Errorf("%d browsers, %d refresh tokens", len(w.opened), len(used))
	}
	w.as.Revoke() // then the person has to log in again
	mu.Lock()
	now = now.Add(time.Hour)
	mu.Unlock()
	w.mustSucceed(client)
	if len(w.opened) != 2 {
		t.Errorf("%d browsers", len(w.opened))
	}
}

// A refresh token that is not replaced is used again.
func TestRefreshWithoutRotation(t *testing.T) {
	now := time.Now()
	w := newFixture(t, nil)
	w.replace("issuer/token", func(res http.ResponseWriter, r *http.Request) {
		metadata := map[string]any{"access_token": rand.Text(), "token_type": "Bearer", "expires_in": 60}
		if r.FormValue("grant_type") != "refresh_token" {
			metadata["refresh_token"] = "the-refresh-token"
		}
		writeJSON(res, metadata)
	})
	client := w.client(func(o *oauth.ClientOptions) { o.Clock = func() time.Time { return now } })
	for range 3 {
		w.mustSucceed(client)
		now = now.Add(time.Minute)
	}
	forms := w.forms("issuer/token")
	if len(forms) != 3 || len(w.opened) != 1 || forms[1].Get("refresh_token") != "the-refresh-token" || forms[2].Get("refresh_token") != "the-refresh-token" {
		t.Errorf("%d browsers; asked for %v", len(w.opened), forms)
	}
}

// A token that the server refuses is refreshed too.
func TestRefusedTokenIsRefreshed(t *testing.T) {
	w := newFixture(t, nil)
	client := w.client(nil)
	w.mustSucceed(client)
	w.mustSucceed(client)
	_, token, _ := strings.Cut(w.tokens[0], " ")
	w.refused[token] = true
	w.mustSucceed(client)
	if len(w.opened) != 1 || w.count("issuer/token") != 2 {
		t.Errorf("%d browsers, %d tokens", len(w.opened), w.count("issuer/token"))
	}
}

// After a token has expired without a refresh token, the same scopes are requested again.
func TestScopesOutliveTheToken(t *testing.T) {
	now := time.Now()
	clock := func() time.Time { return now }
	w := newFixture(t, &oauthtest.Options{Clock: clock, Clients: []oauthtest.Client{{ID: "robot", Secret: "password"}}})
	client := w.client(func(o *oauth.ClientOptions) {
		o.Clock, o.Flow = clock, &oauth.ClientCredentials{}
		o.Registrations = []oauth.Registration{{ClientID: "robot", Secret: "password"}}
	})
	for _, scope := range []string{"read", "write"} {
		w.requiredScopes = []string{scope}
		w.mustSucceed(client)
	}
	w.requiredScopes = []string{"read", "write"}
	now = now.Add(time.Hour)
	w.mustSucceed(client)
	forms := w.forms("issuer/token")
	if got := forms[len(forms)-1].Get("scope"); got != "write read" && got != "read write" {
		t.Errorf("asked for %q", got)
	}
	if shown := w.tokens[len(w.tokens)-1]; strings.Contains(strings.Join(w.tokens[:len(w.tokens)-1], " "), shown) {
		t.Error("the old token was shown")
	}
}

// A server that refuses a new token does not get another one.
func TestFreshTokenThatIsRefused(t *testing.T) {
	w := newFixture(t, nil)
	w.replace("resource/mcp", func(res http.ResponseWriter, _ *http.Request) {
		res.Header().Set("WWW-Authenticate", `Bearer error="invalid_token"`)
		res.WriteHeader(http.StatusUnauthorized)
	})
	if status, err := w.request(w.client(nil)); err != nil || status != http.StatusUnauthorized || len(w.opened) != 1 || w.count("issuer/token") != 1 {
		t.Errorf("got %d, %v, with %d browsers and %d tokens", status, err, len(w.opened), w.count("issuer/token"))
	}
}

// More scopes are requested together with the earlier ones, and only a few times.
func TestStepUp(t *testing.T) {
	w := newFixture(t, &oauthtest.Options{Scopes: []string{"read", "write", "admin", "offline_access"}})
	w.metadata["scopes_supported"] = []string{"read"}
	client := w.client(nil)
	w.mustSucceed(client)
	w.requiredScopes = []string{"write"}
	w.mustSucceed(client)
	asked := func() (all []string) {
		for _, to := range w.opened {
			all = append(all, queryOf(t, to).Get("scope"))
		}
		return all
	}
	if diff := cmp.Diff([]string{"read offline_access", "write read offline_access"}, asked()); diff != "" {
		t.Error(diff)
	}
	w.requiredScopes = []string{"nobody", "has"}
	_, err := w.request(client)
	if !errors.Is(err, transport.ErrForbidden) {
		t.Errorf("got %v, want transport.ErrForbidden", err)
	}
	if refused, ok := errors.AsType[*oauth.StepUpError](err); !ok || !cmp.Equal(refused.Scopes, w.requiredScopes) || !cmp.Equal(refused.Granted, []string{"write", "read", "offline_access"}) {
		t.Errorf("got %v", err)
	}
	browsers := len(w.opened)
	if browsers > 4 {
		t.Errorf("%d browsers", browsers)
	}
	if _, err := w.request(client); err == nil || len(w.opened) != browsers {
		t.Errorf("later: %v, and %d browsers more", err, len(w.opened)-browsers)
	}
}

// A server that demands a scope that the token has causes no request.
func TestStepUpThatIsNone(t *testing.T) {
	w := newFixture(t, nil)
	w.metadata["scopes_supported"] = []string{"read"}
	client := w.client(nil)
	w.mustSucceed(client)
	w.replace("resource/mcp", func(res http.ResponseWriter, _ *http.Request) {
		res.Header().Set("WWW-Authenticate", `Bearer error="insufficient_scope", scope="read"`)
		res.WriteHeader(http.StatusForbidden)
	})
	_, err := w.request(client)
	if refused, ok := errors.AsType[*oauth.StepUpError](err); !ok || len(w.opened) != 1 || !cmp.Equal(refused.Granted, []string{"read"}) {
		t.Errorf("got %v, with %d browsers", err, len(w.opened))
	}
	w.replace("resource/mcp", func(res http.ResponseWriter, _ *http.Request) { res.WriteHeader(http.StatusForbidden) })
	if status, err := w.request(client); status != http.StatusForbidden || err != nil || len(w.opened) != 1 {
		t.Errorf("a refusal for good: got %d, %v", status, err)
	}
}

// newHourlyFixture returns a fixture whose tokens expire after an hour, and a function
// that advances the clock by an hour.
func newHourlyFixture(t *testing.T) (w *fixture, later func(), timed func(*oauth.ClientOptions)) {
	var passed atomic.Int64
	clock := func() time.Time { return time.Now().Add(time.Duration(passed.Load())) }
	w = newFixture(t, &oauthtest.Options{Clock: clock, TokenLife: time.Hour})
	return w, func() { passed.Add(int64(time.Hour)) }, func(o *oauth.ClientOptions) { o.Clock = clock }
}

// authorize authorizes a request without sending it.
func (w *fixture) authorize(ctx context.Context, client *oauth.Client) error {
	server, err := url.Parse(w.mcp())
	if err != nil {
		w.t.Fatal(err)
	}
	return client.Authorize(ctx, server, &http.Request{Method: http.MethodPost, URL: server, Header: http.Header{}})
}

// When a caller leaves during a refresh, the new refresh token is saved nevertheless,
// because the old one is used up.
func TestRefreshOutlastsItsCaller(t *testing.T) {
	w, later, timed := newHourlyFixture(t)
	client := w.client(timed)
	w.mustSucceed(client)
	later()
	ctx, gone := context.WithCancel(t.Context())
	defer gone()
	var asked atomic.Int64
	w.replace("issuer/token", func(res http.ResponseWriter, r *http.Request) {
		if asked.Add(1) > 1 {
			w.as.ServeHTTP(res, r)
			return
		}
		answer := httptest.NewRecorder()
		w.as.ServeHTTP(answer, r)
		text := answer.Body.String()
		res.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(res, text[:10])
		_ = http.NewResponseController(res).Flush()
		gone()
		_, _ = io.WriteString(res, text[10:])
	})
	_ = w.authorize(ctx, client)
	w.mustSucceed(client)
	if len(w.opened) != 1 || asked.Load() != 1 {
		t.Errorf("%d browsers, %d refreshes", len(w.opened), asked.Load())
	}
}

// A refresh token is kept after a failure, unless the error code says that it is invalid.
func TestRefreshTokenOutlivesFailures(t *testing.T) {
	for name, fails := range map[string]http.HandlerFunc{
		"cut off": func(res http.ResponseWriter, _ *http.Request) {
			res.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(res, `{"access_token":"a",`)
			_ = http.NewResponseController(res).Flush()
			panic(http.ErrAbortHandler)
		},
		"cut off before":    func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"a page":            respondJSON("<html>"),
		"refused bare":      func(res http.ResponseWriter, _ *http.Request) { res.WriteHeader(http.StatusBadRequest) },
		"forbidden":         func(res http.ResponseWriter, _ *http.Request) { res.WriteHeader(http.StatusForbidden) },
		"too many requests": func(res http.ResponseWriter, _ *http.Request) { res.WriteHeader(http.StatusTooManyRequests) },
		"down":              func(res http.ResponseWriter, _ *http.Request) { res.WriteHeader(http.StatusBadGateway) },
		"another code": func(res http.ResponseWriter, _ *http.Request) {
			res.Header().Set("Content-Type", "application/json")
			res.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(res, `{"error":"temporarily_unavailable"}`)
		},
	} {
		w, later, timed := newHourlyFixture(t)
		client := w.client(timed)
		var fail atomic.Bool
		w.replace("issuer/token", func(res http.ResponseWriter, r *http.Request) {
			if fail.Swap(false) {
				fails(res, r)
				return
			}
			w.as.ServeHTTP(res, r)
		})
		w.mustSucceed(client)
		later()
		fail.Store(true)
		_ = w.authorize(t.Context(), client)
		w.mustSucceed(client)
		if len(w.opened) != 1 || fail.Load() {
			t.Errorf("%s: %d browsers", name, len(w.opened))
		}
	}
}

// While the metadata of an authorization server is unavailable, no default endpoint is
// used.
func TestMetadataThatIsAwayForAWhile(t *testing.T) {
	for _, status := range []int{400, 404, 408, 425, 429, 500, 503} {
		w, later, timed := newHourlyFixture(t)
		w.editMetadata = func(metadata map[string]any) { metadata["token_endpoint"] = w.issuer.URL + "/oauth2/token" }
		w.replace("issuer/oauth2/token", func(res http.ResponseWriter, _ *http.Request) {
			writeJSON(res, map[string]any{"access_token": rand.Text(), "token_type": "Bearer", "expires_in": 3600, "refresh_token": "R"})
		})
		client := w.client(timed)
		w.mustSucceed(client)
		later()
		away := func(res http.ResponseWriter, _ *http.Request) { res.WriteHeader(status) }
		places := []string{"issuer/.well-known/oauth-authorization-server", "issuer/.well-known/openid-configuration"}
		for _, place := range places {
			w.replace(place, away)
		}
		if status, err := w.request(client); err == nil {
			t.Errorf("%d: got %d", status, status)
		}
		for _, place := range places {
			delete(w.handlers, place)
		}
		w.mustSucceed(client)
		if len(w.opened) != 1 || w.count("issuer/token") > 0 {
			t.Errorf("%d: %d browsers, %v", status, len(w.opened), w.forms("issuer/token"))
		}
	}
}

// A resource whose metadata is unavailable is not treated as one without metadata: the origin is not
// asked for the metadata of an authorization server.
func TestResourceMetadataThatIsAwayForAWhile(t *testing.T) {
	for _, status := range []int{408, 425, 429, 503} {
		w := newFixture(t, nil)
		w.challenge = "Bearer"
		w.replace("resource/.well-known/oauth-protected-resource/mcp", func(res http.ResponseWriter, _ *http.Request) { res.WriteHeader(status) })
		_, err := w.request(w.client(nil))
		if !is[*oauth.MetadataError](err) || strings.Contains(strings.Join(w.requests, " "), "oauth-authorization-server") {
			t.Errorf("%d: got %v", status, err)
		}
	}
}

// A token from a server without metadata is refreshed there.
func TestRefreshWithoutMetadata(t *testing.T) {
	w, later, timed := newHourlyFixture(t)
	w.metadata, w.challenge = nil, "Bearer"
	for _, path := range []string{"/authorize", "/token", "/register"} {
		w.replace("resource"+path, func(res http.ResponseWriter, r *http.Request) { w.as.ServeHTTP(res, r) })
	}
	w.callback = func(answer url.Values) { answer.Del("iss") }
	kept := newStore()
	for range 3 {
		w.mustSucceed(w.client(func(o *oauth.ClientOptions) { timed(o); o.Store = kept }))
		later()
	}
	if len(w.opened) != 1 || w.count("resource/token") != 3 || w.count("resource/mcp") != 4 {
		t.Errorf("%d browsers, %d tokens, %d requests", len(w.opened), w.count("resource/token"), w.count("resource/mcp"))
	}
}

// When metadata disappears, tokens are not sent to the default endpoints.
func TestMetadataThatIsGone(t *testing.T) {
	w, later, timed := newHourlyFixture(t)
	w.metadata, w.challenge = nil, "Bearer"
	at := w.resource.URL
	w.replace("resource/.well-known/oauth-authorization-server", func(res http.ResponseWriter, _ *http.Request) {
		writeJSON(res, map[string]any{
			"issuer": at, "authorization_endpoint": at + "/authorize", "registration_endpoint": at + "/register", "token_endpoint": at + "/oauth2/token",
			"code_challenge_methods_supported": []string{"S256"}, "token_endpoint_auth_methods_supported": []string{"none"},
		})
	})
	for path, serves := range map[string]string{"/authorize": "/authorize", "/register": "/register", "/oauth2/token": "/token"} {
		w.replace("resource"+path, func(res http.ResponseWriter, r *http.Request) {
			r.URL.Path = serves
			w.as.ServeHTTP(res, r)
		})
	}
	w.callback = func(answer url.Values) { answer.Del("iss") }
	nobody, away := errors.New("nobody is there"), false
	client := w.client(func(o *oauth.ClientOptions) {
		timed(o)
		o.Flow = &oauth.CodeFlow{Open: func(ctx context.Context, to string) error {
			if away {
				return nobody
			}
			return w.browse(ctx, to)
		}}
	})
	w.mustSucceed(client)
	later()
	w.replace("resource/.well-known/oauth-authorization-server", http.NotFound)
	away = true
	if _, err := w.request(client); !errors.Is(err, nobody) || w.count("resource/oauth2/token") != 1 || w.count("resource/token") > 0 {
		t.Errorf("got %v; %v", err, w.forms("resource/token"))
	}
}

// Programs with one store share a refresh token, which is used once.
func TestTwoProgramsOneStore(t *testing.T) {
	w, later, timed := newHourlyFixture(t)
	kept := newStore()
	stored := func(o *oauth.ClientOptions) { timed(o); o.Store = kept }
	one, other := w.client(stored), w.client(stored)
	for range 3 {
		w.mustSucceed(one)
		w.mustSucceed(other)
		later()
	}
	if len(w.opened) != 1 || w.count("issuer/token") != 3 {
		t.Errorf("%d browsers, %d tokens", len(w.opened), w.count("issuer/token"))
	}
	// Both refresh concurrently.
	var asked atomic.Int64
	w.replace("issuer/token", func(res http.ResponseWriter, r *http.Request) {
		if asked.Add(1) == 1 {
			w.mustSucceed(other)
		}
		w.as.ServeHTTP(res, r)
	})
	w.mustSucceed(one)
	if len(w.opened) != 1 || asked.Load() != 2 {
		t.Errorf("at once: %d browsers, %d refreshes", len(w.opened), asked.Load())
	}
}

// An error names the one of the two authorization servers that caused it.
func TestAnswerErrorNamesItsIssuer(t *testing.T) {
	w, provider := newFixture(t, nil), newFixture(t, nil)
	provider.replace("issuer/token", respondJSON("<html>"))
	_, err := w.request(w.client(func(o *oauth.ClientOptions) {
		o.Registrations = []oauth.Registration{{Issuer: w.issuer.URL, ClientID: "app", Secret: "password"}}
		o.Flow = &oauth.EnterpriseManaged{
			Issuer: provider.issuer.URL, Client: oauth.Registration{ClientID: "app-at-idp"},
			Subject: func(context.Context) (oauth.Secret, error) { return "id-token", nil },
		}
	}))
	if wrong, ok := errors.AsType[*oauth.AnswerError](err); !ok || wrong.Issuer != provider.issuer.URL {
		t.Errorf("got %v", fmt.Sprint(err))
	}
}

// A server that no longer knows the registration of the client shows the person an error in place of a login, and sends no response.
// So a refusal of the registration elsewhere is the occasion to make another one.
func TestRegistrationThatTheServerHasForgotten(t *testing.T) {
	for name, learn := range map[string]func(w *fixture, client *oauth.Client, later func()){
		"refresh": func(_ *fixture, _ *oauth.Client, later func()) { later() },
		"logout": func(w *fixture, client *oauth.Client, _ func()) {
			if err := client.Logout(t.Context(), w.mcp()); !is[*oauth.RevocationError](err) {
				t.Errorf("the logout: %v", err)
			}
		},
	} {
		w, later, timed := newHourlyFixture(t)
		client := w.client(timed)
		w.mustSucceed(client)
		var err error
		if w.as, err = oauthtest.New(w.issuer.URL, nil); err != nil { // without the registration
			t.Fatal(err)
		}
		learn(w, client, later)
		w.mustSucceed(client)
		if len(w.opened) != 2 || w.count("issuer/register") != 2 {
			t.Errorf("%s: %d browsers, %d registrations", name, len(w.opened), w.count("issuer/register"))
		}
	}
}
