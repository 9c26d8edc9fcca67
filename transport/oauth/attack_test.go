package oauth_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/internal/netguard"
	"github.com/dovetail-go/dovetail/internal/test/waittest"
	"github.com/dovetail-go/dovetail/transport/oauth"
	"github.com/dovetail-go/dovetail/transport/oauth/oauthtest"
)

// patience is far more than anything takes that a test waits for, on a busy machine too.
const patience = 30 * time.Second

// A clock that a test sets.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Now()} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(by)
}

// challengeForever makes the resource answer every request with a status and a challenge.
func (w *fixture) challengeForever(status int, challenge func(n int) string) {
	n := 0
	w.replace("resource/mcp", func(res http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "" {
			res.Header().Set("WWW-Authenticate", `Bearer`)
			res.WriteHeader(http.StatusUnauthorized)
			return
		}
		n++
		res.Header().Set("WWW-Authenticate", challenge(n))
		res.WriteHeader(status)
	})
}

// A server that accepts no token cannot open the person's browser without end.
func TestLimitOfLogins(t *testing.T) {
	for name, refuse := range map[string]func(w *fixture){
		"refuses every token": func(w *fixture) {
			w.challengeForever(http.StatusUnauthorized, func(int) string { return `Bearer error="invalid_token"` })
		},
		"demands another scope each time": func(w *fixture) {
			w.challengeForever(http.StatusForbidden, func(n int) string { return fmt.Sprintf(`Bearer error="insufficient_scope", scope="s%d"`, n) })
		},
		"alternates": func(w *fixture) {
			w.replace("resource/mcp", func(res http.ResponseWriter, r *http.Request) {
				res.Header().Set("WWW-Authenticate", `Bearer error="insufficient_scope", scope="s`+fmt.Sprint(len(w.requests))+`"`)
				res.WriteHeader([]int{http.StatusUnauthorized, http.StatusForbidden}[len(w.requests)%2])
			})
		},
	} {
		now := newClock()
		w := newFixture(t, &oauthtest.Options{Clock: now.Now})
		refuse(w)
		tokens := 0
		w.replace("issuer/token", func(res http.ResponseWriter, _ *http.Request) {
			tokens++
			writeJSON(res, map[string]any{"access_token": fmt.Sprint("token", tokens), "token_type": "Bearer"}) // and no refresh token
		})
		client := w.client(func(o *oauth.ClientOptions) {
			o.Clock = now.Now
			o.Flow = &oauth.CodeFlow{Open: w.browse, MaxLogins: 3}
		})
		var last *oauth.LoginLimitError
		for range 20 {
			if _, err := w.request(client); errors.As(err, &last) && !last.Retry.After(now.Now()) {
				t.Errorf("%s: the next login is possible at %v, which has passed", name, last.Retry)
			}
		}
		if last == nil || len(w.opened) != 3 {
			t.Errorf("%s: %d browsers, and the error %v", name, len(w.opened), last)
		}
		// A login that the program asks for is not counted.
		if err := client.Logout(t.Context(), w.mcp()); err != nil {
			t.Fatal(err)
		}
		if err := client.Login(t.Context(), w.mcp()); err != nil || len(w.opened) != 4 {
			t.Errorf("%s: Login: %v, %d browsers", name, err, len(w.opened))
		}
		now.advance(oauth.LoginWindow)
		for range 20 {
			_, _ = w.request(client) // the same errors as before
		}
		if len(w.opened) < 5 || len(w.opened) > 7 {
			t.Errorf("%s: %d browsers after the window has passed", name, len(w.opened))
		}
	}
}

// A login that nobody finishes does not delay the refresh of a token of the same
// authorization server.
func TestLoginThatNobodyFinishes(t *testing.T) {
	now := newClock()
	w, hostile := newFixture(t, &oauthtest.Options{Clock: now.Now}), newFixture(t, nil)
	hostile.metadata["authorization_servers"] = []string{w.issuer.URL}
	waiting := make(chan struct{}, 1)
	first := true
	client := w.client(func(o *oauth.ClientOptions) {
		o.Clock = now.Now
		o.Flow = &oauth.CodeFlow{Open: func(ctx context.Context, to string) error {
			if first {
				first = false
				return w.browse(ctx, to)
			}
			waiting <- struct{}{}
			return nil // the person does not answer
		}}
	})
	w.mustSucceed(client)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- client.Login(ctx, hostile.mcp()) }()
	waittest.Receive(t, "the end of the waiting call call", waiting)
	now.advance(time.Hour)
	served := make(chan error, 1)
	go func() {
		status, err := w.request(client)
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("status %d", status)
		}
		served <- err
	}()
	select {
	case err := <-served:
		if err != nil || w.count("issuer/token") != 2 {
			t.Errorf("the refresh: %v, after %d requests of a token", err, w.count("issuer/token"))
		}
		cancel()
	case <-time.After(patience):
		t.Error("the refresh waits for the login of another server")
		cancel()
		waittest.Receive(t, "the end of serving", served)
	}
	waittest.Receive(t, "the end of the login", ended)
}

// A registration without an issuer is used with one authorization server only, also if two
// servers name theirs at the same time.
func TestSecretForTheFirstIssuerOnly(t *testing.T) {
	w := newFixture(t, &oauthtest.Options{Clients: []oauthtest.Client{{ID: "robot", Secret: "password"}}})
	other := newFixture(t, &oauthtest.Options{Clients: []oauthtest.Client{{ID: "robot", Secret: "password"}}})
	slow := &slowStore{store: newStore(), loads: make(chan struct{}, 2)}
	client := w.client(func(o *oauth.ClientOptions) {
		o.Flow, o.Store = &oauth.ClientCredentials{}, slow
		o.Registrations = []oauth.Registration{{ClientID: "robot", Secret: "password"}}
	})
	errs := make(chan error, 2)
	for _, f := range []*fixture{w, other} {
		go func() { errs <- client.Login(t.Context(), f.mcp()) }()
	}
	refused := 0
	for range 2 {
		if err := waittest.Receive(t, "the result of a call", errs); is[*oauth.IssuerError](err) {
			refused++
		} else if err != nil {
			t.Error(err)
		}
	}
	if refused != 1 || w.count("issuer/token")+other.count("issuer/token") != 1 {
		t.Errorf("%d refusals; the secret was sent %d and %d times", refused, w.count("issuer/token"), other.count("issuer/token"))
	}
}

// A slowStore lets two callers load the issuer of a registration before one saves it, if they
// do not exclude each other.
type slowStore struct {
	*store
	loads chan struct{}
}

func (s *slowStore) Load(ctx context.Context, key string) (oauth.Secret, error) {
	value, err := s.store.Load(ctx, key)
	if strings.HasPrefix(key, "issuer of ") {
		s.loads <- struct{}{}
		for deadline := time.Now().Add(200 * time.Millisecond); len(s.loads) < 2 && time.Now().Before(deadline); {
			runtime.Gosched()
		}
	}
	return value, err
}

// An authorization endpoint cannot set the parameters of the request, which some
// authorization servers would then read from there. RFC 6749, section 3.1.
func TestAuthorizationEndpointWithParameters(t *testing.T) {
	w := newFixture(t, nil)
	for _, query := range []string{
		"client_id=attacker", "redirect_uri=https%3A%2F%2Fevil.example%2F", "response_type=token", "state=known", "scope=admin", "resource=https%3A%2F%2Fevil.example%2F",
		"code_challenge=x", "code_challenge_method=plain", "tenant=a&client_id=attacker", "client%5fid=attacker", "CLIENT_ID=attacker", "request=jwt", "request_uri=urn%3Ax", "%zz", "a;client_id=attacker",
	} {
		w.editMetadata = func(metadata map[string]any) {
			metadata["authorization_endpoint"] = w.issuer.URL + "/authorize?" + query
		}
		if _, err := w.request(w.client(nil)); !is[*oauth.URLError](err) || len(w.opened) > 0 {
			t.Errorf("%s: got %v, and opened %q", query, err, w.opened)
		}
	}
	w.editMetadata = func(metadata map[string]any) {
		metadata["authorization_endpoint"] = w.issuer.URL + "/authorize?tenant=a&p=b2c"
	}
	w.mustSucceed(w.client(nil))
	if query := queryOf(t, w.opened[0]); query.Get("tenant") != "a" || len(query["client_id"]) != 1 {
		t.Errorf("opened %v", query)
	}
}

// A redirect of an endpoint that receives secrets is not followed, whatever its status and
// its target.
func TestEndpointsThatRedirect(t *testing.T) {
	evil := newFixture(t, nil)
	for _, path := range []string{"issuer/token", "issuer/register", "issuer/.well-known/oauth-authorization-server", "resource/.well-known/oauth-protected-resource/mcp"} {
		for _, to := range []string{evil.issuer.URL + "/token", "https://169.254.169.254/latest", "https://10.0.0.1/", "https://[::ffff:127.0.0.1]/", "http://localhost.evil.example/", "//evil.example/", "gopher://evil.example/", "file:///etc/passwd"} {
			for _, status := range []int{300, 301, 302, 303, 305, 307, 308} {
				w := newFixture(t, nil)
				w.replace(path, func(res http.ResponseWriter, _ *http.Request) {
					res.Header().Set("Location", to)
					res.WriteHeader(status)
				})
				_, err := w.request(w.client(nil))
				if err == nil || len(evil.requests) > 0 || len(w.tokens) > 0 {
					t.Fatalf("%s, %d to %s: got %v, and %v", path, status, to, err, evil.requests)
				}
				if !is[*oauth.MetadataError](err) && !is[*oauth.RegistrationError](err) && !is[*oauth.URLError](err) && !is[*oauth.Error](err) {
					t.Errorf("%s, %d to %s: got %T: %v", path, status, to, err, err)
				}
			}
		}
	}
}

// Only https is used, except for this machine.
func TestEndpointsInTheClear(t *testing.T) {
	for _, name := range []string{"token_endpoint", "registration_endpoint", "authorization_endpoint", "authorization_servers", "challenge"} {
		for _, at := range []string{"http://as.example/x", "http://8.8.8.8/x", "ws://as.example/x", "HTTP://as.example/x", "http://127.0.0.1.as.example/x", "http:as.example", "//as.example/x"} {
			w := newFixture(t, nil)
			switch name {
			case "authorization_servers":
				w.metadata[name] = []string{at}
			case "challenge":
				w.challenge = `Bearer resource_metadata="` + at + `"`
			default:
				w.editMetadata = func(metadata map[string]any) { metadata[name] = at }
			}
			_, err := w.request(w.client(nil))
			if name == "challenge" { // nothing is sent there, and the well-known location is used
				if err != nil || w.count("resource/.well-known/oauth-protected-resource/mcp") != 1 {
					t.Errorf("%s is %s: got %v after %v", name, at, err, w.requests)
				}
				continue
			}
			if !is[*oauth.MetadataError](err) && !is[*oauth.URLError](err) || len(w.opened) > 0 {
				t.Errorf("%s is %s: got %v", name, at, err)
			}
			if name != "authorization_endpoint" && !is[*netguard.RefusedError](err) && !strings.Contains(err.Error(), "expected a") {
				t.Errorf("%s is %s: it was not refused before the request: %v", name, at, err)
			}
		}
	}
}

// A server that demands another nonce each time gets a few requests, not any number.
func TestNonceThatChangesForever(t *testing.T) {
	w := newFixture(t, nil)
	nonce := 0
	demand := func(res http.ResponseWriter, status int, body string) {
		nonce++
		res.Header().Set("DPoP-Nonce", fmt.Sprint("nonce", nonce))
		res.Header().Set("WWW-Authenticate", `DPoP error="use_dpop_nonce"`)
		res.Header().Set("Content-Type", "application/json")
		res.WriteHeader(status)
		_, _ = res.Write([]byte(body))
	}
	w.replace("issuer/token", func(res http.ResponseWriter, _ *http.Request) {
		demand(res, http.StatusBadRequest, `{"error":"use_dpop_nonce"}`)
	})
	client := w.client(func(o *oauth.ClientOptions) { o.DPoP = true })
	_, err := w.request(client)
	if refused, ok := errors.AsType[*oauth.Error](err); !ok || refused.Code != "use_dpop_nonce" || w.count("issuer/token") != 2 {
		t.Errorf("the token endpoint got %d requests: %v", w.count("issuer/token"), err)
	}
	w.handlers = map[string]http.HandlerFunc{"resource/mcp": func(res http.ResponseWriter, r *http.Request) {
		if r.Header.Get("DPoP") == "" {
			w.serveMCP(res, r)
			return
		}
		demand(res, http.StatusUnauthorized, "")
	}}
	before := w.count("resource/mcp")
	status, err := w.request(client)
	if sent := w.count("resource/mcp") - before; err != nil || status != http.StatusUnauthorized || sent > 4 {
		t.Errorf("the resource got %d requests: %d, %v", sent, status, err)
	}
	// A nonce that is no header value, or very long, is not repeated.
	w.replace("resource/mcp", func(res http.ResponseWriter, r *http.Request) {
		res.Header().Set("DPoP-Nonce", strings.Repeat("n", 100_000))
		res.Header().Set("WWW-Authenticate", `DPoP error="use_dpop_nonce"`)
		res.WriteHeader(http.StatusUnauthorized)
		if len(r.Header.Get("DPoP")) > 8<<10 {
			t.Errorf("a proof of %d bytes", len(r.Header.Get("DPoP")))
		}
	})
	_, _ = w.request(client) // the status is 401
}

// A code of another login is refused by the authorization server, since the verifier differs.
func TestCodeOfAnotherLogin(t *testing.T) {
	w := newFixture(t, &oauthtest.Options{NoRegistration: true, Clients: []oauthtest.Client{{ID: "app", RedirectURIs: []string{"http://127.0.0.1/callback"}}}})
	app := func(o *oauth.ClientOptions) { o.Registrations = []oauth.Registration{{ClientID: "app"}} }
	var stolen string
	w.callback = func(answer url.Values) {
		stolen = answer.Get("code")
		answer.Set("code", "unknown")
	}
	if _, err := w.request(w.client(app)); !is[*oauth.Error](err) {
		t.Errorf("an unknown code: %v", err)
	}
	w.callback = func(answer url.Values) { answer.Set("code", stolen) }
	_, err := w.request(w.client(app))
	if refused, ok := errors.AsType[*oauth.Error](err); !ok || refused.Code != "invalid_grant" || strings.Contains(err.Error(), stolen) || len(w.tokens) > 0 {
		t.Errorf("a stolen code: %v, and %v", err, w.tokens)
	}
}

// A token in an authorization response, as in the implicit grant, is not used, whatever the
// metadata say about response types.
func TestResponseWithToken(t *testing.T) {
	w := newFixture(t, nil)
	w.editMetadata = func(metadata map[string]any) {
		metadata["response_types_supported"] = []string{"token"}
		metadata["grant_types_supported"] = []string{"implicit", "password"}
	}
	w.callback = func(answer url.Values) {
		answer.Del("code")
		answer.Set("access_token", "injected")
		answer.Set("token_type", "Bearer")
	}
	_, err := w.request(w.client(nil))
	if !is[*oauth.Error](err) || strings.Contains(err.Error(), "injected") || len(w.tokens) > 0 || w.count("issuer/token") > 0 {
		t.Errorf("got %v, and %v", err, w.tokens)
	}
	if query := queryOf(t, w.opened[0]); query.Get("response_type") != "code" || query.Get("code_challenge_method") != "S256" {
		t.Errorf("asked for %v", query)
	}
}

// A response header that is huge ends in a login or an error, not in memory.
func TestChallengeBombs(t *testing.T) {
	for name, lines := range map[string][]string{
		"a long realm":       {`Bearer realm="` + strings.Repeat("x", 200_000) + `"`},
		"many challenges":    {strings.Repeat(`Bearer realm="x", `, 10_000) + "Bearer"},
		"many parameters":    {"Bearer " + strings.Repeat(`a=b, `, 10_000) + `resource_metadata="https://10.0.0.1/"`},
		"many lines":         strings.Split(strings.Repeat(`Bearer scope="admin"|`, 1000), "|"),
		"commas":             {strings.Repeat(",", 200_000) + ` Bearer resource_metadata="https://10.0.0.1/"`},
		"an open quote":      {`Bearer realm="` + strings.Repeat(`\"`, 100_000)},
		"a long scope":       {`Bearer scope="` + strings.Repeat("scope ", 20_000) + `"`},
		"a scope per letter": {`Bearer scope="` + strings.Repeat("a b c d ", 2000) + `"`},
	} {
		w := newFixture(t, nil)
		w.replace("resource/mcp", func(res http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") == "" {
				res.Header()["Www-Authenticate"] = lines
				res.WriteHeader(http.StatusUnauthorized)
			}
		})
		_, err := w.request(w.client(nil))
		if err != nil && len(err.Error()) > 2000 {
			t.Errorf("%s: an error of %d bytes", name, len(err.Error()))
		}
		for _, opened := range w.opened {
			if len(opened) > 16<<10 {
				t.Errorf("%s: opened a URL of %d bytes", name, len(opened))
			}
		}
	}
}
