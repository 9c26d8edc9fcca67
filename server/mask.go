package server

import (
	"crypto/rand"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// guarded runs a function so that a panic costs one call: the stack goes to the
// operator's log under a reference, the client sees the reference only.
func (s *Server) guarded(key entryKey, run func() (mcp.Result, error)) (result mcp.Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			result, err = nil, s.masked("panic in a registered function", "kind", key.kind.String(), "name", key.label(),
				"panic", fmt.Sprint(p), "stack", string(debug.Stack()))
		}
	}()
	return run()
}

// masked logs what the client must not see and returns what it sees instead: a
// reference to the log.
func (s *Server) masked(message string, attrs ...any) error {
	reference := rand.Text()
	s.options.Logger.Error(message, append(attrs, "reference", reference)...)
	return &jsonrpc.Error{Code: jsonrpc.InternalError, Message: "internal error, reference " + reference}
}

// errNoResult is what becomes of a nil result where an empty one would be a lie.
var errNoResult = errors.New("the function gave no result")
