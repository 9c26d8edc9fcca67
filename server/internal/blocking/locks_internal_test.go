package blocking

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/internal/quota"
	"github.com/dovetail-go/dovetail/internal/state"
	"github.com/dovetail-go/dovetail/internal/test/leaktest"
	"github.com/dovetail-go/dovetail/internal/test/racetest"
	"github.com/dovetail-go/dovetail/internal/token"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport/store"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// A caller is the responder of the runs of one call. It answers each question when it is asked again.
type caller struct {
	id     string
	asked  map[string]bool
	stored map[string]json.RawMessage
	done   []func()
}

func newCaller(id string) *caller {
	return &caller{id: id, asked: make(map[string]bool), stored: make(map[string]json.RawMessage)}
}

func (c *caller) Notify(context.Context, string, jsonrpc.Appender) error { return nil }
func (c *caller) ID() string                                             { return c.id }
func (c *caller) OnDone(fn func())                                       { c.done = append(c.done, fn) }
func (c *caller) Detach(time.Duration)                                   {}
func (c *caller) TaskID() string                                         { return "" }
func (c *caller) Store(key string, value json.RawMessage)                { c.stored[key] = value }

func (c *caller) Load(key string) (json.RawMessage, bool) {
	value, ok := c.stored[key]
	return value, ok
}

func (c *caller) Input(key string, question mcp.InputRequest) (json.RawMessage, error) {
	if c.asked[key] {
		return json.RawMessage(`{"key":"` + key + `"}`), nil
	}
	c.asked[key] = true
	return nil, &mcp.InputRequired{Requests: map[string]mcp.InputRequest{key: question}}
}

// again returns a caller that repeats the last request.
func (c *caller) again() *caller {
	repeated := newCaller(c.id)
	for key := range c.asked {
		repeated.asked[key] = true
	}
	maps.Copy(repeated.stored, c.stored)
	return repeated
}

func newTestCalls(t testing.TB, shared store.Store) (*Calls, *quota.Retained) {
	t.Helper()
	ring, err := token.NewRing(make([]byte, token.MinKey))
	if err != nil {
		t.Fatal(err)
	}
	retained := quota.NewRetained(1 << 30)
	return New(Config{
		Store: shared, Key: state.FixedKey(ring), Retained: retained, Stopping: errors.New("stopping"), Logger: slog.New(slog.DiscardHandler),
	}), retained
}

// run is one run of a call.
func (c *caller) run(ctx context.Context, calls *Calls, fn Function) (mcp.Result, error) {
	req, err := jsonrpc.NewRequest(jsonrpc.IntID(1), mcp.MethodToolsCall, json.RawMessage(`{"name":"t"}`))
	if err != nil {
		return nil, err
	}
	call := mcp.NewCall(req, &mcp.Caller{Principal: c.id[:1]}, c)
	return calls.Run(ctx, &call, "t", nil, fn)
}

// finish runs a call until it has a result.
func (c *caller) finish(ctx context.Context, fn Function, at ...*Calls) (result mcp.Result, err error) {
	for i := 0; ; i++ {
		result, err = c.run(ctx, at[i%len(at)], fn)
		if _, asks := mcp.AsInputRequired(err); !asks {
			return result, err
		}
	}
}

// asking returns a function that asks n questions, and counts itself.
func asking(n int, begun *atomic.Int32) Function {
	return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
		begun.Add(1)
		for range n {
			if _, err := call.Input("q", mcp.InputRequest{Method: mcp.MethodElicit, Params: json.RawMessage(`{}`)}); err != nil {
				return nil, err
			}
			if err := call.Notify(ctx, mcp.NotificationMessage, &mcp.LoggingMessageParams{Level: mcp.LevelInfo, Data: json.RawMessage(`1`)}); err != nil {
				return nil, err
			}
			call.Store("a", json.RawMessage(`1`))
			call.OnDone(func() {})
		}
		return mcp.Raw(`{"done":true}`), nil
	}
}

// Functions begin, ask, are answered, repeated and interrupted at the same time. None runs twice, and in the end nothing
// is counted.
func TestFunctionsConcurrently(t *testing.T) {
	const n = 50
	synctest.Test(t, func(t *testing.T) {
		calls, retained := newTestCalls(t, nil)
		finish := func(name string) func(int) {
			return func(round int) {
				var begun atomic.Int32
				c := newCaller(fmt.Sprint(name, round))
				result, err := c.finish(t.Context(), asking(3, &begun), calls)
				if err != nil || result == nil || begun.Load() != 1 {
					t.Errorf("the result is %v, %v, after %d runs", result, err, begun.Load())
				}
				if again, err := c.again().run(t.Context(), calls, nil); err != nil || fmt.Sprint(again) != fmt.Sprint(result) {
					t.Errorf("the result of the repeated request is %v, %v", again, err)
				}
			}
		}
		cancel := func(round int) {
			var begun atomic.Int32
			c := newCaller(fmt.Sprint("cancelled", round))
			ctx, cancel := context.WithCancel(t.Context())
			_, _ = c.run(ctx, calls, asking(3, &begun))
			cancel()
			_, _ = c.run(ctx, calls, nil)
			for _, fn := range c.done {
				fn()
			}
		}
		racetest.Together(n, finish("a"), finish("b"), cancel, func(int) { calls.Holds("a1") })
		<-time.After(WaitTimeout + KeptFor + time.Second)
		synctest.Wait()
		if len(calls.functions) != 0 || calls.running != 0 || retained.Held() != 0 {
			t.Errorf("%d functions are known, %d run, %d bytes are held", len(calls.functions), calls.running, retained.Held())
		}
		calls.Drain()
		if err := calls.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// Many runs of one call continue its function, and each gets the outcome of its round.
func TestRunsOfOneFunctionConcurrently(t *testing.T) {
	for range 50 {
		synctest.Test(t, func(t *testing.T) {
			calls, _ := newTestCalls(t, nil)
			var begun atomic.Int32
			c := newCaller("a")
			if _, err := c.run(t.Context(), calls, asking(2, &begun)); err == nil {
				t.Fatal("the function did not ask")
			}
			var results [4]mcp.Result
			finish := func(i int) func(int) {
				mine := c.again()
				return func(int) { results[i], _ = mine.finish(t.Context(), nil, calls) }
			}
			racetest.Together(1, finish(0), finish(1), finish(2), finish(3))
			for _, result := range results {
				if fmt.Sprintf("%s", result) != `{"done":true}` {
					t.Errorf("a result is %s", result)
				}
			}
			if begun.Load() != 1 {
				t.Errorf("the function has begun %d times", begun.Load())
			}
			calls.Drain()
			_ = calls.Stop(t.Context())
		})
	}
}

// A shutdown at any time interrupts what waits, and begins nothing.
func TestShutdownOfFunctionsConcurrently(t *testing.T) {
	for range 50 {
		synctest.Test(t, func(t *testing.T) {
			calls, retained := newTestCalls(t, nil)
			var begun atomic.Int32
			ask := func(name string) func(int) {
				return func(round int) {
					_, _ = newCaller(fmt.Sprint(name, round)).run(t.Context(), calls, asking(1, &begun))
				}
			}
			racetest.Together(5, ask("a"), ask("b"), func(round int) {
				if round == 2 {
					calls.Drain()
				}
			})
			calls.Drain()
			if err := calls.Stop(t.Context()); err != nil || calls.running != 0 {
				t.Errorf("%v, %d functions run", err, calls.running)
			}
			synctest.Wait()
			before := begun.Load()
			if _, err := newCaller("c").run(t.Context(), calls, asking(1, &begun)); err != calls.config.Stopping || begun.Load() != before {
				t.Errorf("after the shutdown: %v", err)
			}
			if held := retained.Held(); held > int64(before)*functionMemory {
				t.Errorf("%d bytes are held", held)
			}
		})
	}
}

// Replicas continue each other's functions at the same time, with answers and results of any size.
func TestReplicasConcurrently(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared, err := store.NewMemory(nil)
		if err != nil {
			t.Fatal(err)
		}
		one, retained := newTestCalls(t, shared)
		other, _ := newTestCalls(t, shared)
		finish := func(name string, at ...*Calls) func(int) {
			return func(round int) {
				var begun atomic.Int32
				result, err := newCaller(fmt.Sprint(name, round)).finish(t.Context(), asking(3, &begun), at...)
				if err != nil || fmt.Sprintf("%s", result) != `{"done":true}` || begun.Load() != 1 {
					t.Errorf("the result is %s, %v, after %d runs", result, err, begun.Load())
				}
			}
		}
		racetest.Together(20, finish("a", one, other), finish("b", other, one), finish("c", one, other, other))
		<-time.After(WaitTimeout + KeptFor)
		synctest.Wait()
		if len(one.functions)+len(other.functions)+len(one.replicas.visits)+len(other.replicas.visits) != 0 || retained.Held() != 0 {
			t.Errorf("functions: %d and %d, visits: %d and %d, bytes: %d", len(one.functions), len(other.functions),
				len(one.replicas.visits), len(other.replicas.visits), retained.Held())
		}
		for _, calls := range []*Calls{one, other} {
			calls.Drain()
			if err := calls.Stop(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if err := shared.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A function that ends in an unusual way ends its call, and nothing is counted after it.
func TestUnusualEnds(t *testing.T) {
	for name, test := range map[string]struct {
		fn   Function
		want string // in the error
	}{
		"goroutine exits": {func(context.Context, *mcp.Call) (mcp.Result, error) {
			runtime.Goexit()
			return nil, nil
		}, "Goexit"},
		"OnDone panics": {func(_ context.Context, call *mcp.Call) (mcp.Result, error) {
			call.OnDone(func() { panic("done") })
			return mcp.Raw(`{}`), nil
		}, ""},
		"questions after the end": {func(_ context.Context, call *mcp.Call) (mcp.Result, error) {
			call.OnDone(func() {
				for range 100 {
					if _, err := call.Input("late", mcp.InputRequest{Method: mcp.MethodElicit}); err == nil {
						t.Error("a question after the end was answered")
					}
				}
			})
			return mcp.Raw(`{}`), nil
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				calls, retained := newTestCalls(t, nil)
				result, err := newCaller("a1").run(t.Context(), calls, test.fn)
				if test.want == "" && (err != nil || result == nil) || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
					t.Errorf("got %v, %v, want %q", result, err, test.want)
				}
				synctest.Wait()
				calls.Drain()
				if err := calls.Stop(t.Context()); err != nil {
					t.Error(err)
				}
				if held := retained.Held(); held != 0 {
					t.Errorf("%d bytes are counted", held)
				}
			})
		})
	}
}

// Runs of one call that end at the same time do not share what a middleware may change.
func TestRunsDoNotShareResults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls, _ := newTestCalls(t, nil)
		c := newCaller("a1")
		own := &mcp.CallToolResult{Content: mcp.ContentList{mcp.Text("one")}}
		got, err := c.finish(t.Context(), func(_ context.Context, call *mcp.Call) (mcp.Result, error) {
			_, err := call.Input("q", mcp.InputRequest{Method: mcp.MethodElicit})
			return own, err
		}, calls)
		if err != nil || got == mcp.Result(own) {
			t.Errorf("the first run got the value of the function, %v", err)
		}
		calls.Drain()
		if err := calls.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
