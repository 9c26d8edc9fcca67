package oauth_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-go/dovetail/internal/test/waittest"
	"github.com/dovetail-go/dovetail/transport/oauth"
	"github.com/dovetail-go/dovetail/transport/oauth/oauthtest"
)

// Concurrent requests share one login.
func TestOneLoginForAll(t *testing.T) {
	const all = 8
	w := newFixture(t, nil)
	client := w.client(func(o *oauth.ClientOptions) {
		o.Flow = &oauth.CodeFlow{Open: func(ctx context.Context, url string) error {
			for w.count("resource/mcp") < all && ctx.Err() == nil { // until all requests were refused
				runtime.Gosched()
			}
			return w.browse(ctx, url)
		}}
	})
	var wait sync.WaitGroup
	for range all {
		wait.Go(func() { w.mustSucceed(client) })
	}
	wait.Wait()
	w.mustSucceed(client)
	if len(w.opened) != 1 || w.count("issuer/register") != 1 || w.count("issuer/token") != 1 {
		t.Errorf("%d browsers, %d registrations, %d tokens", len(w.opened), w.count("issuer/register"), w.count("issuer/token"))
	}
	for _, form := range w.forms("issuer/token") {
		if form.Get("resource") != w.mcp() || form.Get("code_verifier") == "" {
			t.Errorf("asked for %v", form)
		}
	}
}

// A second client with the same store needs no login. Logout deletes the token.
func TestStoreServesTheNextRun(t *testing.T) {
	w, kept := newFixture(t, nil), newStore()
	withStore := func(o *oauth.ClientOptions) { o.Store = kept }
	w.mustSucceed(w.client(withStore))
	w.mustSucceed(w.client(withStore))
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
	w.mustSucceed(client)
	if len(w.opened) != 2 {
		t.Errorf("after Logout, %d browsers", len(w.opened))
	}
}

func TestLogin(t *testing.T) {
	w := newFixture(t, nil)
	client := w.client(nil)
	for range 2 {
		if err := client.Login(t.Context(), w.mcp()); err != nil {
			t.Fatal(err)
		}
	}
	w.mustSucceed(client)
	if len(w.opened) != 1 || len(w.tokens) != 1 {
		t.Errorf("%d browsers; shown were %d tokens", len(w.opened), len(w.tokens))
	}
}

// Concurrent logins at one authorization server register the client once.
func TestOneRegistrationForAll(t *testing.T) {
	first, second := newFixture(t, nil), newFixture(t, nil)
	second.metadata["authorization_servers"] = []string{first.issuer.URL}
	client := first.client(nil)
	var wait sync.WaitGroup
	for _, w := range []*fixture{first, second} {
		wait.Go(func() {
			if status, err := w.requestAt(client, w.mcp()); err != nil || status != http.StatusOK {
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

// When the port of the registered redirect URI is taken, the client registers again.
func TestPortThatIsTaken(t *testing.T) {
	w, kept := newFixture(t, nil), newStore()
	withStore := func(o *oauth.ClientOptions) { o.Store = kept }
	w.mustSucceed(w.client(withStore))
	before, _ := url.Parse(queryOf(t, w.opened[0]).Get("redirect_uri"))
	if listener, err := net.Listen("tcp", before.Host); err == nil { // otherwise the port is already taken
		defer listener.Close()
	}
	client := w.client(withStore)
	if err := client.Logout(t.Context(), w.mcp()); err != nil {
		t.Fatal(err)
	}
	w.mustSucceed(client)
	if after := queryOf(t, w.opened[1]); w.count("issuer/register") != 2 || after.Get("redirect_uri") == before.String() || after.Get("client_id") == queryOf(t, w.opened[0]).Get("client_id") {
		t.Errorf("%d registrations, the last for %v", w.count("issuer/register"), after)
	}
}

func TestRegistrations(t *testing.T) {
	const document = "https://client.example/about.json"
	given := oauth.Registration{ClientID: "known", Secret: "password"}
	known := &oauthtest.Options{NoRegistration: true, Clients: []oauthtest.Client{
		{ID: "known", Secret: "password", RedirectURIs: []string{"http://127.0.0.1/callback"}},
		{ID: document, RedirectURIs: []string{"http://127.0.0.1/callback"}},
	}}
	t.Run("given", func(t *testing.T) {
		w := newFixture(t, known)
		w.mustSucceed(w.client(func(o *oauth.ClientOptions) { o.Registrations = []oauth.Registration{given}; o.MetadataURL = document }))
		if got := queryOf(t, w.opened[0]).Get("client_id"); got != "known" {
			t.Errorf("the client is %q", got)
		}
	})
	t.Run("document", func(t *testing.T) {
		w := newFixture(t, known)
		w.editMetadata = func(metadata map[string]any) { metadata["client_id_metadata_document_supported"] = true }
		w.mustSucceed(w.client(func(o *oauth.ClientOptions) { o.MetadataURL = document }))
		if got := queryOf(t, w.opened[0]).Get("client_id"); got != document {
			t.Errorf("the client is %q", got)
		}
	})
	t.Run("none", func(t *testing.T) {
		w := newFixture(t, known)
		_, err := w.request(w.client(nil))
		if refused, ok := errors.AsType[*oauth.RegistrationError](err); !ok || refused.Issuer != w.issuer.URL {
			t.Errorf("got %v", err)
		}
	})
	t.Run("forgotten by the server", func(t *testing.T) {
		w, kept := newFixture(t, nil), newStore()
		withStore := func(o *oauth.ClientOptions) { o.Store = kept }
		w.mustSucceed(w.client(withStore))
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
		w.mustSucceed(w.client(withStore))
		if w.count("issuer/register") != 2 {
			t.Errorf("%d registrations", w.count("issuer/register"))
		}
	})
}

// Tokens are bound to a key if the client, the resource or its challenge requires it,
// also with nonces and with a key from the store.
func TestBoundTokens(t *testing.T) {
	for name, change := range map[string]func(*fixture, *oauth.ClientOptions){
		"client":    func(_ *fixture, o *oauth.ClientOptions) { o.DPoP = true },
		"resource":  func(w *fixture, _ *oauth.ClientOptions) { w.metadata["dpop_bound_access_tokens_required"] = true },
		"challenge": func(w *fixture, _ *oauth.ClientOptions) { w.challenge = "DPoP" },
	} {
		for _, nonces := range []bool{false, true} {
			w, kept := newFixture(t, &oauthtest.Options{Nonces: nonces, TokenLife: time.Second}), newStore()
			for range 2 {
				w.mustSucceed(w.client(func(o *oauth.ClientOptions) { o.Store = kept; change(w, o) }))
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
	w := newFixture(t, nil)
	w.replace("issuer/token", func(res http.ResponseWriter, _ *http.Request) {
		writeJSON(res, map[string]any{"access_token": "x", "token_type": "Bearer"})
	})
	_, err := w.request(w.client(func(o *oauth.ClientOptions) { o.DPoP = true }))
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
		"method without key":  {Registrations: []oauth.Registration{{ClientID: "x", Method: "private_key_jwt"}}},
		"two scopes in one":   {Scopes: []string{"a b"}},
		"no registration":     {Flow: &oauth.ClientCredentials{}},
		"no secret":           {Flow: &oauth.ClientCredentials{}, Registrations: []oauth.Registration{{ClientID: "x", Secret: "s"}, {ClientID: "y", Issuer: "https://y.example"}}},
		"no assertion":        {Flow: &oauth.JWTBearer{}},
		"another's client":    {Flow: &oauth.EnterpriseManaged{Issuer: "https://x.example", Client: oauth.Registration{Issuer: "https://y.example", ClientID: "x"}, Subject: func(context.Context) (oauth.Secret, error) { return "", nil }}, Registrations: []oauth.Registration{{ClientID: "x"}}},
		"no token":            {Flow: &oauth.TokenExchange{}, Registrations: []oauth.Registration{{Issuer: "https://x.example", ClientID: "x"}}},
		"a token for nobody":  {Flow: &oauth.TokenExchange{Subject: func(context.Context) (oauth.Secret, error) { return "", nil }}},
		"a token for anybody": {Flow: &oauth.TokenExchange{Subject: func(context.Context) (oauth.Secret, error) { return "", nil }}, Registrations: []oauth.Registration{{ClientID: "x"}}},
		"no identity server":  {Flow: &oauth.EnterpriseManaged{}},
		"no client there":     {Flow: &oauth.EnterpriseManaged{Issuer: "https://x.example", Subject: func(context.Context) (oauth.Secret, error) { return "", nil }}, Registrations: []oauth.Registration{{ClientID: "x"}}},
		"no server anywhere ": {Flow: &oauth.EnterpriseManaged{Issuer: "https://x.example", Subject: func(context.Context) (oauth.Secret, error) { return "", nil }}},
	} {
		if _, err := oauth.NewClient(&opts); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// When the store fails, no login starts.
func TestStoreThatFails(t *testing.T) {
	w, kept := newFixture(t, nil), newStore()
	kept.err = errors.New("disk full")
	_, err := w.request(w.client(func(o *oauth.ClientOptions) { o.Store = kept }))
	if _, ok := errors.AsType[*oauth.StoreError](err); !ok || !errors.Is(err, kept.err) || len(w.opened) > 0 {
		t.Errorf("got %v", err)
	}
}

// A server that starts to require bound tokens gets one, although there is a refresh
// token for a bearer token.
func TestServerThatBeginsToDemandBoundTokens(t *testing.T) {
	w := newFixture(t, nil)
	client := w.client(nil)
	for range 2 {
		w.mustSucceed(client)
	}
	w.replace("resource/mcp", func(res http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.Header.Get("Authorization"), "DPoP ") {
			res.Header().Set("WWW-Authenticate", `DPoP error="invalid_token", algs="ES256"`)
			res.WriteHeader(http.StatusUnauthorized)
		}
	})
	for range 2 {
		w.mustSucceed(client)
	}
	if len(w.opened) != 2 || w.count("issuer/token") != 2 {
		t.Errorf("%d browsers, %d tokens", len(w.opened), w.count("issuer/token"))
	}
}

// With ClientOptions.DPoP, a bearer token in the store is neither used nor refreshed.
func TestStoredTokenThatIsNotBound(t *testing.T) {
	for _, ended := range []bool{false, true} {
		w, later, timed := newHourlyFixture(t)
		kept := newStore()
		w.mustSucceed(w.client(func(o *oauth.ClientOptions) { timed(o); o.Store = kept }))
		if ended {
			later()
		}
		bound := func(o *oauth.ClientOptions) { timed(o); o.Store, o.DPoP = kept, true }
		client := w.client(bound)
		if err := client.Login(t.Context(), w.mcp()); err != nil {
			t.Fatal(err)
		}
		w.mustSucceed(client)
		w.mustSucceed(w.client(bound))
		for _, token := range w.tokens[1:] {
			if !strings.HasPrefix(token, "DPoP ") {
				t.Errorf("shown was %.10s", token)
			}
		}
		for _, form := range w.forms("issuer/token") {
			if form.Has("refresh_token") {
				t.Errorf("asked for %v", form)
			}
		}
		if len(w.opened) != 2 {
			t.Errorf("%d browsers", len(w.opened))
		}
	}
}

// waitForWaiters waits until so many callers wait for a token.
func (w *fixture) waitForWaiters(ctx context.Context, client *oauth.Client, all int) {
	for oauth.Waiting(client, w.mcp()) != all && ctx.Err() == nil {
		runtime.Gosched()
	}
}

// Concurrent requests share a refusal: the person is not asked again.
func TestOneRefusalForAll(t *testing.T) {
	const all = 8
	w := newFixture(t, nil)
	w.callback = func(answer url.Values) {
		answer.Del("code")
		answer.Set("error", "access_denied")
	}
	var client *oauth.Client
	client = w.client(func(o *oauth.ClientOptions) {
		o.Flow = &oauth.CodeFlow{Open: func(ctx context.Context, url string) error {
			w.waitForWaiters(ctx, client, all)
			return w.browse(ctx, url)
		}}
	})
	var wait sync.WaitGroup
	for range all {
		wait.Go(func() {
			_, err := w.request(client)
			if refused, ok := errors.AsType[*oauth.Error](err); !ok || refused.Code != "access_denied" {
				t.Errorf("got %v", err)
			}
		})
	}
	wait.Wait()
	if len(w.opened) != 1 {
		t.Errorf("%d browsers", len(w.opened))
	}
	w.callback = nil
	w.mustSucceed(w.client(nil)) // another client may log in
}

// A login continues while a caller waits for it, and is canceled when the last one
// leaves.
func TestLoginOutlastsItsFirstCaller(t *testing.T) {
	w := newFixture(t, nil)
	opened, agree := make(chan context.Context, 2), make(chan struct{})
	client := w.client(func(o *oauth.ClientOptions) {
		o.Flow = &oauth.CodeFlow{Open: func(ctx context.Context, url string) error {
			opened <- ctx
			select {
			case <-agree:
				return w.browse(ctx, url)
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}}
	})
	begin := func(ctx context.Context) <-chan error {
		ended := make(chan error, 1)
		go func() { ended <- client.Login(ctx, w.mcp()) }()
		return ended
	}
	reason := errors.New("the first has gone")
	ctx, leave := context.WithCancelCause(t.Context())
	first := begin(ctx)
	login := waittest.Receive(t, "the browser", opened)
	second := begin(t.Context())
	w.waitForWaiters(t.Context(), client, 2)
	leave(reason)
	if err := waittest.Receive(t, "the end of the first call", first); !errors.Is(err, reason) {
		t.Errorf("the first gets %v", err)
	}
	if login.Err() != nil {
		t.Error("the login ends with its first caller")
	}
	agree <- struct{}{}
	if err := waittest.Receive(t, "the end of the second call", second); err != nil || len(opened) != 0 || len(w.opened) != 1 {
		t.Errorf("the second gets %v, after %d browsers", err, len(w.opened))
	}

	if err := client.Logout(t.Context(), w.mcp()); err != nil {
		t.Fatal(err)
	}
	ctx, leave = context.WithCancelCause(t.Context())
	only := begin(ctx)
	login = waittest.Receive(t, "the browser", opened)
	leave(reason)
	if err := waittest.Receive(t, "the end of the other call", only); !errors.Is(err, reason) || !errors.Is(context.Cause(login), reason) {
		t.Errorf("the only one gets %v, the login %v", err, context.Cause(login))
	}
}

// A server with a pending login is not forgotten when the client uses many others.
func TestServersInUseAreRemembered(t *testing.T) {
	w := newFixture(t, nil)
	var client *oauth.Client
	var wait sync.WaitGroup
	client = w.client(func(o *oauth.ClientOptions) {
		o.Flow = &oauth.CodeFlow{Open: func(ctx context.Context, to string) error {
			for i := range 2000 {
				server := &url.URL{Scheme: "https", Host: "server.example", Path: fmt.Sprint("/", i)}
				if err := client.Authorize(ctx, server, &http.Request{URL: server, Header: http.Header{}}); err != nil {
					return err
				}
			}
			wait.Go(func() { w.mustSucceed(client) })
			w.waitForWaiters(ctx, client, 2)
			return w.browse(ctx, to)
		}}
	})
	w.mustSucceed(client)
	wait.Wait()
	if len(w.opened) != 1 {
		t.Errorf("%d browsers", len(w.opened))
	}
}

// A token is not used for a URL with another query.
func TestServersThatDifferByQuery(t *testing.T) {
	w, kept := newFixture(t, nil), newStore()
	stored := func(o *oauth.ClientOptions) { o.Store = kept }
	a, b := w.mcp()+"?tenant=a&key=secret", w.mcp()+"?tenant=b"
	w.metadata["resource"] = a
	client := w.client(stored)
	if status, err := w.requestAt(client, a); err != nil || status != http.StatusOK {
		t.Fatalf("got %d, %v", status, err)
	}
	for _, client := range []*oauth.Client{client, w.client(stored)} {
		if _, err := w.requestAt(client, b); !is[*oauth.MetadataError](err) || len(w.tokens) != 1 {
			t.Errorf("got %v; %d tokens were shown", err, len(w.tokens))
		}
	}
	key := kept.keys()[len(kept.keys())-1]
	if len(key) > len("login ")+len(w.mcp())+1+43 {
		t.Errorf("it is kept as %q", key)
	}
	// Nor is a token in the store that is for another resource.
	login, _ := kept.Load(t.Context(), key)
	if err := kept.Save(t.Context(), "login "+w.mcp(), login); err != nil {
		t.Fatal(err)
	}
	w.metadata["resource"] = w.mcp()
	w.mustSucceed(w.client(stored))
	if len(w.opened) != 2 || w.tokens[1] == w.tokens[0] {
		t.Errorf("%d browsers; shown were %v", len(w.opened), w.tokens)
	}
}
