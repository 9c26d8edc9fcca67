package authserver

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// A Server is an authorization server. Its methods may be called concurrently.
type Server struct {
	// URL is the issuer, and where the server is.
	URL string

	options Options
	routes  *http.ServeMux
	http    *http.Server // nil if somebody else serves
	ended   chan struct{}

	mu        sync.Mutex
	key       jose.JSONWebKey
	clients   map[string]Client
	codes     map[string]authorization
	refreshes map[string]authorization
	nonce     string
}

// New returns a server for an issuer, as a handler for all paths of its origin. The error
// is of the random source.
func New(issuer string, opts *Options) (*Server, error) {
	s := &Server{
		URL: issuer, options: opts.withDefaults(), clients: make(map[string]Client), codes: make(map[string]authorization),
		refreshes: make(map[string]authorization), nonce: rand.Text(),
	}
	for _, client := range s.options.Clients {
		s.clients[client.ID] = client
	}
	s.routes = http.NewServeMux()
	s.routes.HandleFunc("GET /.well-known/oauth-authorization-server", s.serveMetadata)
	s.routes.HandleFunc("GET /jwks", s.serveKeys)
	s.routes.HandleFunc("GET /authorize", s.authorize)
	s.routes.HandleFunc("POST /token", s.giveToken)
	s.routes.HandleFunc("POST /introspect", s.introspect)
	if !s.options.NoRegistration {
		s.routes.HandleFunc("POST /register", s.register)
	}
	return s, s.Rotate()
}

// Start starts a server at a port of 127.0.0.1.
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
	s.http = &http.Server{Handler: s, ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second}
	s.ended = make(chan struct{})
	go func() {
		defer close(s.ended)
		_ = s.http.Serve(listener) // it ends with Close
	}()
	return s, nil
}

// Close ends a server that was started.
func (s *Server) Close() error {
	err := s.http.Close()
	<-s.ended
	return err
}

// Rotate signs tokens with another key from now on. The last one is not published any
// more.
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

// Revoke forgets all refresh tokens.
func (s *Server) Revoke() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.refreshes)
}

// ServeHTTP serves.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	s.routes.ServeHTTP(w, r)
}

func (s *Server) serveMetadata(w http.ResponseWriter, _ *http.Request) {
	about := map[string]any{
		"issuer": s.URL, "authorization_endpoint": s.URL + "/authorize", "token_endpoint": s.URL + "/token",
		"jwks_uri": s.URL + "/jwks", "introspection_endpoint": s.URL + "/introspect",
		"response_types_supported": []string{"code"}, "code_challenge_methods_supported": []string{"S256"},
		"grant_types_supported":                            []string{"authorization_code", "refresh_token", "client_credentials"},
		"token_endpoint_auth_methods_supported":            []string{"none", "client_secret_basic", "client_secret_post", "private_key_jwt"},
		"token_endpoint_auth_signing_alg_values_supported": []string{"ES256", "RS256", "EdDSA"},
		"dpop_signing_alg_values_supported":                []string{"ES256"},
		"authorization_response_iss_parameter_supported":   true,
	}
	if len(s.options.Scopes) > 0 {
		about["scopes_supported"] = s.options.Scopes
	}
	if !s.options.NoRegistration {
		about["registration_endpoint"] = s.URL + "/register"
	}
	answer(w, http.StatusOK, about)
}

func (s *Server) serveKeys(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	public := s.key.Public()
	s.mu.Unlock()
	answer(w, http.StatusOK, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{public}})
}

// answer answers with JSON.
func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) //nolint:errchkjson // who does not read it does not want it
}

// refuse answers with an error of RFC 6749, section 5.2.
func refuse(w http.ResponseWriter, status int, code, description string) {
	answer(w, status, map[string]string{"error": code, "error_description": description})
}

// remember keeps a value. What nobody comes for is forgotten with everything else.
func remember[V any](all map[string]V, key string, value V) {
	if len(all) >= maxKept {
		clear(all)
	}
	all[key] = value
}
