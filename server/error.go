package server

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/dovetail-go/dovetail/internal/jsonvalue"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// A FunctionError is an error that a registered function returned, its timeout, or the error of
// invalid arguments of a tool. It is the only kind whose text is sent to the model. Middleware gets
// it; the server converts it afterwards, to a result of a tool or to a protocol error. The
// *[jsonrpc.Error] or *[mcp.InputRequired] that a function returns is not wrapped in a FunctionError.
type FunctionError struct {
	// Arguments reports whether the arguments are invalid. The function has not run then.
	Arguments bool
	// Err is the error of the function, or what is wrong with the arguments.
	Err error
}

// Error returns the text of Err.
func (e *FunctionError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *FunctionError) Unwrap() error { return e.Err }

// functionErrorOf marks an error as the error of a function. It returns protocol errors unchanged.
func functionErrorOf(err error) error {
	if err == nil || isProtocolError(err) {
		return err
	}
	return &FunctionError{Err: err}
}

// isProtocolError reports whether an error is sent as it is: an error of JSON-RPC, or a question.
func isProtocolError(err error) bool {
	_, protocol := errors.AsType[*jsonrpc.Error](err)
	_, question := mcp.AsInputRequired(err)
	return protocol || question
}

// convertError converts an error to the reply for the caller. It runs once, in the server that
// received the call. Questions and protocol errors stay as they are. An error of a function becomes
// a result of a tool, or an internal error for other methods. Any other error is logged, and the
// caller gets a reference to the log.
func (s *Server) convertError(ctx context.Context, call *mcp.Call, err error) (mcp.Result, error) {
	if refused, ok := errors.AsType[*RefusedError](err); ok && refused.public == nil {
		return nil, s.publicRefusal(call, refused)
	}
	if isProtocolError(err) || ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
		return nil, err
	}
	if _, ok := errors.AsType[*FunctionError](err); ok {
		if call.Method() == mcp.MethodToolsCall {
			return &mcp.CallToolResult{Content: []mcp.Content{mcp.Text(err.Error())}, IsError: true}, nil
		}
		return nil, &jsonrpc.Error{Code: jsonrpc.InternalError, Message: err.Error()}
	}
	kind, name := describeTarget(call)
	message := "a call failed"
	if _, ok := errors.AsType[*panicError](err); ok {
		message = "a call panicked"
	}
	return nil, s.internalError(message, append(errorAttrs(err), "method", call.Method(), "kind", kind, "name", name)...)
}

// errorAttrs returns an error as log attributes, with the value and stack of a panic.
func errorAttrs(err error) []any {
	attrs := []any{"error", err}
	if p, ok := errors.AsType[*panicError](err); ok {
		attrs = append(attrs, "panic", fmt.Sprint(p.value), "stack", string(p.stack))
	}
	return attrs
}

// internalError logs an error with a reference, and returns the error that clients see.
func (s *Server) internalError(message string, attrs ...any) error {
	reference := rand.Text()
	s.options.Logger.Error(message, append(attrs, "reference", reference)...)
	return &InternalError{reference}
}

// An InternalError is the error of a call that failed for a reason that clients must not see. The
// log has the reason, with the same reference. errors.As finds the *[jsonrpc.Error] that clients
// get.
type InternalError struct{ Reference string }

// Error contains the reference.
func (e *InternalError) Error() string { return "internal error, reference " + e.Reference }

// As sets a **[jsonrpc.Error].
func (e *InternalError) As(target any) bool {
	wire, ok := target.(**jsonrpc.Error)
	if ok {
		*wire = &jsonrpc.Error{Code: jsonrpc.InternalError, Message: e.Error()}
	}
	return ok
}

// A RefusedError is the refusal of a call by a guard. Middleware and callers of [Server.Serve] get
// it. After Serve, errors.As finds the *[jsonrpc.Error] that clients get: the guard's own, or one
// that does not contain the reason. If Err is an [mcp.ToolRefusal], like the errors of packages policy and
// approval, callers of a tool get its result instead.
type RefusedError struct {
	// Guard is the name of the guard.
	Guard string
	// Hidden reports whether clients get the error for an unknown name.
	Hidden bool
	// Err is the reason.
	Err error

	public *jsonrpc.Error // what clients get; set by convertError
}

// Error contains the reason.
func (e *RefusedError) Error() string {
	return fmt.Sprintf("the guard %q refused the call: %v", e.Guard, e.Err)
}

// Unwrap returns the reason.
func (e *RefusedError) Unwrap() error { return e.Err }

// As sets a **[jsonrpc.Error] after [Server.Serve] has returned.
func (e *RefusedError) As(target any) bool {
	wire, ok := target.(**jsonrpc.Error)
	if !ok || e.public == nil {
		return false
	}
	*wire = e.public
	return true
}

// publicRefusal logs a refusal and sets the error for clients.
func (s *Server) publicRefusal(call *mcp.Call, r *RefusedError) error {
	kind, name := describeTarget(call)
	s.options.Logger.Info("a guard refused a call", append(errorAttrs(r.Err), "guard", r.Guard, "kind", kind, "name", name)...)
	concluded := *r
	if r.Hidden {
		concluded.public, _ = errors.AsType[*jsonrpc.Error](s.unknownName(call))
	} else if concluded.public, _ = errors.AsType[*jsonrpc.Error](r.Err); concluded.public == nil {
		data, err := jsonvalue.Marshal(struct {
			Type  string `json:"type"`
			Guard string `json:"guard"`
		}{"FORBIDDEN", r.Guard})
		if err != nil {
			return err
		}
		code := jsonrpc.InternalError
		if t := call.Target(); t != nil {
			code = cmp.Or(kinds[t.Kind].refusal, code)
		}
		concluded.public = &jsonrpc.Error{
			Code:    code,
			Message: fmt.Sprintf("Guard '%s' denied the %s call for '%.256s'", r.Guard, kind, name),
			Data:    data,
		}
	}
	return &concluded
}

// describeTarget returns the kind and name of what a call is for, in words.
func describeTarget(call *mcp.Call) (kind, name string) {
	t := call.Target()
	switch {
	case t == nil:
		return call.Method(), ""
	case call.Method() == mcp.MethodComplete:
		return "completion", t.Name
	}
	return t.Kind.String(), t.Name
}

func unknownArgument(argument, of string) error {
	return invalidParams("there is no argument %.80q of %.256q", argument, of)
}

func invalidParams(format string, args ...any) error {
	return &jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: fmt.Sprintf(format, args...)}
}

func methodNotFound(method string) error {
	return &jsonrpc.Error{Code: jsonrpc.MethodNotFound, Message: fmt.Sprintf("method not found: %.256q", method)}
}

// errNoResult is the error for a nil result where an empty result would be wrong.
var errNoResult = errors.New("the function returned no result")
