package oauthtest

import (
	"cmp"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/dovetail-go/dovetail/transport/httptransport"
)

// Options configure a [Server]. The zero value is ready to use.
type Options struct {
	// Clients are registered from the start.
	Clients []Client
	// Scopes are the scopes that are granted. Empty means all.
	Scopes []string
	// Subject is the ID of the person. Default "demo-person".
	Subject string
	// Person returns the ID of the person whose browser sends an authorization request, instead of Subject. It is called
	// concurrently.
	Person func(r *http.Request) string
	// Claims returns further claims of the tokens of a person, such as roles. It is called concurrently. Default: none.
	Claims func(subject string) map[string]any
	// TokenLife is how long a token is valid. Default 5 minutes.
	TokenLife time.Duration
	// Nonces requires a nonce in DPoP proofs. It changes with each token.
	Nonces bool
	// NoRegistration disables dynamic registration.
	NoRegistration bool
	// Clock returns the current time. Default time.Now.
	Clock func() time.Time
}

// A Client is registered at a [Server].
type Client struct {
	ID string
	// Secret is the client secret, empty for a public client.
	Secret string
	// Key is the public key of the client's assertions (private_key_jwt, RFC 7523), nil for
	// none: an *ecdsa.PublicKey for ES256, an *rsa.PublicKey for RS256 or an
	// ed25519.PublicKey.
	Key crypto.PublicKey
	// RedirectURIs are the allowed redirect URIs. A redirect URI with a loopback address
	// allows any port (RFC 8252, section 7.3).
	RedirectURIs []string
}

const (
	// codeLife is how long a code is valid.
	codeLife = time.Minute
	// proofLife is the maximum difference between the time of a proof and now.
	proofLife = 5 * time.Minute
	// maxBody is the maximum length of a request, in bytes.
	maxBody = 64 << 10
	// maxEntries is the maximum size of the maps of clients, codes and refresh tokens.
	maxEntries = 10_000
)

func (o *Options) withDefaults() Options {
	var opts Options
	if o != nil {
		opts = *o
	}
	subject := cmp.Or(opts.Subject, "demo-person")
	opts.Subject = subject
	if opts.Person == nil {
		opts.Person = func(*http.Request) string { return subject }
	}
	if opts.Claims == nil {
		opts.Claims = func(string) map[string]any { return nil }
	}
	opts.TokenLife = cmp.Or(opts.TokenLife, 5*time.Minute)
	if opts.Clock == nil {
		opts.Clock = time.Now
	}
	return opts
}

// A Server is an authorization server. Its methods may be called concurrently.
type Server struct {
	// URL is the issuer and the address of the server.
	URL string

	options Options
	routes  *http.ServeMux
	http    *http.Server  // nil if the server was made by New
	done    chan struct{} // closed when http has ended

	mu        sync.Mutex
	key       jose.JSONWebKey
	clients   map[string]Client
	codes     map[string]authorization
	refreshes map[string]authorization
	revoked   map[string]struct{} // access tokens
	nonce     string
}

// New returns a server for an issuer, such as "https://login.example.com" without a path. It
// is a handler for all paths of the issuer's origin, and needs no Close. The error is one of
// the system's random source.
func New(issuer string, opts *Options) (*Server, error) {
	s := &Server{
		URL: issuer, options: opts.withDefaults(), clients: make(map[string]Client), codes: make(map[string]authorization),
		refreshes: make(map[string]authorization), revoked: make(map[string]struct{}), nonce: rand.Text(),
	}
	for _, client := range s.options.Clients {
		s.clients[client.ID] = client
	}
	s.routes = http.NewServeMux()
	s.routes.HandleFunc("GET /.well-known/oauth-authorization-server", s.serveMetadata)
	s.routes.HandleFunc("GET /jwks", s.serveKeys)
	s.routes.HandleFunc("GET /authorize", s.authorize)
	s.routes.HandleFunc("POST /token", s.serveToken)
	s.routes.HandleFunc("POST /introspect", s.introspect)
	s.routes.HandleFunc("POST /revoke", s.revoke)
	if !s.options.NoRegistration {
		s.routes.HandleFunc("POST /register", s.register)
	}
	return s, s.Rotate()
}

// Start starts a server at a free port of 127.0.0.1. Close it after use. The error says why it
// cannot listen.
func Start(opts *Options) (*Server, error) {
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s, err := New("http://"+listener.Addr().String(), opts)
	if err != nil {
		listener.Close()
		return nil, err
	}
	s.http = httptransport.NewServer(s)
	s.http.ReadTimeout, s.http.WriteTimeout = 10*time.Second, 10*time.Second
	s.done = make(chan struct{})
	go func() {
		defer close(s.done)
		_ = s.http.Serve(listener) // returns after Close
	}()
	return s, nil
}

// Close stops a server that [Start] has started, and waits for its goroutine. It does nothing
// for a server of [New].
func (s *Server) Close() error {
	if s.http == nil {
		return nil
	}
	err := s.http.Close()
	<-s.done
	return err
}

// Rotate replaces the key that signs tokens. The old key is no longer published.
func (s *Server) Rotate() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.key = jose.JSONWebKey{Key: key, KeyID: rand.Text(), Algorithm: string(jose.ES256), Use: "sig"}
	return nil
}

// Revoke deletes all refresh tokens. Access tokens remain valid until they expire.
func (s *Server) Revoke() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.refreshes)
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	s.routes.ServeHTTP(w, r)
}

func (s *Server) serveMetadata(w http.ResponseWriter, _ *http.Request) {
	metadata := map[string]any{
		"issuer": s.URL, "authorization_endpoint": s.URL + "/authorize", "token_endpoint": s.URL + "/token",
		"jwks_uri": s.URL + "/jwks", "introspection_endpoint": s.URL + "/introspect", "revocation_endpoint": s.URL + "/revoke",
		"response_types_supported": []string{"code"}, "code_challenge_methods_supported": []string{"S256"},
		"grant_types_supported":                            []string{"authorization_code", "refresh_token", "client_credentials"},
		"token_endpoint_auth_methods_supported":            []string{"none", "client_secret_basic", "client_secret_post", "private_key_jwt"},
		"token_endpoint_auth_signing_alg_values_supported": []string{"ES256", "RS256", "EdDSA"},
		"dpop_signing_alg_values_supported":                []string{"ES256"},
		"authorization_response_iss_parameter_supported":   true,
	}
	if len(s.options.Scopes) > 0 {
		metadata["scopes_supported"] = s.options.Scopes
	}
	if !s.options.NoRegistration {
		metadata["registration_endpoint"] = s.URL + "/register"
	}
	answer(w, http.StatusOK, metadata)
}

func (s *Server) serveKeys(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	public := s.key.Public()
	s.mu.Unlock()
	answer(w, http.StatusOK, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{public}})
}

// answer sends a JSON response.
func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) //nolint:errchkjson // the client has left
}

// refuse sends an error response. RFC 6749, section 5.2.
func refuse(w http.ResponseWriter, status int, code, description string) {
	answer(w, status, map[string]string{"error": code, "error_description": description})
}

// remember adds a value to a map. It clears a full map, because this server is for tests.
func remember[V any](all map[string]V, key string, value V) {
	if len(all) >= maxEntries {
		clear(all)
	}
	all[key] = value
}

// An authorization is what a code or a refresh token grants.
type authorization struct {
	client    string
	subject   string // empty for client credentials
	scopes    []string
	resource  string
	redirect  string
	challenge string // PKCE
	nonce     string // of the ID token
	key       string // thumbprint of the DPoP key, if there is one
	expires   time.Time
}

// authorize is the authorization endpoint. Errors about the client or its redirect URI are
// not redirected: RFC 6749, section 4.1.2.1.
func (s *Server) authorize(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	s.mu.Lock()
	client, known := s.clients[query.Get("client_id")]
	s.mu.Unlock()
	redirect, err := url.Parse(query.Get("redirect_uri"))
	if !known || err != nil || !slices.ContainsFunc(client.RedirectURIs, func(uri string) bool { return sameRedirect(uri, query.Get("redirect_uri")) }) {
		refuse(w, http.StatusBadRequest, "invalid_request", "unknown client or redirect URI")
		return
	}
	answer := url.Values{"state": {query.Get("state")}, "iss": {s.URL}}
	switch {
	case query.Get("response_type") != "code":
		answer.Set("error", "unsupported_response_type")
	case query.Get("code_challenge_method") != "S256" || query.Get("code_challenge") == "":
		answer.Set("error", "invalid_request")
		answer.Set("error_description", "expected a code_challenge of the method S256")
	default:
		code := rand.Text()
		s.mu.Lock()
		remember(s.codes, code, authorization{
			client: client.ID, subject: s.options.Person(r), scopes: s.granted(query.Get("scope")), resource: query.Get("resource"),
			redirect: query.Get("redirect_uri"), challenge: query.Get("code_challenge"), nonce: query.Get("nonce"), expires: s.options.Clock().Add(codeLife),
		})
		s.mu.Unlock()
		answer.Set("code", code)
	}
	redirect.RawQuery = answer.Encode()
	http.Redirect(w, r, redirect.String(), http.StatusFound) //nolint:gosec // it is registered
}

// granted returns the requested scopes that are granted.
func (s *Server) granted(requested string) []string {
	return slices.DeleteFunc(strings.Fields(requested), func(scope string) bool {
		return len(s.options.Scopes) > 0 && !slices.Contains(s.options.Scopes, scope)
	})
}

// sameRedirect compares redirect URIs. It ignores the port of a loopback address.
func sameRedirect(known, requested string) bool {
	if known == requested {
		return true
	}
	a, errA := url.Parse(known)
	b, errB := url.Parse(requested)
	if errA != nil || errB != nil {
		return false
	}
	addr, err := netip.ParseAddr(a.Hostname())
	return err == nil && addr.IsLoopback() && a.Scheme == "http" && b.Scheme == "http" && a.Hostname() == b.Hostname() &&
		a.Path == b.Path && a.RawQuery == b.RawQuery && b.User == nil && b.Fragment == ""
}

// Browse acts as a person's browser: it opens a URL and follows up to ten redirects. It can be
// the Open function of an oauth.CodeFlow. It returns an error of the network; it ignores the
// status and the page.
func Browse(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	client := httptransport.NewClient(func(settings *http.Transport) { settings.DisableKeepAlives = true })
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	return res.Body.Close()
}
