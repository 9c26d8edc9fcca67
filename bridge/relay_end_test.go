package bridge_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/stdio"
)

func TestRelayWhenItsServerDies(t *testing.T) {
	for _, front := range []string{"pipe", "streamable"} {
		t.Run(front, func(t *testing.T) {
			hanging := make(chan struct{}, 1)
			behind := lineTo(newEnd(func(ctx context.Context, _ jsonrpc.Peer, req *jsonrpc.Request) (string, error) {
				if req.Method == "hang" {
					hanging <- struct{}{}
					<-ctx.Done()
				}
				return "{}", nil
			}))
			conn := dial(t, ways[front](t, relayed(t, behind)), newEnd(nil))
			failed := make(chan error, 1)
			go func() {
				_, err := conn.Call(t.Context(), "hang", modernParams("", ""))
				failed <- err
			}()
			<-hanging
			behind.cut()
			wantError(t, <-failed, jsonrpc.InternalError, `{"type":"UPSTREAM_LOST","executed":"maybe"}`)

			_, err := conn.Call(t.Context(), "again", modernParams("", ""))
			if front == "streamable" { // where nothing was said that would be lost
				if err != nil || behind.dials.Load() != 2 {
					t.Errorf("a later call failed after %d connections: %v", behind.dials.Load(), err)
				}
				return
			}
			wantError(t, err, jsonrpc.InternalError, `{"type":"UPSTREAM_UNAVAILABLE","executed":"no"}`)
		})
	}
}

func TestRelayWhenItsServerIsNotThere(t *testing.T) {
	behind := lineTo(newEnd(func(context.Context, jsonrpc.Peer, *jsonrpc.Request) (string, error) { return "{}", nil }))
	behind.refuse.Store(true)
	conn := dial(t, transport.Pipe(relayed(t, behind)), newEnd(nil))
	if n := behind.dials.Load(); n != 0 {
		t.Errorf("there were %d connections before the first message", n)
	}
	_, err := conn.Call(t.Context(), "call", nil)
	wantError(t, err, jsonrpc.InternalError, `{"type":"UPSTREAM_UNAVAILABLE","executed":"no"}`)
	behind.refuse.Store(false)
	if _, err := conn.Call(t.Context(), "call", nil); err != nil {
		t.Errorf("a call failed when the server was there: %v", err)
	}
}

func TestRelayConnectsOnceAndInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		behind := lineTo(newEnd(nil))
		behind.mute.Store(true)
		conn := dial(t, transport.Pipe(relayed(t, behind)), newEnd(nil))
		within(t, 30*time.Second, 31*time.Second, func() {
			var calls sync.WaitGroup
			for range 3 {
				calls.Go(func() {
					_, err := conn.Call(t.Context(), "call", nil)
					wantErrorSoft(t, err)
				})
			}
			calls.Wait()
		})
		if n := behind.dials.Load(); n != 1 {
			t.Errorf("there were %d connections", n)
		}
	})
}

func wantErrorSoft(t testing.TB, err error) {
	t.Helper()
	if _, ok := err.(*jsonrpc.Error); !ok {
		t.Errorf("the error is %T %v, want an *jsonrpc.Error", err, err)
	}
}

// kept is a dialer that remembers its connections.
type kept struct {
	transport.Dialer
	conns chan transport.Conn
}

func (k kept) Dial(ctx context.Context, handler jsonrpc.Handler) (transport.Conn, error) {
	conn, err := k.Dialer.Dial(ctx, handler)
	if err == nil {
		k.conns <- conn
	}
	return conn, err
}

func TestRelayEndsItsServerWithTheLink(t *testing.T) {
	for _, how := range []string{"link", "relay"} {
		t.Run(how, func(t *testing.T) {
			behind := kept{child("shop", ""), make(chan transport.Conn, 1)}
			relay := relayed(t, behind)
			session := connect(t, transport.Pipe(relay), client.Options{})
			process := <-behind.conns
			if how == "link" {
				session.Close()
			} else {
				if err := relay.Close(); err != nil {
					t.Error(err)
				}
				select {
				case <-process.Done():
				default:
					t.Error("Close did not wait for the process")
				}
			}
			select {
			case <-process.Done():
			case <-time.After(10 * time.Second):
				t.Error("the process goes on")
			}
			if how == "relay" {
				conn := dial(t, transport.Pipe(relay), newEnd(nil))
				_, err := conn.Call(t.Context(), "call", nil)
				wantError(t, err, jsonrpc.InternalError, `{"type":"UPSTREAM_UNAVAILABLE","executed":"no"}`)
			}
		})
	}
}

func TestRelayAnswersWhatCameBeforeTheEndOfInput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		behind := newEnd(func(context.Context, jsonrpc.Peer, *jsonrpc.Request) (string, error) {
			<-time.After(time.Second)
			return `{"late":true}`, nil
		})
		var out strings.Builder
		in := io.NopCloser(strings.NewReader(`{"jsonrpc":"2.0","id":"a","method":"slow"}` + "\n"))
		if err := stdio.Serve(t.Context(), bridge.Relay(transport.Pipe(behind), nil), &stdio.ServeOptions{In: in, Out: &out}); err != nil {
			t.Fatal(err)
		}
		if want := `{"jsonrpc":"2.0","id":"a","result":{"late":true}}` + "\n"; out.String() != want {
			t.Errorf("the client got %s, want %s", out.String(), want)
		}
	})
}

// late is a dialer that takes its time, and takes down what is told.
type late struct {
	transport.Dialer
	told chan string
}

func (l late) Dial(ctx context.Context, handler jsonrpc.Handler) (transport.Conn, error) {
	<-time.After(time.Second)
	conn, err := l.Dialer.Dial(ctx, handler)
	return lateConn{conn, l.told}, err
}

type lateConn struct {
	transport.Conn
	told chan string
}

func (c lateConn) Notify(_ context.Context, method string, _ jsonrpc.Appender) error {
	c.told <- method
	return nil
}

func TestRelayPassesTheLastWordsOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		behind := late{transport.Pipe(newEnd(nil)), make(chan string, 1)}
		in := io.NopCloser(strings.NewReader(`{"jsonrpc":"2.0","method":"last"}` + "\n"))
		if err := stdio.Serve(t.Context(), bridge.Relay(behind, nil), &stdio.ServeOptions{In: in, Out: io.Discard}); err != nil {
			t.Fatal(err)
		}
		select {
		case <-behind.told:
		default:
			t.Error("the server was told nothing")
		}
	})
}

func TestRelayedSubscriptionEndsWithTheInput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		behind := newEnd(func(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request) (string, error) {
			begun := jsonrpc.Raw(`{"_meta":{"io.modelcontextprotocol/subscriptionId":` + req.ID.String() + `}}`)
			if err := from.Notify(ctx, mcp.NotificationAcknowledged, begun); err != nil {
				return "", err
			}
			<-ctx.Done()
			return "", ctx.Err()
		})
		in := io.NopCloser(strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{}}` + "\n"))
		within(t, 0, time.Second, func() {
			if err := stdio.Serve(t.Context(), bridge.Relay(transport.Pipe(behind), nil), &stdio.ServeOptions{In: in, Out: io.Discard}); err != nil {
				t.Fatal(err)
			}
		})
	})
}

// A client that does not read what it is told holds up no other.
func TestRelayDoesNotWaitForASlowClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		behind := newEnd(func(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request) (string, error) {
			for i := range 5000 {
				if err := from.Notify(ctx, mcp.NotificationProgress, jsonrpc.Raw(fmt.Sprintf(`{"progressToken":%s,"progress":%d}`, req.Member("_meta", "progressToken"), i))); err != nil {
					return "", err
				}
			}
			return "{}", nil
		})
		relay := relayed(t, transport.Pipe(behind))
		slow, stop := context.WithCancel(t.Context())
		shared := relay.Bind(transport.Link{Input: t.Context(), Shared: true, Go: func(fn func(context.Context)) { go fn(t.Context()) }})
		call := func(ctx context.Context, from jsonrpc.Peer) error {
			req, err := jsonrpc.NewRequest(jsonrpc.IntID(1), mcp.MethodToolsCall, jsonRaw(`{"_meta":{"progressToken":1}}`))
			if err != nil {
				return err
			}
			return shared.Handle(ctx, from, req, new(jsonrpc.Reply))
		}
		var calls sync.WaitGroup
		calls.Go(func() { _ = call(slow, deaf{}) })
		synctest.Wait()
		if err := call(t.Context(), deaf{hears: true}); err != nil {
			t.Error(err)
		}
		stop()
		calls.Wait()
	})
}

// deaf is a client that waits for ever when told something.
type deaf struct{ hears bool }

func (d deaf) Notify(ctx context.Context, _ string, _ jsonrpc.Appender) error {
	if d.hears {
		return nil
	}
	<-ctx.Done()
	return ctx.Err()
}

func (deaf) Call(context.Context, string, jsonrpc.Appender) (*jsonrpc.Response, error) {
	return nil, jsonrpc.ErrClosed
}

func (deaf) Cancel(jsonrpc.ID) {}
