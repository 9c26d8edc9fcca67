package oauth_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/internal/httpclient"
	"github.com/dovetail-go/dovetail/internal/test/leaktest"
	"github.com/dovetail-go/dovetail/transport/oauth"
	"github.com/dovetail-go/dovetail/transport/oauth/oauthtest"
)

// A fixture is a resource server, an authorization server, and a person with a browser.
// Tests can make both servers hostile.
type fixture struct {
	t        testing.TB
	resource *httptest.Server
	issuer   *httptest.Server
	as       *oauthtest.Server

	mu             sync.Mutex
	challenge      string                        // of the resource; "" names its metadata
	requiredScopes []string                      // scopes that the resource requires
	metadata       map[string]any                // the resource's metadata; nil: there is none
	editMetadata   func(metadata map[string]any) // changes the authorization server's metadata
	handlers       map[string]http.HandlerFunc   // replaced handlers, by side and path
	requests       []string                      // "METHOD side/path?form", in order
	tokens         []string                      // that the resource received
	refused        map[string]bool               // tokens that are refused
	opened         []string                      // URLs that the browser opened
	callback       func(url.Values)              // changes the authorization response
}

func newFixture(t testing.TB, opts *oauthtest.Options) *fixture {
	w := &fixture{t: t, handlers: make(map[string]http.HandlerFunc), refused: make(map[string]bool)}
	w.issuer = httptest.NewServer(http.HandlerFunc(w.serveIssuer))
	t.Cleanup(w.issuer.Close)
	w.resource = httptest.NewServer(http.HandlerFunc(w.serveResource))
	t.Cleanup(w.resource.Close)
	var err error
	if w.as, err = oauthtest.New(w.issuer.URL, opts); err != nil {
		t.Fatal(err)
	}
	w.metadata = map[string]any{"resource": w.mcp(), "authorization_servers": []string{w.issuer.URL}}
	return w
}

// mcp returns the URL of the protected endpoint.
func (w *fixture) mcp() string { return w.resource.URL + "/mcp" }

// replace sets another handler for a path of "issuer" or "resource".
func (w *fixture) replace(path string, by http.HandlerFunc) { w.handlers[path] = by }

// record records a request with its form. It returns the handler that replaces the path,
// if any.
func (w *fixture) record(side string, r *http.Request) http.HandlerFunc {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(strings.NewReader(string(body)))
	w.mu.Lock()
	defer w.mu.Unlock()
	w.requests = append(w.requests, r.Method+" "+side+r.URL.Path+"?"+r.URL.RawQuery+string(body))
	return w.handlers[side+r.URL.Path]
}

// count counts the requests for a path.
func (w *fixture) count(path string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, request := range w.requests {
		if _, rest, _ := strings.Cut(request, " "); strings.HasPrefix(rest, path+"?") {
			n++
		}
	}
	return n
}

// forms returns the forms that were posted to a path.
func (w *fixture) forms(path string) []url.Values {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []url.Values
	for _, request := range w.requests {
		if text, ok := strings.CutPrefix(request, "POST "+path+"?"); ok {
			form, _ := url.ParseQuery(text)
			all = append(all, form)
		}
	}
	return all
}

func (w *fixture) serveIssuer(res http.ResponseWriter, r *http.Request) {
	if other := w.record("issuer", r); other != nil {
		other(res, r)
		return
	}
	if r.URL.Path == "/.well-known/oauth-authorization-server" && w.editMetadata != nil {
		recorded := httptest.NewRecorder()
		w.as.ServeHTTP(recorded, r)
		var metadata map[string]any
		_ = json.Unmarshal(recorded.Body.Bytes(), &metadata)
		w.editMetadata(metadata)
		writeJSON(res, metadata)
		return
	}
	w.as.ServeHTTP(res, r)
}

func (w *fixture) serveResource(res http.ResponseWriter, r *http.Request) {
	if other := w.record("resource", r); other != nil {
		other(res, r)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch r.URL.Path {
	case "/.well-known/oauth-protected-resource/mcp":
		if w.metadata == nil {
			http.NotFound(res, r)
			return
		}
		writeJSON(res, w.metadata)
	case "/mcp":
		w.serveMCP(res, r)
	default:
		http.NotFound(res, r)
	}
}

func (w *fixture) serveMCP(res http.ResponseWriter, r *http.Request) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if token != "" {
		w.tokens = append(w.tokens, scheme+" "+token)
	}
	challenge := w.challenge
	if challenge == "" {
		challenge = "Bearer resource_metadata=" + `"` + w.resource.URL + `/.well-known/oauth-protected-resource/mcp"`
	}
	switch granted := scopesOf(token); {
	case token == "" || w.refused[token]:
		res.Header().Set("WWW-Authenticate", challenge)
		res.WriteHeader(http.StatusUnauthorized)
	case slices.ContainsFunc(w.requiredScopes, func(scope string) bool { return !slices.Contains(granted, scope) }):
		res.Header().Set("WWW-Authenticate", `Bearer error="insufficient_scope", scope="`+strings.Join(w.requiredScopes, " ")+`"`)
		res.WriteHeader(http.StatusForbidden)
	default:
		_, _ = io.WriteString(res, "welcome")
	}
}

// scopesOf parses the scopes of a token without verifying it.
func scopesOf(token string) []string {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return nil
	}
	payload, _ := base64.RawURLEncoding.DecodeString(parts[1])
	var claims struct {
		Scope string `json:"scope"`
	}
	_ = json.Unmarshal(payload, &claims)
	return strings.Fields(claims.Scope)
}

func writeJSON(w http.ResponseWriter, body any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(body)
}

// client returns a client whose person agrees immediately.
func (w *fixture) client(change func(*oauth.ClientOptions)) *oauth.Client {
	w.t.Helper()
	opts := &oauth.ClientOptions{AllowLoopback: true, Flow: &oauth.CodeFlow{Open: w.browse, Timeout: 5 * time.Second}, Logger: slog.New(slog.DiscardHandler)}
	if change != nil {
		change(opts)
	}
	client, err := oauth.NewClient(opts)
	if err != nil {
		w.t.Fatal(err)
	}
	return client
}

// browse acts as the person's browser.
func (w *fixture) browse(ctx context.Context, to string) error {
	w.mu.Lock()
	w.opened = append(w.opened, to)
	change := w.callback
	w.mu.Unlock()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, to, nil)
	if err != nil {
		return err
	}
	browser := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, CheckRedirect: func(req *http.Request, _ []*http.Request) error {
		if change != nil {
			query := req.URL.Query()
			change(query)
			req.URL.RawQuery = query.Encode()
		}
		return nil
	}}
	res, err := browser.Do(req)
	if err != nil {
		return err
	}
	return res.Body.Close()
}

// request sends a request to the protected endpoint with the client's authorization.
func (w *fixture) request(client *oauth.Client) (int, error) { return w.requestAt(client, w.mcp()) }

func (w *fixture) requestAt(client *oauth.Client, at string) (int, error) {
	w.t.Helper()
	server, err := url.Parse(at)
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	req := &http.Request{Method: http.MethodPost, URL: server, Header: http.Header{}, Body: http.NoBody}
	transport := &http.Transport{DisableKeepAlives: true}
	res, err := httpclient.Authorize(ctx, client, server, req.WithContext(ctx), transport.RoundTrip)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	return res.StatusCode, nil
}

// mustSucceed sends a request and requires status 200.
func (w *fixture) mustSucceed(client *oauth.Client) {
	w.t.Helper()
	if status, err := w.request(client); err != nil || status != http.StatusOK {
		w.t.Fatalf("got %d, %v; the requests were\n%s", status, err, strings.Join(w.requests, "\n"))
	}
}

// store is a TokenStore whose content tests can read.
type store struct {
	mu     sync.Mutex
	values map[string]oauth.Secret
	err    error
}

func newStore() *store { return &store{values: make(map[string]oauth.Secret)} }

func (s *store) Load(_ context.Context, key string) (oauth.Secret, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.values[key], s.err
}

func (s *store) Save(_ context.Context, key string, value oauth.Secret) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.values[key] = value; value == "" {
		delete(s.values, key)
	}
	return s.err
}

func (s *store) keys() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.values))
}

func queryOf(t testing.TB, text string) url.Values {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u.Query()
}

func TestMain(m *testing.M) {
	if path := os.Getenv("DOVETAIL_TEST_TOKENS"); path != "" { // the program of a process test
		if err := useFileStore(path, os.Getenv("DOVETAIL_TEST_SERVER"), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	leaktest.Main(m)
}
