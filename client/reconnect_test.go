package client_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/waittest"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/stdio"
)

// A counter is a server that counts executed calls. Its tool "hold" answers when the test allows
// it.
type counter struct {
	*server.Server
	executed atomic.Int32
	entered  chan struct{}
	leave    chan struct{}
}

func newCounter() *counter {
	c := &counter{Server: newServer(nil), entered: make(chan struct{}, 64), leave: make(chan struct{})}
	server.AddTool(c.Server, server.Tool{Name: "count"}, func(context.Context, *server.Request, noServer) (int, error) {
		return int(c.executed.Add(1)), nil
	})
	server.AddTool(c.Server, server.Tool{Name: "hold"}, func(ctx context.Context, _ *server.Request, _ noServer) (int, error) {
		c.executed.Add(1)
		c.entered <- struct{}{}
		select {
		case <-c.leave:
		case <-ctx.Done():
		}
		return 0, nil
	})
	return c
}

// TestReconnect checks that calls in progress fail, executed once, and that later calls use the
// next connection.
func TestReconnect(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		synctest.Test(t, func(t *testing.T) {
			c := newCounter()
			dialer := &breaker{server: c}
			session := connect(t, dialer, client.Options{Era: era})

			const calls = 8
			outcomes := make(chan error, calls)
			for range calls {
				go func() {
					_, err := session.CallTool(t.Context(), "hold", nil, nil)
					outcomes <- err
				}()
				<-c.entered
			}
			dialer.cut()
			for range calls {
				if call := failed(t, <-outcomes, jsonrpc.MaybeExecuted); !errors.Is(call, jsonrpc.ErrClosed) {
					t.Errorf("the error is %v", call)
				}
			}
			if n := c.executed.Load(); n != calls {
				t.Errorf("%d calls were executed %d times", calls, n)
			}

			begun := time.Now()
			if n, err := client.CallAs[int](t.Context(), session, "count", nil, nil); err != nil || n != calls+1 {
				t.Errorf("the next call: %d, %v", n, err)
			}
			if waited := time.Since(begun); waited > time.Second {
				t.Errorf("it took %v to connect again", waited)
			}
			if n := dialer.dials.Load(); n != 2 {
				t.Errorf("connected %d times, want 2", n)
			}
		})
	})
}

// TestCallsWaitForTheConnection checks that unsent calls are made once when there is a connection.
func TestCallsWaitForTheConnection(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		synctest.Test(t, func(t *testing.T) {
			c := newCounter()
			dialer := &breaker{server: c}
			session := connect(t, dialer, client.Options{Era: era})
			dialer.refuse.Store(true)
			dialer.cut()

			const calls = 20
			var group sync.WaitGroup
			for range calls {
				group.Go(func() {
					if _, err := session.CallTool(t.Context(), "count", nil, nil); err != nil {
						t.Error(err)
					}
				})
			}
			impatient, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			_, err := session.CallTool(impatient, "count", nil, nil)
			if call := failed(t, err, jsonrpc.NotSent); !errors.Is(call, context.DeadlineExceeded) {
				t.Errorf("a call that would not wait: %v", call)
			}
			<-time.After(10 * time.Second)
			dialer.refuse.Store(false)
			group.Wait()
			if n := c.executed.Load(); n != calls {
				t.Errorf("%d calls were executed %d times", calls, n)
			}
		})
	})
}

func TestReconnectLimit(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		synctest.Test(t, func(t *testing.T) {
			dialer := &breaker{server: newCounter()}
			session := connect(t, dialer, client.Options{Era: era, Limits: client.Limits{Reconnects: 4}})
			dialer.refuse.Store(true)
			begun := time.Now()
			dialer.cut()
			_, err := session.CallTool(t.Context(), "count", nil, nil)
			call := failed(t, err, jsonrpc.NotSent)
			if !errors.Is(call, jsonrpc.ErrClosed) || !errors.Is(call, errRefused) || !strings.Contains(err.Error(), "could not be renewed in 4 attempts") {
				t.Errorf("the error is %v", err)
			}
			if n := dialer.dials.Load(); n != 5 {
				t.Errorf("connected %d times, want 1 + 4", n)
			}
			// 100 ms doubled three times, each half as long or half as long again.
			if took := time.Since(begun); took < 750*time.Millisecond || took > 2250*time.Millisecond {
				t.Errorf("gave up after %v", took)
			}
			failed(t, session.Ping(t.Context()), jsonrpc.NotSent)
			for _, err := range session.Tools(t.Context(), nil) {
				failed(t, err, jsonrpc.NotSent)
			}
			if session.Server().Name != "test" {
				t.Error("the description of the server was forgotten")
			}
		})
	})
}

func TestNoReconnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dialer := &breaker{server: newCounter()}
		session := connect(t, dialer, client.Options{NoReconnect: true})
		dialer.cut()
		_, err := session.CallTool(t.Context(), "count", nil, nil)
		if call := failed(t, err, jsonrpc.NotSent); !errors.Is(call, jsonrpc.ErrClosed) {
			t.Errorf("the error is %v", err)
		}
		if n := dialer.dials.Load(); n != 1 {
			t.Errorf("connected %d times", n)
		}
	})
}

// TestReconnectToServerThatDisconnects checks that attempts are limited, with pauses.
func TestReconnectToServerThatDisconnects(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		synctest.Test(t, func(t *testing.T) {
			var opened atomic.Int32
			begun := time.Now()
			session := connect(t, script(func(req *jsonrpc.Request) []string {
				switch req.Method {
				case mcp.MethodDiscover, mcp.MethodInitialize:
					opened.Add(1)
				case mcp.NotificationInitialized, mcp.MethodToolsCall:
					return []string{hangUp}
				}
				return nil
			}), client.Options{Era: era, Limits: client.Limits{Reconnects: 6}})
			for {
				_, err := session.CallTool(t.Context(), "x", nil, nil)
				if call, ok := errors.AsType[*jsonrpc.CallError](err); ok && call.Delivery == jsonrpc.NotSent {
					break
				}
				if opened.Load() > 100 {
					t.Fatal("the server is called again and again")
				}
			}
			if n := opened.Load(); n != 7 {
				t.Errorf("%d sessions were opened, want 1 + 6", n)
			}
			if took := time.Since(begun); took < 3*time.Second {
				t.Errorf("after %v", took)
			}
		})
	})
}

// TestRepeatedReconnects checks that useful connections can be renewed any number of times.
func TestRepeatedReconnects(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		synctest.Test(t, func(t *testing.T) {
			c := newCounter()
			dialer := &breaker{server: c}
			session := connect(t, dialer, client.Options{Era: era, Limits: client.Limits{Reconnects: 2}})
			for i := range 50 {
				n, err := client.CallAs[int](t.Context(), session, "count", nil, nil)
				if err != nil || n != i+1 {
					t.Fatalf("call %d: %d, %v", i, n, err)
				}
				dialer.cut()
			}
		})
	})
}

func TestCloseWhileReconnecting(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		synctest.Test(t, func(t *testing.T) {
			dialer := &breaker{server: newCounter()}
			session := connect(t, dialer, client.Options{Era: era})
			dialer.refuse.Store(true)
			dialer.cut()
			waiting := make(chan error, 1)
			go func() {
				_, err := session.CallTool(t.Context(), "count", nil, nil)
				waiting <- err
			}()
			<-time.After(5 * time.Second)
			before := dialer.dials.Load()
			begun := time.Now()
			session.Close()
			if took := time.Since(begun); took != 0 {
				t.Errorf("closing took %v", took)
			}
			if call := failed(t, <-waiting, jsonrpc.NotSent); !errors.Is(call, jsonrpc.ErrClosed) {
				t.Errorf("the call that waited: %v", call)
			}
			<-time.After(time.Hour)
			if after := dialer.dials.Load(); after != before {
				t.Errorf("a closed session connected %d times", after-before)
			}
		})
	})
}

// TestLaterRoundsAreNotRetried checks that an unsent later round does not repeat the whole call.
func TestLaterRoundsAreNotRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dialer *breaker
		var runs atomic.Int32
		s := newServer(nil)
		server.AddTool(s, server.Tool{Name: "ask"}, func(_ context.Context, r *server.Request, _ noServer) (string, error) {
			runs.Add(1)
			_, err := server.Elicit[preferences](r, "k", "m")
			return "", err
		})
		dialer = &breaker{server: s}
		session := connect(t, dialer, client.Options{Era: client.Modern, Elicit: func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			dialer.cut()
			return &mcp.ElicitResult{Action: mcp.ElicitDecline}, nil
		}})
		_, err := session.CallTool(t.Context(), "ask", nil, nil)
		failed(t, err, jsonrpc.MaybeExecuted)
		if n := runs.Load(); n != 1 {
			t.Errorf("the tool ran %d times", n)
		}
	})
}

// executionLog is the environment variable that makes this binary a server, and names its log of
// executed calls.
const executionLog = "DOVETAIL_TEST_EXECUTIONS"

type entry struct {
	Nonce string `json:"nonce"`
}

// serveNotary serves a tool that logs a nonce, and then answers unless the nonce begins with
// "held".
func serveNotary(log string) int {
	s := server.New(mcp.Implementation{Name: "notary", Version: "1"}, nil)
	server.AddTool(s, server.Tool{Name: "note"}, func(ctx context.Context, r *server.Request, in entry) (int, error) {
		f, err := os.OpenFile(log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return 0, err
		}
		defer f.Close()
		if _, err := f.WriteString(in.Nonce + "\n"); err != nil {
			return 0, err
		}
		if strings.HasPrefix(in.Nonce, "held") {
			if err := r.Progress(ctx, 1, 0, ""); err != nil {
				return 0, err
			}
			<-ctx.Done()
			return 0, ctx.Err()
		}
		return os.Getpid(), nil
	})
	if err := stdio.Serve(context.Background(), s, nil); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func kill(t *testing.T, pid int) {
	t.Helper()
	process, err := os.FindProcess(pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Kill(); err != nil {
		t.Fatal(err)
	}
}

// TestProcessKilled checks that the session starts another process, and repeats no call that may
// have been executed.
func TestProcessKilled(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		log := filepath.Join(t.TempDir(), "executions")
		dialer := stdio.Command(self, nil, &stdio.CommandOptions{Env: []string{executionLog + "=" + log}})
		session := connect(t, dialer, client.Options{Era: era})
		ctx := t.Context()

		first, err := client.CallAs[int](ctx, session, "note", entry{"first"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		const calls = 8
		begun, outcomes := make(chan struct{}, calls), make(chan error, calls)
		for i := range calls {
			go func() {
				opts := &client.CallOptions{Progress: func(*mcp.ProgressParams) { begun <- struct{}{} }}
				_, err := session.CallTool(ctx, "note", entry{"held-" + strconv.Itoa(i)}, opts)
				outcomes <- err
			}()
		}
		for range calls {
			waittest.Receive(t, "the beginning of the call", begun)
		}
		kill(t, first)
		for range calls {
			call := failed(t, waittest.Receive(t, "the outcome of a call", outcomes), jsonrpc.MaybeExecuted)
			if !errors.Is(call, jsonrpc.ErrClosed) {
				t.Errorf("a call in flight failed with %v, want ErrClosed", call)
			}
		}

		second, err := client.CallAs[int](ctx, session, "note", entry{"last"}, nil)
		if err != nil {
			t.Fatalf("after the server was killed: %v", err)
		}
		if second == first {
			t.Error("the killed process answers")
		}
		executed := make(map[string]int)
		data, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		for nonce := range strings.FieldsSeq(string(data)) {
			executed[nonce]++
		}
		if len(executed) != calls+2 {
			t.Errorf("%d calls were executed, want %d: %v", len(executed), calls+2, executed)
		}
		for nonce, times := range executed {
			if times != 1 {
				t.Errorf("%s was executed %d times", nonce, times)
			}
		}
	})
}

// TestPrincipalAfterReconnect checks that a session in memory keeps its principal.
func TestPrincipalAfterReconnect(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		synctest.Test(t, func(t *testing.T) {
			s := newServer(nil)
			server.AddTool(s, server.Tool{Name: "whoami"}, func(_ context.Context, r *server.Request, _ noServer) (string, error) {
				return r.Caller().Principal, nil
			})
			dialer := &breaker{server: s}
			ctx, cancel := context.WithCancel(transport.WithPrincipal(t.Context(), "ada"))
			session, err := client.Connect(ctx, dialer, &client.Options{Era: era})
			if err != nil {
				t.Fatal(err)
			}
			defer session.Close()
			cancel()
			for range 2 {
				if who, err := client.CallAs[string](t.Context(), session, "whoami", nil, nil); err != nil || who != "ada" {
					t.Errorf("the principal is %q, %v; want ada", who, err)
				}
				dialer.cut()
			}
		})
	})
}
