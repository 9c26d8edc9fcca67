package bridge_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/sessiontest"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// lossFaces are the ways to call the tools of a server that loses its sessions.
var lossFaces = map[string]func(t *testing.T, dialer transport.Dialer) func(ctx context.Context, tool string) error{
	"client": func(t *testing.T, dialer transport.Dialer) func(context.Context, string) error {
		return callTool(connect(t, dialer, client.Options{Logger: quiet()}), nil)
	},
	"client with progress": func(t *testing.T, dialer transport.Dialer) func(context.Context, string) error {
		return callTool(connect(t, dialer, client.Options{Logger: quiet()}), func(*mcp.ProgressParams) {})
	},
	"bridge": func(t *testing.T, dialer transport.Dialer) func(context.Context, string) error {
		return callBridged(newBridge(t, nil, bridge.Config{Alias: "a", Dialer: dialer}))
	},
	trustedBridge: func(t *testing.T, dialer transport.Dialer) func(context.Context, string) error {
		return callBridged(newBridge(t, nil, bridge.Config{Alias: "a", Dialer: dialer, ProxyOptions: bridge.ProxyOptions{Trusted: true}}))
	},
	"client of a proxy": func(t *testing.T, dialer transport.Dialer) func(context.Context, string) error {
		frontend := mount(t, bridge.Proxy(dialer, &bridge.ProxyOptions{Logger: quiet()}))
		return callTool(connect(t, pipeTo(frontend), client.Options{}), func(*mcp.ProgressParams) {})
	},
	"client of a relay": func(t *testing.T, dialer transport.Dialer) func(context.Context, string) error {
		relay := bridge.Relay(dialer, &bridge.RelayOptions{Logger: quiet()})
		t.Cleanup(func() {
			if err := relay.Close(); err != nil {
				t.Error(err)
			}
		})
		return callTool(connect(t, pipeTo(relay), client.Options{Logger: quiet()}), nil)
	},
}

const trustedBridge = "trusted bridge"

func callTool(session *client.Session, progress func(*mcp.ProgressParams)) func(context.Context, string) error {
	return func(ctx context.Context, tool string) error {
		_, err := session.CallTool(ctx, tool, nil, &client.CallOptions{Progress: progress})
		return err
	}
}

func callBridged(b *bridge.Bridge) func(context.Context, string) error {
	return func(ctx context.Context, tool string) error {
		_, err := b.CallTool(ctx, "a__"+tool, nil)
		return err
	}
}

// dialLossy returns a dialer to a server that loses its sessions.
func dialLossy(s *sessiontest.Server) transport.Dialer {
	return streamable.Dial(sessiontest.URL, &streamable.DialOptions{HTTPClient: s.Client(), Logger: quiet(), Conn: jsonrpc.Options{Malformed: func(error) {}}})
}

// eachLossFace runs a test in a bubble for each way to call a server's tools.
func eachLossFace(t *testing.T, report func(w http.ResponseWriter, r *sessiontest.Request), test func(t *testing.T, face string, s *sessiontest.Server, call func(ctx context.Context, tool string) error)) {
	for face, open := range lossFaces {
		synctest.Test(t, func(t *testing.T) {
			s := sessiontest.New(t, report)
			test(t, face, s, open(t, dialLossy(s)))
		})
	}
}

// deliveryOf returns how far a call got, for a client of a program or of a bridge.
func deliveryOf(t *testing.T, err error) jsonrpc.Delivery {
	t.Helper()
	if failed, ok := errors.AsType[*bridge.UpstreamError](err); ok {
		if failed.Failure != bridge.Lost {
			t.Errorf("the failure is %s: %v", failed.Failure, err)
		}
		return failed.Delivery
	}
	if failed, ok := errors.AsType[*jsonrpc.CallError](err); ok {
		return failed.Delivery
	}
	if refused, ok := errors.AsType[*jsonrpc.Error](err); ok && strings.Contains(string(refused.Data), `"UPSTREAM_LOST"`) && strings.Contains(string(refused.Data), `"executed":"maybe"`) {
		return jsonrpc.MaybeExecuted
	}
	t.Errorf("got %v (%T)", err, err)
	return jsonrpc.NotSent
}

// A call in a lost session that the server refused is sent again in the next session. Any other call fails once, and is not sent
// again, unless its tool is read-only or idempotent and the server trusted. The next call succeeds. Nothing else runs twice.
func TestLostSessions(t *testing.T) {
	for _, loss := range sessiontest.UsualLosses() {
		t.Run(loss.Name, func(t *testing.T) {
			eachLossFace(t, loss.Report, func(t *testing.T, face string, s *sessiontest.Server, call func(context.Context, string) error) {
				for _, tool := range []string{"work", "read", "repeat"} {
					if err := call(t.Context(), tool); err != nil {
						t.Fatalf("%s: %v", face, err)
					}
					before := s.Executed(tool)
					synctest.Wait() // a bridge reads the lists of a new session
					s.Lose()
					err := call(t.Context(), tool)
					again := loss.IsRefused || face == trustedBridge && tool != "work"
					switch executed := s.Executed(tool) - before; {
					case again && (err != nil || executed != 1):
						t.Errorf("%s, %s: executed %d times, with error %v", face, tool, executed, err)
					case !again && (err == nil || deliveryOf(t, err) != jsonrpc.MaybeExecuted || executed != 0):
						t.Errorf("%s, %s: executed %d times, with error %v", face, tool, executed, err)
					}
					if err := call(t.Context(), tool); err != nil {
						t.Errorf("%s, %s: the next call fails with %v", face, tool, err)
					}
				}
			})
		})
	}
}

// A call that was executed before its session was lost is not executed again, unless that has no further effect.
func TestLostSessionAfterCall(t *testing.T) {
	for _, loss := range sessiontest.UsualLosses() {
		if loss.IsRefused {
			continue // which a server says only of calls that it did not execute
		}
		t.Run(loss.Name, func(t *testing.T) {
			eachLossFace(t, loss.Report, func(t *testing.T, face string, s *sessiontest.Server, call func(context.Context, string) error) {
				for tool, repeats := range map[string]bool{"work": false, "read": true, "repeat": true} {
					before := s.Executed(tool)
					s.LoseAfterCall()
					err := call(t.Context(), tool)
					executed := s.Executed(tool) - before
					if face == trustedBridge && repeats {
						if err != nil || executed != 2 {
							t.Errorf("%s, %s: executed %d times, with error %v", face, tool, executed, err)
						}
					} else if err == nil || deliveryOf(t, err) != jsonrpc.MaybeExecuted || executed != 1 {
						t.Errorf("%s, %s: executed %d times, with error %v", face, tool, executed, err)
					}
				}
			})
		})
	}
}

// A call that may have been executed, and cannot be sent again, may have been executed.
func TestLostSessionOfStoppedServer(t *testing.T) {
	var s *sessiontest.Server
	report := func(w http.ResponseWriter, _ *sessiontest.Request) {
		s.Stop()
		http.Error(w, "the session has ended", http.StatusInternalServerError)
	}
	eachLossFace(t, report, func(t *testing.T, face string, server *sessiontest.Server, call func(context.Context, string) error) {
		s = server
		s.LoseAfterCall()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := call(ctx, "read")
		if wire, ok := errors.AsType[*jsonrpc.Error](err); ok && !strings.Contains(string(wire.Data), `"executed":"maybe"`) || s.Executed("read") != 1 {
			t.Errorf("%s: executed %d times, with error %v", face, s.Executed("read"), err)
		}
		if failed, ok := errors.AsType[*jsonrpc.CallError](err); ok && failed.Delivery != jsonrpc.MaybeExecuted {
			t.Errorf("%s: %v", face, err)
		}
	})
}

// Calls that are made at the same time wait for one new session, however often the server loses it.
func TestLostSessionsOfManyCalls(t *testing.T) {
	for _, status := range []int{http.StatusNotFound, http.StatusBadRequest} {
		report := func(w http.ResponseWriter, _ *sessiontest.Request) { http.Error(w, "session not found", status) }
		eachLossFace(t, report, func(t *testing.T, face string, s *sessiontest.Server, call func(context.Context, string) error) {
			const calls, rounds = 20, 10
			for range rounds {
				var group sync.WaitGroup
				for range calls {
					group.Go(func() {
						if err := call(t.Context(), "work"); err != nil {
							t.Errorf("%s: %v", face, err)
						}
					})
				}
				group.Wait()
				s.Lose()
			}
			if n := s.Executed("work"); n != calls*rounds {
				t.Errorf("%s: %d calls were executed %d times", face, calls*rounds, n)
			}
			if n := count(s.Log(), "initialize"); n > 2*rounds { // a bridge may have another session for the caller
				t.Errorf("%s: there were %d sessions", face, n)
			}
		})
	}
}

func count(lines []string, line string) (n int) {
	for _, l := range lines {
		if l == line {
			n++
		}
	}
	return n
}

// A server that loses each session soon gets a bounded number of requests.
func TestServerLosesEachSession(t *testing.T) {
	report := func(w http.ResponseWriter, r *sessiontest.Request) { http.NotFound(w, r.Request) }
	eachLossFace(t, report, func(t *testing.T, face string, s *sessiontest.Server, call func(context.Context, string) error) {
		s.Refused = "work"
		s.LosesRefused = true
		for range 3 {
			if err := call(t.Context(), "read"); err != nil {
				t.Errorf("%s: %v", face, err)
			}
			before := len(s.Log())
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // in which a client gives up no session
			err := call(ctx, "work")
			cancel()
			if n := len(s.Log()) - before; err == nil || n > 200 {
				t.Errorf("%s: %d requests, with error %v", face, n, err)
			}
			advance(time.Minute)
		}
	})
}

// A refused call in a session that the server knows fails, and does not hinder others.
func TestRefusedCallKeepsSession(t *testing.T) {
	for _, status := range []int{400, 403, 404, 410, 422, 500, 503} {
		for _, body := range []string{"", "the browser session 7 does not exist"} {
			report := func(w http.ResponseWriter, _ *sessiontest.Request) { http.Error(w, body, status) }
			eachLossFace(t, report, func(t *testing.T, face string, s *sessiontest.Server, call func(context.Context, string) error) {
				s.Refused = "read"
				for range 3 {
					if err := call(t.Context(), "work"); err != nil {
						t.Fatalf("%d %q, %s: %v", status, body, face, err)
					}
					if err := call(t.Context(), "read"); err == nil {
						t.Errorf("%d %q, %s: a refused call succeeds", status, body, face)
					}
				}
				if n := s.Executed("read"); n != 0 {
					t.Errorf("a refused tool was executed %d times", n)
				}
			})
		}
	}
}

// An error of a function is not taken for a lost session, whatever status and text a server gives it: the call is not sent again.
func TestErrorOfFunctionKeepsSession(t *testing.T) {
	for _, status := range []int{200, 400, 404, 410, 422, 500} {
		for _, code := range []int{-32000, -32001, -32600, -32603} {
			executed := 0
			report := func(w http.ResponseWriter, r *sessiontest.Request) {
				executed++
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(status)
				fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":"paid, but the database session has timed out"}}`, r.ID, code)
			}
			eachLossFace(t, report, func(t *testing.T, face string, s *sessiontest.Server, call func(context.Context, string) error) {
				s.Refused, executed = "work", 0
				if err := call(t.Context(), "read"); err != nil {
					t.Fatal(err)
				}
				if err := call(t.Context(), "work"); err == nil || executed != 1 {
					t.Errorf("%d, %d, %s: executed %d times: %v", status, code, face, executed, err)
				}
			})
		}
	}
}

// A list is read again in the next session if the server refused it, and a bridge opens the next session even if it gets no call.
func TestListsAfterLostSession(t *testing.T) {
	for _, loss := range sessiontest.UsualLosses() {
		synctest.Test(t, func(t *testing.T) {
			s := sessiontest.New(t, loss.Report)
			session := connect(t, dialLossy(s), client.Options{Logger: quiet()})
			b := newBridge(t, nil, bridge.Config{Alias: "a", Dialer: dialLossy(s)})
			s.Lose()
			var failure error
			for _, err := range session.Tools(t.Context(), nil) {
				failure = err
			}
			if loss.IsRefused != (failure == nil) || failure != nil && !errors.Is(failure, transport.ErrSessionLost) {
				t.Errorf("%s: the list gives %v", loss.Name, failure)
			}
			advance(2 * time.Minute) // with pings
			if state := b.States()[0]; state.Status != "ready" || state.Restarts != 0 || state.Tools != 3 {
				t.Errorf("%s: the server is %+v", loss.Name, state)
			}
			if n := count(s.Log(), "initialize"); n < 4 {
				t.Errorf("%s: %d sessions were opened", loss.Name, n)
			}
		})
	}
}
