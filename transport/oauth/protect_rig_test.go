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
)

const (
	testIssuer   = "https://login.example.com/tenant"
	testResource = "https://mcp.example.com/mcp"
)

// A mint makes tokens.
type mint struct {
	key       crypto.Signer
	id        string
	algorithm jose.SignatureAlgorithm
}

func newMint(t testing.TB, id string) *mint {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return &mint{key, id, jose.ES256}
}

func newRSAMint(t testing.TB, id string, bits int) *mint {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		t.Fatal(err)
	}
	return &mint{key, id, jose.RS256}
}

// keySet is a JWK Set of the mints' public keys.
func keySet(t testing.TB, mints ...*mint) json.RawMessage {
	t.Helper()
	var set jose.JSONWebKeySet
	for _, m := range mints {
		set.Keys = append(set.Keys, jose.JSONWebKey{Key: m.key.Public(), KeyID: m.id, Algorithm: string(m.algorithm), Use: "sig"})
	}
	text, err := json.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// said are a token's claims.
type said map[string]any

// usual are the claims of a good token, with others.
func usual(others said) said {
	c := said{
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
func (m *mint) token(t testing.TB, claims said) string {
	t.Helper()
	return m.tokenWith(t, claims, map[jose.HeaderKey]any{jose.HeaderType: "at+jwt"})
}

func (m *mint) tokenWith(t testing.TB, claims said, header map[jose.HeaderKey]any) string {
	t.Helper()
	opts := &jose.SignerOptions{ExtraHeaders: header}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: m.algorithm, Key: jose.JSONWebKey{Key: m.key, KeyID: m.id}}, opts)
	if err != nil {
		t.Fatal(err)
	}
	payload, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	return signed(t, signer, payload)
}

func signed(t testing.TB, signer jose.Signer, payload []byte) string {
	t.Helper()
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

// verifier trusts the mints.
func verifier(t testing.TB, mints ...*mint) *oauth.JWTVerifier {
	t.Helper()
	v, err := oauth.NewJWTVerifier(&oauth.JWTOptions{Issuer: testIssuer, Keys: keySet(t, mints...)})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// protected protects a handler with a mint's tokens.
func protected(t testing.TB, m *mint, handler http.Handler, change func(*oauth.ProtectOptions)) http.Handler {
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

// serve serves a handler until the test ends.
func serve(t testing.TB, h http.Handler) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

// bearer is a header with a token.
func bearer(token string) http.Header { return http.Header{"Authorization": {"Bearer " + token}} }

// ask makes a request in memory.
func ask(h http.Handler, method, path string, header http.Header, body string) *http.Response {
	r := httptest.NewRequest(method, "https://mcp.example.com"+path, strings.NewReader(body))
	maps.Copy(r.Header, header)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

// post posts a message to an endpoint at /mcp.
func post(h http.Handler, header http.Header, body string) *http.Response {
	header = header.Clone()
	header.Set("Content-Type", "application/json")
	header.Set("Accept", "application/json, text/event-stream")
	return ask(h, http.MethodPost, "/mcp", header, body)
}

// modern is a call of the version that needs no session, with its headers.
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

// challengeOf is the first challenge of a refusal.
func challengeOf(t testing.TB, res *http.Response) oauth.Challenge {
	t.Helper()
	all, err := oauth.ParseChallenges(res.Header.Values("WWW-Authenticate"))
	if err != nil || len(all) == 0 {
		t.Fatalf("the challenges are %q: %v", res.Header.Values("WWW-Authenticate"), err)
	}
	return all[0]
}

// visits counts who gets through.
type visits struct {
	mu   sync.Mutex
	seen []*http.Request
}

func (v *visits) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.seen = append(v.seen, r)
}

func (v *visits) take() []*http.Request {
	v.mu.Lock()
	defer v.mu.Unlock()
	seen := v.seen
	v.seen = nil
	return seen
}

// shop is a server whose tools declare scopes.
func shop(t testing.TB) *server.Server {
	t.Helper()
	s := server.New(mcp.Implementation{Name: "shop", Version: "1"}, &server.Options{Logger: quiet()})
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

// a logbook keeps what is logged.
type logbook struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logbook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logbook) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func (l *logbook) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }
