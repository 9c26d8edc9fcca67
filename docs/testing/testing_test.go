package testing_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/leaktest"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// connect connects a client to a server in memory. Both end with the test.
func connect(ctx context.Context, t *testing.T, s transport.Server, opts *client.Options) *client.Session {
	t.Helper()
	session, err := client.Connect(ctx, transport.Pipe(s), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		session.Close()
		if err := s.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return session
}

func TestSplit(t *testing.T) {
	session := connect(t.Context(), t, newServer(nil), nil)
	for name, test := range map[string]struct {
		arguments map[string]any
		want      int
		wantError string
	}{
		"even":       {map[string]any{"cents": 900, "people": 3}, 300, ""},
		"remainder":  {map[string]any{"cents": 1000, "people": 3}, 0, "1 cents remain"},
		"nobody":     {map[string]any{"cents": 900, "people": 0}, 0, `at "/people": expected at least 1, got 0`},
		"no amount":  {map[string]any{"people": 3}, 0, `"cents"`},
		"wrong type": {map[string]any{"cents": "9", "people": 3}, 0, `at "/cents": expected an integer`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := client.CallAs[int](t.Context(), session, "split", test.arguments, nil)
			if test.wantError == "" {
				if err != nil || got != test.want {
					t.Errorf("got %d, %v, want %d", got, err, test.want)
				}
				return
			}
			failed, ok := errors.AsType[*client.ToolError](err)
			if !ok || !strings.Contains(failed.Error(), test.wantError) {
				t.Errorf("got %v, want a tool error with %q", err, test.wantError)
			}
		})
	}
}

func TestEveryVersion(t *testing.T) {
	for _, era := range []client.Era{client.Modern, client.Legacy} {
		session := connect(t.Context(), t, newServer(nil), &client.Options{Era: era})
		t.Run(string(session.Version()), func(t *testing.T) {
			each, err := client.CallAs[int](t.Context(), session, "split", map[string]int{"cents": 900, "people": 3}, nil)
			if err != nil || each != 300 {
				t.Errorf("got %d, %v", each, err)
			}
		})
	}
}

func TestGuard(t *testing.T) {
	for principal, allowed := range map[string]bool{"manager": true, "waiter": false, "": false} {
		t.Run(principal, func(t *testing.T) {
			session := connect(transport.WithPrincipal(t.Context(), principal), t, newServer(nil), nil)
			var names []string
			for tool, err := range session.Tools(t.Context(), nil) {
				if err != nil {
					t.Fatal(err)
				}
				names = append(names, tool.Name)
			}
			if slices.Contains(names, "void") != allowed {
				t.Errorf("the tools are %q", names)
			}
			_, err := client.CallAs[string](t.Context(), session, "void", nil, nil)
			if allowed && err != nil {
				t.Errorf("refused: %v", err)
			}
			if refused, ok := errors.AsType[*jsonrpc.Error](err); !allowed && (!ok || refused.Message != `unknown tool: "void"`) {
				t.Errorf("got %v, want an unknown tool", err)
			}
		})
	}
}

func TestAudit(t *testing.T) {
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{} // differs from run to run
			}
			return a
		},
	}))
	session := connect(t.Context(), t, newServer(&server.Options{Middleware: []mcp.Middleware{audit(logger)}, Logger: slog.New(slog.DiscardHandler)}), nil)
	for _, name := range []string{"split", "void", "missing"} {
		_, _ = session.CallTool(t.Context(), name, map[string]int{"cents": 4, "people": 2}, nil)
	}
	want := "level=INFO msg=call kind=tool name=split refused=false\n" +
		"level=INFO msg=call kind=tool name=void refused=true\n"
	if log.String() != want {
		t.Errorf("the log is\n%swant\n%s", &log, want)
	}
}

func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		session := connect(t.Context(), t, newServer(nil), nil)
		began := time.Now()
		result, err := session.CallTool(t.Context(), "pay", nil, nil)
		if err != nil || !result.IsError {
			t.Errorf("got %+v, %v", result, err)
		}
		if waited := time.Since(began); waited != 30*time.Second {
			t.Errorf("the call took %v", waited)
		}
	})
}
