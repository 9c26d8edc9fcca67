package approval

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dovetail-go/dovetail/internal/deadline"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// A run is one run of a call through a guard, which has the call's grant meanwhile.
type run struct {
	guard *guard
	grant *grant
	call  *mcp.Call // with bytes of its own

	executing bool
	ended     bool // the grant has been closed
}

// through makes the call if it is, or has been, approved.
func (r *run) through(ctx context.Context, next mcp.Handler) (mcp.Result, error) {
	if !r.grant.approved {
		if err := r.approve(ctx); err != nil {
			return nil, err
		}
	}
	r.executing = true
	r.call.FreezeArguments(refusal(&r.grant.request.Target, Changed, Changed))
	return next(context.WithValue(ctx, approvedKey{}, r.grant.request), r.call)
}

type approvedKey struct{}

// FromContext returns the request that was approved for the call of a context, nil if none
// was asked for.
func FromContext(ctx context.Context) *Request {
	r, _ := ctx.Value(approvedKey{}).(*Request)
	return r
}

// approve has the request decided, and gets the approval on record. The error refuses the
// call, or asks its caller.
func (r *run) approve(ctx context.Context) error {
	g, request := r.guard, r.grant.request
	answer, known := g.grants.recall(request.Subject(), time.Now())
	if known {
		answer.Reason = "remembered"
	} else {
		var err error
		if answer, err = r.answer(ctx); err != nil {
			if _, asks := mcp.AsInputRequired(err); asks {
				return err
			}
			return r.refuse(failureOf(ctx, request, err), err)
		}
	}
	if !answer.Approved {
		_ = g.record(time.Now(), r.grant, EventRejected, answer) // it is logged; the call is not made anyway
		r.end()
		refused := g.refuse(&request.Target, Rejected, nil)
		refused.Reason = answer.Reason
		return refused
	}
	if err := r.recheck(ctx); err != nil {
		return r.refuse(kindOf(err, Failed), err)
	}
	if err := g.record(time.Now(), r.grant, EventApproved, answer); err != nil {
		return r.refuse(Failed, err)
	}
	now := time.Now() // the moment that counts, and that the journal has
	if !now.Before(request.Deadline) {
		return r.refuse(Expired, Expired)
	}
	if err := g.record(now, r.grant, EventExecuting, Answer{}); err != nil {
		return r.refuse(Failed, err)
	}
	g.grants.spend(r.grant)
	if g.opts.Remember > 0 && !known {
		g.grants.remember(request.Subject(), answer, now, now.Add(g.opts.Remember))
	}
	return nil
}

// answer asks the approver, and fails closed. The call's deadline is paused.
func (r *run) answer(ctx context.Context) (a Answer, err error) {
	defer deadline.Pause(ctx)()
	if r.guard.approver == nil {
		return Answer{}, NoApprover
	}
	ctx, cancel := context.WithDeadlineCause(ctx, r.grant.request.Deadline, Expired)
	defer cancel()
	if ctx.Err() != nil {
		return Answer{}, context.Cause(ctx)
	}
	return ask(ctx, r.guard.approver, r.grant.request)
}

// failureOf says what an approver's error means.
func failureOf(ctx context.Context, r *Request, err error) Kind {
	late := !time.Now().Before(r.Deadline)
	switch kind := kindOf(err, Failed); {
	case kind != Failed:
		return kind
	case late && errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		return Expired
	default:
		return kind
	}
}

// recheck reports whether the tool is still what it was, and what would run is what was
// asked.
func (r *run) recheck(ctx context.Context) error {
	request := r.grant.request
	if request.Digest() != r.grant.digest || !bytes.Equal(argumentsOf(r.call), request.Arguments) {
		return Changed
	}
	if !time.Now().Before(request.Deadline) {
		return Expired
	}
	if ctx.Err() != nil {
		return fmt.Errorf("the caller has gone: %w", context.Cause(ctx))
	}
	return safely("looking up what was approved", func() error {
		err := r.call.Recheck(ctx)
		if said, ok := errors.AsType[*jsonrpc.Error](err); ok {
			return Errorf(Changed, "%s", said.Message)
		}
		if err != nil {
			return fmt.Errorf("%w: %w", Changed, err)
		}
		return nil
	})
}

// refuse ends the grant without a call.
func (r *run) refuse(kind Kind, cause error) error {
	r.guard.finish(r.grant, kind, cause)
	r.ended = true
	return r.guard.refuse(&r.grant.request.Target, kind, cause)
}

func (r *run) end() {
	r.guard.grants.end(r.grant)
	r.ended = true
}

// leave closes the grant, or leaves it to the next run of a call that asks its caller.
func (r *run) leave(panicking bool, err error) {
	if r.ended {
		return
	}
	g := r.guard
	if _, asks := mcp.AsInputRequired(err); asks && !panicking {
		until := r.grant.request.Deadline
		if r.executing {
			until = time.Now().Add(g.opts.Expiry)
		}
		m := g.grants.pause(r.grant, until)
		r.call.Store(r.grant.key, m.json())
		return
	}
	event, reason := EventExecuted, ""
	switch {
	case !r.executing:
		event, reason = EventWithdrawn, "the call was not made"
	case panicking:
		event, reason = EventFailed, "panic"
	case err != nil:
		event, reason = EventFailed, err.Error()
	}
	_ = g.record(time.Now(), r.grant, event, Answer{Reason: reason}) // it is logged; the call has been made
	r.end()
}
