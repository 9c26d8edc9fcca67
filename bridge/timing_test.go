package bridge_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

// A slowStart takes a second to connect.
type slowStart struct{ transport.Dialer }

func (d slowStart) Dial(ctx context.Context, handler jsonrpc.Handler) (transport.Conn, error) {
	<-time.After(time.Second)
	return d.Dialer.Dial(ctx, handler)
}

// times are when the parts of a call began.
type times struct{ decided, called, sent, answered time.Time }

type timesKey struct{}

// Guards run before Options.CallMiddleware, and ProxyOptions.Middleware runs when the call is sent: what is between the two is
// waiting for a slot, or for the start of the server.
func TestWaitingIsToldApartFromTheServer(t *testing.T) {
	const decides, works = 3 * time.Second, 5 * time.Second
	outer := func(next mcp.Handler) mcp.Handler {
		return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
			ctx.Value(timesKey{}).(*times).called = time.Now()
			return next(ctx, call)
		}
	}
	decide := mcp.Guard{Name: "slow", Run: func(next mcp.Handler) mcp.Handler {
		return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
			<-time.After(decides)
			ctx.Value(timesKey{}).(*times).decided = time.Now()
			return next(ctx, call)
		}
	}}
	inner := func(next mcp.Handler) mcp.Handler {
		return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
			own, ok := ctx.Value(timesKey{}).(*times)
			if !ok { // the lists
				return next(ctx, call)
			}
			own.sent = time.Now()
			defer func() { own.answered = time.Now() }()
			return next(ctx, call)
		}
	}
	for _, era := range []client.Era{client.Legacy, client.Modern} {
		for name, test := range map[string]struct {
			before func(b *bridge.Bridge, call func(*times) error) // before the call that is measured
			waits  time.Duration
		}{
			"slot": {func(_ *bridge.Bridge, call func(*times) error) {
				go func() { _ = call(new(times)) }()
				advance(time.Second)
			}, works - time.Second},
			"start": {func(b *bridge.Bridge, _ func(*times) error) {
				advance(time.Hour) // the server is idle
			}, time.Second},
			"nothing": {func(*bridge.Bridge, func(*times) error) {}, 0},
		} {
			t.Run(era.String()+"/"+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newServer("slow")
					server.AddTool(s, server.Tool{Name: "work"}, func(context.Context, *server.Request, struct{}) (string, error) {
						<-time.After(works)
						return "done", nil
					})
					b := newBridge(t, &bridge.Options{CallMiddleware: []mcp.Middleware{outer}, Guards: []mcp.Guard{decide}}, bridge.Config{
						Alias: "s", Dialer: slowStart{dialerTo(s).speaks(era)},
						ProxyOptions: bridge.ProxyOptions{MaxCalls: 1, Lazy: true, IdleTimeout: time.Minute, Middleware: []mcp.Middleware{inner}},
					})
					call := func(own *times) error {
						_, err := b.CallTool(context.WithValue(t.Context(), timesKey{}, own), "s__work", nil)
						return err
					}
					test.before(b, call)
					var got times
					if err := call(&got); err != nil {
						t.Fatal(err)
					}
					for what, part := range map[string]struct{ got, want time.Duration }{
						"after the decision": {got.called.Sub(got.decided), 0},
						"waiting":            {got.sent.Sub(got.called), test.waits},
						"working":            {got.answered.Sub(got.sent), works},
					} {
						if part.got != part.want {
							t.Errorf("%s: %v, want %v", what, part.got, part.want)
						}
					}
				})
			})
		}
	}
}
