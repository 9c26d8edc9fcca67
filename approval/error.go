package approval

import (
	"errors"
	"fmt"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
)

// A Kind is why a call was refused. It is an error, so that errors.Is(err, Rejected) tells
// what an [Error] is, and an approver can say what happened: fmt.Errorf("%w: …", Lost).
type Kind string

// The kinds, as callers see them.
const (
	// Rejected: somebody said no.
	Rejected Kind = "REJECTED"
	// Expired: nobody answered in time.
	Expired Kind = "APPROVAL_TIMEOUT"
	// NoApprover: there is nobody who could be asked.
	NoApprover Kind = "NO_APPROVER"
	// Lost: who was asked has gone without an answer.
	Lost Kind = "APPROVER_LOST"
	// Failed: it could not be asked, or not be recorded.
	Failed Kind = "APPROVAL_FAILED"
	// Spent: the approval has been used, or is no longer known.
	Spent Kind = "APPROVAL_SPENT"
	// Changed: what would run is not what was approved.
	Changed Kind = "APPROVAL_CHANGED"
	// TooMany: too many requests are open.
	TooMany Kind = "TOO_MANY_APPROVALS"
)

// Error says it in words.
func (k Kind) Error() string {
	switch k {
	case Rejected:
		return "the request was rejected"
	case Expired:
		return "nobody has answered in time"
	case NoApprover:
		return "there is nobody who could be asked"
	case Lost:
		return "the approver has gone"
	case Spent:
		return "the approval has been used, or is not known any more: make the call again from its beginning"
	case Changed:
		return "what would run is not what was approved"
	case TooMany:
		return "too many requests are open"
	default:
		return "the request could not be made"
	}
}

// An Error is why a call was not made. It is its [Kind] under errors.Is. Callers over the
// protocol are told its text, with the code -32603 and data {"type":"REJECTED"} and so on,
// which errors.As finds as a *[jsonrpc.Error]; what else Err wraps they are not told.
type Error struct {
	Kind         Kind
	Server, Tool string
	// Reason is a person's, or says more about the kind; "" for none.
	Reason string
	// Err is what went wrong, nil if nothing did.
	Err error
}

// Error names the tool and why it was not called: "Approval request for S.T rejected",
// "… expired" or "… failed: …". A tool of the server itself has no S.
func (e *Error) Error() string {
	of := "Approval request for " + nameOf(cut(e.Server, 256), cut(e.Tool, 256))
	reason := Printable(cut(e.Reason, MaxReason))
	switch {
	case e.Kind == Rejected && reason == "":
		return of + " rejected"
	case e.Kind == Rejected:
		return of + " rejected: " + reason
	case e.Kind == Expired:
		return of + " expired"
	case reason == "":
		return of + " failed: " + e.Kind.Error()
	default:
		return of + " failed: " + reason
	}
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// Is tells whether target is the error's kind.
func (e *Error) Is(target error) bool { return target == e.Kind }

// As gives the error as callers are told it.
func (e *Error) As(target any) bool {
	told, ok := target.(**jsonrpc.Error)
	if ok {
		data := append(jsonscan.AppendString([]byte(`{"type":`), string(e.Kind)), '}')
		*told = &jsonrpc.Error{Code: jsonrpc.InternalError, Message: e.Error(), Data: data}
	}
	return ok
}

// refusal is the error of a request that somebody or something has failed. Only words of
// this package's kinds are told: other errors may hold what is none of the caller's.
func refusal(t *Target, kind Kind, err error) *Error {
	e := &Error{Kind: kind, Server: t.Server, Tool: t.Tool, Err: err}
	if known, ok := errors.AsType[*sayable](err); ok {
		e.Reason = known.Error()
	}
	return e
}

// A sayable error may be told to callers.
type sayable struct {
	kind Kind
	text string
}

func (s *sayable) Error() string        { return s.text }
func (s *sayable) Is(target error) bool { return target == s.kind }
func (s *sayable) Unwrap() error        { return s.kind }

// Errorf is an error of a kind whose text callers may be told, for approvers.
func Errorf(kind Kind, format string, args ...any) error {
	return &sayable{kind, fmt.Sprintf(format, args...)}
}
