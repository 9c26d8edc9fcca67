package approval

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/peertext"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport/store"
)

// A Code says why a call was refused. It is an error: errors.Is(err, Rejected) reports whether
// an [Error] has that code, and an approver may return fmt.Errorf("%w: …", Lost).
type Code string

// The codes, as callers see them.
const (
	// Rejected means that a person said no.
	Rejected Code = "REJECTED"
	// Expired means that no answer arrived in time.
	Expired Code = "APPROVAL_TIMEOUT"
	// NoApprover means that no approver is available.
	NoApprover Code = "NO_APPROVER"
	// Lost means that the approver, or the caller, disconnected.
	Lost Code = "APPROVER_LOST"
	// Failed means that asking or recording failed.
	Failed Code = "APPROVAL_FAILED"
	// Spent means that the approval has been used, or is unknown.
	Spent Code = "APPROVAL_SPENT"
	// Changed means that the call is not the one that was approved.
	Changed Code = "APPROVAL_CHANGED"
	// TooMany means that too many requests are open.
	TooMany Code = "TOO_MANY_APPROVALS"
)

// ErrClosed in the error of an [Approver] says that the approver was closed because the program ends. A call
// that runs as a task, and whose request is in Options.Store, then waits for the next replica.
var ErrClosed = errors.New("the approver was closed")

// Error returns a description of the code.
func (c Code) Error() string {
	switch c {
	case Rejected:
		return "the request was rejected"
	case Expired:
		return "no answer arrived in time"
	case NoApprover:
		return "no approver is available"
	case Lost:
		return "the approver disconnected"
	case Spent:
		return "the approval has been used or is unknown"
	case Changed:
		return "the call is not the one that was approved"
	case TooMany:
		return "too many requests are open"
	default:
		return "the request failed"
	}
}

// An Error reports a call that was not approved. errors.Is finds its [Code]. Callers over the
// protocol get the result of ToolResult, or with Options.ProtocolErrors a JSON-RPC error with the
// text, the code -32603 and data such as {"type":"REJECTED"}; errors.As finds that
// *[jsonrpc.Error]. They do not get the text of Err.
type Error struct {
	Code         Code
	Server, Tool string
	// Reason is the reason that a person gave, or a detail about the code; "" for none.
	Reason string
	// Err is the cause; it may be nil.
	Err error

	protocol    bool // Options.ProtocolErrors
	mayBeCalled bool // an earlier run, or one at another replica, may have called the tool
}

// Error names the tool and the reason: "Approval request for S.T rejected", "… expired" or
// "… failed: …". For a tool of the server itself there is no S.
func (e *Error) Error() string {
	prefix := "Approval request for " + nameOf(peertext.Cut(e.Server, 256), peertext.Cut(e.Tool, 256))
	reason := Printable(peertext.Cut(e.Reason, maxReason))
	switch {
	case e.Code == Rejected && reason == "":
		return prefix + " rejected"
	case e.Code == Rejected:
		return prefix + " rejected: " + reason
	case e.Code == Expired:
		return prefix + " expired"
	case reason == "":
		return prefix + " failed: " + e.Code.Error()
	default:
		return prefix + " failed: " + reason
	}
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// Is reports whether target is the error's code.
func (e *Error) Is(target error) bool { return target == e.Code }

// As sets a **[jsonrpc.Error] to the error for the caller.
func (e *Error) As(target any) bool {
	wire, ok := target.(**jsonrpc.Error)
	if ok {
		*wire = &jsonrpc.Error{Code: jsonrpc.InternalError, Message: e.Error(), Data: e.data()}
	}
	return ok
}

// data returns the code as JSON, for programs.
func (e *Error) data() json.RawMessage {
	return append(jsonscan.AppendString([]byte(`{"type":`), string(e.Code)), '}')
}

// ToolResult returns the result for the caller, with isError. Its text for the model has the text of the error, whether
// the tool may have been called, and that the call should not be repeated. The key [mcp.MetaRefusal] of its _meta has
// data such as {"type":"REJECTED"}. ToolResult returns nil with Options.ProtocolErrors.
func (e *Error) ToolResult() *mcp.CallToolResult {
	if e.protocol {
		return nil
	}
	called := "The tool was not called."
	if e.mayBeCalled {
		called = "The tool may have been called."
	}
	return &mcp.CallToolResult{
		IsError: true,
		Content: mcp.ContentList{mcp.Text(e.Error() + "\n" + called + " Do not repeat the call unless the user asks for it.")},
		Meta:    mcp.Meta(`{"` + mcp.MetaRefusal + `":` + string(e.data()) + `}`),
	}
}

// newError returns the error of a refused call. Its Reason is the text of a [publicError] only:
// other errors may contain secrets.
func (g *guard) newError(t *Target, code Code, err error) *Error {
	e := &Error{Code: code, Server: t.Server, Tool: t.Tool, Err: err, protocol: g.opts.ProtocolErrors}
	if public, ok := errors.AsType[*publicError](err); ok {
		e.Reason = public.text
	}
	return e
}

// codeOf returns the code in an error.
func codeOf(err error, defaultCode Code) Code {
	if public, ok := errors.AsType[*publicError](err); ok {
		return public.code
	}
	if code, ok := errors.AsType[Code](err); ok {
		return code
	}
	return defaultCode
}

// A publicError has a text that callers may see.
type publicError struct {
	code Code
	text string
}

func (p *publicError) Error() string        { return p.text }
func (p *publicError) Is(target error) bool { return target == p.code }
func (p *publicError) Unwrap() error        { return p.code }

// Errorf returns an error with a code and a text that callers may see, for approvers.
func Errorf(code Code, format string, args ...any) error {
	return &publicError{code, fmt.Sprintf(format, args...)}
}

// StoreError returns the error of a request that cannot be read from a store or written to it, for approvers that have a
// store: [Failed] with a text that callers may see, and err.
func StoreError(err error) error {
	text := "the store of the approvals cannot be reached"
	if errors.Is(err, store.ErrFull) || errors.Is(err, store.ErrTooLarge) {
		text = "the store of the approvals has no room for the request"
	}
	return fmt.Errorf("%w: %w", Errorf(Failed, "%s", text), err)
}

// safely returns the error of fn, or its panic as an error.
func safely(doing string, fn func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic in %s: %v\n%s", doing, p, debug.Stack())
		}
	}()
	return fn()
}
