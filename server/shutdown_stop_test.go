package server_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

// TestStopWaitsForCalls: what functions need is there as long as they run.
func TestStopWaitsForCalls(t *testing.T) {
	virtualEras(t, func(t *testing.T, era client.Era) {
		var tr trace
		s := newServer(depends(lives(&tr, "oven", oven{})))
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

// TestStopErrors: each is told, and none keeps the others from being stopped.
func TestStopErrors(t *testing.T) {
	var log bytes.Buffer
	var tr trace
	s := newServer(&server.Options{Logger: slog.New(slog.NewJSONHandler(&log, nil)), Dependencies: []server.Dependency{
		lives(&tr, "oven", oven{}, nil, errors.New("the door is stuck")),
		server.Provide(func(context.Context) (mill, func(context.Context) error, error) {
			return mill{}, func(context.Context) error { panic("the secret is 42") }, nil
		}),
		lives(&tr, "salt", 0, nil, errors.New("spilt")),
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

// TestStopOnce: two who shut down at once both wait until all has been stopped.
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

// TestShutdownBeforeStart: what was never started is neither started nor stopped, and
// never will be.
func TestShutdownBeforeStart(t *testing.T) {
	var tr trace
	s := newServer(depends(lives(&tr, "oven", oven{})))
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if err := s.Start(t.Context()); err == nil || err.Error() != "the server is shutting down" {
		t.Errorf("starting gives %v", err)
	}
	_, err := client.Connect(t.Context(), transport.Pipe(s), nil)
	if wantCode(t, err, jsonrpc.InternalError); message(err) != "the server is shutting down" {
		t.Errorf("a client is told %v", err)
	}
	if err := s.Mount(newServer(nil).Provider(), &server.MountOptions{Prefix: "a_"}); err == nil {
		t.Error("something can be mounted")
	}
	wantSteps(t, &tr)
}

// TestShutdownWhileStarting: starting is given up, what has been started is stopped,
// and that before Shutdown returns.
func TestShutdownWhileStarting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tr trace
		s := newServer(depends(lives(&tr, "oven", oven{}), server.Provide(func(ctx context.Context) (mill, func(context.Context) error, error) {
			<-ctx.Done()
			<-time.After(time.Second)
			tr.step("given up")
			return mill{}, nil, ctx.Err()
		}), lives(&tr, "salt", 0)))
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

// TestShutdownGivesUp on a start that nothing ends; what comes of it is stopped all the
// same.
func TestShutdownGivesUp(t *testing.T) {
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

// TestShutdownWithoutTime stops what there is all the same, and what need not be waited
// for is no error.
func TestShutdownWithoutTime(t *testing.T) {
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
		failed := newServer(depends(lives(&trace{}, "oven", oven{}, errors.New("no gas"))))
		_ = failed.Start(t.Context())
		if err := failed.Start(ended); err == nil || err.Error() != "starting server_test.oven: no gas" {
			t.Fatalf("starting gives %v", err)
		}
	}
}
