package httpclient

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/dovetail-go/dovetail/transport/httptransport"
)

// Header adds a program's values to the header of a request. It is called concurrently.
type Header func(ctx context.Context, header http.Header) error

// Client sends requests to one server, for any number of connections. Its methods may be
// called concurrently.
//
// Errors do not contain the URL, which may hold secrets. Each error is from the program's [Header], or a
// *[httptransport.RedirectError], or [transport.ErrNotReached] under errors.Is, including the errors of the authorizer.
type Client struct {
	http       *http.Client
	direct     *http.Transport // of http; nil if http does more than follow redirects
	header     Header
	authorizer httptransport.Authorizer
	server     *url.URL
	urlErr     error

	closeIdle func() // nil if the transport belongs to the program

	mu    sync.Mutex
	users int
}

// New returns a client for the server at an http or https URL. A malformed URL is the error
// of Acquire. The client sends requests with given, except that it replaces CheckRedirect; if
// given is nil, the client has connections of its own. header and authorizer may be nil.
func New(rawURL string, given *http.Client, header Header, authorizer httptransport.Authorizer) *Client {
	c := &Client{header: header, authorizer: authorizer}
	c.server, c.urlErr = ParseURL(rawURL)
	if given != nil {
		copied := *given
		c.http = &copied
	} else {
		c.http = httptransport.NewClient(nil)
		c.closeIdle = c.http.CloseIdleConnections
	}
	c.http.CheckRedirect = checkRedirect
	if c.http.Jar == nil && c.http.Timeout == 0 {
		c.direct, _ = c.http.Transport.(*http.Transport)
	}
	return c
}

// HTTPClient returns the http.Client that sends the requests.
func (c *Client) HTTPClient() *http.Client { return c.http }

// URL returns the URL of the server, which must not be modified. It is nil if the URL given
// to New was malformed.
func (c *Client) URL() *url.URL { return c.server }

// Acquire registers a connection. It fails if the URL given to New was malformed.
func (c *Client) Acquire() error {
	if c.urlErr != nil {
		return c.urlErr
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.users++
	return nil
}

// Release unregisters a connection. The last Release closes idle connections to the server.
func (c *Client) Release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.users--
	if c.users == 0 && c.closeIdle != nil {
		c.closeIdle()
	}
}

// Do sends a request without a body. It adds the program's values to header, except for names
// that header already has.
func (c *Client) Do(ctx context.Context, method string, to *url.URL, header http.Header) (*http.Response, error) {
	if err := c.addHeader(ctx, header); err != nil {
		return nil, err
	}
	return c.authorize(ctx, newRequest(ctx, method, to, header), nil)
}

// Post posts bytes and records in progress how far they got. net/http may read them after
// Post has returned.
func (c *Client) Post(ctx context.Context, to *url.URL, header http.Header, text []byte, progress *Progress) (*http.Response, error) {
	return c.PostBody(ctx, to, header, &Body{bytes: text}, progress)
}

// PostBody is [Client.Post] for a body that the caller may release when PostBody has returned.
func (c *Client) PostBody(ctx context.Context, to *url.URL, header http.Header, body *Body, progress *Progress) (*http.Response, error) {
	if err := c.addHeader(ctx, header); err != nil {
		return nil, err
	}
	req := newRequest(progress.trace(ctx), http.MethodPost, to, header)
	req.ContentLength = int64(len(body.bytes))
	res, err := c.authorize(ctx, req, body)
	progress.record(err)
	return res, err
}

// addHeader adds the program's values to a header.
func (c *Client) addHeader(ctx context.Context, header http.Header) error {
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

// newRequest skips the checks of http.NewRequest: its arguments are constants and a parsed URL.
func newRequest(ctx context.Context, method string, to *url.URL, header http.Header) *http.Request {
	req := http.Request{
		Method: method, URL: to, Host: to.Host, Header: header,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}
	return req.WithContext(ctx)
}

// send sends a request with a body, or without one if body is nil.
func (c *Client) send(req *http.Request, body *Body) (*http.Response, error) {
	if body != nil {
		var err error
		req.GetBody = body.open
		if req.Body, err = body.open(); err != nil {
			return nil, err
		}
	}
	res, err := c.roundTrip(req)
	if err != nil {
		if refused, ok := errors.AsType[*httptransport.RedirectError](err); ok {
			return nil, refused
		}
		if e, ok := err.(*url.Error); ok {
			err = e.Err
		}
		if (err == context.Canceled || err == context.DeadlineExceeded) && req.Context().Err() == nil {
			err = errConnectionClosed
		}
		return nil, NotReached(err)
	}
	if res.Request == nil {
		res.Request = req // some RoundTrippers do not set it
	}
	return res, nil
}

// errConnectionClosed replaces the context error of another request. If that request is
// canceled just when its response arrives, net/http closes a connection that it may have
// given to this request already.
var errConnectionClosed = errors.New("the connection was closed because another request was canceled")

// roundTrip calls the transport directly, because http.Client copies the header of every
// request in case it is redirected. A redirected request continues in an http.Client.
func (c *Client) roundTrip(req *http.Request) (*http.Response, error) {
	if c.direct == nil || req.URL.User != nil {
		return c.http.Do(req) //nolint:gosec // the program has chosen the server
	}
	res, err := c.direct.RoundTrip(req)
	if err != nil || res.StatusCode/100 != 3 {
		return res, err
	}
	client := *c.http
	client.Transport = &redirected{first: res, next: c.direct}
	return client.Do(req) //nolint:gosec // the program has chosen the server
}

// ParseURL parses an http or https URL of a server and drops its fragment. Its errors do not
// contain the URL, which may hold a password.
func ParseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = e.Err
		}
		return nil, fmt.Errorf("the server's URL: %w", err)
	case u.Scheme != "http" && u.Scheme != "https", u.Host == "":
		return nil, errors.New("the server's URL must begin with http:// or https:// and a host")
	}
	u.Fragment, u.RawFragment = "", ""
	return u, nil
}

// SameOrigin reports whether two URLs have the same scheme, host and port (RFC 6454, section 5).
func SameOrigin(a, b *url.URL) bool {
	return a.Scheme == b.Scheme && strings.EqualFold(a.Hostname(), b.Hostname()) && port(a) == port(b)
}

func port(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "https":
		return "443"
	}
	return "80"
}

// Origin returns the scheme, host and port of a URL in a canonical form (RFC 6454, section 4).
func Origin(u *url.URL) string {
	return u.Scheme + "://" + strings.ToLower(u.Hostname()) + ":" + port(u)
}
