package oauth_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/authserver"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/oauth"
	"github.com/dovetail-go/dovetail/transport/sse"
	"github.com/dovetail-go/dovetail/transport/streamable"
	"github.com/dovetail-go/dovetail/transport/ws"
)

// An estate is a protected shop with an authorization server, both on this machine.
type estate struct {
	as  *authserver.Server
	web *httptest.Server

	mu     sync.Mutex
	opened []string // scopes that the browser was sent to ask for
}

func newEstate(t *testing.T, as *authserver.Options, change func(*oauth.ProtectOptions)) *estate {
	t.Helper()
	e := &estate{}
	var err error
	if e.as, err = authserver.Start(as); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.as.Close() })
	s := shop(t)
	endpoint, events, sockets := streamable.Handler(s, nil), sse.Handler(s, nil), ws.Handler(s, nil)
	mux := http.NewServeMux()
	mux.Handle("/mcp", endpoint)
	mux.Handle("/mcp/sse", events)
	mux.Handle("/mcp/ws", sockets)
	var h http.Handler
	e.web = serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.ServeHTTP(w, r) }))
	t.Cleanup(func() {
		endpoint.Close()
		events.Close()
		sockets.Close()
	})
	v, err := oauth.NewJWTVerifier(&oauth.JWTOptions{Issuer: e.as.URL, AllowLoopback: true})
	if err != nil {
		t.Fatal(err)
	}
	opts := &oauth.ProtectOptions{
		Resource: e.web.URL + "/mcp", AuthorizationServers: []string{e.as.URL}, Verifier: v, Scopes: []string{"mcp"}, CallScopes: s.Scopes,
		Logger: quiet(),
	}
	if change != nil {
		change(opts)
	}
	if h, err = oauth.Protect(mux, opts); err != nil {
		t.Fatal(err)
	}
	return e
}

// client logs a person in who has a very quick browser.
func (e *estate) client(t *testing.T, change func(*oauth.ClientOptions)) *oauth.Client {
	t.Helper()
	opts := &oauth.ClientOptions{AllowLoopback: true, Logger: quiet(), Flow: &oauth.CodeFlow{Open: func(ctx context.Context, to string) error {
		u, err := url.Parse(to)
		if err != nil {
			return err
		}
		e.mu.Lock()
		e.opened = append(e.opened, u.Query().Get("scope"))
		e.mu.Unlock()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, to, nil)
		if err != nil {
			return err
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		return res.Body.Close()
	}}}
	if change != nil {
		change(opts)
	}
	c, err := oauth.NewClient(opts)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Both ends of this package: a login, then a step up for a tool that needs more, in both
// eras, with tokens that are bound to a key and without.
func TestLoginAndStepUp(t *testing.T) {
	defer http.DefaultClient.CloseIdleConnections()
	for name, dpop := range map[string]*oauth.DPoPOptions{
		"bearer": nil, "bound": {Required: true}, "bound with nonces": {Required: true, Nonces: true},
	} {
		for _, era := range []client.Era{client.Modern, client.Legacy} {
			e := newEstate(t, &authserver.Options{Subject: "ada"}, func(o *oauth.ProtectOptions) { o.DPoP = dpop })
			authorizer := e.client(t, nil)
			session, err := client.Connect(t.Context(), streamable.Dial(e.web.URL+"/mcp", &streamable.DialOptions{Authorizer: authorizer}), &client.Options{Era: era})
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if result, err := session.CallTool(t.Context(), "look", nil, nil); err != nil || textOf(result) != "hello "+e.as.URL+"#ada" {
				t.Errorf("%s: %q, %v", name, textOf(result), err)
			}
			for range 2 {
				if result, err := session.CallTool(t.Context(), "buy", nil, nil); err != nil || textOf(result) != "bought" {
					t.Errorf("%s: %q, %v", name, textOf(result), err)
				}
			}
			if result, err := session.Read(t.Context(), "shop:books", nil); err != nil || len(result.Contents) != 1 {
				t.Errorf("%s: %v, %v", name, result, err)
			}
			session.Close()
			if got, want := strings.Join(e.opened, "|"), "mcp|mcp orders:write|mcp books:read orders:write"; got != want {
				t.Errorf("%s: the browser is sent for %q, want %q", name, got, want)
			}
		}
	}
}

// Sockets and streams are opened with a token, and end with it.
func TestConnectionsEndWithTheirToken(t *testing.T) {
	s := shop(t)
	events, sockets := sse.Handler(s, nil), ws.Handler(s, nil)
	defer events.Close()
	defer sockets.Close()
	grant := &oauth.Grant{Issuer: testIssuer, Subject: "ada", Expires: time.Now().Add(time.Second)}
	change := func(o *oauth.ProtectOptions) { o.Verifier, o.Grace, o.Scopes = always{grant}, -1, nil }
	m := newMint(t, "k")
	token := func(_ context.Context, header http.Header) error {
		header.Set("Authorization", "Bearer x")
		return nil
	}
	overEvents, overSockets := serve(t, protected(t, m, events, change)), serve(t, protected(t, m, sockets, change))
	conns := map[string]transport.Conn{}
	for name, dialer := range map[string]transport.Dialer{
		"sse": sse.Dial(overEvents.URL, &sse.DialOptions{Header: token}),
		"ws":  ws.Dial(strings.Replace(overSockets.URL, "http", "ws", 1), &ws.DialOptions{Header: token}),
	} {
		var err error
		if conns[name], err = dialer.Dial(t.Context(), deaf{}); err != nil {
			t.Fatal(err)
		}
	}
	for name, conn := range conns {
		select {
		case <-conn.Done():
		case <-time.After(10 * time.Second):
			t.Errorf("%s: the connection goes on", name)
		}
		conn.Close()
		if time.Now().Before(grant.Expires) {
			t.Errorf("%s: the connection has ended before its token", name)
		}
	}
}

// deaf is a client that takes nothing.
type deaf struct{}

func (deaf) Handle(context.Context, jsonrpc.Peer, *jsonrpc.Request, *jsonrpc.Reply) error { return nil }
func (deaf) Notified(jsonrpc.Peer, *jsonrpc.Request)                                      {}
