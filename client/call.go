package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dovetail-go/dovetail/internal/bufpool"
	"github.com/dovetail-go/dovetail/internal/era"
	"github.com/dovetail-go/dovetail/internal/era/forward"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport"
)

// fetch is call for results that may be cached.
func (s *Session) fetch(ctx context.Context, method, about string, params jsonrpc.Appender, result json.Unmarshaler, opts *CallOptions) error {
	key := cacheKey{method, about}
	if known, ok := s.cache.get(key); ok {
		return result.UnmarshalJSON(known)
	}
	before := s.cache.generation()
	held := heldParams{Appender: params}
	resp, err := s.do(ctx, method, &held, opts)
	if err != nil {
		return err
	}
	if err := decode(method, resp, result); err != nil {
		return err
	}
	s.logUndecoded(method, result)
	if ttl := ttlOf(resp); ttl > 0 {
		s.cache.put(key, bytes.Clone(resp.Result), ttl, before)
	}
	held.free() // decode copies
	return nil
}

// heldParams are the params of a call that hold the buffer of the response until it has been
// decoded.
type heldParams struct {
	jsonrpc.Appender
	buffer *bufpool.Buffer
}

// Hold keeps a buffer until free is called. A call of several rounds has several responses;
// only the buffer of the last one is kept.
func (p *heldParams) Hold(buffer *bufpool.Buffer) { p.buffer = buffer }

// free must not be called before the response is decoded, nor if a callback has panicked: the
// call may still run then.
func (p *heldParams) free() {
	if p.buffer != nil {
		p.buffer.Free()
	}
}

// call makes a call and decodes its result.
func (s *Session) call(ctx context.Context, method string, params jsonrpc.Appender, result json.Unmarshaler, opts *CallOptions) error {
	held := heldParams{Appender: params}
	resp, err := s.do(ctx, method, &held, opts)
	if err != nil {
		return err
	}
	defer held.free() // decode copies
	if err := decode(method, resp, result); err != nil {
		return err
	}
	s.logUndecoded(method, result)
	return nil
}

// logUndecoded logs that content of a result cannot be decoded. The caller gets the rest of the result.
func (s *Session) logUndecoded(method string, result any) {
	var first error
	count := 0
	add := func(content any) {
		var err error
		switch content := content.(type) {
		case *mcp.UnknownContent:
			err = content.Err
		case *mcp.UnknownResourceContents:
			err = content.Err
		}
		if err != nil {
			first = cmp.Or(first, err)
			count++
		}
	}
	switch result := result.(type) {
	case *mcp.CallToolResult:
		if result == nil {
			return
		}
		for _, content := range result.Content {
			add(content)
			if embedded, ok := content.(*mcp.EmbeddedResource); ok {
				add(embedded.Resource)
			}
		}
	case *mcp.GetPromptResult:
		for i := range result.Messages {
			add(result.Messages[i].Content)
		}
	case *mcp.ReadResourceResult:
		for _, contents := range result.Contents {
			add(contents)
		}
	}
	if count > 0 {
		s.opts.Logger.Warn("content of a result cannot be decoded", "method", method, "blocks", count, "error", first)
	}
}

// decode decodes a result. An invalid result is an error of a call that was executed.
func decode(method string, resp *jsonrpc.Response, result json.Unmarshaler) error {
	if kind := jsonscan.KindOf(resp.Result); kind != jsonscan.Object {
		return asCallError(method, fmt.Errorf("the server's result must be an object, not %v", kind))
	}
	if err := result.UnmarshalJSON(resp.Result); err != nil {
		return asCallError(method, fmt.Errorf("the server's result: %w", err))
	}
	return nil
}

// Call makes a call of any method. params is an object; nil means an empty one. The result is not
// decoded.
//
// The error is the server's *[jsonrpc.Error], or a *[jsonrpc.CallError], which says whether the
// call may have been executed. A call of a tool that continues as a task is as in [Session.CallTool].
func (s *Session) Call(ctx context.Context, method string, params json.RawMessage, opts *CallOptions) (json.RawMessage, error) {
	meta, err := opts.meta()
	if err != nil {
		return nil, notSent(method, err)
	}
	if params == nil {
		params = json.RawMessage("{}")
	}
	encoded, err := userParams(params, meta)
	if err != nil {
		return nil, notSent(method, err)
	}
	resp, err := s.do(ctx, method, encoded, opts)
	if err != nil {
		return nil, err
	}
	return resp.Result, nil
}

// notSent returns the error of a call that failed before it was sent.
func notSent(method string, err error) error {
	return &jsonrpc.CallError{Method: method, Delivery: jsonrpc.NotSent, Err: err}
}

// composeMiddleware returns the handler of all calls, or nil if there is no middleware.
func (s *Session) composeMiddleware(middleware []mcp.Middleware) mcp.Handler {
	if len(middleware) == 0 {
		return nil
	}
	handle := mcp.Handler(s.transmit)
	for _, m := range slices.Backward(middleware) {
		handle = m(handle)
	}
	return handle
}

// An outgoingCall is a call that passes through middleware. It is stored as a value of the call.
type outgoingCall struct {
	opts      *CallOptions
	forward   *ForwardOptions
	forwarded bool
	sent      bool              // the call has passed all middleware
	response  *jsonrpc.Response // the last response, unless the call is forwarded
}

// failed returns the error of a call. The error is from the server, from the connection, or from a middleware.
func (s *outgoingCall) failed(method string, err error) error {
	if s.sent {
		return asForwardError(method, err)
	}
	return notSent(method, err)
}

// transmit makes a call that has passed all middleware.
func (s *Session) transmit(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
	sending, ok := call.Get(s).(*outgoingCall)
	if !ok {
		return nil, errors.New("a middleware has not passed on the call that it was given, or a copy of it")
	}
	sending.sent = true
	if sending.forwarded {
		return s.Forward(ctx, call, sending.forward)
	}
	var params jsonrpc.Appender
	if raw := call.Params(); raw != nil {
		params = mcp.Raw(raw)
	}
	resp, err := s.send(ctx, call.Method(), params, sending.opts)
	if err != nil {
		return nil, err
	}
	sending.response = resp
	return mcp.Raw(resp.Result), nil
}

// isOutgoing reports whether a call has passed all middleware.
func (s *Session) isOutgoing(call *mcp.Call) bool {
	sending, ok := call.Get(s).(*outgoingCall)
	return ok && sending.sent
}

// forwardThroughMiddleware forwards a call.
func (s *Session) forwardThroughMiddleware(ctx context.Context, call *mcp.Call, opts *ForwardOptions) (mcp.Result, error) {
	sending := &outgoingCall{forward: opts, forwarded: true}
	call.Set(s, sending)
	defer call.Set(s, nil) // the call can be forwarded again
	result, err := s.handle(ctx, call)
	if err != nil {
		return nil, sending.failed(call.Method(), err)
	}
	return result, nil
}

// do makes one call through the middleware.
func (s *Session) do(ctx context.Context, method string, params jsonrpc.Appender, opts *CallOptions) (*jsonrpc.Response, error) {
	if s.handle == nil {
		return s.send(ctx, method, params, opts)
	}
	var encoded []byte
	if params != nil {
		var err error
		if encoded, err = params.AppendJSON(make([]byte, 0, 256)); err != nil {
			return nil, notSent(method, err)
		}
	}
	request, err := jsonrpc.NewRequest(jsonrpc.IntID(1), method, encoded)
	if err != nil {
		return nil, notSent(method, err)
	}
	of := &struct { // one allocation
		call    mcp.Call
		sending outgoingCall
	}{mcp.NewCall(request, s.caller(), nil), outgoingCall{opts: opts}}
	sending := &of.sending
	of.call.Set(s, sending)
	result, err := s.handle(ctx, &of.call)
	if err != nil {
		return nil, sending.failed(method, err)
	}
	resp, err := sending.responseOf(result)
	if err != nil {
		return nil, sending.failed(method, err)
	}
	return resp, nil
}

// caller describes this client. Calls in the same protocol version share it.
func (s *Session) caller() *mcp.Caller {
	version := s.Version()
	if last := s.lastCaller.Load(); last != nil && last.Version == version {
		return last
	}
	caller := &mcp.Caller{Version: version, Info: &s.opts.Info, Capabilities: s.opts.capabilities(), LogLevel: s.opts.LogLevel}
	s.lastCaller.Store(caller)
	return caller
}

// responseOf returns a result as a response: the server's own, unless a middleware has replaced the
// result.
func (s *outgoingCall) responseOf(result mcp.Result) (*jsonrpc.Response, error) {
	if result == nil {
		return nil, errors.New("a middleware returned no result")
	}
	if raw, ok := result.(mcp.Raw); ok && s.response != nil && len(raw) > 0 && len(raw) == len(s.response.Result) && &raw[0] == &s.response.Result[0] {
		return s.response, nil
	}
	text, err := result.AppendJSON([]byte(`{"jsonrpc":"2.0","id":1,"result":`))
	if err != nil {
		return nil, err
	}
	message, err := jsonrpc.Decode(append(text, '}'))
	if err != nil {
		return nil, fmt.Errorf("the result of a middleware: %v", err) // not %w: the error is not the server's
	}
	return message.(*jsonrpc.Response), nil
}

// SuspendedCalls holds forwarded calls that stay open at servers of the legacy era while their
// callers answer questions: at most 1,024, at most 64 of one principal, and each for at most 5
// minutes. Sessions may share one. Create one with [NewSuspendedCalls]. It may be used
// concurrently.
type SuspendedCalls struct{ calls *forward.SuspendedCalls }

// NewSuspendedCalls returns an empty SuspendedCalls, for [Options.SuspendedCalls].
func NewSuspendedCalls() *SuspendedCalls { return &SuspendedCalls{forward.NewSuspendedCalls()} }

// ForwardOptions configures [Session.Forward].
type ForwardOptions struct {
	// Name is the name of the tool or prompt at the server. Default: the name in the call.
	Name string
	// ServerLabel is added to questions of the server, so that the user sees who asks. Default:
	// questions stay unchanged.
	ServerLabel string
	// Timeout ends the call if the server reports no progress for this long. Time in which the
	// caller answers questions does not count. Default: the deadline of the context, otherwise
	// [Options].CallTimeout.
	Timeout time.Duration
	// AsTask makes the call of a tool a task of the server and waits for its result, if the server
	// speaks 2025-11-25. Tools with the taskSupport "required" cannot be called otherwise. Newer servers
	// decide themselves.
	AsTask bool
}

// Forward forwards a call of another client and returns the server's result. Both are forwarded
// byte for byte, except what belongs to one connection: the request's id, the progress token,
// reserved keys of _meta, and the state and answers of a call that asks questions.
//
// Progress and log messages go to the caller, before the result. Questions of the server go to the
// caller too, in any combination of eras. The error is then an *[mcp.InputRequired], which must be
// returned unchanged. The next run of the call continues where the last one stopped, if this
// session forwards it, or one that shares its [SuspendedCalls]. Nothing is executed twice. Other
// errors are the server's *[jsonrpc.Error], or a *[jsonrpc.CallError], which says whether the call
// may have been executed.
//
// If the caller supports tasks, the result may be an *[mcp.Task], with the id that the server has given to
// it. Requests about the task are forwarded with that id. Their questions keep their keys.
//
// A server of the legacy era may ask what [Options].Capabilities declare. A question that the caller cannot answer is refused
// as its client would refuse it: no other caller is asked. opts may be nil. Forward may be called concurrently with different
// calls.
func (s *Session) Forward(ctx context.Context, call *mcp.Call, opts *ForwardOptions) (mcp.Result, error) {
	if s.handle != nil && !s.isOutgoing(call) {
		return s.forwardThroughMiddleware(ctx, call, opts)
	}
	for {
		conn, err := s.liveConn(ctx)
		if err != nil {
			return nil, notSent(call.Method(), err)
		}
		result, err := conn.Forward(ctx, call, (*forward.Options)(opts))
		if s.isFinal(ctx, conn, err) {
			return result, withTimeoutOption(ctx, asForwardError(call.Method(), err))
		}
	}
}

// asForwardError is asCallError for forwarded calls. It returns questions unchanged.
func asForwardError(method string, err error) error {
	if _, asks := errors.AsType[*mcp.InputRequired](err); asks {
		return err
	}
	if unanswered, ok := errors.AsType[*era.UnansweredError](err); ok { // it wraps the error of the question, not that of the call
		return asCallError(method, unanswered)
	}
	if failed, ok := errors.AsType[*jsonrpc.CallError](err); ok {
		return failed // has more information than the error that it wraps
	}
	if serverErr, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return serverErr
	}
	return asCallError(method, err)
}

// IsForbidden reports whether err is the refusal of a valid call:
//
//   - the HTTP status 403 ([transport.ErrForbidden]), for example because the token lacks a scope.
//     The WWW-Authenticate header of the *httptransport.StatusError lists the scopes, and so does
//     the *oauth.StepUpError of an oauth.Client that cannot obtain them;
//   - the refusal by a guard of a server that uses this module: the code [jsonrpc.InternalError] with
//     data of the type FORBIDDEN, or a *[ToolError] with that data in its result, under
//     [mcp.MetaRefusal]. [Session.CallTool] returns such a result without an error. Message and data
//     name the guard. If it is "scope", data has the member scopes;
//   - the code [mcp.CodeForbidden], with which servers refuse subscriptions to events.
//
// It does not recognize guards that return their own errors or hide an entry.
func IsForbidden(err error) bool {
	if errors.Is(err, transport.ErrForbidden) {
		return true
	}
	var text json.RawMessage
	if refusal, ok := errors.AsType[*jsonrpc.Error](err); ok && refusal.Code == mcp.CodeForbidden {
		return true
	} else if ok && refusal.Code == jsonrpc.InternalError {
		text = refusal.Data
	} else if failed, ok := errors.AsType[*ToolError](err); ok {
		text = failed.Result.Meta.Get(mcp.MetaRefusal)
	}
	data, err := jsonscan.ReadObject(text)
	if err != nil {
		return false
	}
	kind := data.Get("type")
	return jsonscan.KindOf(kind) == jsonscan.String && jsonscan.Unquote(kind) == "FORBIDDEN"
}
