package client

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// intercept returns the handler of all calls within middleware, nil if there is none.
func (s *Session) intercept(middleware []mcp.Middleware) mcp.Handler {
	if len(middleware) == 0 {
		return nil
	}
	handle := mcp.Handler(s.transmit)
	for _, m := range slices.Backward(middleware) {
		handle = m(handle)
	}
	return handle
}

// sending is how a call is made, among the values of the call.
type sending struct {
	progress func(*mcp.ProgressParams)
	forward  *ForwardOptions
	forwards bool
	began    bool              // the call has left the middleware
	response *jsonrpc.Response // the last one, of a call that is not forwarded
}

// failed returns the error of a call within middleware: that of the server or of the way to
// it, or else that of a middleware.
func (s *sending) failed(method string, err error) error {
	if s.began {
		return asForwardError(method, err)
	}
	return notSent(method, err)
}

// transmit makes a call that has passed all middleware.
func (s *Session) transmit(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
	sending, ok := call.Get(s).(*sending)
	if !ok {
		return nil, errors.New("a middleware has passed on another call than it was given")
	}
	sending.began = true
	if sending.forwards {
		return s.Forward(ctx, call, sending.forward)
	}
	var params jsonrpc.Appender
	if raw := call.Params(); raw != nil {
		params = mcp.Raw(raw)
	}
	resp, err := s.send(ctx, call.Method(), params, sending.progress)
	if err != nil {
		return nil, err
	}
	resp.Lend(nil) // a middleware may keep the result
	sending.response = resp
	return mcp.Raw(resp.Result), nil
}

// isSending reports whether a call has passed all middleware.
func (s *Session) isSending(call *mcp.Call) bool {
	sending, ok := call.Get(s).(*sending)
	return ok && sending.began
}

// forwardWithin forwards a call within the middleware.
func (s *Session) forwardWithin(ctx context.Context, call *mcp.Call, opts *ForwardOptions) (mcp.Result, error) {
	sending := &sending{forward: opts, forwards: true}
	call.Set(s, sending)
	defer call.Set(s, nil) // the call may be forwarded again
	result, err := s.handle(ctx, call)
	if err != nil {
		return nil, sending.failed(call.Method(), err)
	}
	return result, nil
}

// do makes one call.
func (s *Session) do(ctx context.Context, method string, params jsonrpc.Appender, progress func(*mcp.ProgressParams)) (*jsonrpc.Response, error) {
	if s.handle == nil {
		return s.send(ctx, method, params, progress)
	}
	var encoded []byte
	if params != nil {
		var err error
		if encoded, err = params.AppendJSON(nil); err != nil {
			return nil, notSent(method, err)
		}
	}
	request, err := jsonrpc.NewRequest(jsonrpc.IntID(1), method, encoded)
	if err != nil {
		return nil, notSent(method, err)
	}
	call := mcp.NewCall(request, s.caller(), nil)
	sending := &sending{progress: progress}
	call.Set(s, sending)
	result, err := s.handle(ctx, &call)
	if err != nil {
		return nil, sending.failed(method, err)
	}
	resp, err := sending.responseOf(result)
	if err != nil {
		return nil, sending.failed(method, err)
	}
	return resp, nil
}

// caller is this client.
func (s *Session) caller() *mcp.Caller {
	return &mcp.Caller{
		Version: s.Version(), Info: &s.opts.Info, Capabilities: s.opts.capabilities(), LogLevel: s.opts.LogLevel,
	}
}

// responseOf returns a result as a response: that of the server, unless a middleware has
// given another.
func (s *sending) responseOf(result mcp.Result) (*jsonrpc.Response, error) {
	if result == nil {
		return nil, errors.New("a middleware gave no result")
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
		return nil, fmt.Errorf("the result of a middleware: %v", err) // it is not the server that says so
	}
	return message.(*jsonrpc.Response), nil
}
