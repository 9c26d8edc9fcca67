package transport

import (
	"errors"

	"github.com/dovetail-go/dovetail/jsonrpc"
)

// ErrNotReached is, under [errors.Is], a failure of the network or of something
// on the way that answered in the server's place: no name, no connection, no
// permission, an overloaded gateway. It says nothing of what the server can do.
var ErrNotReached = errors.New("the server was not reached")

// A RejectedError is the answer to a request that is not as its version of the
// protocol has it, whatever it asks for. Over HTTP such an answer has status 400.
type RejectedError struct{ Answer *jsonrpc.Error }

// Error is that of the answer.
func (e *RejectedError) Error() string { return e.Answer.Error() }

// Unwrap returns the answer.
func (e *RejectedError) Unwrap() error { return e.Answer }
