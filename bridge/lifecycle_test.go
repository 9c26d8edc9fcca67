package bridge_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
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

func TestStartFails(t *testing.T) {
	for _, optional := range []bool{false, true} {
		for name, bar := range map[string]func(*faultyDialer){
			"refused": func(l *faultyDialer) { l.refuse.Store(true) },
			"hanging": func(l *faultyDialer) { l.hang.Store(true) },
		} {
			synctest.Test(t, func(t *testing.T) {
				dialer := dialerTo(newShop())
				bar(dialer)
				p := bridge.Proxy(dialer, &bridge.ProxyOptions{Optional: optional, Logger: quiet()})
				frontend := newServer("frontend")
				if err := frontend.Mount(p, nil); err != nil {
					t.Fatal(err)
				}
				defer frontend.Shutdown(context.Background())
				err := frontend.Start(t.Context())
				if optional && err != nil {
					t.Errorf("%s: the frontend does not start: %v", name, err)
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
			bad := dialerTo(echo(nil))
			bad.refuse.Store(true)
			b, err := bridge.New(&bridge.Options{Logger: quiet()},
				bridge.Config{Alias: "good", Dialer: dialerTo(echo(nil))},
				bridge.Config{Alias: "bad", Dialer: bad, Required: required})
			if err != nil {
				t.Fatal(err)
			}
			stop, err := b.Start(t.Context())
			if required {
				wantFailure(t, err, bridge.Unavailable, jsonrpc.NotSent)
				if state := b.States()[0]; state.Status != "stopped" {
					t.Errorf("after the error a server is %s", state.Status)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer stop()
			if text, err := callEcho(t.Context(), b, "good__echo", "hello"); err != nil || text != "hello" {
				t.Errorf("the good server says %q, %v", text, err)
			}
			if state := b.States()[1]; state.Status != "failed" || !errors.Is(state.Err, errRefused) {
				t.Errorf("the bad server is %+v", state)
			}
			bad.refuse.Store(false)
			advance(time.Second)
			if text, err := callEcho(t.Context(), b, "bad__echo", "hello"); err != nil || text != "hello" {
				t.Errorf("the bad server says %q, %v once it is there", text, err)
			}
		})
	}
}

// A required server that is replaced while it starts does not make the start fail. Its replacement is
// waited for.
func TestRequiredServerIsReplacedWhileItStarts(t *testing.T) {
	for _, refuse := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			bad, next := dialerTo(echo(nil)), dialerTo(echo(nil))
			bad.hang.Store(true)
			next.refuse.Store(refuse)
			b, err := bridge.New(&bridge.Options{Logger: quiet()}, bridge.Config{Alias: "bad", Dialer: bad, Required: true})
			if err != nil {
				t.Fatal(err)
			}
			started := make(chan error, 1)
			go func() {
				stop, err := b.Start(t.Context())
				started <- err
				if err == nil {
					stop()
				}
			}()
			synctest.Wait()
			if err := b.Update(bridge.Config{Alias: "next", Dialer: next, Required: true}); err != nil {
				t.Fatal(err)
			}
			if err := <-started; refuse {
				wantFailure(t, err, bridge.Unavailable, jsonrpc.NotSent)
			} else if err != nil {
				t.Error(err)
			}
			synctest.Wait()
		})
	}
}

// A call waits a little for a server that has just ended. Later calls fail at once until it is
// back.
func TestRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dialer := dialerTo(echo(nil))
		b := newBridge(t, nil, bridge.Config{Alias: "a", Dialer: dialer})
		advance(time.Minute)
		dialer.cut()
		synctest.Wait()
		wantDuration(t, time.Millisecond, 200*time.Millisecond, func() {
			if text, err := callEcho(t.Context(), b, "a__echo", "back"); err != nil || text != "back" {
				t.Errorf("after a restart it says %q, %v", text, err)
			}
		})
		if n := b.States()[0].Restarts; n != 1 {
			t.Errorf("%d restarts", n)
		}

		advance(time.Minute)
		dialer.refuse.Store(true)
		dialer.cut()
		synctest.Wait()
		var calls sync.WaitGroup
		for range 1000 {
			calls.Go(func() {
				wantDuration(t, 200*time.Millisecond, 200*time.Millisecond, func() {
					_, err := callEcho(t.Context(), b, "a__echo", "")
					wantFailure(t, err, bridge.Unavailable, jsonrpc.NotSent)
				})
			})
		}
		calls.Wait()
		wantDuration(t, 0, 0, func() {
			_, err := callEcho(t.Context(), b, "a__echo", "")
			wantFailure(t, err, bridge.Unavailable, jsonrpc.NotSent)
		})
		before := dialer.dials.Load()
		advance(time.Hour)
		if n := dialer.dials.Load() - before; n < 80 || n > 260 {
			t.Errorf("%d attempts in an hour, with pauses of half a minute", n)
		}
		dialer.refuse.Store(false)
		advance(time.Minute)
		if text, err := callEcho(t.Context(), b, "a__echo", "back"); err != nil || text != "back" {
			t.Errorf("after an hour it says %q, %v", text, err)
		}
	})
}

// A server that ends soon after each start is restarted with pauses.
func TestDyingServerIsStartedWithPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dialer := dialerTo(echo(nil))
		newBridge(t, nil, bridge.Config{Alias: "a", Dialer: dialer})
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		for range 600 {
			<-ticker.C
			dialer.cut()
		}
		if n := dialer.dials.Load(); n > 50 {
			t.Errorf("%d attempts in ten minutes", n)
		}
	})
}

func TestLazyServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		eager := bridge.Proxy(dialerTo(echo(nil)), &bridge.ProxyOptions{Logger: quiet()})
		mount(t, eager)
		var calls atomic.Int64
		up := echo(&calls)
		dialer := dialerTo(up)
		b := newBridge(t, nil, bridge.Config{Alias: "a", Dialer: dialer, ProxyOptions: bridge.ProxyOptions{
			Lazy: true, CachedCatalog: eager.Catalog(), IdleTimeout: time.Minute,
		}})
		if got := names(b.Catalog(), mcp.KindTool); got != "a__echo" {
			t.Errorf("known are %q", got)
		}
		advance(time.Hour)
		if n := dialer.dials.Load(); n != 0 || b.States()[0].Status != "idle" {
			t.Errorf("it was started %d times before it was needed", n)
		}
		for range 3 {
			before := dialer.dials.Load()
			for range 10 {
				if text, err := callEcho(t.Context(), b, "a__echo", "x"); err != nil || text != "x" {
					t.Fatalf("it says %q, %v", text, err)
				}
				advance(50 * time.Second)
			}
			if n := dialer.dials.Load() - before; n > 2 { // a caller that cannot be asked may have another session
				t.Errorf("it was started %d times while it was used", n)
			}
			advance(10 * time.Minute)
			if status := b.States()[0].Status; status != "idle" {
				t.Errorf("an unused server is %s", status)
			}
		}
		if calls.Load() != 30 {
			t.Errorf("%d calls were executed", calls.Load())
		}
	})
}

// A call at the moment at which a lazy server is stopped starts it again.
func TestLazyServerIsWantedAsItStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dialer := dialerTo(echo(nil))
		b := newBridge(t, nil, bridge.Config{Alias: "a", Dialer: dialer, ProxyOptions: bridge.ProxyOptions{
			Lazy: true, IdleTimeout: time.Second, PingInterval: -1,
		}})
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		for i := range 400 {
			if text, err := callEcho(ctx, b, "a__echo", "x"); err != nil || text != "x" {
				t.Fatalf("call %d: it says %q, %v", i, text, err)
			}
			<-time.After(time.Second + time.Duration(i%4)*250*time.Millisecond - time.Duration(i%3)*time.Nanosecond)
		}
	})
}

// A tool whose definition differs from the cached one is not called.
func TestKnownIsChecked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		known := cached("echo", `{"name":"echo","description":"harmless"}`)
		b := newBridge(t, nil, bridge.Config{Alias: "a", Dialer: dialerTo(echo(&calls)), ProxyOptions: bridge.ProxyOptions{Lazy: true, CachedCatalog: known}})
		_, err := callEcho(t.Context(), b, "a__echo", "x")
		if _, ok := errors.AsType[*jsonrpc.Error](err); !ok || calls.Load() != 0 {
			t.Errorf("called %d times, with error %v", calls.Load(), err)
		}
		if text, err := callEcho(t.Context(), b, "a__echo", "x"); err != nil || text != "x" {
			t.Errorf("then it says %q, %v", text, err)
		}
	})
}

// A lazy server is not stopped while a resource is subscribed to.
func TestWatchedServerIsNotIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := newShop()
		p := bridge.Proxy(dialerTo(up), &bridge.ProxyOptions{Lazy: true, IdleTimeout: time.Minute, Logger: quiet()})
		mount(t, p)
		stop, err := subscribe(t, p, "note://1")
		if err != nil {
			t.Fatal(err)
		}
		advance(time.Hour)
		if status := p.State().Status; status != "ready" {
			t.Errorf("it is %s", status)
		}
		stop()
		stop()
		advance(10 * time.Minute)
		if status := p.State().Status; status != "idle" {
			t.Errorf("it is %s without subscribers", status)
		}
	})
}

// A server that does not answer pings is restarted, but not during a call.
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
			dialer := dialerTo(up)
			b := newBridge(t, nil, bridge.Config{Alias: "a", Dialer: dialer, ProxyOptions: bridge.ProxyOptions{CallTimeout: 5 * time.Minute, IdleTimeout: 2 * time.Hour}})
			call := func() {
				result, err := b.CallTool(t.Context(), "a__work", nil)
				if text := texts(t, result, err); text != "work" {
					t.Errorf("it gave %q", text)
				}
			}
			call() // opens the session of the later call
			started := dialer.dials.Load()
			advance(time.Hour)
			if n := dialer.dials.Load(); n != started {
				t.Fatalf("a server that is well was started %d times, then %d times", started, n)
			}
			silent.Store(true)
			if works {
				call()
				return
			}
			advance(100 * time.Second)
			if dialer.dials.Load() == started {
				t.Error("a silent server was not given up")
			}
		})
	}
}

func TestNotStarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		known := cached("echo", `{"name":"echo"}`)
		b, err := bridge.New(nil, bridge.Config{Alias: "a", Dialer: dialerTo(echo(nil)), ProxyOptions: bridge.ProxyOptions{Lazy: true, CachedCatalog: known}})
		if err != nil {
			t.Fatal(err)
		}
		_, err = callEcho(t.Context(), b, "a__echo", "x")
		wantFailure(t, err, bridge.Unavailable, jsonrpc.NotSent)
		stop, err := b.Start(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Run(t.Context(), func() {}, func(mcp.Change) {}); err == nil {
			t.Error("it runs twice at a time")
		}
		stop()
		_, err = callEcho(t.Context(), b, "a__echo", "x")
		wantFailure(t, err, bridge.Unavailable, jsonrpc.NotSent)
	})
}

func TestNewRefuses(t *testing.T) {
	dialer := dialerTo(echo(nil))
	for name, configs := range map[string][]bridge.Config{
		"no alias":         {{Dialer: dialer}},
		"a double alias":   {{Alias: "a", Dialer: dialer}, {Alias: "a", Dialer: dialer}},
		"a separator":      {{Alias: "a__b", Dialer: dialer}},
		"an end of it":     {{Alias: "a_", Dialer: dialer}},
		"an odd character": {{Alias: "ä", Dialer: dialer}},
		"a long alias":     {{Alias: "a1234567890123456789012345678901234567890", Dialer: dialer}},
		"no dialer":        {{Alias: "a"}},
	} {
		if _, err := bridge.New(nil, configs...); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	if _, err := bridge.New(nil, bridge.Config{Alias: "A-z0.9_x", Dialer: dialer}); err != nil {
		t.Error(err)
	}
}

// Cancellation and deadline of the caller end the call.
func TestCallersEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := echo(nil)
		began := make(chan struct{}, 1)
		addHang(up, began)
		b := newBridge(t, nil, bridge.Config{Alias: "a", Dialer: dialerTo(up)})
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

// A server that hangs does not affect nine other servers.
func TestOneServerHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var configs []bridge.Config
		for i := range 10 {
			up := echo(nil)
			addHang(up, nil)
			configs = append(configs, bridge.Config{Alias: fmt.Sprint("s", i), Dialer: dialerTo(up), ProxyOptions: bridge.ProxyOptions{
				MaxCalls: 4, MaxQueued: 4, CallTimeout: time.Minute,
			}})
		}
		b := newBridge(t, nil, configs...)
		session := connect(t, pipeTo(mountBridge(t, configs)), client.Options{})
		var calls sync.WaitGroup
		var busy, late atomic.Int64
		for range 20 {
			calls.Go(func() {
				_, err := b.CallTool(t.Context(), "s0__hang", nil)
				failed, ok := errors.AsType[*bridge.UpstreamError](err)
				switch {
				case ok && failed.Failure == bridge.Busy && failed.Delivery == jsonrpc.NotSent:
					busy.Add(1)
				case ok && failed.Failure == bridge.TimedOut && failed.Delivery == jsonrpc.MaybeExecuted:
					late.Add(1)
				default:
					t.Errorf("a call that hangs fails with %v", err)
				}
			})
		}
		synctest.Wait()
		if state := b.States()[0]; state.Calls != 4 || state.Queued != 4 {
			t.Errorf("4 calls are to run and 4 to wait: %+v", state)
		}
		wantDuration(t, 0, 0, func() {
			for i := 1; i < 10; i++ {
				if text, err := callEcho(t.Context(), b, fmt.Sprintf("s%d__echo", i), "x"); err != nil || text != "x" {
					t.Errorf("server %d says %q, %v", i, text, err)
				}
			}
			for range session.Tools(t.Context(), nil) {
			}
		})
		calls.Wait()
		if busy.Load() != 12 || late.Load() != 8 {
			t.Errorf("%d were refused and %d took too long, want 12 and 8", busy.Load(), late.Load())
		}
		if text, err := callEcho(t.Context(), b, "s0__echo", "x"); err != nil || text != "x" {
			t.Errorf("then it says %q, %v", text, err)
		}
		if state := b.States()[0]; state.Calls != 0 || state.Queued != 0 {
			t.Errorf("nothing runs any more: %+v", state)
		}
	})
}

// mountBridge returns a server with a new bridge mounted.
func mountBridge(t testing.TB, configs []bridge.Config) *server.Server {
	t.Helper()
	b, err := bridge.New(&bridge.Options{Logger: quiet()}, configs...)
	if err != nil {
		t.Fatal(err)
	}
	return mount(t, b)
}

// A server that hangs while it starts does not delay calls of other servers.
func TestOneServerHangsAtItsStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad := dialerTo(echo(nil))
		bad.hang.Store(true)
		b, err := bridge.New(&bridge.Options{Logger: quiet()},
			bridge.Config{Alias: "bad", Dialer: bad}, bridge.Config{Alias: "good", Dialer: dialerTo(echo(nil))})
		if err != nil {
			t.Fatal(err)
		}
		go b.Start(t.Context())
		synctest.Wait()
		wantDuration(t, 0, 0, func() {
			if text, err := callEcho(t.Context(), b, "good__echo", "x"); err != nil || text != "x" {
				t.Errorf("it says %q, %v", text, err)
			}
		})
		advance(31 * time.Second)
	})
}

// The first list of a client that connects while the bridge starts has all tools. One server starts slowly, and another
// answers nothing before initialize.
func TestTheFirstListWaits(t *testing.T) {
	for name, era := range eras {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				silent := &silentServer{fakeServer: toolsOnly(client.Legacy, "a")}
				b, err := bridge.New(&bridge.Options{Logger: quiet()},
					bridge.Config{Alias: "cold", Dialer: delayedDialer{pipeTo(echo(nil)), 12 * time.Second}},
					bridge.Config{Alias: "silent", Dialer: pipeTo(silent)},
				)
				if err != nil {
					t.Fatal(err)
				}
				frontend := newServer("frontend")
				if err := frontend.Mount(b, nil); err != nil {
					t.Fatal(err)
				}
				defer frontend.Shutdown(context.Background())
				var session *client.Session
				wantDuration(t, 0, 0, func() { session = connect(t, pipeTo(frontend), client.Options{Era: era}) })
				var got []string
				for tool, err := range session.Tools(t.Context(), nil) {
					if err != nil {
						t.Fatal(err)
					}
					got = append(got, tool.Name)
				}
				if strings.Join(got, " ") != "cold__echo silent__a" {
					t.Errorf("the first list has %q", got)
				}
			})
		})
	}
}

// A legacy server is asked for its versions once, and again after it could not be started.
func TestTheEraIsRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := &silentServer{fakeServer: toolsOnly(client.Legacy, "a")}
		dialer := dialerTo(up)
		p, _ := started(t, dialer, bridge.ProxyOptions{})
		for range 3 {
			dialer.cut()
			advance(15 * time.Second)
		}
		if p.State().Status != "ready" || up.asked.Load() != 1 {
			t.Errorf("the server is %s and was asked %d times, want once", p.State().Status, up.asked.Load())
		}
		dialer.refuse.Store(true)
		dialer.cut()
		advance(15 * time.Second)
		dialer.refuse.Store(false)
		advance(time.Minute)
		if p.State().Status != "ready" || up.asked.Load() != 2 {
			t.Errorf("the server is %s and was asked %d times, want twice", p.State().Status, up.asked.Load())
		}
	})
}

// A silentServer does not answer requests before initialize.
type silentServer struct {
	*fakeServer
	asked atomic.Int32 // for its versions
}

func (s *silentServer) Bind(transport.Link) jsonrpc.Handler { return s }

func (s *silentServer) Handle(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request, reply *jsonrpc.Reply) error {
	if req.Method == mcp.MethodDiscover {
		s.asked.Add(1)
		<-ctx.Done()
		return ctx.Err()
	}
	return s.fakeServer.Handle(ctx, from, req, reply)
}

// A delayedDialer takes some time to connect.
type delayedDialer struct {
	transport.Dialer
	delay time.Duration
}

func (d delayedDialer) Dial(ctx context.Context, handler jsonrpc.Handler) (transport.Conn, error) {
	select {
	case <-time.After(d.delay):
		return d.Dialer.Dial(ctx, handler)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// A server that is not required delays the start only a little. Clients are notified when it is
// ready.
func TestServerThatComesLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad := dialerTo(echo(nil))
		bad.hang.Store(true)
		b, err := bridge.New(&bridge.Options{Logger: quiet()}, bridge.Config{Alias: "bad", Dialer: bad})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		frontend := mount(t, b)
		if waited := time.Since(began); waited != 20*time.Second {
			t.Errorf("the frontend has waited %v", waited)
		}
		var received atomic.Int32
		session := connect(t, pipeTo(frontend), client.Options{Era: client.Legacy, OnChange: func(_ context.Context, change mcp.Change) {
			if change.Kind == mcp.KindTool {
				received.Add(1)
			}
		}})
		if has := session.Capabilities(); has.Tools == nil || !has.Tools.ListChanged {
			t.Errorf("recordingServer is %+v", has)
		}
		bad.hang.Store(false)
		advance(time.Minute)
		if received.Load() == 0 {
			t.Error("the change is not reported")
		}
		if names := names(b.Catalog(), mcp.KindTool); names == "" {
			t.Errorf("offered are %q", names)
		}
		later := connect(t, pipeTo(frontend), client.Options{Era: client.Legacy})
		if has := later.Capabilities(); has.Tools == nil || has.Prompts != nil || has.Resources != nil {
			t.Errorf("recordingServer is %+v once all is known", has)
		}
	})
}

// Entries and calls name their server.
func TestOrigin(t *testing.T) {
	var called mcp.Origin
	guard := mcp.Guard{Name: "looks", Check: func(_ context.Context, call *mcp.Call) error {
		called = call.Target().Origin
		return nil
	}}
	b := newBridge(t, &bridge.Options{Guards: []mcp.Guard{guard}}, bridge.Config{Alias: "a", Dialer: dialerTo(echo(nil))},
		bridge.Config{Alias: "b", Dialer: dialerTo(echo(nil)), ProxyOptions: bridge.ProxyOptions{
			Rename: map[string]string{"echo": "say"}, Launch: "b --serve", Trusted: true,
		}})
	for name, want := range map[string]mcp.Origin{
		"a__echo": {Server: "a", Name: "echo"}, "b__say": {Server: "b", Name: "echo", Launch: "b --serve", Trusted: true}, "b__echo": {}, "echo": {},
	} {
		var got mcp.Origin
		if e := b.Catalog().Lookup(mcp.KindTool, name); e != nil {
			got = e.Origin
		}
		if got != want {
			t.Errorf("%s is of %+v, want %+v", name, got, want)
		}
		called = mcp.Origin{}
		if _, err := callEcho(t.Context(), b, name, "x"); (err == nil) != (want.Server != "") || called != want {
			t.Errorf("a call of %s is for %+v, want %+v; %v", name, called, want, err)
		}
	}
}

// Calls to a server that crashes fail once each, with the right delivery, and are not repeated.
func TestServerDies(t *testing.T) {
	eachPair(t, func(t *testing.T, caller, behind client.Era) {
		synctest.Test(t, func(t *testing.T) {
			var executed atomic.Int64
			seen := sync.Map{}
			up := newServer("up")
			server.AddTool(up, server.Tool{Name: "do"}, func(ctx context.Context, _ *server.Request, in struct{ ID int }) (string, error) {
				executed.Add(1)
				if _, twice := seen.LoadOrStore(in.ID, true); twice {
					t.Errorf("call %d is executed twice", in.ID)
				}
				select {
				case <-time.After(time.Duration(1+in.ID%7) * time.Millisecond):
					return fmt.Sprint(in.ID), nil
				case <-ctx.Done():
					return "", ctx.Err()
				}
			})
			dialer := dialerTo(up).speaks(behind)
			b, err := bridge.New(&bridge.Options{Logger: quiet()}, bridge.Config{Alias: "up", Dialer: dialer})
			if err != nil {
				t.Fatal(err)
			}
			session := connect(t, pipeTo(mount(t, b)), client.Options{Era: caller})
			var calls sync.WaitGroup
			var answered, maybe, no atomic.Int64
			for i := range 500 {
				<-time.After(time.Millisecond)
				switch i % 50 {
				case 0:
					<-time.After(time.Minute) // it has been well for long
				case 24:
					dialer.cut()
				}
				calls.Go(func() {
					result, err := session.CallTool(t.Context(), "up__do", map[string]int{"ID": i}, nil)
					failed, ok := errors.AsType[*jsonrpc.Error](err)
					switch {
					case err == nil && texts(t, result, nil) == fmt.Sprint(i):
						answered.Add(1)
					case ok && strings.Contains(string(failed.Data), `"type":"UPSTREAM_LOST","server":"up","executed":"maybe"`):
						maybe.Add(1)
					case ok && strings.Contains(string(failed.Data), `"type":"UPSTREAM_UNAVAILABLE","server":"up","executed":"no"`):
						no.Add(1)
						if _, did := seen.Load(i); did {
							t.Errorf("call %d was executed, and is said not to have been", i)
						}
					default:
						t.Errorf("call %d: %v %v", i, result, err)
					}
				})
			}
			calls.Wait()
			if sum := answered.Load() + maybe.Load() + no.Load(); sum != 500 {
				t.Errorf("%d outcomes of 500 calls", sum)
			}
			if answered.Load() < 300 || maybe.Load() == 0 || executed.Load() > answered.Load()+maybe.Load() {
				t.Errorf("%d answered, %d perhaps, %d not; %d executed", answered.Load(), maybe.Load(), no.Load(), executed.Load())
			}
		})
	})
}

// Results reach their callers.
func TestAnswersAreNobodyElses(t *testing.T) {
	var configs []bridge.Config
	for i := range 3 {
		configs = append(configs, bridge.Config{Alias: fmt.Sprint("s", i), Dialer: dialerTo(echo(nil))})
	}
	frontend := mountBridge(t, configs)
	var callers sync.WaitGroup
	for c := range 16 {
		session := connect(t, pipeTo(as{frontend, fmt.Sprint("user", c%5)}), client.Options{Era: []client.Era{client.Modern, client.Legacy}[c%2]})
		callers.Go(func() {
			for i := range 200 {
				want := fmt.Sprint(c, " ", i)
				result, err := session.CallTool(t.Context(), fmt.Sprintf("s%d__echo", i%3), map[string]string{"Text": want}, nil)
				if err != nil || texts(t, result, nil) != want {
					t.Errorf("%s: %v, %v", want, result, err)
					return
				}
			}
		})
	}
	callers.Wait()
}
