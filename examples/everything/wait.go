package main

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/server"
)

// waits counts the calls that wait and those that were given up.
type waits struct{ waiting, cancelled atomic.Int64 }

type waitCount struct {
	Waiting   int64 `json:"waiting"`
	Cancelled int64 `json:"cancelled"`
}

// addWaiting adds tools that do not end as a caller hopes: by cancellation, by
// time, by a panic, by an error of the protocol.
func addWaiting(s *server.Server) {
	count := new(waits)
	server.AddTool(s, server.Tool{Name: "test_wait", Description: "Waits until the caller cancels the call."}, count.wait)
	server.AddResource(s, server.Resource{
		URI: "test://waits", Name: "waits", Description: "How many calls wait and how many were cancelled", MIMEType: "application/json",
	}, func(context.Context, *server.Request) (waitCount, error) {
		return waitCount{count.waiting.Load(), count.cancelled.Load()}, nil
	})
	server.AddTool(s, server.Tool{Name: "test_timeout", Description: "Takes longer than it may.", Timeout: step},
		func(ctx context.Context, _ *server.Request, _ struct{}) (string, error) {
			return "", pause(ctx, time.Minute)
		})
	server.AddTool(s, server.Tool{Name: "test_panic", Description: "Panics."},
		func(context.Context, *server.Request, struct{}) (string, error) {
			panic("a secret that clients must not see")
		})
	server.AddTool(s, server.Tool{Name: "test_protocol_error", Description: "Fails with an error of the protocol."},
		func(context.Context, *server.Request, struct{}) (string, error) {
			return "", &jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: "not like this", Data: []byte(`{"hint":"never"}`)}
		})
}

// wait reports that it has begun, and waits.
func (w *waits) wait(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
	w.waiting.Add(1)
	defer w.waiting.Add(-1)
	if err := r.Progress(ctx, 1, 0, "waiting"); err != nil {
		return "", err
	}
	<-ctx.Done()
	w.cancelled.Add(1)
	return "", context.Cause(ctx)
}
