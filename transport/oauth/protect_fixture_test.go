package oauth_test

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport/oauth"
	shared "github.com/dovetail-go/dovetail/transport/store"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

const (
	testIssuer   = "https://login.example.com/tenant"
	testResource = "https://mcp.example.com/mcp"
)

// A tokenSigner signs tokens.
type tokenSigner struct {
	key       crypto.Signer
	id        string
	algorithm jose.SignatureAlgorithm
}

func newSigner(t testing.TB, id string) *tokenSigner {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return &tokenSigner{key, id, jose.ES256}
}

func newRSASigner(t testing.TB, id string, bits int) *tokenSigner {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		t.Fatal(err)
	}
	return &tokenSigner{key, id, jose.RS256}
}

// keySet returns a JWK Set of the signers' public keys.
func keySet(t testing.TB, signers ...*tokenSigner) json.RawMessage {
	t.Helper()
	var set jose.JSONWebKeySet
	for _, m := range signers {
		set.Keys = append(set.Keys, jose.JSONWebKey{Key: m.key.Public(), KeyID: m.id, Algorithm: string(m.algorithm), Use: "sig"})
	}
	text, err := json.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// claimSet are the claims of a token.
type claimSet map[string]any

// validClaims returns the claims of a valid token, with changes. nil deletes a claim.
func validClaims(others claimSet) claimSet {
	c := claimSet{
		"iss": testIssuer, "sub": "ada", "aud": testResource, "client_id": "app", "jti": rand.Text(),
		"iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix(), "scope": "mcp",
	}
	maps.Copy(c, others)
	for name, value := range others {
		if value == nil {
			delete(c, name)
		}
	}
	return c
}

// token signs claims.
func (m *tokenSigner) token(t testing.TB, claims claimSet) string {
	t.Helper()
	return m.tokenWith(t, claims, map[jose.HeaderKey]any{jose.HeaderType: "at+jwt"})
}

func (m *tokenSigner) tokenWith(t testing.TB, claims claimSet, header map[jose.HeaderKey]any) string {
	t.Helper()
	return sign(t, jose.SigningKey{Algorithm: m.algorithm, Key: jose.JSONWebKey{Key: m.key, KeyID: m.id}}, &jose.SignerOptions{ExtraHeaders: header}, claims.marshal(t))
}

// sign returns a JWT.
func sign(t testing.TB, key jose.SigningKey, opts *jose.SignerOptions, payload []byte) string {
	t.Helper()
	signer, err := jose.NewSigner(key, opts)
	if err != nil {
		t.Fatal(err)
	}
	object, err := signer.Sign(payload)
	if err != nil {
		t.Fatal(err)
	}
	text, err := object.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func (c claimSet) marshal(t testing.TB) []byte {
	t.Helper()
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// verifier returns a verifier that trusts the signers.
func verifier(t testing.TB, signers ...*tokenSigner) *oauth.JWTVerifier {
	t.Helper()
	v, err := oauth.NewJWTVerifier(&oauth.JWTOptions{Issuer: testIssuer, Keys: keySet(t, signers...)})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// protected protects a handler with a verifier that trusts a signer.
func protected(t testing.TB, m *tokenSigner, handler http.Handler, change func(*oauth.ProtectOptions)) http.Handler {
	t.Helper()
	opts := &oauth.ProtectOptions{
		Resource: testResource, AuthorizationServers: []string{testIssuer}, Verifier: verifier(t, m), Scopes: []string{"mcp"}, Logger: quiet(),
	}
	if change != nil {
		change(opts)
	}
	h, err := oauth.Protect(handler, opts)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// serve starts a server that is closed at the end of the test.
func serve(t testing.TB, h http.Handler) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

// bearer returns a header with a token.
func bearer(token string) http.Header { return http.Header{"Authorization": {"Bearer " + token}} }

// do sends a request to a handler in memory.
func do(h http.Handler, method, path string, header http.Header, body string) *http.Response {
	r := httptest.NewRequest(method, "https://mcp.example.com"+path, strings.NewReader(body))
	maps.Copy(r.Header, header)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

// post sends a message to the endpoint /mcp.
func post(h http.Handler, header http.Header, body string) *http.Response {
	header = header.Clone()
	header.Set("Content-Type", "application/json")
	header.Set("Accept", "application/json, text/event-stream")
	return do(h, http.MethodPost, "/mcp", header, body)
}

// modern returns the headers and the body of a call without a session.
func modern(header http.Header, method, name, params string) (http.Header, string) {
	header = header.Clone()
	header.Set("Mcp-Protocol-Version", string(mcp.LatestVersion))
	header.Set("Mcp-Method", method)
	if name != "" {
		header.Set("Mcp-Name", name)
	}
	return header, `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{"_meta":{"` + mcp.MetaProtocolVersion + `":"` + string(mcp.LatestVersion) +
		`","` + mcp.MetaClientCapabilities + `":{}}` + params + `}}`
}

func bodyOf(t testing.TB, res *http.Response) string {
	t.Helper()
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// challengeOf returns the first challenge of a response.
func challengeOf(t testing.TB, res *http.Response) oauth.Challenge {
	t.Helper()
	all, err := oauth.ParseChallenges(res.Header.Values("WWW-Authenticate"))
	if err != nil || len(all) == 0 {
		t.Fatalf("the challenges are %q: %v", res.Header.Values("WWW-Authenticate"), err)
	}
	return all[0]
}

// protectServer returns a protected handler for a server at /mcp.
func protectServer(t *testing.T, m *tokenSigner, s *server.Server, change func(*oauth.ProtectOptions)) http.Handler {
	t.Helper()
	endpoint := streamable.Handler(s, &streamable.Options{Logger: quiet(), Hosts: []string{"mcp.example.com"}})
	t.Cleanup(func() { endpoint.Close() })
	return protected(t, m, endpoint, change)
}

// recordingHandler records requests.
type recordingHandler struct {
	mu       sync.Mutex
	requests []*http.Request
}

func (v *recordingHandler) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.requests = append(v.requests, r)
}

func (v *recordingHandler) takeRequests() []*http.Request {
	v.mu.Lock()
	defer v.mu.Unlock()
	seen := v.requests
	v.requests = nil
	return seen
}

// shop returns a server whose tools declare scopes.
func shop(t testing.TB) *server.Server { return shopWith(t, nil) }

// shopWith is like shop, with a store for the server.
func shopWith(t testing.TB, common shared.Store) *server.Server {
	t.Helper()
	s := server.New(mcp.Implementation{Name: "shop", Version: "1"}, &server.Options{Logger: quiet(), Store: common})
	server.AddTool(s, server.Tool{Name: "look"}, func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
		return "hello " + r.Caller().Principal, nil
	})
	server.AddTool(s, server.Tool{Name: "buy", Scopes: []string{"orders:write"}}, func(context.Context, *server.Request, struct{}) (string, error) {
		return "bought", nil
	})
	server.AddTool(s, server.Tool{Name: "late"}, func(ctx context.Context, _ *server.Request, _ struct{}) (string, error) {
		return "done", oauth.Require(ctx, "late:scope")
	})
	server.AddResource(s, server.Resource{URI: "shop:books", Scopes: []string{"books:read"}}, func(context.Context, *server.Request) (string, error) {
		return "the books", nil
	})
	return s
}

// logBuffer keeps log records.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func (l *logBuffer) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }
