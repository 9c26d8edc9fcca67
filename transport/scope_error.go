package transport

import (
	"encoding/json"
	"strings"

	"github.com/dovetail-go/dovetail/jsonrpc"
)

// A ScopeError refuses a call whose client's token lacks a scope that the call needs.
// Streamable HTTP answers it with status 403 and the challenge, unless the answer has
// begun; where there is no status the client is told its Unwrap.
type ScopeError struct {
	// Scopes are all that the call needs.
	Scopes []string
	// Challenge is what WWW-Authenticate says, "" for nothing.
	Challenge string
}

// Error lists the scopes.
func (e *ScopeError) Error() string {
	return "the token lacks a scope: the call needs " + strings.Join(e.Scopes, " ")
}

// Unwrap returns the *[jsonrpc.Error] that the client is told: the code -32603 and data
// {"type":"FORBIDDEN","guard":"scope","scopes":[…]}, which client.IsForbidden knows.
func (e *ScopeError) Unwrap() error {
	data, err := json.Marshal(struct {
		Type   string   `json:"type"`
		Guard  string   `json:"guard"`
		Scopes []string `json:"scopes"`
	}{"FORBIDDEN", "scope", e.Scopes})
	if err != nil {
		return err // strings can be marshalled
	}
	return &jsonrpc.Error{Code: jsonrpc.InternalError, Message: e.Error(), Data: data}
}
