package frontend_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/bridge/internal/frontend"
	"github.com/dovetail-go/dovetail/internal/era"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/policy"
)

// TestOutcomeOfCallerWhoHasLeft: a call that fails because its caller has left is canceled, wherever it was. A timeout, and an
// answer that had another reason, are not.
func TestOutcomeOfCallerWhoHasLeft(t *testing.T) {
	failures := map[string]func(cause error) error{
		"working":   func(cause error) error { return cause },
		"canceled":  func(error) error { return context.Canceled },
		"answering": func(error) error { return &era.UnansweredError{Key: "how", Err: jsonrpc.ErrClosed} },
		"approving": func(cause error) error { return &approval.Error{Code: approval.Failed, Err: cause} },
		"upstream": func(cause error) error {
			return &bridge.UpstreamError{Failure: bridge.Lost, Err: fmt.Errorf("the server: %w", cause)}
		},
	}
	for _, left := range []error{jsonrpc.ErrCancelled, jsonrpc.ErrClosed, context.Canceled, errors.New("the session has ended")} {
		for name, failure := range failures {
			if got := outcomeOf(t, left, failure(left)); got != frontend.Canceled {
				t.Errorf("%s, %v: the outcome is %q", name, left, got)
			}
		}
		if got := outcomeOf(t, left, &policy.DeniedError{}); got != frontend.Forbidden {
			t.Errorf("denied, %v: the outcome is %q", left, got)
		}
		if got := outcomeOf(t, left, &frontend.Failure{Code: "reset", Err: left}); got != "reset" {
			t.Errorf("ended by the program, %v: the outcome is %q", left, got)
		}
	}
	if got := outcomeOf(t, context.DeadlineExceeded, context.DeadlineExceeded); got != frontend.TimedOut {
		t.Errorf("the outcome of a timeout is %q", got)
	}
}

func outcomeOf(t *testing.T, cause, err error) string {
	t.Helper()
	request, failed := jsonrpc.NewRequest(jsonrpc.IntID(1), mcp.MethodToolsCall, []byte(`{"name":"echo"}`))
	if failed != nil {
		t.Fatal(failed)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	call := mcp.NewCall(request, &mcp.Caller{}, nil)
	outcome, _, _ := frontend.Outcome(ctx, &call, nil, err)
	return outcome
}
