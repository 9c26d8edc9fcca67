package bridge_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

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
