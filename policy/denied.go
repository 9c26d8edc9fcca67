package policy

import (
	"encoding/json"
	"fmt"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// A DeniedError is a call that is not allowed. It is told to callers as its Unwrap: with
// the code -32603 and data {"type":"FORBIDDEN","guard":"policy"}, which client.IsForbidden
// knows, and with what the rule has to say to them, but not why.
type DeniedError struct {
	Kind     mcp.Kind
	Name     string // as the caller sees it
	Decision Decision
}

func (e *DeniedError) Error() string {
	return fmt.Sprintf("the policy refuses the %s %.256q: %s", e.Kind, e.Name, e.Decision.Reason)
}

// Unwrap returns the *[jsonrpc.Error] that the caller is told.
func (e *DeniedError) Unwrap() error {
	message := fmt.Sprintf("The policy does not allow the %s %.256q", e.Kind, e.Name)
	if e.Decision.Told != "" {
		message += ": " + e.Decision.Told
	}
	return &jsonrpc.Error{
		Code: jsonrpc.InternalError, Message: message, Data: json.RawMessage(`{"type":"FORBIDDEN","guard":"policy"}`),
	}
}

// denied returns the error of a call that is not allowed.
func denied(call *mcp.Call, d Decision) *DeniedError {
	e := &DeniedError{Name: call.URI(), Kind: mcp.KindResource, Decision: d}
	if t := call.Target(); t != nil && e.Name == "" {
		e.Name, e.Kind = t.Name, t.Kind
	}
	return e
}
