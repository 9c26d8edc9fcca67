package bridge_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// reporter returns a server with a tool that reports progress, and a tool that returns at once.
func reporter() *server.Server {
	s := echo(nil)
	server.AddTool(s, server.Tool{Name: "report"}, func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
		r.Logger("").Info("halfway")
		return "done", r.Progress(ctx, 1, 2, "half")
	})
	return s
}

// A middleware observes what a server sends during a call. An observer that blocks delays only this call: neither other
// calls of the session nor its read loop wait.
func TestNotificationsOfServersAreObserved(t *testing.T) {
	for _, era := range []client.Era{client.Legacy, client.Modern} {
		t.Run(era.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				observed, release := make(chan string, 10), make(chan struct{})
				observe := func(next mcp.Handler) mcp.Handler {
					return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
						call.Observe(func(method string, params json.RawMessage) {
							observed <- method + string(params)
							<-release
						})
						return next(ctx, call)
					}
				}
				b, err := bridge.New(&bridge.Options{Logger: quiet(), CallMiddleware: []mcp.Middleware{observe}},
					bridge.Config{Alias: "s", Dialer: dialerTo(reporter()).speaks(era), ProxyOptions: bridge.ProxyOptions{Sessions: 1}})
				if err != nil {
					t.Fatal(err)
				}
				session := connect(t, pipeTo(mount(t, b)), client.Options{Era: era, OnLog: func(context.Context, *mcp.LoggingMessageParams) {}})
				answered := make(chan error, 1)
				go func() {
					_, err := session.CallTool(t.Context(), "s__report", nil, &client.CallOptions{Progress: func(*mcp.ProgressParams) {}})
					answered <- err
				}()
				all := <-observed
				if _, err := session.CallTool(t.Context(), "s__echo", map[string]string{"Text": "x"}, nil); err != nil {
					t.Errorf("a call beside a slow observer failed: %v", err)
				}
				close(release)
				if err := <-answered; err != nil {
					t.Fatal(err)
				}
				all += <-observed
				if !strings.Contains(all, `"progress":1`) || !strings.Contains(all, "halfway") {
					t.Errorf("observed %s, want progress and a log message", all)
				}
			})
		})
	}
}

// A server of the legacy era may log without a call.
func TestLogMessagesOutsideOfCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logging := toolsOnly(client.Legacy, "a")
		logged := make(chan string, 10)
		answer := logging.answer
		logging.answer = func(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request) (string, error) {
			if req.Method == mcp.MethodSetLevel {
				_ = from.Notify(ctx, mcp.NotificationMessage, jsonrpc.Raw(`{"level":"warning","data":"the disk is nearly full"}`))
				return "{}", nil
			}
			return answer(ctx, from, req)
		}
		newBridge(t, nil, bridge.Config{Alias: "s", Dialer: pipeTo(logging), ProxyOptions: bridge.ProxyOptions{
			OnLog: func(_ context.Context, message *mcp.LoggingMessageParams) {
				logged <- string(message.Level) + string(message.Data)
			},
		}})
		if got, want := <-logged, `warning"the disk is nearly full"`; got != want {
			t.Errorf("OnLog got %s, want %s", got, want)
		}
	})
}
