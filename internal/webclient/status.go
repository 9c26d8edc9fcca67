package webclient

import (
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport"
)

// A StatusError is a status by which HTTP refuses a request, where the server might
// have answered with a message. With the status 401, 403, 429 or 5xx it is
// [transport.ErrNotReached] under errors.Is.
type StatusError struct {
	// Method is that of the HTTP request.
	Method string
	// Status is the status code.
	Status int
	// Header has the WWW-Authenticate and Retry-After of the answer, if any.
	Header http.Header
	// Body is how the answer's body begins, at most 256 bytes of it.
	Body string
}

// Error names the status and quotes the body.
func (e *StatusError) Error() string {
	text := fmt.Sprintf("%s was answered with status %d", e.Method, e.Status)
	if name := http.StatusText(e.Status); name != "" {
		text += " " + name
	}
	if e.Body != "" {
		text += ": " + jsonscan.Quote(e.Body)
	}
	return text
}

// Is says whether the status speaks for the network rather than the server.
func (e *StatusError) Is(target error) bool {
	return target == transport.ErrNotReached && (IsAccess(e.Status) || e.Status >= http.StatusInternalServerError)
}

// IsAccess tells a status that is about who asks, or how often.
func IsAccess(status int) bool {
	return status == http.StatusUnauthorized || status == http.StatusForbidden || status == http.StatusTooManyRequests
}

// NewStatusError makes an error of an answer whose body has been read, as far as it
// matters.
func NewStatusError(res *http.Response, body []byte) *StatusError {
	e := &StatusError{
		Method: res.Request.Method, Status: res.StatusCode, Header: make(http.Header),
		Body: strings.ToValidUTF8(string(body[:min(len(body), maxExcerpt)]), ""),
	}
	for _, name := range []string{"Www-Authenticate", "Retry-After"} {
		if lines := res.Header[name]; lines != nil {
			e.Header[name] = lines
		}
	}
	return e
}

// ReadStatusError makes an error of an answer whose body nobody has read. It is for
// the caller to close.
func ReadStatusError(res *http.Response) *StatusError {
	excerpt, _ := io.ReadAll(io.LimitReader(res.Body, maxExcerpt)) // what there is of it
	return NewStatusError(res, excerpt)
}

// DeliveryOf says how far a message got that was refused so. A gateway may have lost
// the answer of a server that executed it; one that names a time to come again has not
// tried.
func DeliveryOf(refused *StatusError) jsonrpc.Delivery {
	if refused.Status < http.StatusInternalServerError || refused.Status == http.StatusServiceUnavailable && refused.Header.Get("Retry-After") != "" {
		return jsonrpc.Rejected
	}
	return jsonrpc.MaybeExecuted
}
