package pin

import (
	"encoding/json"
	"fmt"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
)

// A Reason says why a tool is not as the lock wants it.
type Reason uint8

const (
	// New is a tool for which the lock has no digest.
	New Reason = iota + 1
	// Changed is a tool for which the lock has another digest.
	Changed
	// Invalid is a tool that has no digest, or two because it is listed twice.
	Invalid
)

// String is "new", "changed" or "invalid".
func (r Reason) String() string {
	switch r {
	case New:
		return "new"
	case Changed:
		return "changed"
	case Invalid:
		return "invalid"
	}
	return fmt.Sprintf("Reason(%d)", uint8(r))
}

// Pending is a tool that somebody has to look at: see [Lock.Accept].
type Pending struct {
	// Server is the alias of the server that has the tool.
	Server string
	// Tool is its name there.
	Tool   string
	Reason Reason
	// Was is the digest that the lock has, empty if it has none.
	Was string
	// Is is the digest of the tool as it is, empty if it is invalid.
	Is string
	// Before is the definition that was accepted, if the server has shown it in the
	// life of this process, else nil: the lock keeps digests only.
	Before json.RawMessage
	// After is the definition as it is. Show it to a person with care: a server that
	// is not trusted wrote it.
	After json.RawMessage
	// Err is why the tool is invalid, else nil.
	Err error
}

// Diff tells what is different about the tool; see [Diff].
func (p *Pending) Diff() ([]Difference, error) {
	if p.Err != nil {
		return nil, p.Err
	}
	return Diff(p.Before, p.After)
}

func (p *Pending) refusal() *QuarantinedError {
	return &QuarantinedError{Server: p.Server, Tool: p.Tool, Reason: p.Reason, Was: p.Was, Is: p.Is, Err: p.Err}
}

// A QuarantinedError refuses the call of a tool whose definition has not been accepted.
// The server was not asked. A peer is told an error with the code
// [jsonrpc.InvalidParams], as of a tool that does not exist, and the data
// {"type":"QUARANTINED","server":…,"tool":…,"reason":"new"}, or "changed", or "invalid".
type QuarantinedError struct {
	// Server, Tool, Reason, Was, Is and Err are as in [Pending].
	Server, Tool string
	Reason       Reason
	Was, Is      string
	Err          error
}

// Error tells an operator what the tool is and what was accepted.
func (e *QuarantinedError) Error() string {
	switch text := e.summary(); e.Reason {
	case New:
		return fmt.Sprintf("%s (it is %s)", text, e.Is)
	case Changed:
		return fmt.Sprintf("%s (it was %s and is %s)", text, e.Was, e.Is)
	default:
		return fmt.Sprintf("%s: %v", text, e.Err)
	}
}

// Unwrap returns the *[jsonrpc.Error] that a peer is told: nothing that the server of the
// tool wrote is in it.
func (e *QuarantinedError) Unwrap() error {
	data := jsonscan.AppendString([]byte(`{"type":"QUARANTINED","server":`), e.Server)
	data = jsonscan.AppendString(append(data, `,"tool":`...), e.Tool)
	data = jsonscan.AppendString(append(data, `,"reason":`...), e.Reason.String())
	return &jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: e.summary(), Data: append(data, '}')}
}

func (e *QuarantinedError) summary() string {
	why := "its definition is invalid"
	switch e.Reason {
	case New:
		why = "it is new, and has not been accepted"
	case Changed:
		why = "it has changed since it was accepted"
	}
	return fmt.Sprintf("the tool %s of %s is quarantined: %s", jsonscan.Quote(e.Tool), jsonscan.Quote(e.Server), why)
}
