package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"iter"
	"time"

	"github.com/dovetail-go/dovetail/jsonrpc"
)

// A Result is what a call yields: one JSON object that appends itself.
type Result interface {
	AppendJSON(dst []byte) ([]byte, error)
}

// Raw is a [Result] that is encoded already. Its bytes are passed on unchanged and
// unchecked, so they must be one JSON object: anything else breaks the message, and the
// caller gets no answer.
type Raw = jsonrpc.Raw

// A Handler answers a call.
type Handler func(ctx context.Context, call *Call) (Result, error)

// A Middleware wraps a [Handler]. It may look at a call, pass on a changed one (see
// [Call.WithParams]), refuse it or change its result. An error that it does not
// understand it must return as it is: *[InputRequired] is one that is not a failure.
//
// A Middleware is called when an entry is registered or mounted, not for each call, so
// what it declares outside of the Handler that it returns is shared by all calls. It is
// called once for the function of the entry, and once for its completions.
type Middleware func(next Handler) Handler

// A Guard decides about entries: whether a caller sees them, whether a call may be made,
// and how. All its functions may be nil, and are called concurrently.
//
// On a call, Check decides if it is there; otherwise Visible does, and what Visible hides
// is unknown to the caller. Requests to subscribe to a resource pass Visible and Check.
// A panic of Visible or Check refuses.
type Guard struct {
	// Name identifies the guard to callers that it refuses, and in logs.
	Name string
	// Visible reports whether the caller may see the entry in lists. Lists of a server
	// with any Visible are cached privately (cacheScope).
	Visible func(ctx context.Context, caller *Caller, target *Target) bool
	// Check returns nil if the call may be made. It runs before the arguments are
	// validated. Its error is logged; callers are told the guard's name, unless the
	// error is a *[jsonrpc.Error] or *[InputRequired], which are sent as they are.
	Check func(ctx context.Context, call *Call) error
	// Run wraps the function of the entry, and runs after the arguments are validated. It
	// may ask, hold and record. An entry of a mounted provider validates its arguments
	// itself, so the Run of a server or mount that the provider is mounted on comes before.
	Run Middleware
}

// A Responder is the way from a call back to its caller. The era of the protocol
// implements it.
type Responder interface {
	// Notify sends a notification that belongs to the call. It does not keep params.
	Notify(ctx context.Context, method string, params jsonrpc.Appender) error
	// Input returns the answer to a question, or *[InputRequired].
	Input(key string, question InputRequest) (json.RawMessage, error)
	// Load returns a value that an earlier run of the same call has stored.
	Load(key string) (value json.RawMessage, ok bool)
	// Store stores a value for later runs of the same call.
	Store(key string, value json.RawMessage)
	// ID identifies the call through all its runs.
	ID() string
	// OnDone registers fn to run when the call has ended.
	OnDone(fn func())
	// Detach disconnects the caller, which comes back for the result.
	Detach(retry time.Duration)
}

// A Call is one request with all that its handling needs. One goroutine at a time
// handles a call; other goroutines may use its methods while it runs, except for
// [Call.Resolve], [Call.Set] and [Call.Get].
type Call struct {
	// Caller describes the caller. A middleware may set another one on a copy.
	Caller *Caller

	request   *jsonrpc.Request
	responder Responder
	target    *Target
	uri       string
	recheck   func(ctx context.Context, t *Target) error
	original  *Call  // of which this is a copy, nil: it is none
	values    *value // of a call that is no copy
}

// A value is one of a list.
type value struct {
	key, value any
	next       *value
}

// NewCall returns a call for a request. responder may be nil: such a call can
// neither notify nor ask.
func NewCall(request *jsonrpc.Request, caller *Caller, responder Responder) Call {
	return Call{Caller: caller, request: request, responder: responder}
}

// Method returns the request's method.
func (c *Call) Method() string { return c.request.Method }

// Params returns the request's parameters as they came, nil if there were none.
func (c *Call) Params() json.RawMessage { return c.request.Params }

// Keys iterates over the names of the members of the params, or with a path of those of
// an object among them, as they came, with quotes. Nothing is scanned again.
func (c *Call) Keys(path ...string) iter.Seq[[]byte] { return c.request.Keys(path...) }

// Member returns a member of the params, or of an object in them, as it came:
// Member("arguments"), Member("_meta", "progressToken"). It is nil when there
// is none. Nothing is scanned again.
func (c *Call) Member(path ...string) json.RawMessage { return c.request.Member(path...) }

// WithParams returns a copy of the call with other params. The params are checked as
// those of an incoming call are, and must not be changed afterwards; the error is a
// *[jsonrpc.Error] with [jsonrpc.InvalidParams], or that of [Call.FreezeArguments].
func (c *Call) WithParams(params json.RawMessage) (*Call, error) {
	changed, err := c.withParams(params)
	if refusal, _ := c.Get(frozen{}).(error); refusal != nil && err == nil && !bytes.Equal(changed.Member("arguments"), c.Member("arguments")) {
		return nil, refusal
	}
	return changed, err
}

// FreezeArguments makes [Call.WithParams] return err for the rest of this run of the call,
// of the call and its copies, if the params have other arguments, byte for byte. A guard
// that has had the arguments approved uses it.
func (c *Call) FreezeArguments(err error) { c.Set(frozen{}, err) }

// frozen is the key of the error of changing the arguments, among the values of a call.
type frozen struct{}

func (c *Call) withParams(params json.RawMessage) (*Call, error) {
	changed := &struct { // one allocation for both
		call    Call
		request jsonrpc.Request
	}{call: *c}
	if err := changed.request.Init(c.request.ID, c.request.Method, params); err != nil {
		return nil, err
	}
	changed.call.request = &changed.request
	changed.call.original = c
	return &changed.call, nil
}

// Enter returns a copy of the call for an entry that is mounted: inner is its target on
// the server or provider that it comes from, which recheck asks as in [Call.Resolve].
// params take the place of the call's, unless they are nil; see [Call.WithParams]. Frozen
// arguments may be others here: an entry that stands for another one, such as a tool that
// calls tools, takes the arguments of the second out of its own.
func (c *Call) Enter(inner *Target, params json.RawMessage, recheck func(ctx context.Context, t *Target) error) (*Call, error) {
	if params == nil {
		entered := *c
		entered.original, entered.target, entered.recheck = c, inner, recheck
		return &entered, nil
	}
	entered, err := c.withParams(params)
	if err != nil {
		return nil, err
	}
	entered.target, entered.recheck = inner, recheck
	return entered, nil
}

// Resolve records what the call is for, and for a resource its URI. A server does that
// once, when it receives the call. recheck is asked by [Call.Recheck]; it may be nil.
func (c *Call) Resolve(target *Target, uri string, recheck func(ctx context.Context, t *Target) error) {
	c.target, c.uri, c.recheck = target, uri, recheck
}

// Target returns what the call is for: nil for a list, and for a name that nothing has.
func (c *Call) Target() *Target { return c.target }

// URI returns the URI of the resource that is read, subscribed to or unsubscribed from;
// "" for other calls. Where Target is a template, it is a URI that the template matches.
func (c *Call) URI() string { return c.uri }

// Recheck reports whether the call's target is still what it was when the call came: the
// same entry, or one of equal origin and definition. Whatever has waited, for a person
// for example, asks before it goes on. A nil error says so.
func (c *Call) Recheck(ctx context.Context) error {
	var last *Target
	for ; c != nil; c = c.original {
		if c.recheck == nil || c.target == nil || c.target == last {
			continue // the original of a copy has the same target
		}
		last = c.target
		if err := c.recheck(ctx, c.target); err != nil {
			return err
		}
	}
	return nil
}

// Set keeps a value for this run of the call: for all that handles it, with this call or
// with a copy of it. Keys are compared as those of a context. It is not for concurrent use.
func (c *Call) Set(key, val any) {
	for c.original != nil {
		c = c.original
	}
	c.values = &value{key, val, c.values}
}

// Get returns what was last set with the key in this run, nil if nothing was.
func (c *Call) Get(key any) any {
	for c.original != nil {
		c = c.original
	}
	for v := c.values; v != nil; v = v.next {
		if v.key == key {
			return v.value
		}
	}
	return nil
}

// Notify sends a notification that belongs to this call; it arrives before the
// call's result.
func (c *Call) Notify(ctx context.Context, method string, params jsonrpc.Appender) error {
	if c.responder == nil {
		return errNoResponder
	}
	return c.responder.Notify(ctx, method, params)
}

// Input asks the caller. It returns the answer when the caller has given one,
// otherwise the error to return from the call, *[InputRequired]: the call is run
// again once there is an answer. The key identifies the question among those of
// this call and must be the same on each run.
func (c *Call) Input(key string, question InputRequest) (json.RawMessage, error) {
	if c.responder == nil {
		return nil, errNoResponder
	}
	return c.responder.Input(key, question)
}

// Load returns a value that an earlier run of this call has stored with the key.
func (c *Call) Load(key string) (value json.RawMessage, ok bool) {
	if c.responder == nil {
		return nil, false
	}
	return c.responder.Load(key)
}

// Store stores a value, one JSON text, for later runs of this call. The caller may carry
// it between the runs, sealed, so it should be small.
func (c *Call) Store(key string, value json.RawMessage) {
	if c.responder != nil {
		c.responder.Store(key, value)
	}
}

// ID identifies the call among all calls, through all its runs. It is random, and known
// to the caller only. It is empty for a call without a [Responder].
func (c *Call) ID() string {
	if c.responder == nil {
		return ""
	}
	return c.responder.ID()
}

// OnDone registers fn to run when the call has ended, right after its last run. Register
// fn on every run; each registered fn runs once. Between two runs a call has not ended,
// and if its caller, which has the questions, never comes back, it never will: what waits
// for that needs a bound of its own. Only a client of the legacy era keeps its call open
// between runs.
func (c *Call) OnDone(fn func()) {
	if c.responder != nil {
		c.responder.OnDone(fn)
	}
}

// Detach disconnects the caller while the call goes on: the caller comes back for the
// result after retry, by a request that resumes the stream. Only a client over HTTP
// that speaks 2025-11-25 can; for any other nothing happens.
func (c *Call) Detach(retry time.Duration) {
	if c.responder != nil {
		c.responder.Detach(retry)
	}
}
