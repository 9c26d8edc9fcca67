package servertest_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/server/servertest"
)

func TestMain(m *testing.M) { servertest.Main(m) }

type none struct{}

// newServer returns a server with tools that ask, report progress, wait and fail.
func newServer(opts *server.Options) *server.Server {
	if opts == nil {
		opts = &server.Options{Logger: slog.New(slog.DiscardHandler)}
	}
	s := server.New(mcp.Implementation{Name: "tested", Version: "1.0.0"}, opts)
	server.AddTool(s, server.Tool{Name: "upper", Description: "Write in capital letters."},
		func(_ context.Context, _ *server.Request, in struct {
			Text string `json:"text"`
		}) (string, error) {
			return strings.ToUpper(in.Text), nil
		})
	server.AddTool(s, server.Tool{Name: "book", Description: "Book a table."},
		func(_ context.Context, r *server.Request, _ none) (string, error) {
			guests, err := server.Elicit[int](r, "guests", "How many guests?")
			if err != nil {
				return "", err
			}
			name, err := server.Elicit[struct {
				First string `json:"first"`
				Last  string `json:"last"`
			}](r, "name", "Which name?")
			return fmt.Sprintf("%d for %s %s", guests, name.First, name.Last), err
		})
	server.AddTool(s, server.Tool{Name: "translate"}, func(_ context.Context, r *server.Request, _ none) (string, error) {
		result, err := server.Sample(r, "text", &mcp.CreateMessageParams{MaxTokens: 10, Messages: []mcp.SamplingMessage{
			{Role: mcp.RoleUser, Content: mcp.SamplingContent{&mcp.TextContent{Text: "Hello in French?"}}},
		}})
		if err != nil {
			return "", err
		}
		return result.Content[0].(*mcp.TextContent).Text, nil
	})
	server.AddTool(s, server.Tool{Name: "whoami", Scopes: []string{"profile"}}, func(_ context.Context, r *server.Request, _ none) (string, error) {
		return r.Caller().Principal, nil
	})
	server.AddTool(s, server.Tool{Name: "steps"}, func(ctx context.Context, r *server.Request, _ none) (string, error) {
		return "done", r.Progress(ctx, 1, 2, "half")
	})
	server.AddTool(s, server.Tool{Name: "export", Timeout: time.Hour}, func(ctx context.Context, _ *server.Request, _ none) (string, error) {
		<-ctx.Done()
		return "", errors.New("not finished within an hour")
	})
	server.AddTool(s, server.Tool{Name: "panic"}, func(context.Context, *server.Request, none) (string, error) {
		panic("out of ink")
	})
	server.AddTool(s, server.Tool{Name: "now"}, func(_ context.Context, _ *server.Request, _ none) (map[string]any, error) {
		return map[string]any{"at": time.Now().UnixNano(), "zone": "UTC"}, nil
	})
	server.AddResource(s, server.Resource{URI: "mem://profile", Name: "profile", Scopes: []string{"profile"}},
		func(context.Context, *server.Request) (string, error) { return "Ann", nil })
	return s
}

// A fakeTB is a test whose failures are expected.
type fakeTB struct {
	testing.TB // of the real test, for everything else

	mu       sync.Mutex
	failures []string
	logged   []string
	cleanups []func()
}

// failing runs a test that is expected to fail, with its cleanups, and returns its failures.
func failing(t *testing.T, test func(tb *fakeTB)) string {
	t.Helper()
	f := &fakeTB{TB: t}
	run := func(fn func()) {
		done := make(chan struct{})
		go func() { // since Fatal ends the goroutine
			defer close(done)
			fn()
		}()
		<-done
	}
	run(func() { test(f) })
	for len(f.cleanups) > 0 {
		last := f.cleanups[len(f.cleanups)-1]
		f.cleanups = f.cleanups[:len(f.cleanups)-1]
		run(last)
	}
	return strings.Join(f.failures, "\n")
}

func (f *fakeTB) add(text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failures = append(f.failures, text)
}

func (f *fakeTB) Cleanup(fn func())                 { f.cleanups = append(f.cleanups, fn) }
func (f *fakeTB) Error(args ...any)                 { f.add(fmt.Sprint(args...)) }
func (f *fakeTB) Errorf(format string, args ...any) { f.add(fmt.Sprintf(format, args...)) }
func (f *fakeTB) Fail()                             { f.add("failed") }
func (f *fakeTB) Failed() bool                      { f.mu.Lock(); defer f.mu.Unlock(); return len(f.failures) > 0 }

func (f *fakeTB) Fatalf(format string, args ...any) {
	f.Errorf(format, args...)
	runtime.Goexit()
}

func (f *fakeTB) Logf(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.logged = append(f.logged, fmt.Sprintf(format, args...))
}

// wantFailure checks the failures of a test.
func wantFailure(t *testing.T, got, want string) {
	t.Helper()
	if !strings.Contains(got, want) {
		t.Errorf("the failure is %q, want %q", got, want)
	}
}
