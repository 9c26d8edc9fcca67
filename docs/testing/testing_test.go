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
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/server/servertest"
	"github.com/dovetail-go/dovetail/transport"
)

func TestMain(m *testing.M) { servertest.Main(m) }

func TestSplit(t *testing.T) {
	session := servertest.Connect(t, newServer(nil), nil)
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

func TestTip(t *testing.T) {
	servertest.EachMode(t, func(t *testing.T, mode servertest.Mode) {
		session := servertest.Connect(t, newServer(nil), &servertest.Options{
			Mode:    mode,
			Answers: map[string]any{"How many percent?": 10},
		})
		total, err := client.CallAs[int](t.Context(), session, "tip", map[string]int{"cents": 2000}, nil)
		if err != nil || total != 2200 {
			t.Errorf("got %d, %v", total, err)
		}
	})
}

func TestTipDeclined(t *testing.T) {
	session := servertest.Connect(t, newServer(nil), &servertest.Options{
		Answers: map[string]any{"How many percent?": mcp.ElicitDecline},
	})
	if result, err := session.CallTool(t.Context(), "tip", map[string]int{"cents": 2000}, nil); err != nil || !result.IsError {
		t.Errorf("got %+v, %v", result, err)
	}
}

func TestGuard(t *testing.T) {
	for principal, allowed := range map[string]bool{"manager": true, "waiter": false, "": false} {
		t.Run(principal, func(t *testing.T) {
			session := servertest.Connect(t, newServer(nil), &servertest.Options{Principal: principal})
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
	session := servertest.Connect(t, newServer(&server.Options{
		Middleware: []mcp.Middleware{audit(logger)},
		Logger:     servertest.Logger(t),
	}), nil)
	for _, name := range []string{"split", "void", "missing"} {
		_, _ = session.CallTool(t.Context(), name, map[string]int{"cents": 4, "people": 2}, nil)
	}
	want := "level=INFO msg=call kind=tool name=split failed=false\n" +
		"level=INFO msg=call kind=tool name=void failed=true\n"
	if log.String() != want {
		t.Errorf("the log is\n%swant\n%s", &log, want)
	}
}

func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		session := servertest.Connect(t, newServer(nil), nil)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Hour) // the client's own limit
		defer cancel()
		began := time.Now()
		result, err := session.CallTool(ctx, "pay", nil, nil)
		if err != nil || !result.IsError {
			t.Errorf("got %+v, %v", result, err)
		}
		if waited := time.Since(began); waited != time.Hour {
			t.Errorf("the call took %v", waited)
		}
	})
}

func TestCatalog(t *testing.T) {
	session := servertest.Connect(t, newServer(nil), &servertest.Options{Principal: "manager"})
	servertest.Golden(t, session, "testdata/catalog.json")
}

func TestSession(t *testing.T) {
	session := servertest.Connect(t, newServer(nil), &servertest.Options{
		Transcript: "testdata/tip.jsonl",
		Answers:    map[string]any{"How many percent?": 10},
	})
	if _, err := session.CallTool(t.Context(), "tip", map[string]int{"cents": 2000}, nil); err != nil {
		t.Error(err)
	}
}

func TestRecordedSession(t *testing.T) {
	servertest.CheckTranscript(t, newServer(nil), "testdata/tip.jsonl", nil)
}

func TestClient(t *testing.T) {
	recorded := servertest.ReplayServer(t, "testdata/tip.jsonl")
	session, err := client.Connect(t.Context(), transport.Pipe(recorded), &client.Options{Elicit: tenPercent})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	if total, err := client.CallAs[int](t.Context(), session, "tip", map[string]int{"cents": 2000}, nil); err != nil || total != 2200 {
		t.Errorf("got %d, %v", total, err)
	}
}

// tenPercent is the handler of the client that is tested.
func tenPercent(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
	return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: []byte(`{"value":10}`)}, nil
}

func TestLostAnswer(t *testing.T) {
	session := servertest.Connect(t, newServer(nil), &servertest.Options{
		Fault: func(m servertest.Message) servertest.Fault {
			if m.FromServer && m.Method == mcp.MethodToolsCall {
				return servertest.Cut
			}
			return servertest.Deliver
		},
	})
	_, err := session.CallTool(t.Context(), "split", map[string]int{"cents": 4, "people": 2}, nil)
	if lost, ok := errors.AsType[*jsonrpc.CallError](err); !ok || lost.Delivery != jsonrpc.MaybeExecuted {
		t.Errorf("got %v", err)
	}
}
