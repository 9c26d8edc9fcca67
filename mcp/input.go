package mcp

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
)

var errNoResponder = errors.New("mcp: the call has no responder: it can neither notify nor ask")

// An InputRequest is a question to the caller: elicitation, sampling or roots.
type InputRequest struct {
	// Method is [MethodElicit], [MethodCreateMessage] or [MethodRootsList].
	Method string `json:"method"`
	// Params are that method's parameters.
	Params json.RawMessage `json:"params,omitzero"`
}

// InputRequired is the error of a call that cannot go on without an answer of
// its caller. It is no failure: whoever carries the protocol asks, and runs the
// call again. Interceptors must pass it on.
type InputRequired struct {
	// Requests holds the open questions by their keys.
	Requests map[string]InputRequest
}

// Error names the open questions.
func (e *InputRequired) Error() string {
	return "input required: " + strings.Join(slices.Sorted(maps.Keys(e.Requests)), ", ")
}

// AsInputRequired finds the questions in an error. Those that errors.Join has put
// together are one round. An error that holds a failure beside them is not asked
// about: it is a failure.
func AsInputRequired(err error) (*InputRequired, bool) {
	if err == nil {
		return nil, false
	}
	if question, ok := err.(*InputRequired); ok {
		return question, true
	}
	all := &InputRequired{Requests: make(map[string]InputRequest)}
	if !all.take(err) || len(all.Requests) == 0 {
		return nil, false
	}
	return all, true
}

// take adds the questions of an error and says whether it holds nothing else.
func (e *InputRequired) take(err error) bool {
	switch err := err.(type) {
	case nil:
		return true
	case *InputRequired:
		maps.Copy(e.Requests, err.Requests)
		return true
	case interface{ Unwrap() error }:
		inner := err.Unwrap()
		return inner != nil && e.take(inner)
	case interface{ Unwrap() []error }:
		only := true
		for _, part := range err.Unwrap() {
			only = e.take(part) && only
		}
		return only
	}
	return false
}
