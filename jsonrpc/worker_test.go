package jsonrpc_test

import (
	"bytes"
	"context"
	"runtime/debug"
	"testing"
	"testing/synctest"

	"github.com/dovetail-go/dovetail/jsonrpc"
)

// Calls that come by routes of their own are run by a goroutine that has run one before,
// whose stack has grown to what they take; and Close does not wait for it to linger.
func TestRoutesShareWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const calls = 3
		ran := make(chan string, calls)
		h := handler{handle: func(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request, reply *jsonrpc.Reply) error {
			name, _, _ := bytes.Cut(debug.Stack(), []byte(" [")) // "goroutine 7"
			ran <- string(name)
			return echo(ctx, from, req, reply)
		}}
		d := jsonrpc.NewDispatcher(func(*jsonrpc.Dispatcher) jsonrpc.Handler { return h }, nil)
		for id := range calls {
			d.Route(t.Context(), new(tray)).Receive([]byte(call(id, "echo", `[]`)))
			synctest.Wait()
		}
		first := <-ran
		for range calls - 1 {
			if next := <-ran; next != first {
				t.Errorf("a call was run by %s, the one before it by %s", next, first)
			}
		}
		d.Close()
	})
}
