package toolserver

import (
	"encoding/json"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// An Error is the error of a run that has no result. For errors.Is it is its Kind, and
// approval.Rejected or approval.Expired if a person has said no or has not answered.
type Error struct {
	Server, Tool string
	// Kind is why, as far as the tool server says.
	Kind Kind
	// Message is what the tool server says, or what is wrong on the way.
	Message string
	// Status is that of an answer by HTTP other than 200, else 0.
	Status int
	// Err is what is wrong on the way, nil if the tool server has answered. The tool may have
	// been called then.
	Err error
}

// Error is the message, and what it is about.
func (e *Error) Error() string {
	message := e.Server
	if e.Tool != "" {
		message += "." + e.Tool
	}
	message += ": " + e.Message
	if e.Err != nil {
		message += ": " + e.Err.Error()
	}
	return message
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// Is tells whether target is the error's kind.
func (e *Error) Is(target error) bool {
	switch target {
	case approval.Rejected:
		return e.Kind == Rejected
	case approval.Expired:
		return e.Kind == Expired
	}
	kind, ok := target.(Kind)
	return ok && kind != "" && kind == e.Kind
}

// failed completes an error.
func (r *Runner) failed(tool string, e *Error) error {
	e.Server, e.Tool = r.server, tool
	return e
}

// kindOf is the kind that a tool server gives with an error. Older ones give none, but have
// these texts.
func (r *Runner) kindOf(tool string, given json.RawMessage, message string) Kind {
	if jsonscan.KindOf(given) == jsonscan.String {
		return Kind(jsonscan.Unquote(given))
	}
	switch about := "Approval request for " + r.server + "." + tool; message {
	case about + " rejected":
		return Rejected
	case about + " expired":
		return Expired
	}
	return ""
}
