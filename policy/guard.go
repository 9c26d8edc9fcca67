package policy

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// GuardOptions configure [Guard]. The functions may be nil, and are called concurrently.
type GuardOptions struct {
	// Subject returns the roles and the principal of a caller. It is called for each call and
	// for each entry of a list. An error or a panic denies. The default is the caller's
	// principal, without a role.
	Subject func(ctx context.Context, caller *mcp.Caller) (Subject, error)
	// OnDecision is called with the decision about each call, for an audit. It is not called
	// for lists. A panic denies the call.
	OnDecision func(ctx context.Context, call *mcp.Call, q *Request, d Decision)
	// Current, if set, returns the policy for one decision about a caller, in place of the policy of the guard: for a
	// policy that is replaced at run time, or one for each team. nil denies everything. It must not block.
	Current func(caller Subject) *Compiled
	// ProtocolErrors refuses calls of tools with a JSON-RPC error, as calls of other entries are. By
	// default the caller gets a result with isError; see [DeniedError.ToolResult].
	ProtocolErrors bool
}

// Guard returns a guard that enforces a policy. An entry that the policy does not allow is
// in no list, and a call of it is refused with a *[DeniedError]. So is a call for which the
// policy says ask; the guard of package approval asks. Lists and calls get the same
// decisions; see [Compiled.DecideListed]. A nil p denies everything. opts may be nil.
func Guard(p *Compiled, opts *GuardOptions) mcp.Guard {
	o := *cmp.Or(opts, new(GuardOptions))
	return mcp.Guard{
		Name: "policy",
		Visible: func(ctx context.Context, caller *mcp.Caller, target *mcp.Target) bool {
			return p.DecideListed(ctx, caller, target, &o).Effect == Allow
		},
		Check: func(ctx context.Context, call *mcp.Call) error {
			_, err := p.DecideCall(ctx, call, &o)
			return err
		},
	}
}

// DecideListed decides whether a caller sees an entry in lists, for guards. The decision is
// the most lenient one that a call of the entry can get. A nil Compiled and a failed callback
// deny. opts may be nil.
func (c *Compiled) DecideListed(ctx context.Context, caller *mcp.Caller, target *mcp.Target, opts *GuardOptions) Decision {
	q := Request{Target: *target, Listed: true}
	return c.decideFor(ctx, caller, &q, opts)
}

// DecideCall decides about a call that has a target, for guards, and passes the decision to
// opts.OnDecision. The error is a *[DeniedError] unless the decision is [Allow]. The
// completion of arguments is decided as a list is. A resource is decided by its URI, even if
// a template matches it. A nil Compiled and a failed callback deny. opts may be nil.
func (c *Compiled) DecideCall(ctx context.Context, call *mcp.Call, opts *GuardOptions) (Decision, error) {
	d := c.decideCall(ctx, call, opts)
	if d.Effect != Allow {
		refusal := denied(call, d)
		refusal.protocol = opts != nil && opts.ProtocolErrors
		return d, refusal
	}
	return d, nil
}

func (c *Compiled) decideCall(ctx context.Context, call *mcp.Call, opts *GuardOptions) Decision {
	target := call.Target()
	if target == nil {
		return undecided(errNoTarget)
	}
	q := Request{Target: *target, URI: call.URI(), Listed: call.Method() == mcp.MethodComplete}
	if kind := q.kind(); kind == mcp.KindTool || kind == mcp.KindPrompt || kind == mcp.KindEvent {
		q.Arguments = call.Member("arguments")
	}
	d := c.decideFor(ctx, call.Caller, &q, opts)
	if opts == nil || opts.OnDecision == nil {
		return d
	}
	decided := q // a copy that the callback may keep: q itself stays on the stack
	err := safely(func() error {
		opts.OnDecision(ctx, call, &decided, d)
		return nil
	})
	if err != nil {
		return undecided(err)
	}
	return d
}

// decideFor sets the subject of a request, and decides.
func (c *Compiled) decideFor(ctx context.Context, caller *mcp.Caller, q *Request, opts *GuardOptions) Decision {
	var err error
	if q.Subject, err = opts.subject(ctx, caller); err != nil {
		return undecided(err)
	}
	if opts != nil && opts.Current != nil {
		c = opts.Current(q.Subject)
	}
	if c == nil {
		return undecided(errNoPolicy)
	}
	return c.Decide(q)
}

func (o *GuardOptions) subject(ctx context.Context, caller *mcp.Caller) (s Subject, err error) {
	switch {
	case o != nil && o.Subject != nil:
		err = safely(func() (err error) {
			s, err = o.Subject(ctx, caller)
			return err
		})
	case caller != nil:
		s.Principal = caller.Principal
	}
	return s, err
}

var (
	errNoPolicy = errors.New("there is no policy")
	errNoTarget = errors.New("the server has no such entry")
)

func undecided(err error) Decision {
	return Decision{Effect: Deny, Reason: "the policy could not be evaluated: " + err.Error()}
}

// safely returns the error of fn, or its panic as an error.
func safely(fn func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return fn()
}

// A DeniedError reports a call that the policy does not allow. The caller of a tool gets the result
// of ToolResult. The caller of another entry gets the *[jsonrpc.Error] of Unwrap: code -32603 and data
// {"type":"FORBIDDEN","guard":"policy"}. client.IsForbidden recognizes both. They contain the
// UserMessage of the decision, but not its Reason.
type DeniedError struct {
	Kind     mcp.Kind
	Name     string // the name that the caller used
	Decision Decision

	protocol bool // GuardOptions.ProtocolErrors
}

// Error returns the name and the reason, for the operator.
func (e *DeniedError) Error() string {
	return fmt.Sprintf("the policy refuses the %s %.256q: %s", e.Kind, e.Name, e.Decision.Reason)
}

// Unwrap returns the *[jsonrpc.Error] for the caller.
func (e *DeniedError) Unwrap() error { return e.public() }

// ToolResult returns the result for the caller of a tool, with isError and with text for the model:
// the message of the *[jsonrpc.Error], and that the same call would be refused again. The key
// [mcp.MetaRefusal] of its _meta has the data of the error. ToolResult returns nil with
// [GuardOptions].ProtocolErrors.
func (e *DeniedError) ToolResult() *mcp.CallToolResult {
	if e.protocol {
		return nil
	}
	public := e.public()
	return &mcp.CallToolResult{
		IsError: true,
		Content: mcp.ContentList{mcp.Text(public.Message + "\nThe tool was not called. Do not repeat the call: it would be refused again.")},
		Meta:    mcp.Meta(`{"` + mcp.MetaRefusal + `":` + string(public.Data) + `}`),
	}
}

func (e *DeniedError) public() *jsonrpc.Error {
	message := fmt.Sprintf("The policy does not allow the %s %.256q", e.Kind, e.Name)
	if e.Decision.UserMessage != "" {
		message += ": " + e.Decision.UserMessage
	}
	return &jsonrpc.Error{
		Code: jsonrpc.InternalError, Message: message, Data: json.RawMessage(`{"type":"FORBIDDEN","guard":"policy"}`),
	}
}

func denied(call *mcp.Call, d Decision) *DeniedError {
	e := &DeniedError{Name: call.URI(), Kind: mcp.KindResource, Decision: d}
	if t := call.Target(); t != nil && e.Name == "" {
		e.Name, e.Kind = t.Name, t.Kind
	}
	return e
}
