package approval

import "context"

// An Answer is what somebody has decided.
type Answer struct {
	// Approved is yes. The zero value is no.
	Approved bool
	// Reason says why not; the caller is told.
	Reason string
	// By names who has decided, for the journal.
	By string
}

// An Approver decides about requests.
type Approver interface {
	// Approve returns the answer to a request. It waits as long as ctx lasts, which ends
	// with the request's deadline and with the call, and returns soon after. An error
	// refuses the call; a [Kind] in it says how. It is called concurrently. An approver
	// that asks the caller of the call may return *mcp.InputRequired, and is called again
	// for the same request when the answer is there.
	Approve(ctx context.Context, r *Request) (Answer, error)
}

// ApproverFunc is a function as an [Approver].
type ApproverFunc func(ctx context.Context, r *Request) (Answer, error)

// Approve calls the function.
func (f ApproverFunc) Approve(ctx context.Context, r *Request) (Answer, error) { return f(ctx, r) }
