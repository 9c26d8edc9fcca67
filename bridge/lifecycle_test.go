package bridge_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

func TestStartFails(t *testing.T) {
	for _, optional := range []bool{false, true} {
		for name, bar := range map[string]func(*line){
			"refused": func(l *line) { l.refuse.Store(true) },
			"hanging": func(l *line) { l.mute.Store(true) },
		} {
			synctest.Test(t, func(t *testing.T) {
				way := lineTo(newShop())
				bar(way)
				p := bridge.Proxy(way, &bridge.ProxyOptions{Optional: optional, Logger: quiet()})
				face := newServer("face")
				if err := face.Mount(p, nil); err != nil {
					t.Fatal(err)
				}
				defer face.Shutdown(context.Background())
				err := face.Start(t.Context())
				if optional && err != nil {
					t.Errorf("%s: the face does not start: %v", name, err)
				}
				if !optional {
					wantFailure(t, err, bridge.Unavailable, jsonrpc.NotSent)
				}
			})
		}
	}
}

func TestRequiredServer(t *testing.T) {
	for _, required := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			bad := lineTo(echo(nil))
			bad.refuse.Store(true)
			b, err := bridge.New(&bridge.Options{Logger: quiet()},
				bridge.Config{Alias: "good", Dialer: lineTo(echo(nil))},
				bridge.Config{Alias: "bad", Dialer: bad, Required: required})
			if err != nil {
				t.Fatal(err)
			}
			stop, err := b.Start(t.Context())
			if required {
				wantFailure(t, err, bridge.Unavailable, jsonrpc.NotSent)
				if state := b.States()[0]; state.Status != bridge.Stopped {
					t.Errorf("after the error a server is %s", state.Status)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer stop()
			if text, err := say(t.Context(), b, "good__echo", "hello"); err != nil || text != "hello" {
				t.Errorf("the good server says %q, %v", text, err)
			}
			if state := b.States()[1]; state.Status != bridge.Failed || !errors.Is(state.Err, errRefused) {
				t.Errorf("the bad server is %+v", state)
			}
			bad.refuse.Store(false)
			pass(time.Second)
			if text, err := say(t.Context(), b, "bad__echo", "hello"); err != nil || text != "hello" {
				t.Errorf("the bad server says %q, %v once it is there", text, err)
			}
		})
	}
}

// A call waits a little for a server that has just gone, then calls fail at once until
// it is back.
func TestRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		way := lineTo(echo(nil))
		b := newBridge(t, nil, bridge.Config{Alias: "a", Dialer: way})
		pass(time.Minute)
		way.cut()
		synctest.Wait()
		within(t, time.Millisecond, 200*time.Millisecond, func() {
			if text, err := say(t.Context(), b, "a__echo", "back"); err != nil || text != "back" {
				t.Errorf("after a restart it says %q, %v", text, err)
			}
		})
		if n := b.States()[0].Restarts; n != 1 {
			t.Errorf("%d restarts", n)
		}

		pass(time.Minute)
		way.refuse.Store(true)
		way.cut()
		synctest.Wait()
		var calls sync.WaitGroup
		for range 1000 {
			calls.Go(func() {
				within(t, 200*time.Millisecond, 200*time.Millisecond, func() {
					_, err := say(t.Context(), b, "a__echo", "")
					wantFailure(t, err, bridge.Unavailable, jsonrpc.NotSent)
				})
			})
		}
		calls.Wait()
		within(t, 0, 0, func() {
			_, err := say(t.Context(), b, "a__echo", "")
			wantFailure(t, err, bridge.Unavailable, jsonrpc.NotSent)
		})
		before := way.dials.Load()
		pass(time.Hour)
		if n := way.dials.Load() - before; n < 80 || n > 260 {
			t.Errorf("%d attempts in an hour, with pauses of half a minute", n)
		}
		way.refuse.Store(false)
		pass(time.Minute)
		if text, err := say(t.Context(), b, "a__echo", "back"); err != nil || text != "back" {
			t.Errorf("after an hour it says %q, %v", text, err)
		}
	})
}

// A server that dies as soon as it is up is not started without pause.
func TestDyingServerIsStartedWithPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		way := lineTo(echo(nil))
		newBridge(t, nil, bridge.Config{Alias: "a", Dialer: way})
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		for range 600 {
			<-ticker.C
			way.cut()
		}
		if n := way.dials.Load(); n > 50 {
			t.Errorf("%d attempts in ten minutes", n)
		}
	})
}

func TestLazyServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		eager := bridge.Proxy(lineTo(echo(nil)), &bridge.ProxyOptions{Logger: quiet()})
		mount(t, eager)
		var calls atomic.Int64
		up := echo(&calls)
		way := lineTo(up)
		b := newBridge(t, nil, bridge.Config{Alias: "a", Dialer: way, ProxyOptions: bridge.ProxyOptions{
			Lazy: true, CachedCatalog: eager.Catalog(), IdleTimeout: time.Minute,
		}})
		if got := names(b.Catalog(), mcp.KindTool); got != "a__echo" {
			t.Errorf("known are %q", got)
		}
		pass(time.Hour)
		if n := way.dials.Load(); n != 0 || b.States()[0].Status != bridge.Idle {
			t.Errorf("it was started %d times before it was needed", n)
		}
		for range 3 {
			before := way.dials.Load()
			for range 10 {
				if text, err := say(t.Context(), b, "a__echo", "x"); err != nil || text != "x" {
					t.Fatalf("it says %q, %v", text, err)
				}
				pass(50 * time.Second)
			}
			if n := way.dials.Load() - before; n > 2 { // a caller that cannot be asked may have another session
				t.Errorf("it was started %d times while it was used", n)
			}
			pass(10 * time.Minute)
			if status := b.States()[0].Status; status != bridge.Idle {
				t.Errorf("it is %s after nobody has used it", status)
			}
		}
		if calls.Load() != 30 {
			t.Errorf("%d calls were executed", calls.Load())
		}
	})
}

// Who wants a server at the very moment that it is stopped is heard.
func TestLazyServerIsWantedAsItStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		way := lineTo(echo(nil))
		b := newBridge(t, nil, bridge.Config{Alias: "a", Dialer: way, ProxyOptions: bridge.ProxyOptions{
			Lazy: true, IdleTimeout: time.Second, PingInterval: -1,
		}})
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		for i := range 2000 {
			if text, err := say(ctx, b, "a__echo", "x"); err != nil || text != "x" {
				t.Fatalf("call %d: it says %q, %v", i, text, err)
			}
			<-time.After(time.Second + time.Duration(i%4)*250*time.Millisecond - time.Duration(i%3)*time.Nanosecond)
		}
	})
}

// A tool that is not what was known of it is not called before the caller has seen it.
func TestKnownIsChecked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		known := cached("echo", `{"name":"echo","description":"harmless"}`)
		b := newBridge(t, nil, bridge.Config{Alias: "a", Dialer: lineTo(echo(&calls)), ProxyOptions: bridge.ProxyOptions{Lazy: true, CachedCatalog: known}})
		_, err := say(t.Context(), b, "a__echo", "x")
		if _, ok := errors.AsType[*jsonrpc.Error](err); !ok || calls.Load() != 0 {
			t.Errorf("called %d times, with error %v", calls.Load(), err)
		}
		if text, err := say(t.Context(), b, "a__echo", "x"); err != nil || text != "x" {
			t.Errorf("then it says %q, %v", text, err)
		}
	})
}

// A lazy server is not stopped while somebody watches a resource there.
func TestWatchedServerIsNotIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := newShop()
		p := bridge.Proxy(lineTo(up), &bridge.ProxyOptions{Lazy: true, IdleTimeout: time.Minute, Logger: quiet()})
		mount(t, p)
		stop, err := subscribe(t, p, "note://1")
		if err != nil {
			t.Fatal(err)
		}
		pass(time.Hour)
		if status := p.State().Status; status != bridge.Ready {
			t.Errorf("it is %s", status)
		}
		stop()
		stop()
		pass(10 * time.Minute)
		if status := p.State().Status; status != bridge.Idle {
			t.Errorf("it is %s when nobody watches any more", status)
		}
	})
}

// A server that gives no sign of life is given up and started again; one that works is
// given as long as a call may take.
func TestSilentServer(t *testing.T) {
	for _, works := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var silent atomic.Bool
			up := toolsOnly(client.Legacy, "work")
			answer := up.answer
			up.answer = func(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request) (string, error) {
				switch {
				case req.Method == mcp.MethodToolsCall:
					<-time.After(4 * time.Minute)
				case silent.Load() && req.Method == mcp.MethodPing:
					<-ctx.Done()
				}
				return answer(ctx, from, req)
			}
			way := lineTo(up)
			b := newBridge(t, nil, bridge.Config{Alias: "a", Dialer: way, ProxyOptions: bridge.ProxyOptions{CallTimeout: 5 * time.Minute}})
			pass(time.Hour)
			if n := way.dials.Load(); n != 1 {
				t.Fatalf("a server that is well was started %d times", n)
			}
			silent.Store(true)
			if works {
				result, err := b.CallTool(t.Context(), "a__work", nil)
				if text := texts(t, result, err); text != "work" {
					t.Errorf("it gave %q", text)
				}
				return
			}
			pass(100 * time.Second)
			if way.dials.Load() == 1 {
				t.Error("a silent server was not given up")
			}
		})
	}
}

func TestNotStarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		known := cached("echo", `{"name":"echo"}`)
		b, err := bridge.New(nil, bridge.Config{Alias: "a", Dialer: lineTo(echo(nil)), ProxyOptions: bridge.ProxyOptions{Lazy: true, CachedCatalog: known}})
		if err != nil {
			t.Fatal(err)
		}
		_, err = say(t.Context(), b, "a__echo", "x")
		wantFailure(t, err, bridge.Unavailable, jsonrpc.NotSent)
		stop, err := b.Start(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Run(t.Context(), func() {}, func(mcp.Change) {}); err == nil {
			t.Error("it runs twice at a time")
		}
		stop()
		_, err = say(t.Context(), b, "a__echo", "x")
		wantFailure(t, err, bridge.Unavailable, jsonrpc.NotSent)
	})
}

func TestNewRefuses(t *testing.T) {
	way := lineTo(echo(nil))
	for name, configs := range map[string][]bridge.Config{
		"no alias":         {{Dialer: way}},
		"a double alias":   {{Alias: "a", Dialer: way}, {Alias: "a", Dialer: way}},
		"a separator":      {{Alias: "a__b", Dialer: way}},
		"an end of it":     {{Alias: "a_", Dialer: way}},
		"an odd character": {{Alias: "ä", Dialer: way}},
		"a long alias":     {{Alias: "a1234567890123456789012345678901234567890", Dialer: way}},
		"no dialer":        {{Alias: "a"}},
	} {
		if _, err := bridge.New(nil, configs...); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	if _, err := bridge.New(nil, bridge.Config{Alias: "A-z0.9_x", Dialer: way}); err != nil {
		t.Error(err)
	}
}

// A caller's own end is its own.
func TestCallersEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := echo(nil)
		began := make(chan struct{}, 1)
		hangs(up, began)
		b := newBridge(t, nil, bridge.Config{Alias: "a", Dialer: lineTo(up)})
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-began
			cancel()
		}()
		if _, err := b.CallTool(ctx, "a__hang", nil); !errors.Is(err, context.Canceled) {
			t.Errorf("a cancelled call fails with %v", err)
		}
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := b.CallTool(ctx, "a__hang", nil)
		wantFailure(t, err, bridge.TimedOut, jsonrpc.MaybeExecuted)
	})
}
