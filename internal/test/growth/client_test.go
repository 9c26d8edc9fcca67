//go:build soak

package growth

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/client/webhook"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"

	secret "github.com/dovetail-go/dovetail/internal/webhook"
	"github.com/dovetail-go/dovetail/internal/webhook/signature"
)

// clientRows are those of clients.
func clientRows() []row {
	return []row{
		{of: "tools of a server", operation: "list", n: 100, whole: true, prepare: func(tb testing.TB, n int) func() {
			session := connect(tb, serverWithTools(n), nil)
			return func() { listTools(tb, session) }
		}},
		{of: "open calls of a client", operation: "call", n: 10, prepare: func(tb testing.TB, n int) func() {
			s := serverWithTools(1)
			begun := make(chan struct{}, n)
			server.AddTool(s, server.Tool{Name: "open"}, func(ctx context.Context, _ *server.Request, _ openIn) (string, error) {
				begun <- struct{}{}
				<-ctx.Done()
				return "", ctx.Err()
			})
			session := connect(tb, s, nil)
			openCalls(tb, session, "open", n, begun)
			return func() { call(tb, session, "tool0", nil) }
		}},
		{of: "subscriptions of a client", operation: "change of one resource", n: 2, prepare: func(tb testing.TB, n int) func() {
			return changeResource(tb, n, client.Modern, func(session *client.Session) {
				for i := range n {
					subscribe(tb, session, resource(i))
				}
			})
		}},
		{of: "subscriptions of a legacy client", operation: "change of one resource", n: 10, prepare: func(tb testing.TB, n int) func() {
			return changeResource(tb, n, client.Legacy, func(session *client.Session) {
				for i := range n {
					subscribe(tb, session, resource(i))
				}
			})
		}},
		{of: "resources of a subscription", operation: "change of one resource", n: 10, prepare: func(tb testing.TB, n int) func() {
			return changeResource(tb, n, client.Modern, func(session *client.Session) {
				subscribe(tb, session, resources(n)...)
			})
		}},
		{of: "subscriptions of a client", operation: "subscribe and close", n: 1, prepare: func(tb testing.TB, n int) func() {
			s := serverWithResources(n + 1)
			session := connect(tb, s, nil)
			for i := range n {
				subscribe(tb, session, resource(i))
			}
			return func() { subscribe(tb, session, resource(n)).Close() }
		}},
		{of: "resources of a subscription through a bridge", operation: "change of one resource", n: 10, prepare: func(tb testing.TB, n int) func() {
			source := serverWithResources(n)
			return changeResourceOf(tb, bridgeServer(tb, []*server.Server{source}), source, client.Modern, func(session *client.Session) {
				subscribe(tb, session, resources(n)...)
			})
		}},
		{of: "results that a client keeps", operation: "read of one", n: 100, prepare: func(tb testing.TB, n int) func() {
			session := connect(tb, serverWithResources(n), nil)
			for i := range n {
				read(tb, session, resource(i))
			}
			return func() { read(tb, session, resource(0)) }
		}},
		{
			of: "results that a client keeps", operation: "change of one resource", n: 100,
			reason: "each kept result is compared with the URI that has changed, which may name a parent or a part of a resource",
			prepare: func(tb testing.TB, n int) func() {
				return changeResource(tb, n, client.Modern, func(session *client.Session) {
					subscribe(tb, session, resource(0))
					for i := range n {
						read(tb, session, resource(i))
					}
				})
			}},
		{of: "calls that wait for a user behind a bridge", operation: "call that asks", n: 3, prepare: func(tb testing.TB, n int) func() {
			source := newServer(nil)
			server.AddTool(source, server.Tool{Name: "ask"}, func(_ context.Context, r *server.Request, in openIn) (string, error) {
				_, err := server.Elicit[struct{ Name string }](r, "name", fmt.Sprint(in.Open))
				return "yes", err
			})
			b, err := bridge.New(&bridge.Options{Logger: silent}, bridge.Config{
				Alias: "server0", Dialer: transport.Pipe(source), ProxyOptions: bridge.ProxyOptions{Era: client.Legacy, Limits: manyQuestions, PingInterval: -1},
			})
			if err != nil {
				tb.Fatal(err)
			}
			s := newServer(nil)
			mount(tb, s, b)
			asked := make(chan struct{}, n)
			session := connectTo(tb, transport.Pipe(s), &client.Options{Limits: manyQuestions, Elicit: func(ctx context.Context, p *mcp.ElicitParams) (*mcp.ElicitResult, error) {
				if !strings.HasSuffix(p.Message, " 0") { // the bridge names the server before it
					asked <- struct{}{}
					<-ctx.Done()
				}
				return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: []byte(`{"Name":"n"}`)}, nil
			}})
			openCalls(tb, session, "server0__ask", n, asked)
			return func() {
				result, err := session.CallTool(tb.Context(), "server0__ask", map[string]any{"open": 0}, nil)
				if err != nil || result.IsError {
					tb.Fatal(result, err)
				}
			}
		}},
		{of: "registrations for webhooks", operation: "delivery to one", n: 50, prepare: func(tb testing.TB, n int) func() {
			receiver, err := webhook.New(nil)
			if err != nil {
				tb.Fatal(err)
			}
			var deliver func()
			for i := range n {
				deliver = register(tb, receiver, fmt.Sprint("sub_", i))
			}
			return deliver
		}},
		{of: "deliveries of a webhook that are remembered", operation: "delivery", n: 50, prepare: func(tb testing.TB, n int) func() {
			receiver, err := webhook.New(nil)
			if err != nil {
				tb.Fatal(err)
			}
			deliver := register(tb, receiver, "sub_0")
			for range n {
				deliver()
			}
			return deliver
		}},
	}
}

var manyQuestions = client.Limits{QuestionsPerMinute: 1e9, QuestionBurst: 1e9}

func addResource(s *server.Server, uri string) {
	server.AddResource(s, server.Resource{URI: uri, CacheHint: mcp.CacheHint{TTLMs: time.Hour.Milliseconds(), Scope: mcp.CachePrivate}},
		func(context.Context, *server.Request) (string, error) { return "text", nil })
}

func subscribe(tb testing.TB, session *client.Session, uris ...string) *client.Subscription {
	tb.Helper()
	sub, err := session.Subscribe(tb.Context(), mcp.SubscriptionFilter{ResourceSubscriptions: uris})
	if err != nil {
		tb.Fatal(err)
	}
	return sub
}

// changeResource returns a function that changes a resource and waits until the client has been notified.
func changeResource(tb testing.TB, n int, era client.Era, prepare func(session *client.Session)) func() {
	tb.Helper()
	s := serverWithResources(n)
	return changeResourceOf(tb, s, s, era, prepare)
}

// changeResourceOf is changeResource for a resource that the server s has from source.
func changeResourceOf(tb testing.TB, s, source *server.Server, era client.Era, prepare func(session *client.Session)) func() {
	tb.Helper()
	changed := make(chan struct{}, 1)
	session := connectTo(tb, transport.Pipe(s), &client.Options{Era: era, OnChange: func(context.Context, mcp.Change) { changed <- struct{}{} }})
	prepare(session)
	return func() {
		source.ResourceUpdated(resource(0))
		<-changed
	}
}

// register registers a webhook and returns a function that delivers an event to it.
func register(tb testing.TB, receiver *webhook.Receiver, id string) (deliver func()) {
	tb.Helper()
	registration, err := receiver.Register(func(context.Context, webhook.Delivery) error { return nil })
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(registration.Close)
	if err := registration.Bind(id); err != nil {
		tb.Fatal(err)
	}
	key, err := secret.ParseSecret(registration.Secret())
	if err != nil {
		tb.Fatal(err)
	}
	deliveries := 0
	return func() {
		deliveries++
		body := []byte(`{"eventId":"e","data":{}}`)
		r := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set(secret.SubscriptionHeader, id)
		if err := signature.Sign(r.Header, []secret.Secret{key}, fmt.Sprint("e", deliveries), time.Now(), body); err != nil {
			tb.Fatal(err)
		}
		w := httptest.NewRecorder()
		receiver.ServeHTTP(w, r)
		if w.Code >= http.StatusBadRequest {
			tb.Fatal(w.Code, strings.TrimSpace(w.Body.String()))
		}
	}
}
