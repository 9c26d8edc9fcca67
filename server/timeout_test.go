package server_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// lines are the records of a log, as text.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

// take returns the lines since the last call.
func (l *lines) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := l.text.String()
	l.text.Reset()
	return text
}

func (l *lines) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// A call is answered at its timeout, whether or not its function ends with its context, and also if the function returns
// something that is no tool error.
func TestTimeout(t *testing.T) {
	virtualEras(t, func(t *testing.T, era client.Era) {
		s := newServer(&server.Options{Logger: discardLogger()})
		add := func(name string, fn func(ctx context.Context) (string, error)) {
			server.AddTool(s, server.Tool{Name: name, Timeout: time.Second}, func(ctx context.Context, _ *server.Request, _ struct{}) (string, error) { return fn(ctx) })
		}
		add("obedient", func(ctx context.Context) (string, error) {
			<-ctx.Done()
			return "", ctx.Err()
		})
		add("protocol_error", func(ctx context.Context) (string, error) {
			<-ctx.Done()
			return "", mcp.ResourceNotFound("note://1")
		})
		add("success", func(ctx context.Context) (string, error) {
			<-ctx.Done()
			return "done all the same", nil
		})
		add("stubborn", func(context.Context) (string, error) {
			<-time.After(3 * time.Second)
			return "done all the same", nil
		})
		add("panics", func(context.Context) (string, error) {
			<-time.After(3 * time.Second)
			panic("at the disco")
		})
		add("exits", func(context.Context) (string, error) {
			<-time.After(3 * time.Second)
			runtime.Goexit()
			return "", nil
		})
		add("quick", func(context.Context) (string, error) { return "", errors.New("broken") })
		session := connectInMemory(t, s, &client.Options{Era: era})
		for name, want := range map[string]struct {
			says  string
			takes time.Duration
		}{
			"obedient":       {`tool "obedient" took longer than 1s`, time.Second},
			"protocol_error": {`tool "protocol_error" took longer than 1s`, time.Second},
			"success":        {`tool "success" took longer than 1s`, time.Second},
			"stubborn":       {`tool "stubborn" took longer than 1s`, time.Second},
			"panics":         {`tool "panics" took longer than 1s`, time.Second},
			"exits":          {`tool "exits" took longer than 1s`, time.Second},
			"quick":          {"broken", 0},
		} {
			start := time.Now()
			result := call(t, session, name, `{}`)
			if textOf(result) != want.says || !result.IsError || time.Since(start) != want.takes {
				t.Errorf("%s says %q, error %t, after %v", name, textOf(result), result.IsError, time.Since(start))
			}
		}
		if err := s.Shutdown(t.Context()); err != nil { // waits for late functions
			t.Error(err)
		}
	})
}

// What a function returns after its timeout is logged and counted, and sends nothing. Shutdown waits for it.
func TestLateFunctions(t *testing.T) {
	virtualEras(t, func(t *testing.T, era client.Era) {
		var log lines
		s := newServer(&server.Options{Logger: log.logger()})
		var values []any // that the function has set in its call, as middleware sees them
		watch := func(next mcp.Handler) mcp.Handler {
			return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
				result, err := next(ctx, call)
				values = append(values, call.Get("value"))
				return result, err
			}
		}
		outer := newServer(&server.Options{Logger: discardLogger(), Middleware: []mcp.Middleware{watch}})
		server.AddTool(s, server.Tool{Name: "late", Timeout: time.Second}, func(ctx context.Context, r *server.Request, in xIn) (string, error) {
			r.Call().Set("value", in.X)
			if in.X == "in time" {
				return in.X, nil
			}
			<-time.After(time.Minute)
			r.Call().Set("value", "late")
			_ = r.Progress(context.Background(), 1, 0, "late") // which the client must not get
			if in.X == "panic" {
				panic("at the disco")
			}
			return "done", map[bool]error{true: errors.New("broken")}[in.X == "error"]
		})
		mount(t, outer, s, "")
		session := connectInMemory(t, outer, &client.Options{Era: era})
		progress := 0
		late := func(x string) {
			t.Helper()
			result, err := session.CallTool(t.Context(), "late", map[string]string{"x": x}, &client.CallOptions{Progress: func(*mcp.ProgressParams) { progress++ }})
			if x == "in time" {
				if err != nil || result.IsError {
					t.Errorf("in time: %+v, %v", result, err)
				}
				return
			}
			if err != nil || textOf(result) != `tool "late" took longer than 1s` {
				t.Errorf("%s: %+v, %v", x, result, err)
			}
		}
		for i, test := range []struct{ x, logged string }{
			{"success", "a function has succeeded after its timeout, and its result is dropped"},
			{"error", "a function has failed after its timeout"},
			{"panic", "panic=\"at the disco\""},
		} {
			late(test.x)
			if running, returned := s.LateFunctions(); running != 1 || returned != i {
				t.Errorf("%s: %d functions run late, and %d have returned", test.x, running, returned)
			}
			if held := server.Retained(s); held == 0 {
				t.Errorf("%s: a late function retains nothing", test.x)
			}
			<-time.After(2 * time.Second)
			if text := log.take(); !strings.Contains(text, "a function still runs after its timeout") || !strings.Contains(text, "name=late") {
				t.Errorf("%s: a function that still runs is logged as %q", test.x, text)
			}
			<-time.After(time.Hour)
			if running, returned := s.LateFunctions(); running != 0 || returned != i+1 {
				t.Errorf("%s: later, %d functions run late, and %d have returned", test.x, running, returned)
			}
			if text := log.take(); !strings.Contains(text, test.logged) || !strings.Contains(text, "took=1m0s") {
				t.Errorf("%s: logged %q", test.x, text)
			}
			if held := server.Retained(s); held != 0 {
				t.Errorf("%s: %d bytes are retained", test.x, held)
			}
		}
		late("in time")
		if got := fmt.Sprint(values); got != "[<nil> <nil> <nil> in time]" || progress != 0 {
			t.Errorf("middleware saw the values %s, and the client %d notifications", got, progress)
		}
		late("success")
		began := time.Now()
		if err := outer.Shutdown(t.Context()); err != nil || time.Since(began) != 59*time.Second {
			t.Errorf("shutdown took %v: %v", time.Since(began), err)
		}
	})
}

// A client whose late functions take all that it may leave behind waits for further functions.
func TestLateFunctionsAreLimited(t *testing.T) {
	virtualEras(t, func(t *testing.T, era client.Era) {
		s := newServer(&server.Options{Logger: discardLogger(), RetainedBytes: 100 << 10})
		server.AddTool(s, server.Tool{Name: "stubborn", Timeout: time.Second}, func(context.Context, *server.Request, struct{}) (string, error) {
			<-time.After(time.Minute)
			return "done", nil
		})
		session := connectInMemory(t, s, &client.Options{Era: era, CallTimeout: time.Hour})
		var calls sync.WaitGroup
		var mu sync.Mutex
		took := make(map[time.Duration]int)
		for range 20 {
			calls.Go(func() {
				began := time.Now()
				result, err := session.CallTool(t.Context(), "stubborn", nil, nil)
				if err != nil || !result.IsError {
					t.Errorf("got %+v, %v", result, err)
				}
				mu.Lock()
				defer mu.Unlock()
				took[time.Since(began)]++
			})
		}
		calls.Wait()
		if took[time.Second] == 0 || took[time.Second] > 6 || took[time.Second]+took[time.Minute] != 20 {
			t.Errorf("the calls took %v", took)
		}
		synctest.Wait()
		if held := server.Retained(s); held > 4<<10 {
			t.Errorf("%d bytes are still retained", held)
		}
	})
}

// A late function of an entry without a server is waited for, and is no success either.
func TestLateFunctionThatIsWaitedFor(t *testing.T) {
	virtualEras(t, func(t *testing.T, era client.Era) {
		entry, err := server.NewTool(server.Tool{Name: "stubborn", Timeout: time.Second}, func(context.Context, *server.Request, struct{}) (string, error) {
			<-time.After(3 * time.Second)
			return "done all the same", nil
		})
		if err != nil {
			t.Fatal(err)
		}
		s := newServer(&server.Options{Logger: discardLogger()})
		if err := s.Mount(fixed{server.NewCatalog([]*server.Entry{entry}, nil)}, nil); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		result := call(t, connectInMemory(t, s, &client.Options{Era: era}), "stubborn", `{}`)
		if textOf(result) != `tool "stubborn" took longer than 1s` || time.Since(began) != 3*time.Second {
			t.Errorf("got %+v after %v", result, time.Since(began))
		}
		if err := s.Shutdown(t.Context()); err != nil { // ends the mount
			t.Error(err)
		}
	})
}

// TestTimeoutWithoutPerson: a person may take longer than the function.
func TestTimeoutWithoutPerson(t *testing.T) {
	virtualEras(t, func(t *testing.T, era client.Era) {
		s := newServer(nil)
		server.AddTool(s, server.Tool{Name: "ask", Timeout: time.Second}, func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
			<-time.After(600 * time.Millisecond) // of each run
			in, err := server.Elicit[answersFor](r, "sure", "Sure?")
			if err != nil {
				return "", err
			}
			if ctx.Err() != nil {
				return "", ctx.Err()
			}
			return map[bool]string{true: "sure"}[in.Sure], nil
		})
		session := connectInMemory(t, s, &client.Options{Era: era, Elicit: func(ctx context.Context, _ *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			<-time.After(9 * time.Minute)
			return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: jsonRaw(`{"sure":true}`)}, nil
		}})
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		result, err := session.CallTool(ctx, "ask", nil, nil)
		if err != nil || textOf(result) != "sure" {
			t.Errorf("the tool gives %+v, %v", result, err)
		}
	})
}

// TestTimeoutError even when the error says something else of it.
func TestTimeoutError(t *testing.T) {
	virtualEras(t, func(t *testing.T, era client.Era) {
		s := newServer(nil)
		server.AddTool(s, server.Tool{Name: "slow", Timeout: 30 * time.Second}, func(ctx context.Context, _ *server.Request, _ struct{}) (string, error) {
			<-ctx.Done()
			return "", errors.New("reading: i/o timeout")
		})
		if got := textOf(call(t, connectInMemory(t, s, &client.Options{Era: era}), "slow", `{}`)); !strings.Contains(got, "took longer than 30s") {
			t.Errorf("the caller is told %q", got)
		}
	})
}
