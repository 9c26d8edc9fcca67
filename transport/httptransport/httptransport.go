package httptransport

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/transport"
)

// Authorizer authorizes requests to a server. Its methods are called concurrently. They
// must not retain or modify their arguments except as described here.
type Authorizer interface {
	// Authorize adds credentials to the header of a request. server is the URL that was
	// dialed; the request goes to its origin. If Authorize returns an error, the request is
	// not sent.
	Authorize(ctx context.Context, server *url.URL, req *http.Request) error
	// Challenged is called when the server answers a request with the status 401 or 403. It
	// reports whether to authorize and send the request again, which happens at most three
	// times. It may block, for example while a person logs in; that time does not count
	// towards the timeout of the call. Its error replaces the response. It must not read the
	// body of the response.
	Challenged(ctx context.Context, server *url.URL, req *http.Request, res *http.Response) (again bool, err error)
}

// An Endpoint serves MCP over HTTP. The functions streamable.Handler, sse.Handler and ws.Handler return one. Its methods
// may be called concurrently. The documentation of these functions says what Close does.
type Endpoint interface {
	http.Handler
	io.Closer
}

// StatusError is an HTTP response whose status refuses a request. It is
// [transport.ErrNotReached] under errors.Is if the status is 401, 403, 429 or 5xx,
// [transport.ErrForbidden] if it is 403, and [transport.ErrRefused] if it is 400 or more and not 401.
type StatusError struct {
	// Method is the method of the HTTP request.
	Method string
	// Status is the status code of the response.
	Status int
	// Header contains WWW-Authenticate and Retry-After, if the response has them.
	Header http.Header
	// Body is the beginning of the response body, at most 256 bytes. In it and in Header,
	// "[redacted]" replaces the credentials of the request: words of 8 bytes or more of its
	// URL's query and of its header, except for headers of the protocol.
	Body string
}

// Error returns the method, the status and the quoted body.
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

// Is reports whether target is [transport.ErrNotReached] and the status is 401, 403, 429 or
// 5xx: such a response comes from access control, a gateway or an overloaded server. It also
// reports whether target is [transport.ErrForbidden] and the status is 403.
func (e *StatusError) Is(target error) bool {
	switch target {
	case transport.ErrForbidden:
		return e.Status == http.StatusForbidden
	case transport.ErrRefused:
		return e.Status >= http.StatusBadRequest && e.Status != http.StatusUnauthorized
	case transport.ErrNotReached:
	default:
		return false
	}
	switch e.Status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests:
		return true
	}
	return e.Status >= http.StatusInternalServerError
}

// RedirectError is a redirect that the client does not follow. The server did not execute
// the request.
type RedirectError struct {
	// To is the target URL without user and query.
	To string
	// Reason says why the redirect is not followed.
	Reason string
}

// Error returns the target and the reason.
func (e *RedirectError) Error() string {
	return fmt.Sprintf("the redirect to %s is not followed: %s", jsonscan.Quote(e.To), e.Reason)
}
