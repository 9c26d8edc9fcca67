package server

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// A functionError is an error that a registered function has returned itself, or one of its
// arguments: the only kind whose text reaches the model.
type functionError struct{ error }

func (e *functionError) Unwrap() error { return e.error }

// own marks an error as one of a function. Errors of the protocol stay what they are.
func own(err error) error {
	if err == nil || isProtocolError(err) {
		return err
	}
	return &functionError{err}
}

// isProtocolError reports whether an error is meant for the protocol, not for the model:
// an error of JSON-RPC, or a question.
func isProtocolError(err error) bool {
	_, protocol := errors.AsType[*jsonrpc.Error](err)
	_, question := mcp.AsInputRequired(err)
	return protocol || question
}

// conclude makes of an error what its caller gets: once, in the server that received the
// call. A question and an error of the protocol stay; that of a function is a result of a
// tool and an internal error of anything else; all others are logged, and the caller gets
// a reference to the log.
func (s *Server) conclude(ctx context.Context, call *mcp.Call, err error) (mcp.Result, error) {
	if refused, ok := errors.AsType[*RefusedError](err); ok && refused.told == nil {
		return nil, s.refused(call, refused)
	}
	if isProtocolError(err) || ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
		return nil, err
	}
	if _, ok := errors.AsType[*functionError](err); ok {
		if call.Method() == mcp.MethodToolsCall {
			return &mcp.CallToolResult{Content: []mcp.Content{mcp.Text(err.Error())}, IsError: true}, nil
		}
		return nil, &jsonrpc.Error{Code: jsonrpc.InternalError, Message: err.Error()}
	}
	kind, name := subject(call)
	message := "a call failed"
	if _, ok := errors.AsType[*panicError](err); ok {
		message = "a call panicked"
	}
	return nil, s.internalError(message, append(reason(err), "method", call.Method(), "kind", kind, "name", name)...)
}

// reason returns an error as attributes of a log line, with the stack of a panic.
func reason(err error) []any {
	if p, ok := errors.AsType[*panicError](err); ok {
		return []any{"panic", fmt.Sprint(p.value), "stack", string(p.stack)}
	}
	return []any{"error", err}
}

// internalError logs what clients must not see and returns what they see instead.
func (s *Server) internalError(message string, attrs ...any) error {
	reference := rand.Text()
	s.options.Logger.Error(message, append(attrs, "reference", reference)...)
	return &InternalError{reference}
}

// An InternalError is the error of a call that failed for a reason that its caller does not
// learn. The log has the reason, with the same reference. For errors.As it is the
// *[jsonrpc.Error] that callers get.
type InternalError struct{ Reference string }

// Error contains the reference.
func (e *InternalError) Error() string { return "internal error, reference " + e.Reference }

// As makes the error one of JSON-RPC.
func (e *InternalError) As(target any) bool {
	wire, ok := target.(**jsonrpc.Error)
	if ok {
		*wire = &jsonrpc.Error{Code: jsonrpc.InternalError, Message: e.Error()}
	}
	return ok
}

// A RefusedError is the refusal of a call by a guard. Middleware sees it, and so does the
// caller of [Server.Serve]. Where a *[jsonrpc.Error] is needed, it is what clients get: the
// guard's own, or one that does not tell the reason.
type RefusedError struct {
	// Guard is the name of the guard.
	Guard string
	// Hidden reports whether clients are told that there is no such entry.
	Hidden bool
	// Err is the reason.
	Err error

	told *jsonrpc.Error // what clients get; nil until a server has concluded the call
}

// Error contains the reason.
func (e *RefusedError) Error() string {
	return fmt.Sprintf("the guard %q refused the call: %v", e.Guard, e.Err)
}

// Unwrap returns the reason.
func (e *RefusedError) Unwrap() error { return e.Err }

// As makes the error one of JSON-RPC, once it has been concluded.
func (e *RefusedError) As(target any) bool {
	wire, ok := target.(**jsonrpc.Error)
	if !ok || e.told == nil {
		return false
	}
	*wire = e.told
	return true
}

// refused sets what the caller is told of a refusal.
func (s *Server) refused(call *mcp.Call, r *RefusedError) error {
	kind, name := subject(call)
	s.options.Logger.Info("a guard refused a call", append(reason(r.Err), "guard", r.Guard, "kind", kind, "name", name)...)
	concluded := *r
	if r.Hidden {
		concluded.told, _ = errors.AsType[*jsonrpc.Error](unknown(call))
	} else if concluded.told, _ = errors.AsType[*jsonrpc.Error](r.Err); concluded.told == nil {
		data, err := encode(struct {
			Type  string `json:"type"`
			Guard string `json:"guard"`
		}{"FORBIDDEN", r.Guard})
		if err != nil {
			return err
		}
		concluded.told = &jsonrpc.Error{
			Code:    jsonrpc.InternalError,
			Message: fmt.Sprintf("Guard '%s' denied the %s call for '%.256s'", r.Guard, kind, name),
			Data:    data,
		}
	}
	return &concluded
}

// subject says in words what a call is for.
func subject(call *mcp.Call) (kind, name string) {
	t := call.Target()
	switch {
	case t == nil:
		return call.Method(), ""
	case call.Method() == mcp.MethodComplete:
		return "completion", t.Name
	}
	return t.Kind.String(), t.Name
}

// unknown is the answer to a call for what does not exist, or must seem so.
func unknown(call *mcp.Call) error {
	switch call.Method() {
	case mcp.MethodToolsCall:
		return invalidParams("unknown tool: %.256q", jsonscan.Unquote(call.Member("name")))
	case mcp.MethodPromptsGet:
		return invalidParams("unknown prompt: %.256q", jsonscan.Unquote(call.Member("name")))
	case mcp.MethodComplete:
		name := call.Member("ref", "uri")
		if jsonscan.KeyIs(call.Member("ref", "type"), "ref/prompt") {
			name = call.Member("ref", "name")
		}
		return noArgument(jsonscan.Unquote(call.Member("argument", "name")), jsonscan.Unquote(name))
	}
	return mcp.ResourceNotFound(call.URI())
}

func noArgument(argument, of string) error {
	return invalidParams("there is no argument %.80q of %.256q", argument, of)
}

func invalidParams(format string, args ...any) error {
	return &jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: fmt.Sprintf(format, args...)}
}

func methodNotFound(method string) error {
	return &jsonrpc.Error{Code: jsonrpc.MethodNotFound, Message: fmt.Sprintf("method not found: %.256q", method)}
}

// errNoResult is the error of a nil result where an empty one would be wrong.
var errNoResult = errors.New("the function gave no result")
