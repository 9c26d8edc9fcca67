package twotools

import (
	"encoding/json"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/mcp"
)

// A Responder connects a call that one of the two tools makes with the caller of that tool.
type Responder struct {
	// Call is the call of one of the two tools.
	*mcp.Call
	// Name is what the keys of questions and stored values begin with, so that the answer to a question of one call is not
	// the answer to that of another. It is also the end of the id. Each call that Call makes has its own.
	Name string
}

var _ mcp.Responder = (*Responder)(nil)

// Nest returns the call of another tool. All members of the params but name and arguments are those of r.Call. responder is r, or
// wraps it.
func (r *Responder) Nest(responder mcp.Responder, name, arguments json.RawMessage) (*mcp.Call, error) {
	params := r.Params()
	params, err := jsonscan.Splice(make(json.RawMessage, 0, len(params)+len(arguments)), params,
		jsonscan.Edit{Name: "name", Value: name}, jsonscan.Edit{Name: "arguments", Value: arguments})
	if err != nil {
		return nil, err
	}
	return r.Nested(params, responder)
}

// Outside returns the error of the other tool for the caller of one of the two: questions with the keys that they have there.
func (r *Responder) Outside(err error) error {
	asks, ok := mcp.AsInputRequired(err)
	if !ok {
		return err
	}
	requests := make(map[string]mcp.InputRequest, len(asks.Requests))
	for key, question := range asks.Requests {
		requests[r.key(key)] = question
	}
	return &mcp.InputRequired{Requests: requests, Task: asks.Task}
}

// key returns the key in Call for a key in the other call.
func (r *Responder) key(key string) string { return r.Name + "/" + key }

// Input returns the answer to a question, or asks it.
func (r *Responder) Input(key string, question mcp.InputRequest) (json.RawMessage, error) {
	answer, err := r.Call.Input(r.key(key), question)
	if _, asks := mcp.AsInputRequired(err); asks {
		return nil, &mcp.InputRequired{Requests: map[string]mcp.InputRequest{key: question}}
	}
	return answer, err
}

// Load returns a stored value of the call.
func (r *Responder) Load(key string) (json.RawMessage, bool) { return r.Call.Load(r.key(key)) }

// Store stores a value of the call.
func (r *Responder) Store(key string, value json.RawMessage) { r.Call.Store(r.key(key), value) }

// ID returns the id of the call, "" if Call has none.
func (r *Responder) ID() string {
	if id := r.Call.ID(); id != "" {
		return id + "/" + r.Name
	}
	return ""
}
