package approval_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/internal/deadline"
	"github.com/dovetail-go/dovetail/mcp"
)

// TestDeadlineOfAGuard: the time that a person takes does not count.
func TestDeadlineOfAGuard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		f := &tool{then: func(ctx context.Context, _ *mcp.Call) (mcp.Result, error) {
			<-ctx.Done()
			if took := time.Since(start); took != time.Minute+time.Second || context.Cause(ctx) != context.DeadlineExceeded {
				t.Errorf("the call ended after %v with %v", took, context.Cause(ctx))
			}
			return mcp.Raw(`{}`), nil
		}}
		slow := approval.ApproverFunc(func(ctx context.Context, _ *approval.Request) (approval.Answer, error) {
			<-time.After(time.Minute)
			return yes, ctx.Err()
		})
		ctx, cancel := deadline.With(t.Context(), time.Second, context.DeadlineExceeded)
		defer cancel()
		if _, err := gated(f, slow, options(nil))(ctx, newCall(t, "", "write", `{}`, nil)); err != nil {
			t.Error(err)
		}
	})
}
