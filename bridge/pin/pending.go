package pin

import (
	"encoding/json"
	"fmt"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
)

// Why an entry is pending.
const (
	reasonNew     = "new"
	reasonChanged = "changed"
	reasonInvalid = "invalid"
)

// A Pending entry waits for a decision; see [Lock.Accept].
type Pending struct {
	// Server is the alias of the server.
	Server string
	Entry
	// Reason says why the entry is pending: "new" (the lock has no digest for it), "changed" (the lock has another
	// digest for it) or "invalid" (it has no digest; see [Digest]).
	Reason string
	// OldDigest is the pinned digest, "" for a new entry.
	OldDigest string
	// NewDigest is the current digest, "" for an invalid entry.
	NewDigest string
	// Before is the accepted definition. It is nil for a new entry, and if neither this process has seen it nor the folder
	// beside the lock file has it; see [Lock.Save].
	Before json.RawMessage
	// After is the current definition. For a content it is an object with the member contents. It is written by a server that may be hostile: escape
	// it before showing it to a person.
	After json.RawMessage
	// Err says why the entry is invalid.
	Err error
}

// Diff returns the members that differ between Before and After, sorted by name. A nil Before means an empty definition.
// There are differences if and only if the digests differ. Diff returns an error if a definition is not valid.
func (p *Pending) Diff() ([]Difference, error) {
	if p.Err != nil {
		return nil, p.Err
	}
	return diff(p.Kind, p.Before, p.After)
}

func (p *Pending) refusal() *QuarantinedError {
	return &QuarantinedError{Server: p.Server, Entry: p.Entry, Reason: p.Reason, OldDigest: p.OldDigest, NewDigest: p.NewDigest, Err: p.Err}
}

// A QuarantinedError refuses a call of a quarantined entry, or withholds a content. The server was not called, except
// for a content. Clients receive the code [jsonrpc.InvalidParams] and the data
// {"type":"QUARANTINED","server":…,"kind":"tool","name":…,"reason":"new"}, or "changed", or "invalid".
type QuarantinedError struct {
	// Server, Entry, Reason, OldDigest, NewDigest and Err have the values of the same fields of [Pending].
	Server string
	Entry
	Reason               string
	OldDigest, NewDigest string
	Err                  error
}

// Error returns a message for the operator, with digests or Err.
func (e *QuarantinedError) Error() string {
	switch text := e.summary(); e.Reason {
	case reasonNew:
		return fmt.Sprintf("%s (it is %s)", text, e.NewDigest)
	case reasonChanged:
		return fmt.Sprintf("%s (it was %s and is %s)", text, e.OldDigest, e.NewDigest)
	default:
		return fmt.Sprintf("%s: %v", text, e.Err)
	}
}

// Unwrap returns the *[jsonrpc.Error] for clients. It contains no text of the server.
func (e *QuarantinedError) Unwrap() error {
	data := jsonscan.AppendString([]byte(`{"type":"QUARANTINED","server":`), e.Server)
	data = jsonscan.AppendString(append(data, `,"kind":`...), string(e.Kind))
	data = jsonscan.AppendString(append(data, `,"name":`...), e.Name)
	data = jsonscan.AppendString(append(data, `,"reason":`...), e.Reason)
	return &jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: e.summary(), Data: append(data, '}')}
}

func (e *QuarantinedError) summary() string {
	reason := "it is invalid"
	switch e.Reason {
	case reasonNew:
		reason = "it is new and has not been accepted"
	case reasonChanged:
		reason = "it has changed since it was accepted"
	}
	return fmt.Sprintf("the %s %s of %s is quarantined: %s", e.Kind.what(), jsonscan.Quote(e.Name), jsonscan.Quote(e.Server), reason)
}
