package testing_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// newServer returns the server that is tested: a till.
func newServer(opts *server.Options) *server.Server {
	s := server.New(mcp.Implementation{Name: "till", Version: "1.0.0"}, opts)
	type splitIn struct {
		Cents  int `json:"cents" jsonschema:"minimum=0"`
		People int `json:"people" jsonschema:"minimum=1"`
	}
	server.AddTool(s, server.Tool{Name: "split", Description: "Split a bill."},
		func(_ context.Context, _ *server.Request, in splitIn) (int, error) {
			if in.Cents%in.People != 0 {
				return 0, fmt.Errorf("%d cents remain", in.Cents%in.People)
			}
			return in.Cents / in.People, nil
		})
	server.AddTool(s, server.Tool{Name: "void", Description: "Void the last bill.", Guards: []mcp.Guard{managers()}},
		func(context.Context, *server.Request, struct{}) (string, error) { return "voided", nil })
	server.AddTool(s, server.Tool{Name: "tip", Description: "Add a tip to the bill."},
		func(_ context.Context, r *server.Request, in struct {
			Cents int `json:"cents" jsonschema:"minimum=0"`
		}) (int, error) {
			percent, err := server.Elicit[int](r, "percent", "How many percent?")
			if err != nil {
				return 0, err
			}
			return in.Cents + in.Cents*percent/100, nil
		})
	server.AddTool(s, server.Tool{Name: "pay", Description: "Wait for the card.", Timeout: time.Hour},
		func(ctx context.Context, _ *server.Request, _ struct{}) (string, error) {
			<-ctx.Done() // a card that never comes
			return "", errors.New("no card within an hour")
		})
	return s
}

// managers hides the guarded entries from all other callers.
func managers() mcp.Guard {
	return mcp.Guard{Name: "managers", Visible: func(_ context.Context, caller *mcp.Caller, _ *mcp.Target) bool {
		return caller.Principal == "manager"
	}}
}

// audit logs each call with its target. A call that asks its caller has not failed.
func audit(logger *slog.Logger) mcp.Middleware {
	return func(next mcp.Handler) mcp.Handler {
		return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
			result, err := next(ctx, call)
			if target := call.Target(); target != nil {
				_, asks := mcp.AsInputRequired(err)
				logger.Info("call", "kind", target.Kind, "name", target.Name, "failed", err != nil && !asks)
			}
			return result, err
		}
	}
}
