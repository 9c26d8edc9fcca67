package oauth_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/authserver"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/oauth"
	"github.com/dovetail-go/dovetail/transport/sse"
	"github.com/dovetail-go/dovetail/transport/streamable"
	"github.com/dovetail-go/dovetail/transport/ws"
)

// serveAll protects one server over all transports.
func serveAll(t *testing.T, issuer string) string {
	t.Helper()
	s := server.New(mcp.Implementation{Name: "calc", Version: "1.0.0"}, nil)
	server.AddTool(s, server.Tool{Name: "whoami", Description: "Say who calls."}, func(ctx context.Context, _ *server.Request, _ struct{}) (string, error) {
		return oauth.FromContext(ctx).Subject, nil
	})
	web := httptest.NewUnstartedServer(nil)
	at := "http://" + web.Listener.Addr().String()
	streams, events, sockets := streamable.Handler(s, nil), sse.Handler(s, nil), ws.Handler(s, nil)
	routes := http.NewServeMux()
	routes.Handle("/mcp", streams)
	routes.Handle("/sse", events)
	routes.Handle("/ws", sockets)
	verifier, err := oauth.NewJWTVerifier(&oauth.JWTOptions{Issuer: issuer, AllowLoopback: true})
	if err != nil {
		t.Fatal(err)
	}
	web.Config.Handler, err = oauth.Protect(routes, &oauth.ProtectOptions{Resource: at, AuthorizationServers: []string{issuer}, Verifier: verifier})
	if err != nil {
		t.Fatal(err)
	}
	web.Start()
	t.Cleanup(func() {
		streams.Close()
		events.Close()
		sockets.Close()
		web.Close()
	})
	return at
}

// The same client gets in over every transport, and in every version.
func TestEveryTransport(t *testing.T) {
	as, err := authserver.Start(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer as.Close()
	at := serveAll(t, as.URL)
	for name, dial := range map[string]func(*oauth.Client) transport.Dialer{
		"streamable": func(c *oauth.Client) transport.Dialer {
			return streamable.Dial(at+"/mcp", &streamable.DialOptions{Authorizer: c})
		},
		"sse": func(c *oauth.Client) transport.Dialer { return sse.Dial(at+"/sse", &sse.DialOptions{Authorizer: c}) },
		"ws":  func(c *oauth.Client) transport.Dialer { return ws.Dial(at+"/ws", &ws.DialOptions{Authorizer: c}) },
		"older": func(c *oauth.Client) transport.Dialer {
			return streamable.Dial(at+"/sse", &streamable.DialOptions{Authorizer: c})
		},
	} {
		for _, bound := range []bool{false, true} {
			browsers := 0
			authorizer, err := oauth.NewClient(&oauth.ClientOptions{AllowLoopback: true, DPoP: bound, Flow: &oauth.CodeFlow{Open: func(ctx context.Context, url string) error {
				browsers++
				return visitInsteadOfBrowser(ctx, url)
			}}})
			if err != nil {
				t.Fatal(err)
			}
			for _, era := range []client.Era{client.Auto, client.Legacy} {
				session, err := client.Connect(t.Context(), dial(authorizer), &client.Options{Era: era})
				if err != nil {
					t.Errorf("%s: %v", name, err)
					continue
				}
				got, err := client.CallAs[string](t.Context(), session, "whoami", nil)
				if err != nil || got != "demo-person" {
					t.Errorf("%s, bound %v: got %q, %v", name, bound, got, err)
				}
				session.Close()
			}
			if browsers != 1 {
				t.Errorf("%s: %d browsers", name, browsers)
			}
		}
	}
}

// A person may take longer to log in than a server may to answer; nobody is asked again
// meanwhile, and what comes of it is the first answer.
func TestSlowPerson(t *testing.T) {
	as, err := authserver.Start(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer as.Close()
	at := serveAll(t, as.URL)
	browsers := 0
	authorizer, err := oauth.NewClient(&oauth.ClientOptions{AllowLoopback: true, Flow: &oauth.CodeFlow{Open: func(ctx context.Context, url string) error {
		browsers++
		pause := time.NewTimer(time.Second)
		defer pause.Stop()
		select {
		case <-pause.C:
		case <-ctx.Done():
		}
		return visitInsteadOfBrowser(ctx, url)
	}}})
	if err != nil {
		t.Fatal(err)
	}
	session, err := client.Connect(t.Context(), streamable.Dial(at+"/mcp", &streamable.DialOptions{Authorizer: authorizer}), &client.Options{ProbeTimeout: 800 * time.Millisecond, ConnectTimeout: 800 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	if session.Version() != mcp.LatestVersion || browsers != 1 {
		t.Errorf("the session speaks %s, after %d browsers", session.Version(), browsers)
	}
}

// Who gives up waiting for a person gets to know why.
func TestPersonWhoDoesNotCome(t *testing.T) {
	as, err := authserver.Start(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer as.Close()
	at := serveAll(t, as.URL)
	authorizer, err := oauth.NewClient(&oauth.ClientOptions{AllowLoopback: true, Flow: &oauth.CodeFlow{Open: func(context.Context, string) error { return nil }}})
	if err != nil {
		t.Fatal(err)
	}
	reason := errors.New("the program ends")
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(100*time.Millisecond, func() { cancel(reason) })
	if _, err := client.Connect(ctx, streamable.Dial(at+"/mcp", &streamable.DialOptions{Authorizer: authorizer}), nil); !errors.Is(err, reason) {
		t.Errorf("got %v", err)
	}
}
