package mcp

import (
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

// Raw is a [Result] that stands already encoded; its bytes are passed on
// unchanged and unchecked, so they must be one JSON object: a broken one breaks the
// message, and its caller waits in vain.
type Raw = jsonrpc.Raw

// An Handler answers a call.
type Handler func(ctx context.Context, call *Call) (Result, error)

// An Middleware stands around an [Handler] and may look at a call, change it,
// refuse it or change its result. It must pass on an error that it does not
// understand: *[InputRequired] is one that is not a failure.
type Middleware func(next Handler) Handler

// An Responder is the way from a call back to who made it. The era of the
// protocol implements it.
type Responder interface {
	// Notify sends a notification that belongs to the call. It does not keep params.
	Notify(ctx context.Context, method string, params jsonrpc.Appender) error
	// Input returns the answer to a question, or *[InputRequired].
	Input(key string, question InputRequest) (json.RawMessage, error)
	// Load returns what an earlier run of the same call kept under the key.
	Load(key string) (value json.RawMessage, ok bool)
	// Keep keeps a value for later runs of the same call.
	Store(key string, value json.RawMessage)
	// ID names the call through all its runs.
	ID() string
	// Finally has fn run when the call is over.
	OnDone(fn func())
	// Detach sends the caller away, to come back for the result.
	Detach(retry time.Duration)
}

// A Call is one request with all it needs. It is not shared: one call is
// handled by one goroutine at a time, but its methods may be used by others
// while it runs.
type Call struct {
	// Caller is who calls.
	Caller *Caller

	request  *jsonrpc.Request
	exchange Responder
}

// NewCall returns a call for a request. exchange may be nil: such a call can
// neither notify nor ask.
func NewCall(request *jsonrpc.Request, caller *Caller, exchange Responder) Call {
	return Call{Caller: caller, request: request, exchange: exchange}
}

// Method is the request's method.
func (c *Call) Method() string { return c.request.Method }

// Params are the request's parameters as they came, nil if there were none.
func (c *Call) Params() json.RawMessage { return c.request.Params }

// Keys are the names of the members of the params, or with a name of those of an
// object among them, as they came, with quotes. Nothing is scanned again.
func (c *Call) Keys(path ...string) iter.Seq[[]byte] { return c.request.Keys(path...) }

// Member returns a member of the params, or of an object in them, as it came:
// Member("arguments"), Member("_meta", "progressToken"). It is nil when there
// is none. Nothing is scanned again.
func (c *Call) Member(path ...string) json.RawMessage { return c.request.Member(path...) }

// WithParams returns the same call with other params, for an interceptor that
// changes what is asked for. The params are checked as those of an incoming call
// are, and must not be changed afterwards; the error is a *[jsonrpc.Error] with
// [jsonrpc.InvalidParams].
func (c *Call) WithParams(params json.RawMessage) (*Call, error) {
	changed := &struct { // one allocation for both
		call    Call
		request jsonrpc.Request
	}{call: *c}
	if err := changed.request.Init(c.request.ID, c.request.Method, params); err != nil {
		return nil, err
	}
	changed.call.request = &changed.request
	return &changed.call, nil
}

// Notify sends a notification that belongs to this call; it arrives before the
// call's result.
func (c *Call) Notify(ctx context.Context, method string, params jsonrpc.Appender) error {
	if c.exchange == nil {
		return errNoWayBack
	}
	return c.exchange.Notify(ctx, method, params)
}

// Input asks the caller. It returns the answer when the caller has given one,
// else the error to return from the call, *[InputRequired]: the call is run
// again once the answer is there. The key names the question among those of
// this call and must be the same on each run.
func (c *Call) Input(key string, question InputRequest) (json.RawMessage, error) {
	if c.exchange == nil {
		return nil, errNoWayBack
	}
	return c.exchange.Input(key, question)
}

// Load returns what an earlier run of this call kept under the key.
func (c *Call) Load(key string) (value json.RawMessage, ok bool) {
	if c.exchange == nil {
		return nil, false
	}
	return c.exchange.Load(key)
}

// Keep keeps a value, one JSON text, for later runs of this call.
func (c *Call) Store(key string, value json.RawMessage) {
	if c.exchange != nil {
		c.exchange.Store(key, value)
	}
}

// ID names the call among all calls, through all its runs. It is random, and nobody
// but the caller can guess it. It is empty for a call that has no way back.
func (c *Call) ID() string {
	if c.exchange == nil {
		return ""
	}
	return c.exchange.ID()
}

// Finally has fn run when the call is over, at once after its last run. Each run has to
// say so anew, and fn may then run as often as that was said. Between two runs a call is
// not over, and if its caller, who has the questions, never comes back, it will never
// be: what waits for that needs a bound of its own. Only a client in the legacy era
// keeps its call open all the while.
func (c *Call) OnDone(fn func()) {
	if c.exchange != nil {
		c.exchange.OnDone(fn)
	}
}

// Detach hangs up while the call goes on: the caller comes back for the result
// after retry, by a request that resumes the stream. Only a client over HTTP
// that speaks 2025-11-25 can; for any other nothing happens.
func (c *Call) Detach(retry time.Duration) {
	if c.exchange != nil {
		c.exchange.Detach(retry)
	}
}
