package sse

import (
	"github.com/dovetail-go/dovetail/internal/webclient"
	"github.com/dovetail-go/dovetail/jsonrpc"
)

// A StatusError is a status by which HTTP refuses a stream or a message. Its Method is
// that of the request, its Header has the WWW-Authenticate and Retry-After of the
// answer, if any, and its Body is how the answer's body begins, at most 256 bytes of
// it. With the Status 401, 403, 429 or 5xx it is [transport.ErrNotReached] under
// errors.Is. Package streamable has the same type.
type StatusError = webclient.StatusError

// A RedirectError is an answer that sends the client elsewhere, where it will not go,
// and the request was not executed. To is the URL without user and query, Reason says
// why it is not followed. Package streamable has the same type.
type RedirectError = webclient.RedirectError

// An EndpointError is a URL that opens no stream of this transport.
type EndpointError struct {
	// Reason says what was expected and what came.
	Reason string
}

// Error returns the reason.
func (e *EndpointError) Error() string { return e.Reason }

// An endedError is [jsonrpc.ErrClosed] that knows why.
type endedError struct{ reason error }

func (e *endedError) Error() string   { return jsonrpc.ErrClosed.Error() + ": " + e.reason.Error() }
func (e *endedError) Unwrap() []error { return []error{jsonrpc.ErrClosed, e.reason} }
