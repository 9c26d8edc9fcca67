package server_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/internal/deadline"
	"github.com/dovetail-go/dovetail/internal/test/racetest"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport/store"
)

// A function runs again after its server has ended as often as the tool says. The table crosses what the tool says
// with its annotations.
func TestRestartsOfTools(t *testing.T) {
	yes, no := new(true), new(false)
	readOnly, idempotent := &mcp.ToolAnnotations{ReadOnlyHint: yes}, &mcp.ToolAnnotations{IdempotentHint: yes}
	neither := &mcp.ToolAnnotations{ReadOnlyHint: no, IdempotentHint: no}
	for name, test := range map[string]struct {
		annotations *mcp.ToolAnnotations
		maxRestarts int
		want        int32 // restarts
	}{
		"by default":              {nil, 0, 0},
		"neither":                 {neither, 0, 0},
		"read-only":               {readOnly, 0, 3},
		"idempotent":              {idempotent, 0, 3},
		"once":                    {nil, 1, 1},
		"read-only, once":         {readOnly, 1, 1},
		"never":                   {nil, -1, 0},
		"idempotent, but never":   {idempotent, -1, 0},
		"neither, but five times": {neither, 5, 5},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				shared := newStore(t)
				var runs atomic.Int32
				start := func() *taskClient {
					s := server.New(mcp.Implementation{Name: "jobs", Version: "1.0.0"}, &server.Options{Store: shared})
					tool := server.Tool{Name: "job", Task: server.TaskRequired, Annotations: test.annotations, MaxRestarts: test.maxRestarts}
					server.AddTool(s, tool, func(ctx context.Context, _ *server.Request, _ struct{}) (string, error) {
						runs.Add(1)
						<-ctx.Done()
						return "", ctx.Err()
					})
					return newTaskClient(t, s, taskOptions())
				}
				stop := func(c *taskClient) {
					c.session.Close()
					ended, cancel := context.WithCancel(context.Background())
					cancel()
					_ = c.server.Shutdown(ended) // it says that the task was interrupted
				}
				c := start()
				id := c.start("job", `{}`)
				for range 10 {
					synctest.Wait()
					stop(c)
					c = start()
				}
				defer stop(c)
				failed := c.expect(id, mcp.TaskFailed)
				if runs.Load() != 1+test.want || !strings.Contains(string(failed.Error), "may have been executed") {
					t.Errorf("the function has run %d times, want %d; the error is %s", runs.Load(), 1+test.want, failed.Error)
				}
			})
		})
	}
}

// A value of Once that finds no room in the store ends its task: the side effect, which has happened, is not
// repeated.
func TestOnceWithoutRoom(t *testing.T) {
	racetest.Skip(t)
	for name, test := range map[string]struct {
		size int
		said string // the first digits of it
	}{"too large for a task": {17 << 20, "178258"}, "too large for the store": {12 << 20, "125829"}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				shared, err := store.NewMemory(&store.MemoryOptions{Bytes: 10 << 20})
				if err != nil {
					t.Fatal(err)
				}
				defer shared.Close()
				s := server.New(mcp.Implementation{Name: "jobs", Version: "1.0.0"}, &server.Options{Store: shared})
				var effects atomic.Int32
				var reached atomic.Bool
				server.AddTool(s, server.Tool{Name: "pay", Task: server.TaskRequired, MaxRestarts: 3}, func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
					if _, err := server.Once(r, "paid", func() (string, error) {
						effects.Add(1)
						return strings.Repeat("x", test.size), nil
					}); err != nil {
						return "", err
					}
					if ctx.Err() == nil {
						reached.Store(true)
					}
					return "", ctx.Err()
				})
				c := newTaskClient(t, s, taskOptions())
				defer func() {
					c.session.Close()
					if err := s.Shutdown(t.Context()); err != nil {
						t.Error(err)
					}
				}()
				id := c.start("pay", `{}`)
				<-time.After(time.Hour)
				failed := c.expect(id, mcp.TaskFailed)
				if effects.Load() != 1 || reached.Load() {
					t.Errorf("the side effect has happened %d times; what follows was reached: %t", effects.Load(), reached.Load())
				}
				if message := string(failed.Error); !strings.Contains(message, "may have been executed") || !strings.Contains(message, test.said) {
					t.Errorf("the error is %s", message)
				}
			})
		})
	}
}

// A function that does not return takes its worker until a minute after the Timeout of its tool. Other tasks then run.
func TestFunctionThatNeverReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := server.New(mcp.Implementation{Name: "jobs", Version: "1.0.0"}, &server.Options{MaxTasks: 1, Logger: slog.New(slog.DiscardHandler)})
		release := make(chan struct{})
		server.AddTool(s, server.Tool{Name: "stuck", Task: server.TaskRequired, Timeout: 5 * time.Minute},
			func(context.Context, *server.Request, struct{}) (string, error) {
				<-release
				return "", nil
			})
		server.AddTool(s, server.Tool{Name: "other", Task: server.TaskRequired},
			func(context.Context, *server.Request, struct{}) (string, error) { return "done", nil })
		c := newTaskClient(t, s, taskOptions())
		defer func() {
			close(release)
			c.session.Close()
			if err := s.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
		}()
		stuck := c.start("stuck", `{}`)
		<-time.After(6*time.Minute - time.Second)
		c.expect(stuck, mcp.TaskWorking)
		<-time.After(2 * time.Second)
		failed := c.expect(stuck, mcp.TaskFailed)
		if message := string(failed.Error); !strings.Contains(message, "may have been executed") || !strings.Contains(message, "longer than 5m0s") {
			t.Errorf("the error is %s", message)
		}
		other := c.start("other", `{}`)
		<-time.After(10 * time.Second)
		c.expect(other, mcp.TaskCompleted)
	})
}

// During an update, a replica that does not have the tool of a task hands the task back, and one that has it runs
// the call.
func TestReplicaWithoutTheTool(t *testing.T) {
	for name, arrives := range map[string]bool{"another replica has it": true, "no replica has it": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				shared := newStore(t)
				var runs atomic.Int32
				var approved atomic.Bool
				asks := mcp.Guard{Name: "asks", Waits: true, Run: func(next mcp.Handler) mcp.Handler {
					return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
						if err := call.BecomeTask(mcp.TaskRequest{}); err != nil {
							return nil, err
						}
						if approved.Load() {
							return next(ctx, call)
						}
						defer deadline.Pause(ctx)()
						<-ctx.Done()
						return nil, context.Cause(ctx)
					}
				}}
				start := func(tools ...string) *taskClient {
					s := server.New(mcp.Implementation{Name: "jobs", Version: "1.0.0"}, &server.Options{Store: shared})
					for _, name := range tools {
						server.AddTool(s, server.Tool{Name: name, Guards: []mcp.Guard{asks}}, func(context.Context, *server.Request, struct{}) (string, error) {
							runs.Add(1)
							return "done", nil
						})
					}
					if err := s.Start(t.Context()); err != nil {
						t.Fatal(err)
					}
					return newTaskClient(t, s, taskOptions())
				}
				stop := func(c *taskClient) {
					c.session.Close()
					if err := c.server.Shutdown(context.Background()); err != nil {
						t.Error(err)
					}
				}
				creator := start("old", "new")
				id := creator.start("new", `{}`)
				old := start("old")
				defer stop(old)
				stop(creator) // before the function has begun
				approved.Store(true)
				<-time.After(time.Minute)
				old.expect(id, mcp.TaskWorking)
				if !arrives {
					<-time.After(2 * time.Hour)
					if failed := old.expect(id, mcp.TaskFailed); !strings.Contains(string(failed.Error), "was not executed") {
						t.Errorf("the error is %s", failed.Error)
					}
					return
				}
				updated := start("old", "new")
				defer stop(updated)
				<-time.After(10 * time.Minute)
				updated.expect(id, mcp.TaskCompleted)
				if runs.Load() != 1 {
					t.Errorf("the function has run %d times", runs.Load())
				}
			})
		})
	}
}

// A call that cannot become a task, since the store is away, is refused and not executed.
func TestTaskWithoutItsStore(t *testing.T) {
	for name, earlier := range map[string]bool{"from the beginning": false, "later": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				shared, err := store.NewMemory(nil)
				if err != nil {
					t.Fatal(err)
				}
				var runs atomic.Int32
				s := server.New(mcp.Implementation{Name: "jobs", Version: "1.0.0"}, &server.Options{Store: shared})
				server.AddTool(s, server.Tool{Name: "job", Task: server.TaskRequired}, func(context.Context, *server.Request, struct{}) (string, error) {
					runs.Add(1)
					return "done", nil
				})
				c := newTaskClient(t, s, taskOptions())
				if earlier {
					c.expect(c.start("job", `{}`), mcp.TaskCompleted)
				}
				before := runs.Load()
				if err := shared.Close(); err != nil {
					t.Fatal(err)
				}
				_, err = c.request(mcp.MethodToolsCall, `{"name":"job","arguments":{}}`)
				if refused, ok := errors.AsType[*jsonrpc.Error](err); !ok || refused.Code != jsonrpc.Busy || !strings.Contains(refused.Message, "not executed") || runs.Load() != before {
					t.Errorf("%d runs, the error is %v", runs.Load(), err)
				}
				c.session.Close()
				_ = s.Shutdown(t.Context()) // the store is closed
			})
		})
	}
}

// A fadingStore stores a task, and then fails.
type fadingStore struct{ store.Store }

var errFaded = errors.New("the store is away")

func (f fadingStore) Push(ctx context.Context, queue, id string, data []byte) error {
	return errors.Join(f.Store.Push(ctx, queue, id, data), errFaded)
}

func (fadingStore) Delete(context.Context, string, uint64) error { return errFaded }

// If the store goes away while it accepts a task, the client gets an error that says that the call may have been executed.
func TestTaskThatMayBeStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory, err := store.NewMemory(nil)
		if err != nil {
			t.Fatal(err)
		}
		defer memory.Close()
		s := server.New(mcp.Implementation{Name: "jobs", Version: "1.0.0"}, &server.Options{Store: fadingStore{memory}, Logger: slog.New(slog.DiscardHandler)})
		server.AddTool(s, server.Tool{Name: "job", Task: server.TaskRequired}, func(context.Context, *server.Request, struct{}) (string, error) {
			return "done", nil
		})
		c := newTaskClient(t, s, taskOptions())
		_, err = c.request(mcp.MethodToolsCall, `{"name":"job","arguments":{}}`)
		if failed, ok := errors.AsType[*jsonrpc.Error](err); !ok || failed.Code != jsonrpc.InternalError || !strings.HasPrefix(failed.Message, "the call may have been executed") {
			t.Errorf("the error is %v", err)
		}
		c.session.Close()
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A server runs the tasks that another replica has left also if its first tool with tasks comes long after its start, as from a server
// behind that was missing.
func TestTasksOfToolsThatComeLate(t *testing.T) {
	for _, mounted := range []bool{false, true} {
		t.Run(fmt.Sprintf("mounted %t", mounted), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				shared := newStore(t)
				var runs atomic.Int32
				add := func(s *server.Server) {
					tool := server.Tool{Name: "job", Task: server.TaskRequired, MaxRestarts: 1}
					server.AddTool(s, tool, func(ctx context.Context, _ *server.Request, _ struct{}) (string, error) {
						if runs.Add(1) == 1 {
							<-ctx.Done()
						}
						return "done", ctx.Err()
					})
				}
				first := server.New(mcp.Implementation{Name: "jobs", Version: "1.0.0"}, &server.Options{Store: shared})
				add(first)
				c := newTaskClient(t, first, taskOptions())
				id := c.start("job", `{}`)
				synctest.Wait()
				c.session.Close()
				ended, cancel := context.WithCancel(context.Background())
				cancel()
				_ = first.Shutdown(ended) // it says that the task was interrupted
				second := server.New(mcp.Implementation{Name: "jobs", Version: "1.0.0"}, &server.Options{Store: shared})
				late := second
				if mounted {
					late = server.New(mcp.Implementation{Name: "late", Version: "1.0.0"}, nil)
					if err := second.Mount(late.Provider(), nil); err != nil {
						t.Fatal(err)
					}
				}
				if err := second.Start(t.Context()); err != nil {
					t.Fatal(err)
				}
				defer func() {
					if err := second.Shutdown(t.Context()); err != nil {
						t.Error(err)
					}
				}()
				<-time.After(time.Minute)
				add(late)
				<-time.After(5 * time.Minute)
				if runs.Load() != 2 {
					t.Errorf("the function has run %d times, want 2", runs.Load())
				}
				c = newTaskClient(t, second, taskOptions())
				defer c.session.Close()
				c.expect(id, mcp.TaskCompleted)
			})
		})
	}
}

// The call of a tool that a guard has made a task begins again as often as the tool says, which is never for an entry with
// a handler of its own, unless the handler only forwards the call.
func TestRestartsOfGuardedTools(t *testing.T) {
	asks := mcp.Guard{Name: "asks", Waits: true, Run: func(next mcp.Handler) mcp.Handler {
		return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
			if err := call.BecomeTask(mcp.TaskRequest{}); err != nil {
				return nil, err
			}
			return next(ctx, call)
		}
	}}
	tool := func(t *testing.T, tool server.Tool, run func(context.Context) error) *server.Entry {
		e, err := server.NewTool(tool, func(ctx context.Context, _ *server.Request, _ struct{}) (string, error) { return "", run(ctx) })
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	own := func(forwards bool) func(t *testing.T, run func(context.Context) error) *server.Entry {
		return func(_ *testing.T, run func(context.Context) error) *server.Entry {
			return &server.Entry{
				Target:   mcp.Target{Kind: mcp.KindTool, Name: "pay", Definition: mcp.NewDefinition([]byte(`{"name":"pay","inputSchema":{"type":"object"}}`))},
				Handle:   func(ctx context.Context, _ *mcp.Call) (mcp.Result, error) { return nil, run(ctx) },
				Forwards: forwards,
			}
		}
	}
	const stops = 5
	for name, test := range map[string]struct {
		entry func(t *testing.T, run func(context.Context) error) *server.Entry
		want  int32 // runs
	}{
		"tool": {func(t *testing.T, run func(context.Context) error) *server.Entry {
			return tool(t, server.Tool{Name: "pay"}, run)
		}, 1},
		"tool with restarts": {func(t *testing.T, run func(context.Context) error) *server.Entry {
			return tool(t, server.Tool{Name: "pay", MaxRestarts: 2}, run)
		}, 3},
		"task with restarts": {func(t *testing.T, run func(context.Context) error) *server.Entry {
			return tool(t, server.Tool{Name: "pay", Task: server.TaskOptional, MaxRestarts: 3}, run)
		}, 4},
		"own handler":          {own(false), 1},
		"own handler forwards": {own(true), 1 + stops},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				shared := newStore(t)
				var runs atomic.Int32
				start := func() *taskClient {
					s := server.New(mcp.Implementation{Name: "jobs", Version: "1.0.0"}, &server.Options{Store: shared, Guards: []mcp.Guard{asks}})
					if err := s.Replace(test.entry(t, func(ctx context.Context) error {
						runs.Add(1)
						<-ctx.Done()
						return ctx.Err()
					})); err != nil {
						t.Fatal(err)
					}
					if err := s.Start(t.Context()); err != nil {
						t.Fatal(err)
					}
					return newTaskClient(t, s, taskOptions())
				}
				stop := func(c *taskClient) {
					c.session.Close()
					ended, cancel := context.WithCancel(context.Background())
					cancel()
					_ = c.server.Shutdown(ended) // it says that the task was interrupted
				}
				c := start()
				c.start("pay", `{}`)
				for range stops {
					synctest.Wait()
					stop(c)
					c = start()
					<-time.After(2 * time.Minute)
				}
				defer stop(c)
				if runs.Load() != test.want {
					t.Errorf("the function has run %d times, want %d", runs.Load(), test.want)
				}
			})
		})
	}
}
