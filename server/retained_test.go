package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/transporttests"
	"github.com/dovetail-go/dovetail/internal/test/waittest"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/server/webhook"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/store"
)

// long is a text of 4 KiB.
var long = strings.Repeat("x", 4<<10)

// retainingServer returns a server with everything that clients can leave behind, and room for 256 KiB.
func retainingServer(t *testing.T) *server.Server {
	t.Helper()
	webhooks, err := webhook.New(&webhook.Options{Logger: discardLogger(), Verified: func(context.Context, string, string) bool { return true }})
	if err != nil {
		t.Fatal(err)
	}
	s := newServer(&server.Options{RetainedBytes: 256 << 10, Webhooks: webhooks, Logger: discardLogger()})
	t.Cleanup(func() { _ = s.Shutdown(context.Background()) })
	server.AddTemplate(s, server.Template{Name: "note", URITemplate: "note://{name}"}, func(_ context.Context, _ *server.Request, vars map[string]string) (string, error) {
		return vars["name"], nil
	})
	server.AddEvent[map[string]string, map[string]string](s, server.Event{Name: "changed"}, nil)
	server.AddRawTool(s, server.Tool{Name: "wait", InputSchema: json.RawMessage(`{"type":"object"}`), Task: server.TaskRequired}, func(ctx context.Context, _ *server.Request, _ json.RawMessage) (mcp.Result, error) {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	})
	return s
}

type retainedThing struct {
	name      string
	era       client.Era
	principal bool // it needs one
	leave     func(ctx context.Context, s *server.Server, session *client.Session, i int) (end func(), err error)
}

// retainedThings are what a client can leave behind: leave adds one, number i, and returns what ends it, or nil if it ends
// with its session.
var retainedThings = []retainedThing{
	{"watches", client.Legacy, false, func(ctx context.Context, _ *server.Server, session *client.Session, i int) (func(), error) {
		_, err := session.Call(ctx, mcp.MethodResourcesSubscribe, fmt.Appendf(nil, `{"uri":"note://%d-%s"}`, i, long), nil)
		return nil, err
	}},
	{"subscriptions", client.Modern, false, func(ctx context.Context, _ *server.Server, session *client.Session, i int) (func(), error) {
		sub, err := session.Subscribe(ctx, mcp.SubscriptionFilter{ResourceSubscriptions: []string{fmt.Sprintf("note://%d-%s", i, long)}})
		if err != nil {
			return nil, err
		}
		return sub.Close, nil
	}},
	{"streams of events", client.Modern, false, func(ctx context.Context, s *server.Server, session *client.Session, i int) (func(), error) {
		ctx, cancel := context.WithCancel(ctx)
		before, failed := server.Retained(s), make(chan error, 1)
		go func() {
			_, err := session.Call(ctx, mcp.MethodEventsStream, fmt.Appendf(nil, `{"name":"changed","arguments":{"text":"%d-%s"}}`, i, long), nil)
			failed <- err
		}()
		for server.Retained(s) == before {
			select {
			case err := <-failed:
				cancel()
				return nil, err
			case <-time.After(time.Millisecond): // until the stream is open
			}
		}
		return func() { cancel(); <-failed }, nil
	}},
	{"tasks", client.Modern, false, func(ctx context.Context, _ *server.Server, session *client.Session, i int) (func(), error) {
		raw, err := session.Call(ctx, mcp.MethodToolsCall, fmt.Appendf(nil, `{"name":"wait","arguments":{"text":"%d-%s"}}`, i, long), nil)
		if err != nil {
			return nil, err
		}
		var task mcp.Task
		if err := task.UnmarshalJSON(raw); err != nil {
			return nil, err
		}
		return func() {
			_, _ = session.Call(ctx, mcp.MethodTasksCancel, fmt.Appendf(nil, `{"taskId":%q}`, task.TaskID), nil)
		}, nil
	}},
	{"webhooks", client.Modern, true, func(ctx context.Context, _ *server.Server, session *client.Session, i int) (func(), error) {
		params := fmt.Appendf(nil, `{"name":"changed","arguments":{"text":"%s"},"delivery":{"mode":"webhook","url":"https://example.com/%d","secret":"whsec_%s"}}`, long, i, strings.Repeat("AAAA", 10))
		_, err := session.Call(ctx, mcp.MethodEventsSubscribe, params, nil)
		return func() { _, _ = session.Call(ctx, mcp.MethodEventsUnsubscribe, params, nil) }, err
	}},
}

// A client that leaves things behind is refused with a time. Another client is not, and when the first one ends what it has
// left, it may go on.
func TestRetainedBytes(t *testing.T) {
	for _, thing := range retainedThings {
		t.Run(thing.name, func(t *testing.T) {
			if thing.era == client.Modern && !transporttests.CarriesModern() {
				t.Skip("the transport has no requests of 2026-07-28")
			}
			s := retainingServer(t)
			opts := taskOptions()
			opts.Era = thing.era
			as := func(principal string, dialer transport.Dialer) (session *client.Session) {
				t.Helper()
				waittest.Until(t, "a session", func() (connected bool) { // a server ends a session after its client has closed it
					var err error
					session, err = client.Connect(transport.WithPrincipal(t.Context(), principal), dialer, opts)
					return err == nil
				})
				return session
			}
			dialer := transporttests.Dialer(t, s)
			if thing.principal {
				dialer = transport.Pipe(s)
			}
			hoarder := as("ann", dialer)
			idle := server.Retained(s)
			var ends []func()
			var refused error
			for i := 0; refused == nil && i < 200; i++ {
				var end func()
				if end, refused = thing.leave(t.Context(), s, hoarder, i); end != nil {
					ends = append(ends, end)
				}
			}
			busy, ok := errors.AsType[*jsonrpc.Error](refused)
			if !ok || busy.Code != jsonrpc.Busy || string(busy.Data) != `{"retryAfterMs":5000}` {
				t.Fatalf("the client gets %v, want Busy with a time", refused)
			}
			honest := as("bob", transport.Pipe(s))
			defer honest.Close()
			end, err := thing.leave(t.Context(), s, honest, 1000)
			if err != nil {
				t.Errorf("another client gets %v", err)
			}
			if end != nil {
				end()
			}
			for _, end := range ends {
				end()
			}
			if ends == nil {
				hoarder.Close()
				hoarder = as("ann", dialer)
			}
			defer hoarder.Close()
			waittest.Until(t, fmt.Sprintf("room, after %d bytes at the beginning", idle), func() bool { // a server ends things after it has answered
				end, err = thing.leave(t.Context(), s, hoarder, 2000)
				return err == nil
			})
			if end != nil {
				end()
			}
		})
	}
}

// Handshakes are refused when there is no room, and the end of a session makes room.
func TestRetainedHandshakes(t *testing.T) {
	s := retainingServer(t)
	dialer := transporttests.Dialer(t, s)
	opts := &client.Options{Era: client.Legacy, Capabilities: &mcp.ClientCapabilities{Experimental: map[string]json.RawMessage{"long": json.RawMessage(`{"text":"` + long + `"}`)}}}
	var sessions []*client.Session
	defer func() {
		for _, session := range sessions {
			session.Close()
		}
	}()
	for {
		session, err := client.Connect(t.Context(), dialer, opts)
		if err != nil {
			wantCode(t, err, jsonrpc.Busy)
			break
		}
		if sessions = append(sessions, session); len(sessions) > 100 {
			t.Fatal("all handshakes are accepted")
		}
	}
	sessions[0].Close()
	waittest.Until(t, "room after the end of a session", func() bool { // a server ends a session after its client
		session, err := client.Connect(t.Context(), dialer, opts)
		if err == nil {
			sessions[0] = session
		}
		return err == nil
	})
}

// Tasks leave room for sessions, also in a store that both use.
func TestTasksLeaveRoomForSessions(t *testing.T) {
	for name, shared := range map[string]bool{"without a store": false, "with a store": true} {
		t.Run(name, func(t *testing.T) {
			opts := &server.Options{RetainedBytes: 1 << 20, Logger: discardLogger()}
			if shared {
				memory, err := store.NewMemory(&store.MemoryOptions{Bytes: 1 << 20})
				if err != nil {
					t.Fatal(err)
				}
				defer memory.Close()
				opts.Store = memory
			}
			s := newServer(opts)
			defer func() { _ = s.Shutdown(context.Background()) }()
			server.AddTool(s, server.Tool{Name: "text", Task: server.TaskRequired}, func(_ context.Context, _ *server.Request, in struct{ Times int }) (string, error) {
				return strings.Repeat(long, in.Times), nil
			})
			tasks := connectBy(t, transport.Pipe(s), taskOptions())
			for _, times := range []int{10, 0} { // small ones too, so that nothing is left
				var err error
				for range 300 {
					if _, err = tasks.Call(t.Context(), mcp.MethodToolsCall, fmt.Appendf(nil, `{"name":"text","arguments":{"Times":%d}}`, times), nil); err != nil {
						break
					}
				}
				wantCode(t, err, jsonrpc.Busy)
			}
			for range 20 {
				connectWith(t, s, &client.Options{Era: client.Legacy})
			}
		})
	}
}

// Webhooks leave room for sessions.
func TestWebhooksLeaveRoomForSessions(t *testing.T) {
	s := retainingServer(t)
	webhooks := retainedThings[slices.IndexFunc(retainedThings, func(thing retainedThing) bool { return thing.name == "webhooks" })]
	for _, principal := range []string{"ann", "bob", "cid", "dan", "eve", "fay", "gus", "hal"} {
		session, err := client.Connect(transport.WithPrincipal(t.Context(), principal), transport.Pipe(s), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer session.Close()
		for i := 0; err == nil && i < 100; i++ {
			_, err = webhooks.leave(t.Context(), s, session, i)
		}
		wantCode(t, err, jsonrpc.Busy)
	}
	for range 20 {
		connectWith(t, s, &client.Options{Era: client.Legacy})
	}
}

// A client over stdio has no share: it may take all bytes.
func TestRetainedBytesOverStdio(t *testing.T) {
	s := retainingServer(t)
	c := dialRaw(t, s)
	c.request(mcp.MethodInitialize, []byte(`{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}`))
	watched := 0
	for ; watched < 200; watched++ {
		if refused := c.request(mcp.MethodResourcesSubscribe, fmt.Appendf(nil, `{"uri":"note://%d-%s"}`, watched, long)).Error; refused != nil {
			wantCode(t, refused, jsonrpc.Busy)
			break
		}
	}
	if want := 256 << 10 / (len(long) + 1<<10); watched < want || watched == 200 {
		t.Errorf("%d watches of 4 KiB are accepted, want about 50", watched)
	}
	c.close()
	if held := server.Retained(s); held != 0 {
		t.Errorf("%d bytes are counted after the end of the connection", held)
	}
}
