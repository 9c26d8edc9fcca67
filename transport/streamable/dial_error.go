package streamable

import (
	"fmt"

	"github.com/dovetail-go/dovetail/internal/webclient"
)

// A StatusError is a status by which HTTP refuses a request, where the server might
// have answered with a message. Its Method is that of the request, its Header has the
// WWW-Authenticate and Retry-After of the answer, if any, and its Body is how the
// answer's body begins, at most 256 bytes of it. With the Status 401, 403, 429 or 5xx
// it is [transport.ErrNotReached] under errors.Is. Package sse has the same type.
type StatusError = webclient.StatusError

// A RedirectError is an answer that sends the client elsewhere, where it will not go,
// and the request was not executed. To is the URL without user and query, Reason says
// why it is not followed. Package sse has the same type.
type RedirectError = webclient.RedirectError

// A SizeError is an answer that is longer than [DialOptions].MaxMessage, or an event
// with a name or id beyond all measure.
type SizeError struct {
	// Max is the limit in bytes.
	Max int64
}

// Error tells the limit.
func (e *SizeError) Error() string {
	return fmt.Sprintf("an answer may have at most %d bytes here, and more came", e.Max)
}
