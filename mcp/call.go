package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"iter"
	"time"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
)

// A Result is the result of a call: one JSON object that appends itself.
type Result interface {
	// AppendJSON appends the JSON object to dst.
	AppendJSON(dst []byte) ([]byte, error)
}

// Raw is a [Result] that is encoded already. It is sent unchanged and unchecked, so it must be one
// JSON object. Any other value breaks the message, and the caller gets no answer.
type Raw = jsonrpc.Raw

// A Handler answers a call. Handlers are called concurrently.
type Handler func(ctx context.Context, call *Call) (Result, error)

// A Middleware wraps a [Handler]. It may read a call, pass on a changed one (see
// [Call.WithParams]), reject it, or change its result. It must return errors that it does not
// handle unchanged: *[InputRequired] is not a failure.
//
// A Middleware is called when an entry is registered or mounted, and not for each call. It is
// called once for the function of the entry, and once for its completions. Variables that it
// declares outside of the returned Handler are shared by all calls.
type Middleware func(next Handler) Handler

// A ToolRefusal is the error of a [Guard] that the caller of a tool gets as a result: a model can read a
// result, while some clients stop at a protocol error. A server looks for it in the errors of guards. It
// sends other errors as protocol errors.
type ToolRefusal interface {
	error
	// ToolResult returns the result. nil means that the error is sent as a protocol error.
	ToolResult() *CallToolResult
}

// A Refusal is the error of a [Guard] that callers may read, with what is missing, such as a scope. The caller of a tool
// gets it as a result, for the model; other callers get a *[jsonrpc.Error] with [jsonrpc.InternalError]. Its data, and the
// key [MetaRefusal] of the result, say that the call was refused: client.IsForbidden recognizes both. The texts of other
// errors of guards are not sent to callers.
type Refusal struct {
	// Reason says why the call was refused, and what the caller can do.
	Reason string
	// Guard is the name of the guard. A server sets it in the errors of Check.
	Guard string
}

var _ ToolRefusal = (*Refusal)(nil)

// Error returns the reason.
func (r *Refusal) Error() string { return r.Reason }

// Unwrap returns the *[jsonrpc.Error] for callers.
func (r *Refusal) Unwrap() error {
	return &jsonrpc.Error{Code: jsonrpc.InternalError, Message: r.Reason, Data: r.data()}
}

// ToolResult returns the result for the caller of a tool.
func (r *Refusal) ToolResult() *CallToolResult {
	return &CallToolResult{
		IsError: true,
		Content: ContentList{Text(r.Reason + "\nThe tool was not called.")},
		Meta:    Meta(`{"` + MetaRefusal + `":` + string(r.data()) + `}`),
	}
}

func (r *Refusal) data() json.RawMessage {
	return append(jsonscan.AppendString([]byte(`{"type":"FORBIDDEN","guard":`), r.Guard), '}')
}

// A Guard decides about entries: whether a caller sees them, whether a call may be made, and how.
// Each of its functions may be nil, and is called concurrently.
//
// On a call, Check decides. Without Check, Visible decides, and a hidden entry is unknown to the
// caller. The same holds for requests to subscribe to a resource. A panic in Visible or Check
// refuses.
type Guard struct {
	// Name identifies the guard in logs, and to callers that it refuses.
	Name string
	// Visible reports whether the caller sees the entry in lists. If any guard of a server has it,
	// the server's lists are private (cacheScope).
	Visible func(ctx context.Context, caller *Caller, target *Target) bool
	// Check returns nil if the call may be made. It runs before the arguments are validated. Its
	// error is logged, and callers get the name of the guard; with a *[Refusal] they get the reason too.
	// A *[jsonrpc.Error] or *[InputRequired] is sent to the caller unchanged. A [ToolRefusal] is sent to the
	// caller of a tool as a result. The same holds for an error of Run that contains a *[jsonrpc.Error].
	Check func(ctx context.Context, call *Call) error
	// Run wraps the function of the entry. It runs after the arguments are validated, and may ask,
	// wait and record. A mounted entry validates its arguments itself: Run of the server or mount
	// that offers it runs before that.
	Run Middleware
	// Waits says that Run may call [Call.BecomeTask], because it waits for long. A server declares then
	// that it supports tasks.
	Waits bool
}

// A Responder connects a call with its caller. The implementation depends on the era of the
// protocol.
type Responder interface {
	// Notify sends a notification that belongs to the call. It does not retain params.
	Notify(ctx context.Context, method string, params jsonrpc.Appender) error
	// Input returns the answer to a question, or an *[InputRequired].
	Input(key string, question InputRequest) (json.RawMessage, error)
	// Load returns a value that an earlier run of the same call has stored.
	Load(key string) (value json.RawMessage, ok bool)
	// Store stores a value for later runs of the same call.
	Store(key string, value json.RawMessage)
	// ID identifies the call in all its runs.
	ID() string
	// OnDone registers fn to run when the call has ended.
	OnDone(fn func())
	// Detach disconnects the caller, which reconnects for the result.
	Detach(retry time.Duration)
	// TaskID identifies the task that the call runs as; "" if it is none.
	TaskID() string
}

// A Call is one request with everything that its handlers need. Its methods may be called
// concurrently while it runs, except [Call.Resolve], [Call.Set] and [Call.Get].
type Call struct {
	// Caller describes the caller. A middleware may set another one on a copy.
	Caller *Caller

	request   *jsonrpc.Request
	responder Responder
	target    *Target
	uri       string
	recheck   func(ctx context.Context, t *Target) error
	original  *Call  // the call that this is a copy of; nil if it is no copy
	values    *value // nil in copies, except forks
}

// A value is an element of a linked list.
type value struct {
	key, value any
	next       *value
}

// NewCall returns a call for a request. responder may be nil; the call can then neither notify nor
// ask.
func NewCall(request *jsonrpc.Request, caller *Caller, responder Responder) Call {
	return Call{Caller: caller, request: request, responder: responder}
}

// Method returns the method of the request.
func (c *Call) Method() string { return c.request.Method }

// RequestID returns the id of the request. It identifies the request on its connection only; see
// [Call.ID]. In the middleware of a client it is not the id that the server gets.
func (c *Call) RequestID() jsonrpc.ID { return c.request.ID }

// Params returns the params of the request, unchanged, or nil.
func (c *Call) Params() json.RawMessage { return c.request.Params }

// ArgumentsError returns an error if the arguments of the request have an object with a duplicate member, at any depth. A
// server refuses such a call, since a policy and a tool may read different values.
func (c *Call) ArgumentsError() error { return c.request.ArgumentsError() }

// Keys returns an iterator over the quoted names of the members of the params, or of an object in
// them. The params are not scanned again.
func (c *Call) Keys(path ...string) iter.Seq[[]byte] { return c.request.Keys(path...) }

// Member returns a member of the params, or of an object in them, unchanged: Member("arguments"),
// Member("_meta", "progressToken"). It returns nil if there is none, or if it is null. The params are
// not scanned again.
func (c *Call) Member(path ...string) json.RawMessage { return c.request.Member(path...) }

// ProgressToken returns the progress token of the request, a JSON string or integer. It returns nil if the request asks
// for no progress, and for any other value.
func (c *Call) ProgressToken() json.RawMessage {
	if token := c.Member("_meta", MetaProgressToken); isProgressToken(token) {
		return token
	}
	return nil
}

// WithParams returns a copy of the call with other params, which must not be changed afterwards.
// The error is a *[jsonrpc.Error] with [jsonrpc.InvalidParams] if the params are invalid, or the
// error of [Call.FreezeArguments].
func (c *Call) WithParams(params json.RawMessage) (*Call, error) {
	changed, err := c.withParams(params)
	if refusal, _ := c.Get(frozen{}).(error); refusal != nil && err == nil && !bytes.Equal(changed.Member("arguments"), c.Member("arguments")) {
		return nil, refusal
	}
	return changed, err
}

// WithMeta returns a copy of the call with another _meta, or without one if meta is nil. Start from
// Meta(call.Member("_meta")) to keep the other members. It returns the error of [Call.WithParams].
func (c *Call) WithMeta(meta Meta) (*Call, error) {
	params := c.Params()
	if params == nil {
		params = json.RawMessage("{}")
	}
	changed, err := jsonscan.Splice(make([]byte, 0, len(params)+len(meta)+16), params, jsonscan.Edit{Name: "_meta", Value: meta})
	if err != nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: "params: " + err.Error()}
	}
	return c.withParams(changed) // the arguments are the same
}

// FreezeArguments makes [Call.WithParams] return err, for this run of the call and its copies, if
// other params have different arguments, byte for byte. A guard calls it after the arguments were
// approved.
func (c *Call) FreezeArguments(err error) { c.Set(frozen{}, err) }

// frozen is the key of the error of FreezeArguments.
type frozen struct{}

func (c *Call) withParams(params json.RawMessage) (*Call, error) {
	request, err := jsonrpc.NewRequest(c.request.ID, c.request.Method, params)
	if err != nil {
		return nil, err
	}
	changed := *c
	changed.request, changed.original, changed.values = request, c, nil
	return &changed, nil
}

// Enter returns a copy of the call for a mounted entry. inner is the entry's target on the server
// or provider that it comes from. recheck is used as in [Call.Resolve]. If params is not nil, it
// replaces the params; see [Call.WithParams]. Frozen arguments may be replaced here, since an entry
// may call another one with arguments from its own.
func (c *Call) Enter(inner *Target, params json.RawMessage, recheck func(ctx context.Context, t *Target) error) (*Call, error) {
	if params == nil {
		entered := *c
		entered.original, entered.values, entered.target, entered.recheck = c, nil, inner, recheck
		return &entered, nil
	}
	entered, err := c.withParams(params)
	if err != nil {
		return nil, err
	}
	entered.target, entered.recheck = inner, recheck
	return entered, nil
}

// Nested returns another call, which a handler of c makes: of what params name, by the same caller, through the responder, which
// may be one for c. Its values are its own, so that a guard of both calls does not take one for the other, except
// [Call.Script] and the error of [Call.FreezeArguments]. [Call.Recheck] of it also checks c. Several nested calls may be made
// concurrently, while c is not changed. params must not be changed afterwards. The error is a *[jsonrpc.Error] with
// [jsonrpc.InvalidParams] if they are invalid.
func (c *Call) Nested(params json.RawMessage, responder Responder) (*Call, error) {
	nested, err := c.withParams(params)
	if err != nil {
		return nil, err
	}
	nested.responder, nested.target, nested.uri, nested.recheck = responder, nil, "", nil
	nested.values = &value{key: forked{}} // not nil, so that those of c are not looked at
	for _, key := range []any{frozen{}, scriptKey{}} {
		if kept := c.Get(key); kept != nil {
			nested.Set(key, kept)
		}
	}
	return nested, nil
}

// WithResponder returns a copy of the call that asks and notifies through another responder. The copy has params of its
// own, and the values that are set in this run at this time; it does not share later ones. So it may be used by a
// goroutine that continues after this run.
func (c *Call) WithResponder(responder Responder) (*Call, error) {
	request, err := jsonrpc.NewRequest(c.request.ID, c.request.Method, bytes.Clone(c.request.Params))
	if err != nil {
		return nil, err
	}
	own := NewCall(request, c.Caller, responder)
	own.values = c.holder().values
	own.Resolve(c.target, c.uri, func(ctx context.Context, _ *Target) error { return c.Recheck(ctx) })
	return &own, nil
}

// Resolve sets the target of the call and, for a resource, its URI. A server calls it once, when it
// receives the call. [Call.Recheck] calls recheck, which may be nil.
func (c *Call) Resolve(target *Target, uri string, recheck func(ctx context.Context, t *Target) error) {
	c.target, c.uri, c.recheck = target, uri, recheck
}

// Target returns the entry that the call is for. It returns nil for lists and for unknown names.
func (c *Call) Target() *Target { return c.target }

// URI returns the URI of the resource that is read, subscribed to or unsubscribed from, or of the
// directory that is read, and "" for other calls. If Target is a template, URI matches it.
func (c *Call) URI() string { return c.uri }

// Recheck returns nil if the target of the call is still offered unchanged: the same entry, or one
// of equal origin and definition. A handler that has waited, for example for a person, calls it
// before it continues. It may block. The error is for the caller.
func (c *Call) Recheck(ctx context.Context) error {
	var last *Target
	for ; c != nil; c = c.original {
		if c.recheck == nil || c.target == nil || c.target == last {
			continue // a copy has the same target as its original
		}
		last = c.target
		if err := c.recheck(ctx, c.target); err != nil {
			return err
		}
	}
	return nil
}

// Set stores a value for this run of the call. The call and all its copies share it. Keys are
// compared with ==. It must not be called concurrently.
func (c *Call) Set(key, val any) {
	c = c.holder()
	c.values = &value{key, val, c.values}
}

// holder returns the call that has the values of c.
func (c *Call) holder() *Call {
	for c.original != nil && c.values == nil {
		c = c.original
	}
	return c
}

// Fork returns a copy of the call with the same values. Later, [Call.Set] changes those of the call or those of
// the fork and its copies. A handler that may return before next does gives next a fork, so that next does not change
// values while the caller of the handler reads them.
func (c *Call) Fork() *Call {
	fork := *c
	fork.original, fork.values = c, &value{forked{}, true, c.holder().values} // not nil, also without values
	return &fork
}

// forked is the key of the first value of a fork.
type forked struct{}

// Join gives the call the values of its fork. It is called when the fork is not used any more.
func (c *Call) Join(fork *Call) { c.holder().values = fork.values }

// Get returns the last value that was set with the key in this run, or nil.
func (c *Call) Get(key any) any {
	for v := c.holder().values; v != nil; v = v.next {
		if v.key == key {
			return v.value
		}
	}
	return nil
}

// SetScript says which script of a model makes the call, such as "call 3 of the script 5f2a9c", for those who approve and
// audit calls. It belongs to the values of [Call.Set].
func (c *Call) SetScript(text string) { c.Set(scriptKey{}, text) }

// Script returns what SetScript has set, "" for a call that no script makes.
func (c *Call) Script() string {
	text, _ := c.Get(scriptKey{}).(string)
	return text
}

// scriptKey is the key of the text of SetScript.
type scriptKey struct{}

// Notify sends a notification that belongs to this call. The notification arrives before the
// result.
func (c *Call) Notify(ctx context.Context, method string, params jsonrpc.Appender) error {
	if c.responder == nil {
		return errNoResponder
	}
	return c.responder.Notify(ctx, method, params)
}

// Input asks the caller a question. It returns the answer if there is one, and otherwise an
// *[InputRequired], which the handler must return. The call then runs again with the answer. key
// identifies the question among the questions of the call, and must be the same in each run.
func (c *Call) Input(key string, question InputRequest) (json.RawMessage, error) {
	if c.responder == nil {
		return nil, errNoResponder
	}
	return c.responder.Input(key, question)
}

// Load returns the value that an earlier run of this call has stored with the key.
func (c *Call) Load(key string) (value json.RawMessage, ok bool) {
	if c.responder == nil {
		return nil, false
	}
	return c.responder.Load(key)
}

// Store stores a JSON value for later runs of this call. The caller may carry it between the runs,
// encrypted, so it should be small.
func (c *Call) Store(key string, value json.RawMessage) {
	if c.responder != nil {
		c.responder.Store(key, value)
	}
}

// ID returns a random identifier of the call, which is the same in all its runs. Only the caller
// knows it. It is "" for a call without a [Responder].
func (c *Call) ID() string {
	if c.responder == nil {
		return ""
	}
	return c.responder.ID()
}

// OnDone registers fn to run once when the call has ended, after its last run. Register fn on every
// run.
//
// Between two runs a call has not ended. If the caller does not answer the questions, fn may never
// run: set a timeout for everything that waits for it. Only clients of the legacy era keep a call
// open between runs.
func (c *Call) OnDone(fn func()) {
	if c.responder != nil {
		c.responder.OnDone(fn)
	}
}

// Detach disconnects the caller while the call continues. The caller reconnects after retry to get
// the result. Detach works for clients over HTTP with version 2025-11-25, and otherwise does
// nothing.
func (c *Call) Detach(retry time.Duration) {
	if c.responder != nil {
		c.responder.Detach(retry)
	}
}

// TaskID identifies the task that the call runs as. It is "" if the caller waits for the result.
func (c *Call) TaskID() string {
	if c.responder == nil {
		return ""
	}
	return c.responder.TaskID()
}

// BecomeTask returns nil if the call runs as a task already, or if its caller does not support tasks.
// Otherwise it returns an *[InputRequired], which the handler must return: the server answers the
// caller with a task and runs the call again, in the background. A handler that is about to wait for
// long calls it. SEP-2663.
func (c *Call) BecomeTask(request TaskRequest) error {
	if c.Method() != MethodToolsCall || c.responder == nil || c.TaskID() != "" || !c.Caller.Capabilities.HasExtension(ExtensionTasks) {
		return nil
	}
	return &InputRequired{Task: &request}
}

// A Caller describes the caller of a call. It is shared between calls and must not be changed.
type Caller struct {
	// Version is the protocol version of the caller.
	Version Version
	// Info is the caller's name and version, or nil. It is not verified: do not base decisions on
	// it.
	Info *Implementation
	// Capabilities are the questions that the caller can answer.
	Capabilities ClientCapabilities
	// LogLevel is the least severe level of log messages that the caller wants, or "" for none.
	LogLevel LoggingLevel
	// Principal names the authenticated caller. It is "" if the transport does not authenticate.
	Principal string
	// Network is the address of the caller over HTTP: an IPv4 address such as 192.0.2.7, or the first
	// 64 bits of an IPv6 address such as 2001:db8:1:2::/64. Behind a proxy that the endpoint does not
	// trust, it is the address of the proxy. A caller without Principal has its share of limits by it.
	// It is "" if the caller has no address, such as over stdio.
	Network string
}
