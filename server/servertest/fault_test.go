package servertest_test

import (
	"context"
	"errors"
	"fmt"
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

// eachStream runs a test in the modes that have faults.
func eachStream(t *testing.T, test func(t *testing.T, mode servertest.Mode)) {
	servertest.EachMode(t, func(t *testing.T, mode servertest.Mode) {
		if mode.Transport == servertest.Pipe || mode.Transport == servertest.Stdio {
			synctest.Test(t, func(t *testing.T) { test(t, mode) })
		}
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
			eachStream(t, func(t *testing.T, mode servertest.Mode) {
				s, calls := counting()
				session := servertest.Connect(t, s, &servertest.Options{Mode: mode, Fault: once(test.fault, test.fromServer)})
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				_, err := session.CallTool(ctx, "count", nil, nil)
				if !errors.Is(err, test.want) {
					t.Errorf("the call: %v, want %v", err, test.want)
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

// A fault that blocks delays a message.
func TestDelay(t *testing.T) {
	eachStream(t, func(t *testing.T, mode servertest.Mode) {
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
	var mu sync.Mutex
	var seen []string
	session := servertest.Connect(t, newServer(nil), &servertest.Options{Fault: func(m servertest.Message) servertest.Fault {
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
