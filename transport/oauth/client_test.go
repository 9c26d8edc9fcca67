package oauth_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-go/dovetail/internal/authserver"
	"github.com/dovetail-go/dovetail/transport/oauth"
)

// A person logs in once, however many requests there are, and whoever makes them.
func TestOneLoginForAll(t *testing.T) {
	const all = 8
	w := newWorld(t, nil)
	client := w.client(func(o *oauth.ClientOptions) {
		o.Flow = &oauth.CodeFlow{Open: func(ctx context.Context, url string) error {
			for w.count("resource/mcp") < all && ctx.Err() == nil { // until everyone was refused
				runtime.Gosched()
			}
			return w.browse(ctx, url)
		}}
	})
	var wait sync.WaitGroup
	for range all {
		wait.Go(func() { w.welcome(client) })
	}
	wait.Wait()
	w.welcome(client)
	if len(w.opened) != 1 || w.count("issuer/register") != 1 || w.count("issuer/token") != 1 {
		t.Errorf("%d browsers, %d registrations, %d tokens", len(w.opened), w.count("issuer/register"), w.count("issuer/token"))
	}
	for _, form := range w.forms("issuer/token") {
		if form.Get("resource") != w.mcp() || form.Get("code_verifier") == "" {
			t.Errorf("asked for %v", form)
		}
	}
}

// What a client has learned serves the next one with the same store, and only that.
func TestStoreServesTheNextRun(t *testing.T) {
	w, kept := newWorld(t, nil), newStore()
	withStore := func(o *oauth.ClientOptions) { o.Store = kept }
	w.welcome(w.client(withStore))
	w.welcome(w.client(withStore))
	if len(w.opened) != 1 {
		t.Errorf("the second run opens a browser")
	}
	if diff := cmp.Diff([]string{"client of " + w.issuer.URL, "login " + w.mcp()}, kept.keys()); diff != "" {
		t.Error(diff)
	}
	client := w.client(withStore)
	if err := client.Logout(t.Context(), w.mcp()); err != nil {
		t.Fatal(err)
	}
	w.welcome(client)
	if len(w.opened) != 2 {
		t.Errorf("after Logout, %d browsers", len(w.opened))
	}
}

func TestLogin(t *testing.T) {
	w := newWorld(t, nil)
	client := w.client(nil)
	for range 2 {
		if err := client.Login(t.Context(), w.mcp()); err != nil {
			t.Fatal(err)
		}
	}
	w.welcome(client)
	if len(w.opened) != 1 || len(w.tokens) != 1 {
		t.Errorf("%d browsers; shown were %d tokens", len(w.opened), len(w.tokens))
	}
}

// Servers with one authorization server do not register twice, whoever comes first.
func TestOneRegistrationForAll(t *testing.T) {
	first, second := newWorld(t, nil), newWorld(t, nil)
	second.about["authorization_servers"] = []string{first.issuer.URL}
	client := first.client(nil)
	var wait sync.WaitGroup
	for _, w := range []*world{first, second} {
		wait.Go(func() {
			if status, err := w.visitAt(client, w.mcp()); err != nil || status != http.StatusOK {
				t.Errorf("got %d, %v", status, err)
			}
		})
	}
	wait.Wait()
	if first.count("issuer/register") != 1 || len(first.opened) != 2 || second.count("issuer/token") > 0 {
		t.Errorf("%d registrations, %d browsers", first.count("issuer/register"), len(first.opened))
	}
	if first.tokens[0] == second.tokens[0] {
		t.Error("both got the same token")
	}
}

// A registration is for one redirect URI. When its port is taken, the client registers
// for another one.
func TestPortThatIsTaken(t *testing.T) {
	w, kept := newWorld(t, nil), newStore()
	withStore := func(o *oauth.ClientOptions) { o.Store = kept }
	w.welcome(w.client(withStore))
	before, _ := url.Parse(queryOf(t, w.opened[0]).Get("redirect_uri"))
	if listener, err := net.Listen("tcp", before.Host); err == nil { // else somebody has taken it already
		defer listener.Close()
	}
	client := w.client(withStore)
	if err := client.Logout(t.Context(), w.mcp()); err != nil {
		t.Fatal(err)
	}
	w.welcome(client)
	if after := queryOf(t, w.opened[1]); w.count("issuer/register") != 2 || after.Get("redirect_uri") == before.String() || after.Get("client_id") == queryOf(t, w.opened[0]).Get("client_id") {
		t.Errorf("%d registrations, the last for %v", w.count("issuer/register"), after)
	}
}

func TestRegistrations(t *testing.T) {
	const document = "https://client.example/about.json"
	given := oauth.Registration{ClientID: "known", Secret: "password"}
	known := &authserver.Options{NoRegistration: true, Clients: []authserver.Client{
		{ID: "known", Secret: "password", RedirectURIs: []string{"http://127.0.0.1/callback"}},
		{ID: document, RedirectURIs: []string{"http://127.0.0.1/callback"}},
	}}
	t.Run("given", func(t *testing.T) {
		w := newWorld(t, known)
		w.welcome(w.client(func(o *oauth.ClientOptions) { o.Registrations = []oauth.Registration{given}; o.MetadataURL = document }))
		if got := queryOf(t, w.opened[0]).Get("client_id"); got != "known" {
			t.Errorf("the client is %q", got)
		}
	})
	t.Run("document", func(t *testing.T) {
		w := newWorld(t, known)
		w.server = func(about map[string]any) { about["client_id_metadata_document_supported"] = true }
		w.welcome(w.client(func(o *oauth.ClientOptions) { o.MetadataURL = document }))
		if got := queryOf(t, w.opened[0]).Get("client_id"); got != document {
			t.Errorf("the client is %q", got)
		}
	})
	t.Run("none", func(t *testing.T) {
		w := newWorld(t, known)
		_, err := w.visit(w.client(nil))
		if refused, ok := errors.AsType[*oauth.RegistrationError](err); !ok || refused.Issuer != w.issuer.URL {
			t.Errorf("got %v", err)
		}
	})
	t.Run("forgotten by the server", func(t *testing.T) {
		w, kept := newWorld(t, nil), newStore()
		withStore := func(o *oauth.ClientOptions) { o.Store = kept }
		w.welcome(w.client(withStore))
		if err := kept.Save(t.Context(), "login "+w.mcp(), ""); err != nil {
			t.Fatal(err)
		}
		refusals := 0
		w.replace("issuer/token", func(res http.ResponseWriter, r *http.Request) {
			if refusals++; refusals == 1 {
				res.Header().Set("Content-Type", "application/json")
				res.WriteHeader(http.StatusUnauthorized)
				_, _ = res.Write([]byte(`{"error":"invalid_client"}`))
				return
			}
			w.as.ServeHTTP(res, r)
		})
		w.welcome(w.client(withStore))
		if w.count("issuer/register") != 2 {
			t.Errorf("%d registrations", w.count("issuer/register"))
		}
	})
}

// A token is bound to a key where the client, the resource or its challenge says so, also
// when nonces are demanded, and when the key comes out of the store.
func TestBoundTokens(t *testing.T) {
	for name, change := range map[string]func(*world, *oauth.ClientOptions){
		"client":    func(_ *world, o *oauth.ClientOptions) { o.DPoP = true },
		"resource":  func(w *world, _ *oauth.ClientOptions) { w.about["dpop_bound_access_tokens_required"] = true },
		"challenge": func(w *world, _ *oauth.ClientOptions) { w.challenge = "DPoP" },
	} {
		for _, nonces := range []bool{false, true} {
			w, kept := newWorld(t, &authserver.Options{Nonces: nonces, TokenLife: time.Second}), newStore()
			for range 2 {
				w.welcome(w.client(func(o *oauth.ClientOptions) { o.Store = kept; change(w, o) }))
			}
			for _, token := range w.tokens {
				if !strings.HasPrefix(token, "DPoP ") {
					t.Errorf("%s: shown was %.10s", name, token)
				}
			}
			if len(w.opened) != 1 {
				t.Errorf("%s: %d browsers", name, len(w.opened))
			}
		}
	}
	w := newWorld(t, nil)
	w.replace("issuer/token", func(res http.ResponseWriter, _ *http.Request) {
		writeJSON(res, map[string]any{"access_token": "x", "token_type": "Bearer"})
	})
	_, err := w.visit(w.client(func(o *oauth.ClientOptions) { o.DPoP = true }))
	if _, ok := errors.AsType[*oauth.AnswerError](err); !ok || len(w.tokens) > 0 {
		t.Errorf("a token that is not bound: %v, %v", err, w.tokens)
	}
}

func TestWrongOptions(t *testing.T) {
	for name, opts := range map[string]oauth.ClientOptions{
		"http document":       {MetadataURL: "http://client.example/x"},
		"document at root":    {MetadataURL: "https://client.example/"},
		"no client ID":        {Registrations: []oauth.Registration{{}}},
		"unknown method":      {Registrations: []oauth.Registration{{ClientID: "x", Method: "tls"}}},
		"method without key":  {Registrations: []oauth.Registration{{ClientID: "x", Method: oauth.MethodPrivateKeyJWT}}},
		"two scopes in one":   {Scopes: []string{"a b"}},
		"no registration":     {Flow: &oauth.ClientCredentials{}},
		"no secret":           {Flow: &oauth.ClientCredentials{}, Registrations: []oauth.Registration{{ClientID: "x", Secret: "s"}, {ClientID: "y", Issuer: "https://y.example"}}},
		"no assertion":        {Flow: &oauth.JWTBearer{}},
		"another's client":    {Flow: &oauth.EnterpriseManaged{Issuer: "https://x.example", Client: oauth.Registration{Issuer: "https://y.example", ClientID: "x"}, Subject: func(context.Context) (oauth.Secret, error) { return "", nil }}, Registrations: []oauth.Registration{{ClientID: "x"}}},
		"no identity server":  {Flow: &oauth.EnterpriseManaged{}},
		"no client there":     {Flow: &oauth.EnterpriseManaged{Issuer: "https://x.example", Subject: func(context.Context) (oauth.Secret, error) { return "", nil }}, Registrations: []oauth.Registration{{ClientID: "x"}}},
		"no server anywhere ": {Flow: &oauth.EnterpriseManaged{Issuer: "https://x.example", Subject: func(context.Context) (oauth.Secret, error) { return "", nil }}},
	} {
		if _, err := oauth.NewClient(&opts); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// A store that fails has nothing done that could not be remembered, and nobody sent
// anywhere.
func TestStoreThatFails(t *testing.T) {
	w, kept := newWorld(t, nil), newStore()
	kept.err = errors.New("disk full")
	_, err := w.visit(w.client(func(o *oauth.ClientOptions) { o.Store = kept }))
	if _, ok := errors.AsType[*oauth.StoreError](err); !ok || !errors.Is(err, kept.err) || len(w.opened) > 0 {
		t.Errorf("got %v", err)
	}
}
