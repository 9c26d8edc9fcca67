package servertest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/server/servertest"
)

// eachMode runs a test in virtual time in each mode.
func eachMode(t *testing.T, test func(t *testing.T, mode servertest.Mode)) {
	servertest.EachMode(t, func(t *testing.T, mode servertest.Mode) {
		synctest.Test(t, func(t *testing.T) { test(t, mode) })
	})
}

// counting returns a server with the tool count, which counts its calls.
func counting() (*server.Server, *atomic.Int32) {
	var calls atomic.Int32
	s := newServer(nil)
	server.AddTool(s, server.Tool{Name: "count"}, func(context.Context, *server.Request, none) (int32, error) { return calls.Add(1), nil })
	return s, &calls
}

// once returns a fault for the first message of tools/call in a direction.
func once(fault servertest.Fault, fromServer bool) func(servertest.Message) servertest.Fault {
	var done atomic.Bool
	return func(m servertest.Message) servertest.Fault {
		if m.Method == mcp.MethodToolsCall && m.FromServer == fromServer && done.CompareAndSwap(false, true) {
			return fault
		}
		return servertest.Deliver
	}
}

// Each fault affects the call or its answer as documented, and the session can still be used.
func TestFaults(t *testing.T) {
	for name, test := range map[string]struct {
		fault      servertest.Fault
		fromServer bool
		calls      int32 // after the first call
		want       error // of the first call
	}{
		"deliver":         {servertest.Deliver, false, 1, nil},
		"drop the call":   {servertest.Drop, false, 0, context.DeadlineExceeded},
		"drop the answer": {servertest.Drop, true, 1, context.DeadlineExceeded},
		"cut the call":    {servertest.Cut, false, 0, jsonrpc.ErrClosed},
		"cut the answer":  {servertest.Cut, true, 1, jsonrpc.ErrClosed},
		"two answers":     {servertest.Duplicate, true, 1, nil},
	} {
		t.Run(name, func(t *testing.T) {
			eachMode(t, func(t *testing.T, mode servertest.Mode) {
				s, calls := counting()
				session := servertest.Connect(t, s, &servertest.Options{Mode: mode, Fault: once(test.fault, test.fromServer)})
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				_, err := session.CallTool(ctx, "count", nil, nil)
				if want := lost(mode, test.want); !errors.Is(err, want) {
					t.Errorf("the call: %v, want %v", err, want)
				}
				if failed, ok := errors.AsType[*jsonrpc.CallError](err); ok && failed.Delivery != jsonrpc.MaybeExecuted {
					t.Errorf("the call: %v, want %v", failed.Delivery, jsonrpc.MaybeExecuted)
				}
				if got := calls.Load(); got != test.calls {
					t.Errorf("the tool ran %d times, want %d", got, test.calls)
				}
				if got, err := client.CallAs[int32](t.Context(), session, "count", nil, nil); err != nil || got != test.calls+1 {
					t.Errorf("the next call: %d, %v, want %d", got, err, test.calls+1)
				}
			})
		})
	}
}

// lost returns the error of a call whose connection is cut: HTTP has one for each call.
func lost(mode servertest.Mode, want error) error {
	if want == jsonrpc.ErrClosed && mode.Transport == "streamable" {
		return io.ErrUnexpectedEOF
	}
	return want
}

// The messages of a call that reports progress, over HTTP a stream, have faults one by one.
func TestFaultsOfProgress(t *testing.T) {
	for name, test := range map[string]struct {
		fault    servertest.Fault
		method   string
		progress int
		want     error
	}{
		"deliver":            {servertest.Deliver, mcp.NotificationProgress, 1, nil},
		"drop the progress":  {servertest.Drop, mcp.NotificationProgress, 0, nil},
		"two reports":        {servertest.Duplicate, mcp.NotificationProgress, 2, nil},
		"drop the answer":    {servertest.Drop, mcp.MethodToolsCall, 1, context.DeadlineExceeded},
		"two answers":        {servertest.Duplicate, mcp.MethodToolsCall, 1, nil},
		"cut after progress": {servertest.Cut, mcp.MethodToolsCall, 1, jsonrpc.ErrClosed},
	} {
		t.Run(name, func(t *testing.T) {
			eachMode(t, func(t *testing.T, mode servertest.Mode) {
				var done atomic.Bool
				session := servertest.Connect(t, newServer(nil), &servertest.Options{Mode: mode, Fault: func(m servertest.Message) servertest.Fault {
					if m.FromServer && m.Method == test.method && done.CompareAndSwap(false, true) {
						return test.fault
					}
					return servertest.Deliver
				}})
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				progress := 0
				_, err := session.CallTool(ctx, "steps", nil, &client.CallOptions{Progress: func(*mcp.ProgressParams) { progress++ }})
				want := lost(mode, test.want)
				if test.fault == servertest.Cut && mode.String() == "streamable/legacy" {
					want = nil // the client resumes the stream: MCP 2025-11-25, basic/transports
				}
				if !errors.Is(err, want) || progress != test.progress {
					t.Errorf("the call: %v and %d reports, want %v and %d", err, progress, want, test.progress)
				}
				if _, err := session.CallTool(t.Context(), "steps", nil, nil); err != nil {
					t.Errorf("the next call: %v", err)
				}
			})
		})
	}
}

// The stream of a call can be closed and resumed after one of its notifications was lost.
func TestDropBeforeDetach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(nil)
		server.AddTool(s, server.Tool{Name: "long"}, func(ctx context.Context, r *server.Request, _ none) (string, error) {
			if err := r.Progress(ctx, 1, 0, ""); err != nil {
				return "", err
			}
			r.Detach(time.Second)
			<-time.After(time.Second / 2)
			return "done", nil
		})
		session := servertest.Connect(t, s, &servertest.Options{
			Mode: servertest.Mode{Transport: "streamable", Era: client.Legacy},
			Fault: func(m servertest.Message) servertest.Fault {
				if m.Method == mcp.NotificationProgress {
					return servertest.Drop
				}
				return servertest.Deliver
			},
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		began := time.Now()
		got, err := client.CallAs[string](ctx, session, "long", nil, &client.CallOptions{Progress: func(*mcp.ProgressParams) { t.Error("the progress was reported") }})
		if err != nil || got != "done" {
			t.Fatalf("the call: %q, %v", got, err)
		}
		if took := time.Since(began); took != time.Second {
			t.Errorf("the client resumed the stream after %v, want the time that the server has sent", took)
		}
	})
}

// A client gets the notifications of the GET stream that follow a lost one.
func TestDropOfUnsolicited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		dropped := 0
		changes := 0
		s := newServer(nil)
		_ = servertest.Connect(t, s, &servertest.Options{
			Mode:   servertest.Mode{Transport: "streamable", Era: client.Legacy},
			Client: client.Options{OnChange: func(context.Context, mcp.Change) { mu.Lock(); changes++; mu.Unlock() }},
			Fault: func(m servertest.Message) servertest.Fault {
				mu.Lock()
				defer mu.Unlock()
				if m.Method == mcp.NotificationToolsListChanged {
					if dropped++; dropped == 1 {
						return servertest.Drop
					}
				}
				return servertest.Deliver
			},
		})
		for i := range 2 {
			server.AddTool(s, server.Tool{Name: fmt.Sprint("late", i)}, func(context.Context, *server.Request, none) (string, error) { return "", nil })
			<-time.After(time.Minute)
		}
		mu.Lock()
		defer mu.Unlock()
		if dropped != 2 || changes != 1 {
			t.Errorf("the server sent %d changes and the client got %d, want 2 and 1", dropped, changes)
		}
	})
}

// A call that arrives twice does not break the session. Each request without a session is handled; a
// connection or session may refuse an id that is in use.
func TestDuplicateCall(t *testing.T) {
	eachMode(t, func(t *testing.T, mode servertest.Mode) {
		s, calls := counting()
		session := servertest.Connect(t, s, &servertest.Options{Mode: mode, Fault: once(servertest.Duplicate, false)})
		alone := mode.Transport == "streamable" && mode.Era != client.Legacy // no session knows the id
		if _, err := session.CallTool(t.Context(), "count", nil, nil); err != nil {
			if refused, ok := errors.AsType[*jsonrpc.Error](err); !ok || refused.Code != jsonrpc.InvalidRequest || alone {
				t.Errorf("the call: %v", err)
			}
		}
		synctest.Wait()
		ran := calls.Load()
		if ran != 2 && (ran != 1 || alone) {
			t.Errorf("the tool ran %d times", ran)
		}
		if got, err := client.CallAs[int32](t.Context(), session, "count", nil, nil); err != nil || got != ran+1 {
			t.Errorf("the next call: %d, %v, want %d", got, err, ran+1)
		}
	})
}

// A fault that blocks delays a message.
func TestDelay(t *testing.T) {
	eachMode(t, func(t *testing.T, mode servertest.Mode) {
		session := servertest.Connect(t, newServer(nil), &servertest.Options{Mode: mode, Fault: func(m servertest.Message) servertest.Fault {
			if m.FromServer && m.Method == mcp.MethodToolsCall {
				<-time.After(time.Minute / 2)
			}
			return servertest.Deliver
		}})
		began := time.Now()
		if _, err := session.CallTool(t.Context(), "steps", nil, nil); err != nil || time.Since(began) != time.Minute/2 {
			t.Errorf("the call took %v, %v", time.Since(began), err)
		}
	})
}

// A fault sees each message with its method.
func TestFaultMessages(t *testing.T) {
	servertest.EachMode(t, faultMessages)
}

func faultMessages(t *testing.T, mode servertest.Mode) {
	var mu sync.Mutex
	var seen []string
	session := servertest.Connect(t, newServer(nil), &servertest.Options{Mode: mode, Fault: func(m servertest.Message) servertest.Fault {
		kind := "call"
		if req, ok := m.Content.(*jsonrpc.Request); !ok {
			kind = "response"
		} else if req.IsNotification() {
			kind = "notification"
		}
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, kind+" "+m.Method)
		return servertest.Deliver
	}})
	mu.Lock()
	seen = nil
	mu.Unlock()
	if _, err := session.CallTool(t.Context(), "steps", nil, &client.CallOptions{Progress: func(*mcp.ProgressParams) {}}); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if want := []string{"call tools/call", "notification notifications/progress", "response tools/call"}; !slices.Equal(seen, want) {
		t.Errorf("seen %q, want %q", seen, want)
	}
}

func TestFaultString(t *testing.T) {
	got := fmt.Sprint(servertest.Deliver, servertest.Drop, servertest.Duplicate, servertest.Cut, servertest.Fault(7))
	if got != "deliver drop duplicate cut Fault(7)" {
		t.Error(got)
	}
}
