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

// One server of ten that hangs costs nobody but those who call it.
func TestOneServerHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var configs []bridge.Config
		for i := range 10 {
			up := echo(nil)
			hangs(up, nil)
			configs = append(configs, bridge.Config{Alias: fmt.Sprint("s", i), Dialer: lineTo(up), ProxyOptions: bridge.ProxyOptions{
				MaxCalls: 4, MaxQueued: 4, CallTimeout: time.Minute,
			}})
		}
		b := newBridge(t, nil, configs...)
		session := connect(t, transport.Pipe(mountBridge(t, configs)), client.Options{})
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
		within(t, 0, 0, func() {
			for i := 1; i < 10; i++ {
				if text, err := say(t.Context(), b, fmt.Sprintf("s%d__echo", i), "x"); err != nil || text != "x" {
					t.Errorf("server %d says %q, %v", i, text, err)
				}
			}
			for range session.Tools(t.Context()) {
			}
		})
		calls.Wait()
		if busy.Load() != 12 || late.Load() != 8 {
			t.Errorf("%d were refused and %d took too long, want 12 and 8", busy.Load(), late.Load())
		}
		if text, err := say(t.Context(), b, "s0__echo", "x"); err != nil || text != "x" {
			t.Errorf("then it says %q, %v", text, err)
		}
		if state := b.States()[0]; state.Calls != 0 || state.Queued != 0 {
			t.Errorf("nothing runs any more: %+v", state)
		}
	})
}

// mountBridge returns the face of another bridge to the same servers.
func mountBridge(t testing.TB, configs []bridge.Config) *server.Server {
	t.Helper()
	b, err := bridge.New(&bridge.Options{Logger: quiet()}, configs...)
	if err != nil {
		t.Fatal(err)
	}
	return mount(t, b)
}

// A server that hangs as it is started holds up nobody's calls, and no lists.
func TestOneServerHangsAtItsStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad := lineTo(echo(nil))
		bad.mute.Store(true)
		b, err := bridge.New(&bridge.Options{Logger: quiet()},
			bridge.Config{Alias: "bad", Dialer: bad}, bridge.Config{Alias: "good", Dialer: lineTo(echo(nil))})
		if err != nil {
			t.Fatal(err)
		}
		go b.Start(t.Context())
		synctest.Wait()
		within(t, 0, 0, func() {
			if text, err := say(t.Context(), b, "good__echo", "x"); err != nil || text != "x" {
				t.Errorf("it says %q, %v", text, err)
			}
		})
		pass(31 * time.Second)
	})
}

// A face does not wait long for a server that need not be there, and tells its clients when
// that one comes: they have been told to listen.
func TestServerThatComesLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad := lineTo(echo(nil))
		bad.mute.Store(true)
		b, err := bridge.New(&bridge.Options{Logger: quiet()}, bridge.Config{Alias: "bad", Dialer: bad})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		face := mount(t, b)
		if waited := time.Since(began); waited != 4*time.Second {
			t.Errorf("the face has waited %v", waited)
		}
		var told atomic.Int32
		session := connect(t, transport.Pipe(face), client.Options{Era: client.Legacy, Changed: func(_ context.Context, change mcp.Change) {
			if change.Kind == mcp.KindTool {
				told.Add(1)
			}
		}})
		if has := session.Capabilities(); has.Tools == nil || !has.Tools.ListChanged {
			t.Errorf("declared is %+v", has)
		}
		bad.mute.Store(false)
		pass(time.Minute)
		if told.Load() == 0 {
			t.Error("nobody is told that the server has come")
		}
		if names := names(b.Catalog(), mcp.KindTool); names == "" {
			t.Errorf("offered are %q", names)
		}
		later := connect(t, transport.Pipe(face), client.Options{Era: client.Legacy})
		if has := later.Capabilities(); has.Tools == nil || has.Prompts != nil || has.Resources != nil {
			t.Errorf("declared is %+v once all is known", has)
		}
	})
}

// Entries and calls say from which server they are, for rules that depend on it.
func TestOrigin(t *testing.T) {
	var called mcp.Origin
	guard := mcp.Guard{Name: "looks", Check: func(_ context.Context, call *mcp.Call) error {
		called = call.Target().Origin
		return nil
	}}
	b := newBridge(t, &bridge.Options{Guards: []mcp.Guard{guard}}, bridge.Config{Alias: "a", Dialer: lineTo(echo(nil))},
		bridge.Config{Alias: "b", Dialer: lineTo(echo(nil)), ProxyOptions: bridge.ProxyOptions{
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
		if _, err := say(t.Context(), b, name, "x"); (err == nil) != (want.Server != "") || called != want {
			t.Errorf("a call of %s is for %+v, want %+v; %v", name, called, want, err)
		}
	}
}

// Calls to a server that dies fail, each once, and say that they may have been executed;
// none is executed twice.
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
			way := lineTo(up).of(behind)
			b, err := bridge.New(&bridge.Options{Logger: quiet()}, bridge.Config{Alias: "up", Dialer: way})
			if err != nil {
				t.Fatal(err)
			}
			session := connect(t, transport.Pipe(mount(t, b)), client.Options{Era: caller})
			var calls sync.WaitGroup
			var answered, maybe, no atomic.Int64
			for i := range 500 {
				<-time.After(time.Millisecond)
				switch i % 50 {
				case 0:
					<-time.After(time.Minute) // it has been well for long
				case 24:
					way.cut()
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

// Answers reach those who have asked, whatever the ids of their calls are.
func TestAnswersAreNobodyElses(t *testing.T) {
	var configs []bridge.Config
	for i := range 3 {
		configs = append(configs, bridge.Config{Alias: fmt.Sprint("s", i), Dialer: lineTo(echo(nil))})
	}
	face := mountBridge(t, configs)
	var callers sync.WaitGroup
	for c := range 16 {
		session := connect(t, transport.Pipe(as{face, fmt.Sprint("user", c%5)}), client.Options{Era: []client.Era{client.Modern, client.Legacy}[c%2]})
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
