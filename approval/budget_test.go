package approval_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/mcp"
)

// wantSpentAfter checks when a budget ends.
func wantSpentAfter(ctx context.Context, t *testing.T, start time.Time, want time.Duration) {
	t.Helper()
	<-ctx.Done()
	if took := time.Since(start); took != want || !errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		t.Errorf("it ended after %v with %v, want %v", took, context.Cause(ctx), want)
	}
}

func pass(d time.Duration) { <-time.After(d) }

// TestBudget: time counts but while somebody is waited for.
func TestBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		ctx, cancel := approval.WithBudget(t.Context(), 10*time.Second)
		defer cancel()
		wantSpentAfter(ctx, t, start, 10*time.Second)

		start = time.Now()
		ctx, cancel = approval.WithBudget(t.Context(), 10*time.Second)
		defer cancel()
		pass(4 * time.Second)
		resume := approval.Pause(ctx)
		pass(time.Hour)
		again := approval.Pause(ctx) // within the other, and longer
		resume()
		resume()
		pass(time.Hour)
		again()
		wantSpentAfter(ctx, t, start, 10*time.Second+2*time.Hour)

		start = time.Now()
		outer, cancel := approval.WithBudget(t.Context(), 10*time.Second)
		defer cancel()
		inner, cancel := approval.WithBudget(outer, time.Minute)
		defer cancel()
		resume = approval.Pause(inner)
		pass(time.Hour)
		resume()
		wantSpentAfter(inner, t, start, time.Hour+10*time.Second)

		ctx, cancel = approval.WithBudget(t.Context(), 0)
		defer cancel()
		wantSpentAfter(ctx, t, time.Now(), 0)

		ctx, cancel = approval.WithBudget(t.Context(), time.Hour)
		cancel()
		if ctx.Err() != context.Canceled || context.Cause(ctx) != context.Canceled {
			t.Errorf("released, it is %v", context.Cause(ctx))
		}
		approval.Pause(t.Context())() // there is no budget
	})
}

// TestBudgetOfAGate: a person's time is not the tool's.
func TestBudgetOfAGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		f := &tool{then: func(ctx context.Context, _ *mcp.Call) (mcp.Result, error) {
			wantSpentAfter(ctx, t, start, time.Minute+time.Second)
			return mcp.Raw(`{}`), nil
		}}
		slow := approval.ApproverFunc(func(ctx context.Context, _ *approval.Request) (approval.Answer, error) {
			pass(time.Minute)
			return yes, ctx.Err()
		})
		ctx, cancel := approval.WithBudget(t.Context(), time.Second)
		defer cancel()
		if _, err := gated(f, slow, options(nil))(ctx, newCall(t, "", "write", `{}`, nil)); err != nil {
			t.Error(err)
		}
	})
}
