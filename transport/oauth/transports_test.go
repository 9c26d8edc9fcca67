package oauth_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/oauth"
	"github.com/dovetail-go/dovetail/transport/oauth/oauthtest"
	"github.com/dovetail-go/dovetail/transport/sse"
	"github.com/dovetail-go/dovetail/transport/streamable"
	"github.com/dovetail-go/dovetail/transport/ws"
)

// A loginFixture is a protected shop with an authorization server, both on this machine.
type loginFixture struct {
	as  *oauthtest.Server
	web *httptest.Server

	mu     sync.Mutex
	opened []string // scopes of the opened URLs
}

func newLoginFixture(t *testing.T, as *oauthtest.Options, change func(*oauth.ProtectOptions)) *loginFixture {
	t.Helper()
	e := &loginFixture{}
	var err error
	if e.as, err = oauthtest.Start(as); err != nil {
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

// client returns a client whose person agrees immediately.
func (e *loginFixture) client(t *testing.T, change func(*oauth.ClientOptions)) *oauth.Client {
	t.Helper()
	opts := &oauth.ClientOptions{AllowLoopback: true, Logger: quiet(), Flow: &oauth.CodeFlow{Open: func(ctx context.Context, to string) error {
		u, err := url.Parse(to)
		if err != nil {
			return err
		}
		e.mu.Lock()
		e.opened = append(e.opened, u.Query().Get("scope"))
		e.mu.Unlock()
		return oauthtest.Browse(ctx, to)
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

// Client and server together: a login, then a step-up for a tool, in both eras, with
// bound and bearer tokens.
func TestLoginAndStepUp(t *testing.T) {
	for name, dpop := range map[string]*oauth.DPoPOptions{
		"bearer": nil, "bound": {Required: true}, "bound with nonces": {Required: true, Nonces: true},
	} {
		for _, era := range []client.Era{client.Modern, client.Legacy} {
			e := newLoginFixture(t, &oauthtest.Options{Subject: "ada"}, func(o *oauth.ProtectOptions) { o.DPoP = dpop })
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
			if result, err := session.ReadResource(t.Context(), "shop:books", nil); err != nil || len(result.Contents) != 1 {
				t.Errorf("%s: %v, %v", name, result, err)
			}
			session.Close()
			if got, want := strings.Join(e.opened, "|"), "mcp|mcp orders:write|mcp books:read orders:write"; got != want {
				t.Errorf("%s: the browser is sent for %q, want %q", name, got, want)
			}
		}
	}
}

// Sockets and streams end when their token expires.
func TestConnectionsEndWithTheirToken(t *testing.T) {
	s := shop(t)
	events, sockets := sse.Handler(s, nil), ws.Handler(s, nil)
	defer events.Close()
	defer sockets.Close()
	grant := &oauth.Grant{Issuer: testIssuer, Subject: "ada", Expires: time.Now().Add(time.Second)}
	change := func(o *oauth.ProtectOptions) { o.Verifier, o.Grace, o.Scopes = fixedVerifier{grant}, -1, nil }
	m := newSigner(t, "k")
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
		if conns[name], err = dialer.Dial(t.Context(), ignoringHandler{}); err != nil {
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

// ignoringHandler ignores all messages.
type ignoringHandler struct{}

func (ignoringHandler) Handle(context.Context, jsonrpc.Peer, *jsonrpc.Request, *jsonrpc.Reply) error {
	return nil
}
func (ignoringHandler) HandleNotification(jsonrpc.Peer, *jsonrpc.Request) {}

// A client is authorized over every transport, in every era.
func TestEveryTransport(t *testing.T) {
	for name, dial := range map[string]func(at string, c *oauth.Client) transport.Dialer{
		"streamable": func(at string, c *oauth.Client) transport.Dialer {
			return streamable.Dial(at, &streamable.DialOptions{Authorizer: c})
		},
		"sse": func(at string, c *oauth.Client) transport.Dialer {
			return sse.Dial(at+"/sse", &sse.DialOptions{Authorizer: c})
		},
		"ws": func(at string, c *oauth.Client) transport.Dialer {
			return ws.Dial(at+"/ws", &ws.DialOptions{Authorizer: c})
		},
		"older": func(at string, c *oauth.Client) transport.Dialer {
			return streamable.Dial(at+"/sse", &streamable.DialOptions{Authorizer: c})
		},
	} {
		for _, bound := range []bool{false, true} {
			e := newLoginFixture(t, nil, nil)
			authorizer := e.client(t, func(o *oauth.ClientOptions) { o.DPoP = bound })
			for _, era := range []client.Era{client.Auto, client.Legacy} {
				session, err := client.Connect(t.Context(), dial(e.web.URL+"/mcp", authorizer), &client.Options{Era: era})
				if err != nil {
					t.Errorf("%s: %v", name, err)
					continue
				}
				got, err := client.CallAs[string](t.Context(), session, "look", nil, nil)
				if err != nil || got != "hello "+e.as.URL+"#demo-person" {
					t.Errorf("%s, bound %v: got %q, %v", name, bound, got, err)
				}
				session.Close()
			}
			if len(e.opened) != 1 {
				t.Errorf("%s: %d browsers", name, len(e.opened))
			}
		}
	}
}

// A login may take longer than the connection's timeouts. The person is asked once.
func TestSlowPerson(t *testing.T) {
	e := newLoginFixture(t, nil, nil)
	authorizer := e.client(t, func(o *oauth.ClientOptions) {
		open := o.Flow.(*oauth.CodeFlow).Open
		o.Flow = &oauth.CodeFlow{Open: func(ctx context.Context, url string) error {
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
			}
			return open(ctx, url)
		}}
	})
	dialer := streamable.Dial(e.web.URL+"/mcp", &streamable.DialOptions{Authorizer: authorizer})
	session, err := client.Connect(t.Context(), dialer, &client.Options{ProbeTimeout: 800 * time.Millisecond, ConnectTimeout: 800 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	if session.Version() != mcp.LatestVersion || len(e.opened) != 1 {
		t.Errorf("the session speaks %s, after %d browsers", session.Version(), len(e.opened))
	}
}

// A caller that stops waiting for a login gets the cause.
func TestPersonWhoDoesNotCome(t *testing.T) {
	e := newLoginFixture(t, nil, nil)
	authorizer := e.client(t, func(o *oauth.ClientOptions) {
		o.Flow = &oauth.CodeFlow{Open: func(context.Context, string) error { return nil }}
	})
	reason := errors.New("the program ends")
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(100*time.Millisecond, func() { cancel(reason) })
	if _, err := client.Connect(ctx, streamable.Dial(e.web.URL+"/mcp", &streamable.DialOptions{Authorizer: authorizer}), nil); !errors.Is(err, reason) {
		t.Errorf("got %v", err)
	}
}
