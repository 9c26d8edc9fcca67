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
	"sync/atomic"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/internal/authserver"
	"github.com/dovetail-go/dovetail/transport/oauth"
)

// hourly is a world of tokens for an hour, with a clock that goes on by hand.
func hourly(t *testing.T) (w *world, later func(), timed func(*oauth.ClientOptions)) {
	var passed atomic.Int64
	clock := func() time.Time { return time.Now().Add(time.Duration(passed.Load())) }
	w = newWorld(t, &authserver.Options{Clock: clock, TokenLife: time.Hour})
	return w, func() { passed.Add(int64(time.Hour)) }, func(o *oauth.ClientOptions) { o.Clock = clock }
}

// authorize is the first half of a visit.
func (w *world) authorize(ctx context.Context, client *oauth.Client) error {
	server, err := url.Parse(w.mcp())
	if err != nil {
		w.t.Fatal(err)
	}
	return client.Authorize(ctx, server, &http.Request{Method: http.MethodPost, URL: server, Header: http.Header{}})
}

// Who refreshes a token may go while the answer is on its way: the refresh token that is
// in it is kept, since the last one is used up.
func TestRefreshOutlastsItsCaller(t *testing.T) {
	w, later, timed := hourly(t)
	client := w.client(timed)
	w.welcome(client)
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
	w.welcome(client)
	if len(w.opened) != 1 || asked.Load() != 1 {
		t.Errorf("%d browsers, %d refreshes", len(w.opened), asked.Load())
	}
}

// Only a code that says so ends a refresh token: no answer that was cut off, that cannot
// be read, or that is about something else.
func TestRefreshTokenOutlivesFailures(t *testing.T) {
	for name, fails := range map[string]http.HandlerFunc{
		"cut off": func(res http.ResponseWriter, _ *http.Request) {
			res.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(res, `{"access_token":"a",`)
			_ = http.NewResponseController(res).Flush()
			panic(http.ErrAbortHandler)
		},
		"cut off before":    func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"a page":            says("<html>"),
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
		w, later, timed := hourly(t)
		client, fail := w.client(timed), false
		w.replace("issuer/token", func(res http.ResponseWriter, r *http.Request) {
			if fail {
				fail = false
				fails(res, r)
				return
			}
			w.as.ServeHTTP(res, r)
		})
		w.welcome(client)
		later()
		fail = true
		_ = w.authorize(t.Context(), client)
		w.welcome(client)
		if len(w.opened) != 1 || fail {
			t.Errorf("%s: %d browsers", name, len(w.opened))
		}
	}
}

// While the metadata of an authorization server cannot be had, nothing is sent to where
// its endpoints might be; later, everything is as before.
func TestMetadataThatIsAwayForAWhile(t *testing.T) {
	for _, status := range []int{400, 404, 408, 425, 429, 500, 503} {
		w, later, timed := hourly(t)
		w.server = func(about map[string]any) { about["token_endpoint"] = w.issuer.URL + "/oauth2/token" }
		w.replace("issuer/oauth2/token", func(res http.ResponseWriter, _ *http.Request) {
			writeJSON(res, map[string]any{"access_token": rand.Text(), "token_type": "Bearer", "expires_in": 3600, "refresh_token": "R"})
		})
		client := w.client(timed)
		w.welcome(client)
		later()
		away := func(res http.ResponseWriter, _ *http.Request) { res.WriteHeader(status) }
		places := []string{"issuer/.well-known/oauth-authorization-server", "issuer/.well-known/openid-configuration"}
		for _, place := range places {
			w.replace(place, away)
		}
		if status, err := w.visit(client); err == nil {
			t.Errorf("%d: got %d", status, status)
		}
		for _, place := range places {
			delete(w.at, place)
		}
		w.welcome(client)
		if len(w.opened) != 1 || w.count("issuer/token") > 0 {
			t.Errorf("%d: %d browsers, %v", status, len(w.opened), w.forms("issuer/token"))
		}
	}
}

// A resource whose metadata is away for a while is not taken for one that has none.
func TestResourceMetadataThatIsAwayForAWhile(t *testing.T) {
	for _, status := range []int{400, 408, 425, 429, 503} {
		w := newWorld(t, nil)
		w.challenge = "Bearer"
		w.replace("resource/.well-known/oauth-protected-resource/mcp", func(res http.ResponseWriter, _ *http.Request) { res.WriteHeader(status) })
		_, err := w.visit(w.client(nil))
		if !is[*oauth.MetadataError](err) || strings.Contains(strings.Join(w.seen, " "), "oauth-authorization-server") {
			t.Errorf("%d: got %v", status, err)
		}
	}
}

// The token of a server that has no metadata at all is refreshed where it was got.
func TestRefreshWithoutMetadata(t *testing.T) {
	w, later, timed := hourly(t)
	w.about, w.challenge = nil, "Bearer"
	for _, path := range []string{"/authorize", "/token", "/register"} {
		w.replace("resource"+path, func(res http.ResponseWriter, r *http.Request) { w.as.ServeHTTP(res, r) })
	}
	w.callback = func(answer url.Values) { answer.Del("iss") }
	kept := newStore()
	for range 3 {
		w.welcome(w.client(func(o *oauth.ClientOptions) { timed(o); o.Store = kept }))
		later()
	}
	if len(w.opened) != 1 || w.count("resource/token") != 3 || w.count("resource/mcp") != 4 {
		t.Errorf("%d browsers, %d tokens, %d requests", len(w.opened), w.count("resource/token"), w.count("resource/mcp"))
	}
}

// What a server with metadata has given does not go to where its endpoints might be when
// there is none any more.
func TestMetadataThatIsGone(t *testing.T) {
	w, later, timed := hourly(t)
	w.about, w.challenge = nil, "Bearer"
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
	w.welcome(client)
	later()
	w.replace("resource/.well-known/oauth-authorization-server", http.NotFound)
	away = true
	if _, err := w.visit(client); !errors.Is(err, nobody) || w.count("resource/oauth2/token") != 1 || w.count("resource/token") > 0 {
		t.Errorf("got %v; %v", err, w.forms("resource/token"))
	}
}

// Programs that share a store share the refresh token, which is used once.
func TestTwoProgramsOneStore(t *testing.T) {
	w, later, timed := hourly(t)
	kept := newStore()
	stored := func(o *oauth.ClientOptions) { timed(o); o.Store = kept }
	one, other := w.client(stored), w.client(stored)
	for range 3 {
		w.welcome(one)
		w.welcome(other)
		later()
	}
	if len(w.opened) != 1 || w.count("issuer/token") != 3 {
		t.Errorf("%d browsers, %d tokens", len(w.opened), w.count("issuer/token"))
	}
	// Both refresh at once, and one is faster.
	var asked atomic.Int64
	w.replace("issuer/token", func(res http.ResponseWriter, r *http.Request) {
		if asked.Add(1) == 1 {
			w.welcome(other)
		}
		w.as.ServeHTTP(res, r)
	})
	w.welcome(one)
	if len(w.opened) != 1 || asked.Load() != 2 {
		t.Errorf("at once: %d browsers, %d refreshes", len(w.opened), asked.Load())
	}
}

// Of the two servers that a company's login asks, an error names the one that it is about.
func TestAnswerErrorNamesItsIssuer(t *testing.T) {
	w, provider := newWorld(t, nil), newWorld(t, nil)
	provider.replace("issuer/token", says("<html>"))
	_, err := w.visit(w.client(func(o *oauth.ClientOptions) {
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
