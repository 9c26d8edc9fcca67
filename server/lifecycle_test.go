package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

// Types of dependencies.
type (
	oven  struct{ degrees int }
	mill  struct{ name string }
	scale interface{ Weigh() int }
)

// tracedDependency is a dependency that records its start and stop.
func tracedDependency[T any](tr *trace, name string, value T, failures ...error) server.Dependency {
	return server.Provide(func(context.Context) (T, func(context.Context) error, error) {
		tr.step("start " + name)
		if len(failures) > 0 && failures[0] != nil {
			return value, func(context.Context) error { tr.step("stop " + name + " that has not started"); return nil }, failures[0]
		}
		return value, func(ctx context.Context) error {
			tr.step("stop " + name)
			if ctx.Err() != nil {
				tr.step(name + " is stopped with a context that has ended")
			}
			if len(failures) > 1 {
				return failures[1]
			}
			return nil
		}, nil
	})
}

func depends(on ...server.Dependency) *server.Options {
	return &server.Options{Dependencies: on, Logger: discardLogger()}
}

func wantSteps(t testing.TB, tr *trace, want ...string) {
	t.Helper()
	if got := tr.take(); !slices.Equal(got, want) {
		t.Errorf("what happens is %q, want %q", got, want)
	}
}

// TestDependencies checks that the first request starts dependencies in order, and that shutdown
// stops them in reverse.
func TestDependencies(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		var tr trace
		s := newServer(depends(tracedDependency(&tr, "oven", &oven{230}), tracedDependency(&tr, "mill", mill{"stone"}), server.Provide(
			func(context.Context) (scale, func(context.Context) error, error) { return nil, nil, nil })))
		server.AddTool(s, server.Tool{Name: "tool"}, func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
			tr.step("call")
			server.Value[*oven](r).degrees++ // it is the same each time
			return fmt.Sprintf("%d %s %v", server.Value[*oven](r).degrees, server.Value[mill](r).name, server.Value[scale](r)), nil
		})
		wantSteps(t, &tr)
		session := connect(t, s, era)
		for _, want := range []string{"231 stone <nil>", "232 stone <nil>"} {
			if got := textOf(call(t, session, "tool", `{}`)); got != want {
				t.Errorf("the tool says %q, want %q", got, want)
			}
		}
		if err := s.Start(t.Context()); err != nil {
			t.Error(err)
		}
		wantSteps(t, &tr, "start oven", "start mill", "call", "call")
		for range 2 {
			if err := s.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
		}
		wantSteps(t, &tr, "stop mill", "stop oven")
	})
}

// TestMissingDependency checks that a missing dependency fails the call with a reference.
func TestMissingDependency(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		for _, opts := range []*server.Options{depends(), depends(tracedDependency(&trace{}, "oven", oven{}))} {
			var log bytes.Buffer
			opts.Logger = slog.New(slog.NewJSONHandler(&log, nil))
			s := newServer(opts)
			server.AddTool(s, server.Tool{Name: "tool"}, func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
				return server.Value[mill](r).name, nil
			})
			returns(s, "alive", "yes")
			session := connect(t, s, era)
			_, err := session.CallTool(t.Context(), "tool", nil, nil)
			if wantCode(t, err, jsonrpc.InternalError); !reference.MatchString(message(err)) {
				t.Errorf("the client is told %q", message(err))
			}
			if want := "Options.Dependencies has none of type server_test.mill"; !strings.Contains(log.String(), want) {
				t.Errorf("the operator is told %s", &log)
			}
			if got := textOf(call(t, session, "alive", `{}`)); got != "yes" {
				t.Errorf("the server says %q", got)
			}
		}
	})
}

// TestDependenciesAreChecked checks that New rejects invalid dependencies.
func TestDependenciesAreChecked(t *testing.T) {
	for want, on := range map[string][]server.Dependency{
		"there are two dependencies of type *server_test.oven": {tracedDependency(&trace{}, "", &oven{}), tracedDependency(&trace{}, "", mill{}), tracedDependency(&trace{}, "", &oven{})},
		"a Dependency must be created with Provide":            {{}},
	} {
		func() {
			defer func() {
				if got := fmt.Sprint(recover()); got != "server.New: "+want {
					t.Errorf("the panic is %q, want %q", got, want)
				}
			}()
			newServer(depends(on...))
		}()
	}
}

// TestStartOnce checks that concurrent first calls start the server once.
func TestStartOnce(t *testing.T) {
	virtualEras(t, func(t *testing.T, era client.Era) {
		var tr trace
		s := newServer(depends(server.Provide(func(ctx context.Context) (*oven, func(context.Context) error, error) {
			tr.step("start")
			<-time.After(10 * time.Second)
			return &oven{230}, nil, ctx.Err()
		})))
		server.AddTool(s, server.Tool{Name: "tool"}, func(_ context.Context, r *server.Request, _ struct{}) (int, error) {
			return server.Value[*oven](r).degrees, nil
		})
		var work sync.WaitGroup
		var answered atomic.Int64
		for range 64 {
			work.Go(func() {
				session := connectInMemory(t, s, &client.Options{Era: era, ProbeTimeout: time.Minute})
				if textOf(call(t, session, "tool", `{}`)) == "230" {
					answered.Add(1)
				}
			})
		}
		work.Wait()
		if answered.Load() != 64 {
			t.Errorf("%d of 64 calls are answered", answered.Load())
		}
		wantSteps(t, &tr, "start")
	})
}

// TestSlowStart checks that a client connects and pings while the server starts, that calls wait,
// and that a cancelled call does not cancel the start.
func TestSlowStart(t *testing.T) {
	virtualEras(t, func(t *testing.T, era client.Era) {
		var tr trace
		s := newServer(depends(server.Provide(func(ctx context.Context) (*oven, func(context.Context) error, error) {
			tr.step("start")
			select {
			case <-time.After(30 * time.Second):
				return &oven{}, nil, nil
			case <-ctx.Done():
				return nil, nil, ctx.Err()
			}
		})))
		returns(s, "tool", "warm")
		soon, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := s.Start(soon); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("starting ends with %v", err)
		}
		gone, leave := context.WithCancelCause(t.Context())
		leave(errors.New("I have left"))
		if err := s.Start(gone); err == nil || err.Error() != "I have left" {
			t.Errorf("starting ends with %v", err)
		}
		began := time.Now()
		session := connectInMemory(t, s, &client.Options{Era: era})
		if err := session.Ping(t.Context()); err != nil || time.Since(began) != 0 {
			t.Errorf("a ping while the server starts gives %v after %v", err, time.Since(began))
		}
		soon, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := session.CallTool(soon, "tool", nil, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a call while the server starts gives %v", err)
		}
		if got := textOf(call(t, session, "tool", `{}`)); got != "warm" {
			t.Errorf("the tool says %q", got)
		}
		if err := s.Start(gone); err != nil {
			t.Errorf("a server that has started says %v", err)
		}
		wantSteps(t, &tr, "start")
	})
}

// couldNotStart is the error that a client gets after a failed start.
var couldNotStart = regexp.MustCompile(`^the server could not start, reference [A-Z0-9]{26}$`)

// TestStartFails checks that a failure stops what was started, and that a client gets only a
// reference.
func TestStartFails(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		var tr trace
		var log bytes.Buffer
		s := newServer(&server.Options{Logger: slog.New(slog.NewJSONHandler(&log, nil)), Dependencies: []server.Dependency{
			tracedDependency(&tr, "oven", oven{}, nil, errors.New("the door is stuck")), tracedDependency(&tr, "mill", mill{}),
			tracedDependency(&tr, "water", "", errors.New("the pipe has burst")), tracedDependency(&tr, "salt", 0),
		}})
		returns(s, "tool", "")
		for range 2 { // it is not tried again
			err := s.Start(t.Context())
			if err == nil || err.Error() != "starting string: the pipe has burst\nstopping server_test.oven: the door is stuck" {
				t.Errorf("starting gives %v", err)
			}
		}
		_, err := client.Connect(t.Context(), transport.Pipe(s), &client.Options{Era: era})
		if wantCode(t, err, jsonrpc.InternalError); !couldNotStart.MatchString(message(err)) {
			t.Errorf("a client is told %v", err)
		}
		if !strings.Contains(log.String(), "the pipe has burst") {
			t.Errorf("the operator is told %s", &log)
		}
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		wantSteps(t, &tr, "start oven", "start mill", "start water", "stop mill", "stop oven")
	})
}

// TestStartPanics checks that a panic fails the start, and that its text is only in the log.
func TestStartPanics(t *testing.T) {
	var log bytes.Buffer
	var tr trace
	s := newServer(&server.Options{Logger: slog.New(slog.NewJSONHandler(&log, nil)), Dependencies: []server.Dependency{
		tracedDependency(&tr, "oven", oven{}),
		server.Provide(func(context.Context) (mill, func(context.Context) error, error) { panic("the secret is 42") }),
	}})
	if err := s.Start(t.Context()); err == nil || err.Error() != "starting server_test.mill: it panicked" {
		t.Errorf("starting gives %v", err)
	}
	if !strings.Contains(log.String(), "the secret is 42") || !strings.Contains(log.String(), "lifecycle_test.go") {
		t.Errorf("the operator is told %s", &log)
	}
	wantSteps(t, &tr, "start oven", "stop oven")
}

// TestStartTakesTooLong checks the timeout of the start, and of stopping after it.
func TestStartTakesTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tr trace
		began := time.Now()
		s := newServer(depends(tracedDependency(&tr, "oven", oven{}), server.Provide(func(ctx context.Context) (mill, func(context.Context) error, error) {
			<-ctx.Done()
			return mill{}, nil, ctx.Err()
		})))
		err := s.Start(t.Context())
		if err == nil || err.Error() != "starting server_test.mill: starting took longer than 1m0s" || time.Since(began) != time.Minute {
			t.Errorf("starting gives %v after %v", err, time.Since(began))
		}
		wantSteps(t, &tr, "start oven", "stop oven")
	})
}

// TestStartTooLate checks that a dependency that ignores the timeout is stopped, and that later
// ones are not started.
func TestStartTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, last := range []bool{false, true} {
			var tr trace
			late := server.Provide(func(context.Context) (mill, func(context.Context) error, error) {
				<-time.After(2 * time.Minute)
				return mill{}, func(context.Context) error { tr.step("stop mill"); return nil }, nil
			})
			on := []server.Dependency{late, tracedDependency(&tr, "oven", oven{})}
			if last {
				on = on[:1]
			}
			if err := newServer(depends(on...)).Start(t.Context()); err == nil || err.Error() != "starting took longer than 1m0s" {
				t.Errorf("starting gives %v", err)
			}
			wantSteps(t, &tr, "stop mill")
		}
	})
}

// A driverError is an error whose type and text must not reach clients.
type driverError struct{ address string }

func (e *driverError) Error() string { return "pq: password of baker refused at " + e.address }

// TestFailedStartIsAReference checks that every request to a server that could not start gets the
// same reference, and that the log has the cause.
func TestFailedStartIsAReference(t *testing.T) {
	const address = "10.0.0.7:5432"
	failing := newTestProvider()
	failing.start = func(context.Context) error { return &driverError{address} }
	for what, test := range map[string]struct {
		dependency func(ctx context.Context) (*oven, func(context.Context) error, error)
		mounted    server.Provider
		logged     []string
		panicked   string
	}{
		"error of a dependency": {
			dependency: func(context.Context) (*oven, func(context.Context) error, error) {
				<-time.After(5 * time.Second)
				return nil, nil, fmt.Errorf("dialling: %w", &driverError{address})
			},
			logged: []string{"starting *server_test.oven: dialling: pq: password of baker refused at " + address},
		},
		"panic of a dependency": {
			dependency: func(context.Context) (*oven, func(context.Context) error, error) {
				<-time.After(5 * time.Second)
				panic(&driverError{address})
			},
			logged:   []string{"starting *server_test.oven: it panicked"},
			panicked: "pq: password of baker refused at " + address,
		},
		"error of a provider": {
			dependency: func(context.Context) (*oven, func(context.Context) error, error) {
				<-time.After(5 * time.Second)
				return &oven{}, nil, nil
			},
			mounted: failing,
			logged:  []string{`starting mount 1 (prefix "m_"): pq: password of baker refused at ` + address},
		},
	} {
		t.Run(what, func(t *testing.T) {
			virtualEras(t, func(t *testing.T, era client.Era) {
				var log bytes.Buffer
				s := newServer(&server.Options{Logger: slog.New(slog.NewJSONHandler(&log, nil)), Dependencies: []server.Dependency{server.Provide(test.dependency)}})
				addEveryKind(s, options{}, func(*server.Request) error { return nil })
				if test.mounted != nil {
					mountProvider(t, s, test.mounted, "m_")
				}
				session := connectInMemory(t, s, &client.Options{Era: era})
				if err := session.Ping(t.Context()); err != nil {
					t.Errorf("a ping while the server starts: %v", err)
				}
				calls := slices.Clone(everyKind)
				for _, method := range []string{mcp.MethodToolsList, mcp.MethodPromptsList, mcp.MethodResourcesList, mcp.MethodResourceTemplatesList} {
					calls = append(calls, struct{ kind, name, method, params string }{method: method, params: `{}`})
				}
				told := make(chan error, len(calls)+1)
				for _, c := range calls {
					go func() {
						_, err := raw(t, session, c.method, c.params)
						told <- err
					}()
				}
				go func() { told <- subscribed(t.Context(), session, "app:r") }()
				synctest.Wait()
				if len(told) > 0 {
					t.Errorf("while the server starts, %d calls are answered", len(told))
				}
				var errs []error
				for range cap(told) {
					errs = append(errs, <-told)
				}
				_, err := session.CallTool(t.Context(), "tool", nil, nil) // later
				_, refused := client.Connect(t.Context(), transport.Pipe(s), &client.Options{Era: era})
				var record struct{ Msg, Error, Panic, Stack, Reference string }
				for line := range strings.Lines(log.String()) {
					if strings.Contains(line, `"reference"`) {
						if err := json.Unmarshal([]byte(line), &record); err != nil {
							t.Fatal(err)
						}
					}
				}
				for _, err := range append(errs, err, refused) {
					e, ok := errors.AsType[*jsonrpc.Error](err)
					if !ok || e.Code != jsonrpc.InternalError || e.Data != nil || e.Message != "the server could not start, reference "+record.Reference {
						t.Errorf("a client is told %+v, and the log's reference is %q", err, record.Reference)
					}
				}
				for _, want := range test.logged {
					if !strings.Contains(record.Error, want) || record.Reference == "" {
						t.Errorf("the operator is told %+v, want %q", record, want)
					}
				}
				if record.Panic != test.panicked || (record.Stack != "") != (test.panicked != "") {
					t.Errorf("the record with the reference has the panic %q and the stack %q, want the panic %q", record.Panic, record.Stack, test.panicked)
				}
				if !strings.Contains(log.String(), address) {
					t.Errorf("the log does not have the cause: %s", &log)
				}
			})
		})
	}
}

// TestShutdown checks that running calls finish, new calls are rejected, and subscriptions end.
func TestShutdown(t *testing.T) {
	virtualEras(t, func(t *testing.T, era client.Era) {
		s := newServer(nil)
		server.AddTool(s, server.Tool{Name: "slow"}, func(_ context.Context, _ *server.Request, in struct {
			Seconds int `json:"seconds"`
		}) (string, error) {
			<-time.After(time.Duration(in.Seconds) * time.Second)
			return "finished", nil
		})
		session := connectInMemory(t, s, &client.Options{Era: era})
		sub, err := session.Subscribe(t.Context(), mcp.SubscriptionFilter{ToolsListChanged: true})
		if err != nil {
			t.Fatal(err)
		}
		results := make(chan *mcp.CallToolResult, 2)
		for _, seconds := range []string{"20", "30"} {
			go func() { results <- call(t, session, "slow", `{"seconds":`+seconds+`}`) }()
		}
		synctest.Wait()

		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := s.Shutdown(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("while a call runs, shutting down gives %v", err)
		}
		_, err = session.CallTool(t.Context(), "slow", jsonRaw(`{"seconds":1}`), nil)
		wantCode(t, err, jsonrpc.Busy)
		synctest.Wait()
		if era == client.Modern {
			select {
			case <-sub.Done():
			default:
				t.Error("a subscription outlives the server")
			}
		}
		if err := s.Shutdown(t.Context()); err != nil {
			t.Errorf("when all has finished, shutting down gives %v", err)
		}
		synctest.Wait()
		if len(results) != 2 {
			t.Errorf("%d of two calls that ran have finished", len(results))
		}
		if err := s.Shutdown(t.Context()); err != nil {
			t.Errorf("shutting down again gives %v", err)
		}
	})
}

// TestIdleShutdown checks that an idle server shuts down immediately.
func TestIdleShutdown(t *testing.T) {
	if err := newServer(nil).Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestStopWaitsForCalls checks that dependencies are stopped after the running calls.
func TestStopWaitsForCalls(t *testing.T) {
	virtualEras(t, func(t *testing.T, era client.Era) {
		var tr trace
		s := newServer(depends(tracedDependency(&tr, "oven", oven{})))
		server.AddTool(s, server.Tool{Name: "slow"}, func(context.Context, *server.Request, struct{}) (string, error) {
			<-time.After(20 * time.Second)
			tr.step("baked")
			return "", nil
		})
		session := connectInMemory(t, s, &client.Options{Era: era})
		answered := make(chan struct{})
		go func() {
			defer close(answered)
			call(t, session, "slow", `{}`)
		}()
		synctest.Wait()
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		<-answered
		wantSteps(t, &tr, "start oven", "baked", "stop oven")
	})
}

// TestStopErrors checks that all errors are returned, and that an error does not keep others from
// being stopped.
func TestStopErrors(t *testing.T) {
	var log bytes.Buffer
	var tr trace
	s := newServer(&server.Options{Logger: slog.New(slog.NewJSONHandler(&log, nil)), Dependencies: []server.Dependency{
		tracedDependency(&tr, "oven", oven{}, nil, errors.New("the door is stuck")),
		server.Provide(func(context.Context) (mill, func(context.Context) error, error) {
			return mill{}, func(context.Context) error { panic("the secret is 42") }, nil
		}),
		tracedDependency(&tr, "salt", 0, nil, errors.New("spilt")),
	}})
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	err := s.Shutdown(t.Context())
	if err == nil || err.Error() != "stopping int: spilt\nstopping server_test.mill: it panicked\nstopping server_test.oven: the door is stuck" {
		t.Errorf("shutting down gives %v", err)
	}
	if !strings.Contains(log.String(), "the secret is 42") {
		t.Errorf("the operator is told %s", &log)
	}
	wantSteps(t, &tr, "start oven", "start salt", "stop salt", "stop oven")
	if err := s.Shutdown(t.Context()); err != nil {
		t.Errorf("shutting down again gives %v", err)
	}
}

// TestStopOnce checks that concurrent calls of Shutdown all wait for the end.
func TestStopOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tr trace
		s := newServer(depends(server.Provide(func(context.Context) (oven, func(context.Context) error, error) {
			return oven{}, func(context.Context) error { <-time.After(time.Second); tr.step("cold"); return nil }, nil
		})))
		if err := s.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 2)
		for range 2 {
			go func() { err := s.Shutdown(t.Context()); tr.step("down"); done <- err }()
		}
		for range 2 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		wantSteps(t, &tr, "cold", "down", "down")
	})
}

// TestShutdownBeforeStart checks that a server that was shut down cannot be started.
func TestShutdownBeforeStart(t *testing.T) {
	var tr trace
	s := newServer(depends(tracedDependency(&tr, "oven", oven{})))
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if err := s.Start(t.Context()); err == nil || err.Error() != "the server is shutting down" {
		t.Errorf("starting gives %v", err)
	}
	_, err := client.Connect(t.Context(), transport.Pipe(s), nil)
	wantNotExecuted(t, err)
	if wantCode(t, err, jsonrpc.Busy); message(err) != "the server is shutting down" {
		t.Errorf("a client is told %v", err)
	}
	if err := s.Mount(newServer(nil).Provider(), &server.MountOptions{Prefix: "a_"}); err == nil {
		t.Error("something can be mounted")
	}
	wantSteps(t, &tr)
}

// TestShutdownWhileStarting checks that Shutdown cancels the start and stops what was started.
func TestShutdownWhileStarting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tr trace
		s := newServer(depends(tracedDependency(&tr, "oven", oven{}), server.Provide(func(ctx context.Context) (mill, func(context.Context) error, error) {
			<-ctx.Done()
			<-time.After(time.Second)
			tr.step("given up")
			return mill{}, nil, ctx.Err()
		}), tracedDependency(&tr, "salt", 0)))
		started := make(chan error, 1)
		go func() { started <- s.Start(t.Context()) }()
		synctest.Wait()
		began := time.Now()
		if err := s.Shutdown(t.Context()); err != nil || time.Since(began) != time.Second {
			t.Errorf("shutting down gives %v after %v", err, time.Since(began))
		}
		wantSteps(t, &tr, "start oven", "given up", "stop oven")
		if err := <-started; err == nil || err.Error() != "the server is shutting down" {
			t.Errorf("starting gives %v", err)
		}
	})
}

// TestShutdownTimesOut checks Shutdown during a start that ignores its context. What it starts is
// stopped later.
func TestShutdownTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tr trace
		s := newServer(depends(server.Provide(func(context.Context) (mill, func(context.Context) error, error) {
			<-time.After(40 * time.Second)
			return mill{}, func(ctx context.Context) error { tr.step("stop mill"); return ctx.Err() }, nil
		})))
		go func() { _ = s.Start(t.Context()) }()
		synctest.Wait()
		soon, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := s.Shutdown(soon); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("shutting down gives %v", err)
		}
		wantSteps(t, &tr)
		if err := s.Shutdown(t.Context()); err != nil {
			t.Errorf("shutting down again gives %v", err)
		}
		wantSteps(t, &tr, "stop mill")
	})
}

// TestShutdownWithEndedContext checks that Shutdown stops everything, and fails only for what it
// had to wait for.
func TestShutdownWithEndedContext(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	end()
	for range 20 {
		stopped := false
		s := newServer(depends(server.Provide(func(context.Context) (oven, func(context.Context) error, error) {
			return oven{}, func(context.Context) error { stopped = true; return nil }, nil
		})))
		if err := s.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := s.Shutdown(ended); err != nil || !stopped {
			t.Fatalf("shutting down gives %v, stopped is %t", err, stopped)
		}
		failed := newServer(depends(tracedDependency(&trace{}, "oven", oven{}, errors.New("no gas"))))
		_ = failed.Start(t.Context())
		if err := failed.Start(ended); err == nil || err.Error() != "starting server_test.oven: no gas" {
			t.Fatalf("starting gives %v", err)
		}
	}
}

func TestReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		want := func(s *server.Server, part string) {
			t.Helper()
			if err := s.Ready(); part == "" && err != nil || part != "" && (err == nil || !strings.Contains(err.Error(), part)) {
				t.Errorf("Ready returns %v, want %q", err, part)
			}
		}
		start := make(chan error)
		newSlow := func() *server.Server {
			return newServer(&server.Options{Logger: discardLogger(), Dependencies: []server.Dependency{
				server.Provide(func(context.Context) (int, func(context.Context) error, error) { return 0, nil, <-start }),
			}})
		}
		for _, test := range []struct {
			err  error
			want string
		}{{nil, ""}, {errors.New("no database"), "could not start"}} {
			s := newSlow()
			want(s, "has not been started")
			go s.Start(t.Context())
			synctest.Wait()
			want(s, "is starting")
			start <- test.err
			synctest.Wait()
			want(s, test.want)
			if err := s.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
			want(s, "shutting down")
		}
	})
}
