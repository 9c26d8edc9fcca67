package client_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

// after runs fn and checks how much virtual time it takes.
func after(t *testing.T, want time.Duration, fn func()) {
	t.Helper()
	began := time.Now()
	fn()
	if took := time.Since(began); took != want {
		t.Errorf("it took %v, want %v", took, want)
	}
}

// newPatient is a server with a tool that reports its progress every 50 s, and one that asks
// its caller.
func newPatient() *server.Server {
	s := newServer(nil)
	server.AddTool(s, server.Tool{Name: "step"}, func(ctx context.Context, r *server.Request, in stepsIn) (int, error) {
		for i := range in.Steps {
			select {
			case <-time.After(50 * time.Second):
			case <-ctx.Done():
				return 0, ctx.Err()
			}
			_ = r.Progress(ctx, float64(i+1), 0, "")
		}
		return in.Steps, nil
	})
	server.AddTool(s, server.Tool{Name: "ask"}, func(ctx context.Context, r *server.Request, _ none) (string, error) {
		return server.Elicit[string](r, "name", "Your name?")
	})
	return s
}

// A call without a deadline ends after a minute without progress.
func TestProgressExtendsTheTimeout(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		synctest.Test(t, func(t *testing.T) {
			session := connect(t, transport.Pipe(newPatient()), client.Options{Era: era})
			after(t, 500*time.Second, func() {
				steps, told := 10, 0
				result, err := session.CallTool(t.Context(), "step", stepsIn{steps}, &client.CallOptions{Progress: func(*mcp.ProgressParams) { told++ }})
				if err != nil || result.IsError || told != steps {
					t.Errorf("the call ends with %v, %v after %d reports", result, err, told)
				}
			})
			after(t, time.Minute, func() {
				_, err := session.CallTool(t.Context(), "step", stepsIn{10}, nil)
				failed(t, err, jsonrpc.MaybeExecuted)
			})
			ctx, cancel := context.WithTimeout(t.Context(), 75*time.Second)
			defer cancel()
			after(t, 75*time.Second, func() {
				_, err := session.CallTool(ctx, "step", stepsIn{10}, &client.CallOptions{Progress: func(*mcp.ProgressParams) {}})
				failed(t, err, jsonrpc.MaybeExecuted)
			})
		})
	})
}

// The time that a person takes for an answer is not part of a call's timeout.
func TestQuestionsDoNotCount(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		synctest.Test(t, func(t *testing.T) {
			session := connect(t, transport.Pipe(newPatient()), client.Options{
				Era: era,
				Elicit: func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
					<-time.After(5 * time.Minute)
					return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: []byte(`{"value":"Ann"}`)}, nil
				},
			})
			after(t, 5*time.Minute, func() {
				name, err := client.CallAs[string](t.Context(), session, "ask", nil)
				if err != nil || name != "Ann" {
					t.Errorf("the call gives %q, %v", name, err)
				}
			})
		})
	})
}
