package oauth_test

import (
	"crypto/rand"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-go/dovetail/internal/authserver"
	"github.com/dovetail-go/dovetail/transport/oauth"
)

// A refresh token is used once; the next comes with the token that it was given for.
func TestRefreshWithRotation(t *testing.T) {
	now := time.Now()
	var mu sync.Mutex
	clock := func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
	w := newWorld(t, &authserver.Options{Clock: clock, TokenLife: time.Hour})
	client := w.client(func(o *oauth.ClientOptions) { o.Clock = clock })
	w.welcome(client)
	for range 3 {
		mu.Lock()
		now = now.Add(time.Hour)
		mu.Unlock()
		w.welcome(client)
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
	w.as.Revoke() // and a person has to log in again
	mu.Lock()
	now = now.Add(time.Hour)
	mu.Unlock()
	w.welcome(client)
	if len(w.opened) != 2 {
		t.Errorf("%d browsers", len(w.opened))
	}
}

// A refresh token that is not replaced stays.
func TestRefreshWithoutRotation(t *testing.T) {
	now := time.Now()
	w := newWorld(t, nil)
	w.replace("issuer/token", func(res http.ResponseWriter, r *http.Request) {
		about := map[string]any{"access_token": rand.Text(), "token_type": "Bearer", "expires_in": 60}
		if r.FormValue("grant_type") != "refresh_token" {
			about["refresh_token"] = "the-refresh-token"
		}
		writeJSON(res, about)
	})
	client := w.client(func(o *oauth.ClientOptions) { o.Clock = func() time.Time { return now } })
	for range 3 {
		w.welcome(client)
		now = now.Add(time.Minute)
	}
	forms := w.forms("issuer/token")
	if len(forms) != 3 || len(w.opened) != 1 || forms[1].Get("refresh_token") != "the-refresh-token" || forms[2].Get("refresh_token") != "the-refresh-token" {
		t.Errorf("%d browsers; asked for %v", len(w.opened), forms)
	}
}

// A token that the server does not accept any more is refreshed too.
func TestRefusedTokenIsRefreshed(t *testing.T) {
	w := newWorld(t, nil)
	client := w.client(nil)
	w.welcome(client)
	w.welcome(client)
	_, token, _ := strings.Cut(w.tokens[0], " ")
	w.refused[token] = true
	w.welcome(client)
	if len(w.opened) != 1 || w.count("issuer/token") != 2 {
		t.Errorf("%d browsers, %d tokens", len(w.opened), w.count("issuer/token"))
	}
}

// What was asked for is asked for again when a token has ended for which there is no
// next.
func TestScopesOutliveTheToken(t *testing.T) {
	now := time.Now()
	clock := func() time.Time { return now }
	w := newWorld(t, &authserver.Options{Clock: clock, Clients: []authserver.Client{{ID: "robot", Secret: "password"}}})
	client := w.client(func(o *oauth.ClientOptions) {
		o.Clock, o.Flow = clock, &oauth.ClientCredentials{}
		o.Registrations = []oauth.Registration{{ClientID: "robot", Secret: "password"}}
	})
	for _, scope := range []string{"read", "write"} {
		w.need = []string{scope}
		w.welcome(client)
	}
	w.need = []string{"read", "write"}
	now = now.Add(time.Hour)
	w.welcome(client)
	forms := w.forms("issuer/token")
	if got := forms[len(forms)-1].Get("scope"); got != "write read" && got != "read write" {
		t.Errorf("asked for %q", got)
	}
	if shown := w.tokens[len(w.tokens)-1]; strings.Contains(strings.Join(w.tokens[:len(w.tokens)-1], " "), shown) {
		t.Error("the old token was shown")
	}
}

// A server that refuses a token that it has just got is not given another one.
func TestFreshTokenThatIsRefused(t *testing.T) {
	w := newWorld(t, nil)
	w.replace("resource/mcp", func(res http.ResponseWriter, _ *http.Request) {
		res.Header().Set("WWW-Authenticate", `Bearer error="invalid_token"`)
		res.WriteHeader(http.StatusUnauthorized)
	})
	if status, err := w.visit(w.client(nil)); err != nil || status != http.StatusUnauthorized || len(w.opened) != 1 || w.count("issuer/token") != 1 {
		t.Errorf("got %d, %v, with %d browsers and %d tokens", status, err, len(w.opened), w.count("issuer/token"))
	}
}

// More scopes are asked for together with those that there are, and not without end.
func TestStepUp(t *testing.T) {
	w := newWorld(t, &authserver.Options{Scopes: []string{"read", "write", "admin", "offline_access"}})
	w.about["scopes_supported"] = []string{"read"}
	client := w.client(nil)
	w.welcome(client)
	w.need = []string{"write"}
	w.welcome(client)
	asked := func() (all []string) {
		for _, to := range w.opened {
			all = append(all, queryOf(t, to).Get("scope"))
		}
		return all
	}
	if diff := cmp.Diff([]string{"read offline_access", "write read offline_access"}, asked()); diff != "" {
		t.Error(diff)
	}
	w.need = []string{"nobody", "has"}
	_, err := w.visit(client)
	if refused, ok := errors.AsType[*oauth.StepUpError](err); !ok || !cmp.Equal(refused.Scopes, w.need) || !cmp.Equal(refused.Granted, []string{"write", "read", "offline_access"}) {
		t.Errorf("got %v", err)
	}
	browsers := len(w.opened)
	if browsers > 4 {
		t.Errorf("%d browsers", browsers)
	}
	if _, err := w.visit(client); err == nil || len(w.opened) != browsers {
		t.Errorf("later: %v, and %d browsers more", err, len(w.opened)-browsers)
	}
}

// A server that demands what it was shown already is not asked for more.
func TestStepUpThatIsNone(t *testing.T) {
	w := newWorld(t, nil)
	w.about["scopes_supported"] = []string{"read"}
	client := w.client(nil)
	w.welcome(client)
	w.replace("resource/mcp", func(res http.ResponseWriter, _ *http.Request) {
		res.Header().Set("WWW-Authenticate", `Bearer error="insufficient_scope", scope="read"`)
		res.WriteHeader(http.StatusForbidden)
	})
	_, err := w.visit(client)
	if refused, ok := errors.AsType[*oauth.StepUpError](err); !ok || len(w.opened) != 1 || !cmp.Equal(refused.Granted, []string{"read"}) {
		t.Errorf("got %v, with %d browsers", err, len(w.opened))
	}
	w.replace("resource/mcp", func(res http.ResponseWriter, _ *http.Request) { res.WriteHeader(http.StatusForbidden) })
	if status, err := w.visit(client); status != http.StatusForbidden || err != nil || len(w.opened) != 1 {
		t.Errorf("a refusal for good: got %d, %v", status, err)
	}
}
