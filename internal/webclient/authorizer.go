package webclient

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/dovetail-go/dovetail/internal/deadline"
)

// An Authorizer gets requests admitted by servers that refuse strangers. Its methods are
// called concurrently. What is given to it is not kept, nor is it changed otherwise than
// told here.
type Authorizer interface {
	// Authorize adds to a request's header what its server wants to see. The server is
	// the URL that was dialled, whose origin the request goes to. With an error the
	// request is not made.
	Authorize(ctx context.Context, server *url.URL, req *http.Request) error
	// Challenged is told that a request was answered with the status 401 or 403, and says
	// whether to authorize and send it once more, which happens three times at most. It
	// may take its time, such as for a person to log in: no timeout of the call counts
	// that time. Its error takes the place of the answer, whose body is not for it.
	Challenged(ctx context.Context, server *url.URL, req *http.Request, res *http.Response) (again bool, err error)
}

// maxChallenges is how often one request is sent again: when there was no token, when
// one has ended or must say more, and with a nonce.
const maxChallenges = 3

// AuthorizeBy has an authorizer, if it is not nil, get admitted what is sent to a
// server. It must be called before anything is sent.
func (c *Client) AuthorizeBy(authorizer Authorizer, server *url.URL) {
	c.authorizer, c.server = authorizer, server
}

// Admitted sends a request that an authorizer authorizes, and sends it again if that may
// help. send is called with a header of its own each time.
func Admitted(ctx context.Context, by Authorizer, server *url.URL, req *http.Request, send func(*http.Request) (*http.Response, error)) (*http.Response, error) {
	header := req.Header
	for attempt := 0; ; attempt++ {
		req = req.WithContext(req.Context())
		req.Header = header.Clone()
		if err := by.Authorize(ctx, server, req); err != nil {
			return nil, notAdmitted(err, attempt > 0)
		}
		res, err := send(req)
		if err != nil || !isChallenge(res.StatusCode) || attempt == maxChallenges {
			return res, err
		}
		resume := deadline.Pause(ctx) // a person may have to log in
		again, err := by.Challenged(ctx, server, req, res)
		resume()
		if err == nil && !again {
			return res, nil
		}
		res.Body.Close()
		if err != nil {
			return nil, notAdmitted(err, true)
		}
	}
}

func isChallenge(status int) bool {
	return status == http.StatusUnauthorized || status == http.StatusForbidden
}

// admitted makes a request with a text, or without when that is nil.
func (c *Client) admitted(ctx context.Context, req *http.Request, text *Text) (*http.Response, error) {
	if c.authorizer == nil {
		return c.send(req, text)
	}
	return Admitted(ctx, c.authorizer, c.server, req, func(req *http.Request) (*http.Response, error) { return c.send(req, text) })
}

func (c *Client) send(req *http.Request, text *Text) (res *http.Response, err error) {
	if text != nil {
		req.GetBody = text.open
		if req.Body, err = text.open(); err != nil {
			return nil, err
		}
	}
	return c.do(req)
}

// A notAdmittedError is an Authorizer's. It does not say what the server can do.
type notAdmittedError struct {
	error
	refused bool // by the server, at least once
}

func notAdmitted(err error, refused bool) error {
	return NotReached(&notAdmittedError{fmt.Errorf("authorizing the request: %w", err), refused})
}

// Unwrap returns the Authorizer's error.
func (e *notAdmittedError) Unwrap() error { return e.error }
