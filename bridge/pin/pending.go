package pin

import (
	"encoding/json"
	"fmt"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
)

// A Reason says why a tool is pending.
type Reason uint8

const (
	// New means that the lock has no digest for the tool.
	New Reason = iota + 1
	// Changed means that the lock has another digest for the tool.
	Changed
	// Invalid means that the tool has no digest; see [Digest].
	Invalid
)

// String returns "new", "changed" or "invalid".
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

// A Pending tool waits for a decision; see [Lock.Accept].
type Pending struct {
	// Server is the alias of the server, Tool the name of the tool there.
	Server string
	Tool   string
	Reason Reason
	// OldDigest is the pinned digest, "" for a new tool.
	OldDigest string
	// NewDigest is the current digest, "" for an invalid tool.
	NewDigest string
	// Before is the accepted definition, or nil if the server has not shown it since the
	// process started: the lock stores digests only.
	Before json.RawMessage
	// After is the current definition. It is written by a server that may be hostile: escape
	// it before showing it to a person.
	After json.RawMessage
	// Err says why the tool is invalid.
	Err error
}

// Diff returns the members that differ between Before and After, sorted by name. A nil Before means an empty definition.
// There are differences if and only if the digests differ. Diff returns an error if a definition is not a valid tool.
func (p *Pending) Diff() ([]Difference, error) {
	if p.Err != nil {
		return nil, p.Err
	}
	return diff(p.Before, p.After)
}

func (p *Pending) refusal() *QuarantinedError {
	return &QuarantinedError{Server: p.Server, Tool: p.Tool, Reason: p.Reason, OldDigest: p.OldDigest, NewDigest: p.NewDigest, Err: p.Err}
}

// A QuarantinedError refuses a call of a quarantined tool. The server was not called. Clients
// receive the code [jsonrpc.InvalidParams] and the data
// {"type":"QUARANTINED","server":…,"tool":…,"reason":"new"}, or "changed", or "invalid".
type QuarantinedError struct {
	// Server, Tool, Reason, OldDigest, NewDigest and Err have the values of the same fields of [Pending].
	Server, Tool         string
	Reason               Reason
	OldDigest, NewDigest string
	Err                  error
}

// Error returns a message for the operator, with digests or Err.
func (e *QuarantinedError) Error() string {
	switch text := e.summary(); e.Reason {
	case New:
		return fmt.Sprintf("%s (it is %s)", text, e.NewDigest)
	case Changed:
		return fmt.Sprintf("%s (it was %s and is %s)", text, e.OldDigest, e.NewDigest)
	default:
		return fmt.Sprintf("%s: %v", text, e.Err)
	}
}

// Unwrap returns the *[jsonrpc.Error] for clients. It contains no text of the server.
func (e *QuarantinedError) Unwrap() error {
	data := jsonscan.AppendString([]byte(`{"type":"QUARANTINED","server":`), e.Server)
	data = jsonscan.AppendString(append(data, `,"tool":`...), e.Tool)
	data = jsonscan.AppendString(append(data, `,"reason":`...), e.Reason.String())
	return &jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: e.summary(), Data: append(data, '}')}
}

func (e *QuarantinedError) summary() string {
	reason := "its definition is invalid"
	switch e.Reason {
	case New:
		reason = "it is new and has not been accepted"
	case Changed:
		reason = "it has changed since it was accepted"
	}
	return fmt.Sprintf("the tool %s of %s is quarantined: %s", jsonscan.Quote(e.Tool), jsonscan.Quote(e.Server), reason)
}
