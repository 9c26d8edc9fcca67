package era

import (
	"context"
	"strconv"
	"time"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// A heldCall is a call to a legacy server that is open.
type heldCall struct {
	passage
	cancel   context.CancelCauseFunc
	response *jsonrpc.Response // when the passage has ended
	err      error

	// These belong to who attends the call.
	timeout time.Duration // without progress; not positive if the caller's context ends the call
	left    time.Duration // of it; does not shrink while the caller is asked
	waiting *question     // that the caller has been asked
	keys    int
}

// attend waits for what comes of the call, for the run of the caller's that is attached.
// The error is *mcp.InputRequired when the server asks.
func (h *heldCall) attend(ctx context.Context, call *mcp.Call, how *Forwarding) (mcp.Result, error) {
	defer h.detach()
	began := time.Now()
	var late *time.Timer
	var lapsed <-chan time.Time
	if h.timeout > 0 {
		late = time.NewTimer(h.left)
		defer late.Stop()
		lapsed = late.C
	}
	for {
		if err := h.answered(call); err != nil {
			h.left = max(h.left-time.Since(began), h.Left(h.timeout))
			return nil, err
		}
		select {
		case <-h.ended:
			return h.outcome()
		case q := <-h.asked:
			h.keys++
			q.key, h.waiting = keyOf(how, "question "+strconv.Itoa(h.keys)), q
		case <-lapsed:
			if left := h.Left(h.timeout); left > 0 {
				late.Reset(left)
				continue
			}
			return h.end(context.DeadlineExceeded)
		case <-ctx.Done():
			return h.end(context.Cause(ctx))
		}
	}
}

// end gives up on the call, unless its answer has come just now.
func (h *heldCall) end(cause error) (mcp.Result, error) {
	h.cancel(cause)
	<-h.ended
	return h.outcome()
}

func (h *heldCall) outcome() (mcp.Result, error) {
	if h.err != nil {
		return nil, h.err
	}
	return mcp.Raw(h.response.Result), nil
}

// answered gives the server what the caller says to the question that waits, or
// returns the question to ask. One that the server does not wait for any more is not
// asked.
func (h *heldCall) answered(call *mcp.Call) error {
	if h.waiting == nil || h.hasEnded() {
		return nil
	}
	answer, err := call.Input(h.waiting.key, h.waiting.request)
	if _, open := mcp.AsInputRequired(err); open {
		return err
	}
	h.waiting.reply <- reply{answer, err}
	h.waiting = nil
	return nil
}

func (h *heldCall) hasEnded() bool {
	select {
	case <-h.ended:
		return true
	default:
		return false
	}
}

// A heldContext is that of a call to a legacy server. It has the values of the run that
// began the call. What ends it is the clock of who attends it or the parking's; that it
// has a deadline keeps the transport from having one of its own.
type heldContext struct {
	context.Context
	values   context.Context
	passage  *passage
	deadline time.Time
}

// maxHeld is no less than a call with all its questions may take.
const maxHeld = (MaxRounds + 1) * InputTimeout

// Deadline is not when the context ends.
func (c *heldContext) Deadline() (time.Time, bool) { return c.deadline, true }

// Value asks the context that ends first: among its values is how it ends.
func (c *heldContext) Value(key any) any {
	if _, ok := key.(passageKey); ok {
		return c.passage
	}
	if v := c.Context.Value(key); v != nil {
		return v
	}
	return c.values.Value(key)
}
