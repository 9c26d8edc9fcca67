package webclient

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
)

// A Header adds what a program wants to have in the header of a request. It is
// called concurrently.
type Header func(ctx context.Context, header http.Header) error

// A Client makes the requests of connections that share what is idle. Its methods
// may be called concurrently.
//
// Their errors do not tell the URL, which may hold secrets. Each is that of the
// program's [Header], or a *[RedirectError], or [transport.ErrNotReached] under
// errors.Is, among them those of the program's [Authorizer].
type Client struct {
	http   *http.Client
	direct *http.Transport // the client's; nil when the client has more to do than to follow redirects
	header Header
	// authorizer, if it is not nil, gets requests admitted by the server.
	authorizer Authorizer
	server     *url.URL

	idle func() // closes connections that nobody uses; nil when they are not ours

	mu    sync.Mutex
	users int
}

// New returns a client that makes requests as the given one does, but for its
// redirects, or in its own way when that is nil. header may be nil.
func New(given *http.Client, header Header) *Client {
	c := &Client{http: new(http.Client), header: header}
	if given != nil {
		*c.http = *given
	} else {
		own := newTransport()
		c.http.Transport, c.idle = own, own.CloseIdleConnections
	}
	c.http.CheckRedirect = checkRedirect
	if c.http.Jar == nil && c.http.Timeout == 0 {
		c.direct, _ = c.http.Transport.(*http.Transport)
	}
	return c
}

// HTTPClient is what makes the requests, for another [New].
func (c *Client) HTTPClient() *http.Client { return c.http }

// Acquire is called once for each connection that begins.
func (c *Client) Acquire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.users++
}

// Release is called once for each connection that has ended. With the last one goes
// what is idle.
func (c *Client) Release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.users--
	if c.users == 0 && c.idle != nil {
		c.idle()
	}
}

// Do makes a request without a body. The program cannot change what the header has
// already.
func (c *Client) Do(ctx context.Context, method string, to *url.URL, header http.Header) (*http.Response, error) {
	if err := c.complete(ctx, header); err != nil {
		return nil, err
	}
	return c.admitted(ctx, newRequest(ctx, method, to, header), nil)
}

// Post posts bytes, which may still be read when Post has returned. It tells the
// progress how far that got.
func (c *Client) Post(ctx context.Context, to *url.URL, header http.Header, text []byte, progress *Progress) (*http.Response, error) {
	return c.PostText(ctx, to, header, &Text{bytes: text}, progress)
}

// PostText is [Client.Post] for a text, which the caller may release when it has returned.
func (c *Client) PostText(ctx context.Context, to *url.URL, header http.Header, text *Text, progress *Progress) (*http.Response, error) {
	if err := c.complete(ctx, header); err != nil {
		return nil, err
	}
	req := newRequest(progress.trace(ctx), http.MethodPost, to, header)
	req.ContentLength = int64(len(text.bytes))
	res, err := c.admitted(ctx, req, text)
	progress.settle(err)
	return res, err
}

// complete adds to a header what the program wants to have in it.
func (c *Client) complete(ctx context.Context, header http.Header) error {
	if c.header == nil {
		return nil
	}
	given := make(http.Header)
	if err := c.header(ctx, given); err != nil {
		return fmt.Errorf("the request's header: %w", err)
	}
	for name, lines := range given {
		if _, ours := header[name]; !ours {
			header[name] = lines
		}
	}
	return nil
}

// newRequest does without the checks of http.NewRequest: nothing here comes from
// outside but the URL, which has been parsed.
func newRequest(ctx context.Context, method string, to *url.URL, header http.Header) *http.Request {
	req := http.Request{
		Method: method, URL: to, Host: to.Host, Header: header,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}
	return req.WithContext(ctx)
}

func (c *Client) do(req *http.Request) (*http.Response, error) {
	res, err := c.roundTrip(req)
	if err != nil {
		if refused, ok := errors.AsType[*RedirectError](err); ok {
			return nil, refused
		}
		if e, ok := err.(*url.Error); ok {
			err = e.Err
		}
		if (err == context.Canceled || err == context.DeadlineExceeded) && req.Context().Err() == nil {
			err = errGivenUp
		}
		return nil, NotReached(err)
	}
	if res.Request == nil {
		res.Request = req // not every RoundTripper remembers it
	}
	return res, nil
}

// errGivenUp takes the place of another request's end: when that comes just as its answer
// does, net/http closes a connection that it may have given to the next request already.
var errGivenUp = errors.New("the connection was closed as another request had been given up")

// roundTrip saves what an http.Client does for every request in case it is
// redirected, such as to copy its header.
func (c *Client) roundTrip(req *http.Request) (*http.Response, error) {
	if c.direct == nil || req.URL.User != nil {
		return c.http.Do(req) //nolint:gosec // the program has chosen the server
	}
	res, err := c.direct.RoundTrip(req)
	if err != nil || res.StatusCode/100 != 3 {
		return res, err
	}
	client := *c.http
	client.Transport = &resumed{first: res, next: c.direct}
	return client.Do(req) //nolint:gosec // the program has chosen the server
}
