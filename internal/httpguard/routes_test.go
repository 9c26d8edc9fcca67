package httpguard_test

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/approval/channel"
	pages "github.com/dovetail-go/dovetail/approval/page"
	"github.com/dovetail-go/dovetail/bridge/gateway"
	"github.com/dovetail-go/dovetail/bridge/toolserver"
	"github.com/dovetail-go/dovetail/internal/test/racetest"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport/oauth"
	"github.com/dovetail-go/dovetail/transport/sse"
	"github.com/dovetail-go/dovetail/transport/streamable"
	"github.com/dovetail-go/dovetail/transport/ws"
)

// An access says which clients get an answer of a route other than a refusal.
type access int

const (
	public  access = iota // everybody, for reading
	local                 // requests with an allowed Host and Origin
	private               // nobody without credentials
)

// A route is a path of a handler.
type route struct {
	handler http.Handler
	path    string
	access  access
	listed  bool // pages of the origin page may read answers
}

// routes returns routes of all handlers, by name.
func routes(t *testing.T) map[string]route {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	s := server.New(mcp.Implementation{Name: "test", Version: "1"}, &server.Options{Logger: quiet})
	server.AddTool(s, server.Tool{Name: "echo"}, func(context.Context, *server.Request, struct{}) (string, error) { return "x", nil })
	origins := []string{page}

	endpoint := streamable.Handler(s, &streamable.Options{Origins: origins, Logger: quiet})
	events := sse.Handler(s, &sse.Options{Origins: origins, Logger: quiet})
	sockets := ws.Handler(s, &ws.Options{Origins: origins, Logger: quiet})
	approvals, err := channel.New(&channel.Options{Origins: origins, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	authenticator, err := gateway.NewAuthenticator(&gateway.AuthenticatorOptions{Origins: origins, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	g := gateway.New(s, &gateway.Options{Authenticator: authenticator, Logger: quiet})
	tools, err := toolserver.New(&toolserver.Options{Server: s, Authenticator: authenticator, Approval: approvals, Launch: toolserver.LaunchAny, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	protected, err := oauth.Protect(endpoint, &oauth.ProtectOptions{
		Resource: "http://localhost/mcp", AuthorizationServers: []string{"https://as.example"}, Verifier: noToken{}, Origins: origins, Logger: quiet,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(tools.Close(), approvals.Close(), sockets.Close(), events.Close(), endpoint.Close()); err != nil {
			t.Error(err)
		}
	})
	rest := g.REST(nil)
	all := map[string]route{
		"streamable":        {endpoint, "/mcp", local, true},
		"sse":               {events, "/sse", local, true},
		"messages":          {events, "/sse?sessionId=x", local, true},
		"ws":                {sockets, "/ws", local, true},
		"page":              {pages.Handler(nil), "/", local, false},
		"script of page":    {pages.Handler(nil), "/page.js", local, false},
		"channel":           {approvals, "/approval", private, true},
		"protected":         {protected, "/mcp", private, true},
		"protected, other":  {protected, "/debug", private, true},
		"metadata":          {protected, "/.well-known/oauth-protected-resource/mcp", public, false},
		"metadata, at root": {protected, "/.well-known/oauth-protected-resource", public, false},
		"authenticator":     {authenticator.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})), "/own", private, true},
	}
	for _, path := range []string{"/servers", "/health", "/s/tools/echo", "/"} {
		all["proxy "+path] = route{g.Proxy(), path, private, true}
	}
	for _, path := range []string{"/tools", "/tools/call", "/tools/echo", "/openapi.json", "/"} {
		all["REST "+path] = route{rest, path, private, true}
	}
	for _, path := range []string{"/run", "/approve", "/reset", "/status", "/approval", "/", "/RUN"} {
		all["toolserver "+path] = route{tools, path, private, true}
	}
	return all
}

// noToken is a verifier that knows no token.
type noToken struct{}

func (noToken) Verify(context.Context, oauth.Secret, string) (*oauth.Grant, error) {
	return nil, &oauth.InvalidTokenError{Reason: "it is not known"}
}

// pageOrigins lists Origin headers and whether they are of pages of this machine. The origin
// page is listed.
var pageOrigins = map[string]bool{
	"": false, page: false, "http://localhost:5173": true, "http://127.0.0.1": true, "https://[::1]:1": true, "null": false,
	"https://evil.example": false, "http://localhost.evil.example": false, page + ".evil.example": false, page + ":8443": false,
	"http://app.example.com": false, "file://": false, "chrome-extension://abcdef": false, "https://user@localhost": false,
	page + ", https://evil.example": false, "https://app.example.com@evil.example": false,
}

// requestsOf returns requests of each kind that a handler may answer with more than a refusal.
func requestsOf(r route, host string) []*http.Request {
	const handshake = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`
	ended, cancel := context.WithCancel(context.Background())
	cancel() // so that streams end
	var all []*http.Request
	for _, method := range []string{"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "WebSocket", "preflight", "form"} {
		real, body := method, ""
		switch method {
		case "WebSocket":
			real = "GET"
		case "preflight":
			real = "OPTIONS"
		case "form":
			real = "POST"
		}
		if real == "POST" || real == "PUT" {
			body = handshake
		}
		req := httptest.NewRequest(real, r.path, strings.NewReader(body))
		req.Host = host
		if real == "GET" {
			req = req.WithContext(ended)
		}
		switch method {
		case "GET":
			req.Header.Set("Accept", "text/event-stream")
		case "POST", "PUT":
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("Accept", "application/json, text/event-stream")
		case "form":
			req.Header.Set("Content-Type", "text/plain")
		case "WebSocket":
			req.Header = http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Version": {"13"}, "Sec-Websocket-Key": {"dGhlIHNhbXBsZSBub25jZQ=="}, "Sec-Websocket-Protocol": {"mcp"}}
		case "preflight":
			req.Header.Set("Access-Control-Request-Method", "POST")
			req.Header.Set("Access-Control-Request-Headers", "authorization, content-type, cookie, x-other")
		}
		all = append(all, req)
	}
	return all
}

// A handler answers requests without credentials with a refusal, unless the Host and the
// Origin are allowed and the route needs no credentials. Only public metadata may be read by
// every page, and no page may send cookies.
func TestEveryRouteChecksHostAndOrigin(t *testing.T) {
	racetest.Skip(t)
	hosts := slices.DeleteFunc(slices.Sorted(maps.Keys(spellings)), func(host string) bool { return len(host) > 100 })
	if len(hosts) < 79 || len(pageOrigins) < 12 {
		t.Errorf("%d hosts and %d origins", len(hosts), len(pageOrigins))
	}
	for name, r := range routes(t) {
		answered, step := 0, 2
		if r.access == private {
			step = 8 // the token is missing whatever the host
		}
		for _, at := range []string{"loopback", "public"} {
			for i, host := range hosts {
				if i%step != 0 {
					continue
				}
				for origin, isLocal := range pageOrigins {
					allowed := at == "public" || spellings[host]
					isListed := origin == page && r.listed
					isOwn := origin == "http://127.0.0.1" && slices.Contains([]string{"127.0.0.1", "127.0.0.1.", "[::ffff:127.0.0.1]", "[::FFFF:7f00:1]:80"}, host)
					allowed = allowed && (origin == "" || isListed || isOwn || isLocal && at == "loopback")
					for _, req := range requestsOf(r, host) {
						if origin != "" {
							req.Header.Set("Origin", origin)
						}
						req = req.WithContext(context.WithValue(req.Context(), http.LocalAddrContextKey, locals[at]))
						w := httptest.NewRecorder()
						r.handler.ServeHTTP(w, req)
						got := access(-1)
						if isAnswer(req, w) {
							answered++
							got = local
						}
						preflight := w.Code == http.StatusNoContent && isListed && req.Method == http.MethodOptions
						if got == local && !preflight && r.access != public && (r.access == private || !allowed) {
							t.Errorf("%s, %s %s of %q from %q at a %s address: status %d: %.100s", name, req.Method, req.Header.Get("Upgrade"), host, origin, at, w.Code, w.Body)
						}
						checkSharing(t, name, r, origin, w)
					}
				}
			}
		}
		if r.access != private && answered == 0 {
			t.Errorf("%s answers no request at all", name)
		}
	}
}

// isAnswer reports whether a response is more than a refusal. A recorder cannot become a
// WebSocket, so a handler that tries that answers with status 500.
func isAnswer(r *http.Request, w *httptest.ResponseRecorder) bool {
	return w.Code < 400 || w.Code == http.StatusInternalServerError && r.Header.Get("Upgrade") != ""
}

// checkSharing checks which pages may read a response.
func checkSharing(t *testing.T, name string, r route, origin string, w *httptest.ResponseRecorder) {
	t.Helper()
	header := w.Header()
	if lines := header["Access-Control-Allow-Credentials"]; lines != nil {
		t.Errorf("%s: credentials are allowed: %q", name, lines)
	}
	lines := header["Access-Control-Allow-Origin"]
	switch {
	case r.access == public:
		if !slices.Equal(lines, []string{"*"}) {
			t.Errorf("%s: readable by %q", name, lines)
		}
	case len(lines) > 1 || len(lines) == 1 && (lines[0] != page || origin != page || !r.listed):
		t.Errorf("%s: readable by %q, asked by %q", name, lines, origin)
	case len(lines) == 1 && !slices.Contains(header["Vary"], "Origin"):
		t.Errorf("%s: the response varies by %q", name, header["Vary"])
	}
	for _, allowed := range header["Access-Control-Allow-Headers"] {
		if strings.Contains(allowed, "*") || strings.Contains(allowed, "cookie") || strings.Contains(allowed, "x-other") {
			t.Errorf("%s: pages may send %s", name, allowed)
		}
	}
}
