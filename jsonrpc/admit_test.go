package jsonrpc_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/dovetail-go/dovetail/jsonrpc"
)

// A call that is not admitted is answered, and its handler is not asked; notifications
// pass.
func TestConnAdmits(t *testing.T) {
	var handled, notified atomic.Int32
	h := handler{
		handle: func(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request, reply *jsonrpc.Reply) error {
			handled.Add(1)
			return echo(ctx, from, req, reply)
		},
		notified: func(jsonrpc.Peer, *jsonrpc.Request) { notified.Add(1) },
	}
	admit := func(_ context.Context, req *jsonrpc.Request) error {
		switch req.Method {
		case "refuse":
			return &jsonrpc.Error{Code: 7, Message: "not for you"}
		case "panic":
			panic("secret")
		}
		return nil
	}
	virtual(t, func(t *testing.T) {
		r := newRig(t, h, &jsonrpc.Options{Admit: admit})
		r.send(call(1, "refuse", ""))
		r.expect(failure(1, 7, "not for you"))
		r.send(call(2, "panic", ""))
		r.expect(failure(2, jsonrpc.InternalError, "internal error"))
		r.send(note("refuse", ""))
		r.send(call(3, "echo", `{}`))
		r.expect(result(3, `{}`))
		r.finish()
		if handled.Load() != 1 || notified.Load() != 1 {
			t.Errorf("%d calls were handled, and %d notifications", handled.Load(), notified.Load())
		}
	})
}
