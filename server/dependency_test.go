package server_test

import (
	"bytes"
	"context"
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
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

// Types of dependencies.
type (
	oven  struct{ degrees int }
	mill  struct{ name string }
	scale interface{ Weigh() int }
)

// lives is a dependency that tells when it is started and stopped.
func lives[T any](tr *trace, name string, value T, failures ...error) server.Dependency {
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
	return &server.Options{Dependencies: on, Logger: quiet()}
}

func wantSteps(t testing.TB, tr *trace, want ...string) {
	t.Helper()
	if got := tr.take(); !slices.Equal(got, want) {
		t.Errorf("what happens is %q, want %q", got, want)
	}
}

// TestDependencies: the first request starts what the server depends on, in its order;
// shutting down stops it in the reverse order.
func TestDependencies(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		var tr trace
		s := newServer(depends(lives(&tr, "oven", &oven{230}), lives(&tr, "mill", mill{"stone"}), server.Provide(
			func(context.Context) (scale, func(context.Context) error, error) { return nil, nil, nil })))
		server.AddTool(s, server.Tool{Name: "tool"}, func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
			tr.step("call")
			server.Value[*oven](r).degrees++ // it is the same each time
			return fmt.Sprintf("%d %s %v", server.Value[*oven](r).degrees, server.Value[mill](r).name, server.Value[scale](r)), nil
		})
		wantSteps(t, &tr)
		session := connect(t, s, era)
		for _, want := range []string{"231 stone <nil>", "232 stone <nil>"} {
			if got := texts(call(t, session, "tool", `{}`)); got != want {
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

// TestMissingDependency: a mistake in the program costs the call that meets it, and no
// caller learns of it.
func TestMissingDependency(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		for _, opts := range []*server.Options{depends(), depends(lives(&trace{}, "oven", oven{}))} {
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
			if got := texts(call(t, session, "alive", `{}`)); got != "yes" {
				t.Errorf("the server says %q", got)
			}
		}
	})
}

// TestDependenciesAreChecked when the server is made.
func TestDependenciesAreChecked(t *testing.T) {
	for want, on := range map[string][]server.Dependency{
		"there are two dependencies of type *server_test.oven": {lives(&trace{}, "", &oven{}), lives(&trace{}, "", mill{}), lives(&trace{}, "", &oven{})},
		"a Dependency is made by Provide":                      {{}},
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

// TestStartOnce: of many first calls one starts the server, and all are answered.
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
				if texts(call(t, session, "tool", `{}`)) == "230" {
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

// TestSlowStart: a client connects and pings while the server starts, and its calls wait.
// Whoever does not want to wait leaves, and starting goes on.
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
		if got := texts(call(t, session, "tool", `{}`)); got != "warm" {
			t.Errorf("the tool says %q", got)
		}
		if err := s.Start(gone); err != nil {
			t.Errorf("a server that has started says %v", err)
		}
		wantSteps(t, &tr, "start")
	})
}

// couldNotStart is all that a client learns of a failed start.
var couldNotStart = regexp.MustCompile(`^the server could not start, reference [A-Z0-9]{26}$`)

// TestStartFails: what was started is stopped in reverse order. The program and the log
// get the error, a client only a reference to it.
func TestStartFails(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		var tr trace
		var log bytes.Buffer
		s := newServer(&server.Options{Logger: slog.New(slog.NewJSONHandler(&log, nil)), Dependencies: []server.Dependency{
			lives(&tr, "oven", oven{}, nil, errors.New("the door is stuck")), lives(&tr, "mill", mill{}),
			lives(&tr, "water", "", errors.New("the pipe has burst")), lives(&tr, "salt", 0),
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

// TestStartPanics: that is a failure, and its text is for the operator.
func TestStartPanics(t *testing.T) {
	var log bytes.Buffer
	var tr trace
	s := newServer(&server.Options{Logger: slog.New(slog.NewJSONHandler(&log, nil)), Dependencies: []server.Dependency{
		lives(&tr, "oven", oven{}),
		server.Provide(func(context.Context) (mill, func(context.Context) error, error) { panic("the secret is 42") }),
	}})
	if err := s.Start(t.Context()); err == nil || err.Error() != "starting server_test.mill: it panicked" {
		t.Errorf("starting gives %v", err)
	}
	if !strings.Contains(log.String(), "the secret is 42") || !strings.Contains(log.String(), "dependency_test.go") {
		t.Errorf("the operator is told %s", &log)
	}
	wantSteps(t, &tr, "start oven", "stop oven")
}

// TestStartTakesTooLong: all of it has a minute, and stopping it again a time of its own.
func TestStartTakesTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tr trace
		began := time.Now()
		s := newServer(depends(lives(&tr, "oven", oven{}), server.Provide(func(ctx context.Context) (mill, func(context.Context) error, error) {
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

// TestStartTooLate: one that does not heed the end of its time has started
// nevertheless, and is stopped; those after it are not begun.
func TestStartTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, last := range []bool{false, true} {
			var tr trace
			late := server.Provide(func(context.Context) (mill, func(context.Context) error, error) {
				<-time.After(2 * time.Minute)
				return mill{}, func(context.Context) error { tr.step("stop mill"); return nil }, nil
			})
			on := []server.Dependency{late, lives(&tr, "oven", oven{})}
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
