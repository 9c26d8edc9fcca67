package soak

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/faults"
	"github.com/dovetail-go/dovetail/internal/test/waittest"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/sse"
	"github.com/dovetail-go/dovetail/transport/streamable"
	"github.com/dovetail-go/dovetail/transport/ws"
)

const (
	// pingInterval is the interval of pings over WebSocket. A side that hears nothing for two
	// and a half intervals ends the connection.
	pingInterval = 100 * time.Millisecond
	// silentCallTimeout bounds calls over HTTP, which has no pings.
	silentCallTimeout = 300 * time.Millisecond
)

// A peer that vanishes without an end of its connection is detected: over WebSocket by pings
// on both sides, over HTTP by the time limit of the call. The session goes on over a new
// connection, and Close does not wait for the peer.
func TestVanishedPeers(t *testing.T) {
	for _, test := range []struct {
		name, transport string
		era             client.Era
		// pings says that pings detect the loss. Otherwise the call's time limit does.
		pings bool
		// recovers says that the session continues. The stream of HTTP+SSE is never replaced
		// while its connection is open.
		recovers bool
	}{
		{"ws modern", "ws", client.Modern, true, true},
		{"ws legacy", "ws", client.Legacy, true, true},
		{"streamable modern", "streamable", client.Modern, false, true},
		{"streamable legacy", "streamable", client.Legacy, false, true},
		{"sse", "sse", client.Legacy, false, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel() // it mostly waits
			var holding atomic.Int64
			proxy, dialer := serveHolding(t, test.transport, &holding)
			session, err := client.Connect(t.Context(), dialer, &client.Options{Era: test.era})
			if err != nil {
				t.Fatal(err)
			}
			defer session.Close()
			failure := make(chan error, 1)
			go func() {
				_, err := echoed(t.Context(), session, "hold", "")
				failure <- err
			}()
			await(t, "the call runs", func() bool { return holding.Load() == 1 })
			proxy.Strike(faults.Stall, faults.ToClient)
			err = waittest.Receive(t, "the end of the call", failure)
			failed, ok := errors.AsType[*jsonrpc.CallError](err)
			if !ok || failed.Delivery != jsonrpc.MaybeExecuted || errors.Is(err, context.DeadlineExceeded) == test.pings {
				t.Errorf("the call ends with %v", err)
			}
			if test.pings {
				await(t, "the server ends the call", func() bool { return holding.Load() == 0 })
			}
			if test.recovers {
				// Each idle connection in the pool may be a stalled one.
				await(t, "the session continues", func() bool {
					text, err := echoed(t.Context(), session, "echo", "again")
					if failed, ok := errors.AsType[*jsonrpc.CallError](err); err != nil && (!ok || failed.Delivery == jsonrpc.Rejected) {
						t.Errorf("a call ends with %v", err)
					}
					return text == "again"
				})
			}
			proxy.Strike(faults.Stall, faults.ToClient)
			waittest.Return(t, "Close", func() {
				if err := session.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// serveHolding serves a tool that runs until it is canceled, and returns a dialer through a
// proxy.
func serveHolding(t *testing.T, over string, holding *atomic.Int64) (*faults.Proxy, transport.Dialer) {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	s := server.New(mcp.Implementation{Name: "holding", Version: "1"}, &server.Options{Logger: quiet})
	server.AddTool(s, server.Tool{Name: "hold"}, func(ctx context.Context, _ *server.Request, _ echoIn) (string, error) {
		holding.Add(1)
		defer holding.Add(-1)
		<-ctx.Done()
		return "", ctx.Err()
	})
	server.AddTool(s, server.Tool{Name: "echo"}, func(_ context.Context, _ *server.Request, in echoIn) (string, error) { return in.Nonce, nil })
	endpoints := map[string]interface {
		http.Handler
		Close() error
	}{
		"ws":         ws.Handler(s, &ws.Options{KeepAlive: pingInterval, Logger: quiet}),
		"streamable": streamable.Handler(s, &streamable.Options{Logger: quiet}),
		"sse":        sse.Handler(s, &sse.Options{Logger: quiet}),
	}
	web := httptest.NewServer(endpoints[over])
	t.Cleanup(func() {
		for _, e := range endpoints {
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		}
		web.CloseClientConnections()
		web.Close()
	})
	proxy := faults.NewProxy(t, web.Listener.Addr().String())
	url := "http://" + proxy.Addr()
	limits := jsonrpc.Options{CallTimeout: silentCallTimeout}
	switch over {
	case "ws":
		return proxy, ws.Dial(url, &ws.DialOptions{KeepAlive: pingInterval})
	case "sse":
		return proxy, sse.Dial(url, &sse.DialOptions{Conn: limits})
	}
	return proxy, streamable.Dial(url, &streamable.DialOptions{Conn: limits})
}
