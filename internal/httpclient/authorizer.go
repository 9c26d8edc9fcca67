package httpclient

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/dovetail-go/dovetail/internal/deadline"
	"github.com/dovetail-go/dovetail/transport/httptransport"
)

// maxChallenges is how often one request is sent again: for a missing token, for an expired or
// insufficient one, and for a nonce.
const maxChallenges = 3

// Authorize sends a request with the help of an authorizer, and sends it again if the
// authorizer asks for that. Each call of send gets a header of its own.
func Authorize(ctx context.Context, by httptransport.Authorizer, server *url.URL, req *http.Request, send func(*http.Request) (*http.Response, error)) (*http.Response, error) {
	header := req.Header
	for attempt := 0; ; attempt++ {
		req = req.WithContext(req.Context())
		req.Header = header.Clone()
		if err := by.Authorize(ctx, server, req); err != nil {
			return nil, newAuthorizeError(err, attempt > 0)
		}
		res, err := send(req)
		if err != nil || !isChallenge(res.StatusCode) || attempt == maxChallenges {
			return res, err
		}
		resume := deadline.PauseWork(ctx) // a person may have to log in
		again, err := by.Challenged(ctx, server, req, res)
		resume()
		if err == nil && !again {
			return res, nil
		}
		res.Body.Close()
		if err != nil {
			return nil, newAuthorizeError(err, true)
		}
	}
}

func isChallenge(status int) bool {
	return status == http.StatusUnauthorized || status == http.StatusForbidden
}

// authorize sends a request with a body, or without one if body is nil.
func (c *Client) authorize(ctx context.Context, req *http.Request, body *Body) (*http.Response, error) {
	if c.authorizer == nil {
		return c.send(req, body)
	}
	return Authorize(ctx, c.authorizer, c.server, req, func(req *http.Request) (*http.Response, error) { return c.send(req, body) })
}

// An authorizeError is the error of an Authorizer.
type authorizeError struct {
	error
	refused bool // the server refused the request at least once
}

func newAuthorizeError(err error, refused bool) error {
	return NotReached(&authorizeError{fmt.Errorf("authorizing the request: %w", err), refused})
}

// Unwrap returns the error of the Authorizer.
func (e *authorizeError) Unwrap() error { return e.error }
