package gateway_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/bridge/gateway"
	"github.com/dovetail-go/dovetail/bridge/internal/frontend/frontendtest"
	"github.com/dovetail-go/dovetail/transport"
)

// routes are routes of both handlers, and unknown ones.
var routes = []struct{ method, path, body string }{
	{"POST", call("files", "read"), `{}`},
	{"POST", call("nobody", "read"), `{}`},
	{"GET", proxyPath + "/servers", ""},
	{"GET", proxyPath + "/health", ""},
	{"GET", proxyPath + "/other", ""},
	{"GET", restPath + "/tools", ""},
	{"POST", restPath + "/tools/call", `{"name":"files__read"}`},
	{"POST", restPath + "/tools/files__read", `{}`},
	{"GET", restPath + "/openapi.json", ""},
	{"GET", restPath + "/other", ""},
	{"PUT", restPath + "/tools", `{}`},
}

// TestNoRouteWithoutCredential: without a token every route returns the same error.
func TestNoRouteWithoutCredential(t *testing.T) {
	r := newRig(t, gateway.Options{}, operator{})
	for _, route := range routes {
		for _, credential := range []string{
			"", "Bearer", "Bearer ", "Bearer another-token-of-tests", "Basic " + aToken, aToken, "Bearer " + aToken + "x", "Bearer " + aToken[1:],
			"Bearer " + strings.Repeat("x", 10_000),
		} {
			request := r.request(t, route.method, route.path, route.body)
			request.Header.Set("Authorization", credential)
			if credential == "" {
				request.Header.Del("Authorization")
			}
			got := r.do(t, request)
			if got.status != http.StatusUnauthorized || got.header.Get("WWW-Authenticate") != "Bearer" {
				t.Errorf("%s %s with %.40q: %d %s", route.method, route.path, credential, got.status, got.body)
			}
		}
		twice := r.request(t, route.method, route.path, route.body)
		twice.Header.Add("Authorization", "Bearer "+aToken)
		if got := r.do(t, twice); got.status != http.StatusUnauthorized {
			t.Errorf("%s %s with two credentials: %d", route.method, route.path, got.status)
		}
		query := r.as("").request(t, route.method, route.path+"?access_token="+aToken+"&token="+aToken, route.body)
		if got := r.do(t, query); got.status != http.StatusUnauthorized {
			t.Errorf("%s %s with the token in the query: %d", route.method, route.path, got.status)
		}
	}
	if n := r.files.Calls.Load(); n != 0 {
		t.Errorf("%d calls were made", n)
	}
}

// TestStrangers: DNS rebinding and pages of other sites are rejected, with and without a token.
func TestStrangers(t *testing.T) {
	r := newRig(t, gateway.Options{}, operator{})
	for _, route := range routes {
		for _, change := range []func(*http.Request){
			func(r *http.Request) { r.Host = "rebind.example.com" },
			func(r *http.Request) { r.Host = "rebind.example.com:" + r.URL.Port() },
			func(r *http.Request) { r.Header.Set("Origin", "https://evil.example.com") },
			func(r *http.Request) { r.Header.Set("Origin", "null") },
		} {
			request := r.request(t, route.method, route.path, route.body)
			change(request)
			if got := r.do(t, request); got.status != http.StatusForbidden || got.header.Get("Access-Control-Allow-Origin") != "" {
				t.Errorf("%s %s: %d %s", route.method, route.path, got.status, got.body)
			}
		}
		if route.body == "" {
			continue
		}
		for _, contentType := range []string{"", "text/plain", "application/x-www-form-urlencoded", "application/json; charset=latin1", "text/json"} {
			request := r.request(t, route.method, route.path, route.body)
			request.Header["Content-Type"] = []string{contentType}
			if got := r.do(t, request); got.status != http.StatusUnsupportedMediaType && route.method == "POST" {
				t.Errorf("%s %s as %q: %d", route.method, route.path, contentType, got.status)
			}
		}
	}
	if n := r.files.Calls.Load(); n != 0 {
		t.Errorf("%d calls were made", n)
	}
}

// TestListedOrigin: a page of an allowed origin may read the responses.
func TestListedOrigin(t *testing.T) {
	access := frontendtest.Authenticator(t, gateway.AuthenticatorOptions{Tokens: map[string]string{aToken: ""}, Origins: []string{"https://app.example.com"}})
	r := newRig(t, gateway.Options{Authenticator: access}, operator{})
	preflight := r.as("").request(t, "OPTIONS", restPath+"/tools/call", "")
	preflight.Header.Set("Origin", "https://app.example.com")
	preflight.Header.Set("Access-Control-Request-Method", "POST")
	preflight.Header.Set("Access-Control-Request-Headers", "authorization,content-type")
	if got := r.do(t, preflight); got.status != 204 || got.header.Get("Access-Control-Allow-Headers") != "authorization, content-type" {
		t.Errorf("the preflight: %d %v", got.status, got.header)
	}
	request := r.request(t, "POST", restPath+"/tools/call", `{"name":"files__read"}`)
	request.Header.Set("Origin", "https://app.example.com")
	if got := r.do(t, request); got.status != 200 || got.header.Get("Access-Control-Allow-Origin") != "https://app.example.com" {
		t.Errorf("the call: %d %v", got.status, got.header)
	}
}

// TestPrincipals: a token determines the principal until it is revoked.
func TestPrincipals(t *testing.T) {
	access := frontendtest.Authenticator(t, gateway.AuthenticatorOptions{Tokens: map[string]string{frontendtest.TokenOne: "one"}})
	who := httptest.NewServer(access.Handler(access.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%q", transport.Principal(r.Context()))
	}))))
	defer who.Close()
	r := &rig{url: who.URL}
	two, revoke := access.Issue("two")
	three, _ := access.Issue("two")
	if len(two) < 16 || two == three {
		t.Errorf("the tokens are %q and %q", two, three)
	}
	r.as(frontendtest.TokenOne).get(t, "/").wants(t, 200, `"one"`)
	r.as(two).get(t, "/").wants(t, 200, `"two"`)
	revoke()
	if got := r.as(two).get(t, "/"); got.status != 401 {
		t.Errorf("a revoked token: %d %s", got.status, got.body)
	}
	r.as(three).get(t, "/").wants(t, 200, `"two"`)
	if access.Token() != "" {
		t.Error("there is a random token beside those that were chosen")
	}
}

// TestSocketToken: the WebSocket subprotocol may contain the token, because a page cannot set a
// header. Other requests may not.
func TestSocketToken(t *testing.T) {
	access := frontendtest.Authenticator(t, gateway.AuthenticatorOptions{Tokens: map[string]string{aToken: "page"}})
	s := httptest.NewServer(access.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, transport.Principal(r.Context()))
	})))
	defer s.Close()
	r := &rig{url: s.URL}
	for _, test := range []struct {
		upgrade, protocols string
		status             int
	}{
		{"websocket", "other, dovetail.token." + aToken, 200},
		{"websocket", "dovetail.token.x" + aToken, 401},
		{"websocket", aToken, 401},
		{"", "dovetail.token." + aToken, 401},
	} {
		request := r.request(t, "GET", "/", "")
		request.Header.Set("Sec-WebSocket-Protocol", test.protocols)
		if test.upgrade != "" {
			request.Header.Set("Upgrade", test.upgrade)
		}
		if got := r.do(t, request); got.status != test.status {
			t.Errorf("%q: %d", test.protocols, got.status)
		}
	}
}

// TestAuthenticate: Options.Authenticate decides about requests without a known token.
func TestAuthenticate(t *testing.T) {
	access := frontendtest.Authenticator(t, gateway.AuthenticatorOptions{Authenticate: func(r *http.Request) (string, bool) {
		return "user", r.Header.Get("Authorization") == "Bearer theirs"
	}})
	s := httptest.NewServer(access.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, transport.Principal(r.Context()))
	})))
	defer s.Close()
	r := &rig{url: s.URL}
	r.as("theirs").get(t, "/").wants(t, 200, "user")
	if got := r.as("other").get(t, "/"); got.status != 401 {
		t.Errorf("another token: %d", got.status)
	}
	if access.Token() != "" {
		t.Error("there is a random token beside the other way")
	}
}

// TestOpen: with Open, requests from this machine need no token, and a warning is logged.
func TestOpen(t *testing.T) {
	var log bytes.Buffer
	access, err := gateway.NewAuthenticator(&gateway.AuthenticatorOptions{Open: true, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(log.String(), "level=WARN") || access.Token() != "" {
		t.Errorf("the log has %q", log.String())
	}
	r := newRig(t, gateway.Options{Authenticator: access}, operator{})
	r.as("").get(t, proxyPath+"/health").wants(t, 200, `{"status":"ok"}`)
	if got := r.as("a-token-that-is-none").get(t, proxyPath+"/health"); got.status != 401 {
		t.Errorf("a wrong token: %d", got.status)
	}
	rebound := r.as("").request(t, "GET", proxyPath+"/health", "")
	rebound.Host = "rebind.example.com"
	if got := r.do(t, rebound); got.status != 403 {
		t.Errorf("a rebound name: %d", got.status)
	}
	for _, local := range []net.Addr{&net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 80}, &net.UnixAddr{Name: "/run/x", Net: "unix"}, nil} {
		request := httptest.NewRequest(http.MethodGet, "http://192.0.2.1/health", nil)
		if local == nil {
			request.Host = "localhost"
		} else {
			request = request.WithContext(withLocal(request, local))
		}
		w := httptest.NewRecorder()
		r.gateway.Proxy().ServeHTTP(w, request)
		if w.Code != 401 {
			t.Errorf("by %v: %d %s", local, w.Code, w.Body)
		}
	}
}

// TestBadOptions: invalid options are errors, which do not contain tokens.
func TestBadOptions(t *testing.T) {
	for name, opts := range map[string]gateway.AuthenticatorOptions{
		"short":   {Tokens: map[string]string{"secret-secret-1": "x"}},
		"empty":   {Tokens: map[string]string{"": "x"}},
		"strange": {Tokens: map[string]string{"secret secret secret": "x"}},
		"endless": {Tokens: map[string]string{strings.Repeat("secret", 1000): "x"}},
		"host":    {Hosts: []string{"http://x"}},
		"origin":  {Origins: []string{"*"}},
	} {
		if _, err := gateway.NewAuthenticator(&opts); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
}

// TestTokensDoNotPrint: formatting and logging an authenticator reveals no token.
func TestTokensDoNotPrint(t *testing.T) {
	var log bytes.Buffer
	logger := slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	random, err := gateway.NewAuthenticator(&gateway.AuthenticatorOptions{Logger: logger})
	if err != nil {
		t.Fatal(err)
	}
	chosen, err := gateway.NewAuthenticator(&gateway.AuthenticatorOptions{Logger: logger, Tokens: map[string]string{aToken: "x"}})
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, gateway.Options{Authenticator: random, Logger: logger}, operator{})
	r.token = random.Token()
	if len(r.token) < 16 {
		t.Fatalf("the random token is %q", r.token)
	}
	for token, status := range map[string]int{r.token: 200, aToken: 401} {
		if got := r.as(token).get(t, proxyPath+"/servers"); got.status != status {
			t.Errorf("the answer is %d %s", got.status, got.body)
		}
	}
	printed := log.String() + fmt.Sprintf("%v %+v %#v %v %+v %#v %+v", random, random, random, chosen, chosen, chosen, r.gateway)
	logger.Info("an access", "access", chosen, "gateway", r.gateway)
	for _, token := range []string{r.token, aToken} {
		if strings.Contains(printed+log.String(), token) {
			t.Errorf("a token is revealed:\n%s", printed)
		}
	}
}
