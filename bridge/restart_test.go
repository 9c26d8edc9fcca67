package bridge_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

func TestStateHasVersionAndNextTry(t *testing.T) {
	for era, version := range map[client.Era]mcp.Version{client.Legacy: mcp.Version20251125, client.Modern: mcp.Version20260728} {
		t.Run(era.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dialer := dialerTo(echo(nil)).speaks(era)
				dialer.refuse.Store(true)
				b := newBridge(t, &bridge.Options{StartTimeout: time.Millisecond}, bridge.Config{Alias: "s", Dialer: dialer})
				state := b.States()[0]
				if state.Status != "failed" || state.Version != "" || !state.NextTry.After(state.Since) {
					t.Errorf("after a refused connection the state is %+v", state)
				}
				advance(time.Until(state.NextTry))
				if dials := dialer.dials.Load(); dials != 2 {
					t.Errorf("at NextTry there were %d attempts, want 2", dials)
				}
				dialer.refuse.Store(false)
				advance(time.Minute)
				if state := b.States()[0]; state.Status != "ready" || state.Version != version || !state.NextTry.IsZero() {
					t.Errorf("when the server is ready, the state is %+v, want version %s and no NextTry", state, version)
				}
				dialer.refuse.Store(true)
				dialer.cut()
				synctest.Wait()
				if state := b.States()[0]; state.Version != version || state.NextTry.IsZero() {
					t.Errorf("after the end of the session the state is %+v, want version %s and a NextTry", state, version)
				}
			})
		})
	}
}

func TestRestartOnRequest(t *testing.T) {
	for _, era := range []client.Era{client.Legacy, client.Modern} {
		for name, test := range map[string]struct {
			config bridge.Config
			before func(t *testing.T, b *bridge.Bridge, dialer *faultyDialer)
		}{
			"ready": {},
			"waits for its next try": {before: func(_ *testing.T, b *bridge.Bridge, dialer *faultyDialer) {
				dialer.refuse.Store(true)
				dialer.cut()
				advance(5 * time.Minute)
				dialer.refuse.Store(false)
			}},
			"hangs while it starts": {before: func(_ *testing.T, b *bridge.Bridge, dialer *faultyDialer) {
				dialer.hang.Store(true)
				dialer.cut()
				advance(time.Second)
				dialer.hang.Store(false)
			}},
			"idle": {config: bridge.Config{ProxyOptions: bridge.ProxyOptions{Lazy: true, IdleTimeout: time.Second}}, before: func(t *testing.T, b *bridge.Bridge, _ *faultyDialer) {
				advance(time.Minute)
				if status := b.States()[0].Status; status != "idle" {
					t.Fatalf("the status is %q, want idle", status)
				}
			}},
			"lazy and never started": {config: bridge.Config{ProxyOptions: bridge.ProxyOptions{
				Lazy: true, CachedCatalog: cached("echo", `{"name":"echo","inputSchema":{"type":"object"}}`),
			}}},
		} {
			t.Run(era.String()+"/"+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					dialer := dialerTo(toolsOnly(era, "echo"))
					test.config.Alias, test.config.Dialer = "s", dialer
					b := newBridge(t, nil, test.config)
					synctest.Wait()
					if test.before != nil {
						test.before(t, b, dialer)
					}
					dials, began := dialer.dials.Load(), time.Now()
					if err := b.Restart("s"); err != nil {
						t.Fatal(err)
					}
					if text, err := callEcho(t.Context(), b, "s__echo", "x"); err != nil || text != "echo" {
						t.Errorf("a call after Restart returned %q, %v", text, err)
					}
					synctest.Wait()
					if took := time.Since(began); took > 10*time.Millisecond {
						t.Errorf("the server was ready after %v", took)
					}
					if n := dialer.dials.Load() - dials; n < 1 {
						t.Error("the server was not started again")
					}
					if state := b.States()[0]; state.Status != "ready" || state.Err != nil {
						t.Errorf("the state is %+v, want ready", state)
					}
				})
			})
		}
	}
}

// Calls in flight of all principals end, the entries stay, and their next calls get new sessions.
func TestRestartEndsCallsOfAllSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		upstream, started := echo(nil), make(chan struct{}, 2)
		addHang(upstream, started)
		dialer := dialerTo(upstream)
		b, err := bridge.New(&bridge.Options{Logger: quiet()}, bridge.Config{Alias: "s", Dialer: dialer}, bridge.Config{Alias: "other", Dialer: pipeTo(echo(nil))})
		if err != nil {
			t.Fatal(err)
		}
		s := mount(t, b)
		failed := make(chan error, 2)
		clients := make(map[string]*client.Session)
		for _, principal := range []string{"ada", "bob"} {
			clients[principal] = connect(t, pipeTo(as{s, principal}), client.Options{})
			go func() {
				_, err := clients[principal].CallTool(t.Context(), "s__hang", nil, nil)
				failed <- err
			}()
			<-started
		}
		if err := b.Restart("s"); err != nil {
			t.Fatal(err)
		}
		offered := names(b.Catalog(), mcp.KindTool)
		for range clients {
			if _, ok := errors.AsType[*jsonrpc.Error](<-failed); !ok {
				t.Error("a call in flight did not fail")
			}
		}
		if offered != "s__echo s__hang other__echo" {
			t.Errorf("during the restart %q are offered", offered)
		}
		for principal, c := range clients {
			if _, err := c.CallTool(t.Context(), "s__echo", map[string]string{"Text": "x"}, nil); err != nil {
				t.Errorf("the next call of %s failed: %v", principal, err)
			}
		}
	})
}

func TestRestartAndRefreshOfUnknownOrStoppedServer(t *testing.T) {
	b, err := bridge.New(nil, bridge.Config{Alias: "s", Dialer: pipeTo(echo(nil))})
	if err != nil {
		t.Fatal(err)
	}
	for name, do := range map[string]func(string) error{"Restart": b.Restart, "Refresh": b.Refresh} {
		unknown, ok := errors.AsType[*bridge.UnknownServerError](do("x"))
		if !ok || unknown.Server != "x" {
			t.Errorf("%s of an unknown server: the error is not an *UnknownServerError", name)
		}
		if err := do("s"); !errors.Is(err, bridge.ErrNotStarted) {
			t.Errorf("%s without Run: the error is %v, want ErrNotStarted", name, err)
		}
	}
}

// Some servers send no notification when their lists change.
func TestRefreshReadsListsAgain(t *testing.T) {
	for _, era := range []client.Era{client.Legacy, client.Modern} {
		synctest.Test(t, func(t *testing.T) {
			before, after := toolsOnly(era, "old"), toolsOnly(era, "new")
			before.capabilities = `{"tools":{}}`
			b := newBridge(t, nil, bridge.Config{Alias: "s", Dialer: pipeTo(before)})
			synctest.Wait()
			before.answer = after.answer
			advance(time.Second)
			if got := names(b.Catalog(), mcp.KindTool); got != "s__old" {
				t.Fatalf("the tools are %q before Refresh", got)
			}
			if err := b.Refresh("s"); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if got := names(b.Catalog(), mcp.KindTool); got != "s__new" {
				t.Errorf("the tools are %q after Refresh, want s__new", got)
			}
		})
	}
}
