package sse

import (
	"context"
	"errors"
	"fmt"
	"math"
	"mime"
	"net/http"
	"net/url"
	"strings"

	"github.com/dovetail-go/dovetail/internal/deadline"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/sse"
	"github.com/dovetail-go/dovetail/internal/webclient"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport"
)

// Dial returns a dialer for the server whose event stream is at an http or https
// URL. Each Dial opens a stream, and so a session, of its own; it waits for the event
// "endpoint" for at most 30 seconds, and refuses one that leads to another origin (an
// [*EndpointError]).
//
// Redirects are followed three times at most, within the origin, and only if they keep
// the request as it is. A message that the server does not accept fails its call with
// a *[jsonrpc.CallError] that says how far it got; what HTTP had to say is a
// [*StatusError] in it. When the server does not know the session any more (404, 410),
// the connection ends.
func Dial(url string, opts *DialOptions) transport.Dialer {
	d := &dialer{opts: opts.withDefaults()}
	d.url, d.err = webclient.ParseURL(url)
	d.client = webclient.New(d.opts.HTTPClient, d.opts.Header)
	d.client.AuthorizeBy(d.opts.Authorizer, d.url)
	return d
}

// A dialer is what its connections share.
type dialer struct {
	url    *url.URL
	err    error // what is wrong with the URL
	opts   DialOptions
	client *webclient.Client
}

var errNoEndpoint = errors.New(`the event "endpoint" did not come within ` + openTimeout.String())

// Dial opens a stream.
func (d *dialer) Dial(ctx context.Context, handler jsonrpc.Handler) (transport.Conn, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if d.err != nil {
		return nil, fmt.Errorf("sse: %w", d.err)
	}
	d.client.Acquire()
	s, err := d.openStream(ctx)
	if err != nil {
		d.client.Release()
		return nil, fmt.Errorf("sse: %w", err)
	}
	c := &conn{stream: s, done: make(chan struct{})}
	c.Conn = jsonrpc.NewConn(s, func(*jsonrpc.Conn) jsonrpc.Handler { return handler }, &d.opts.Conn)
	go c.run()
	return c, nil
}

// openStream opens a stream that outlives ctx.
func (d *dialer) openStream(ctx context.Context) (*clientStream, error) {
	s := &clientStream{dialer: d}
	ctx, cancel := deadline.With(ctx, openTimeout, errNoEndpoint)
	defer cancel()
	s.life, s.end = context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { s.end(context.Cause(ctx)) })
	err := s.open()
	if stop() && err == nil {
		return s, nil
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx) // what was cut off does not know why
	}
	s.Close()
	return nil, err
}

// open sends the request and waits for the first event.
func (s *clientStream) open() (err error) {
	header := http.Header{"Accept": {eventStream}, "Cache-Control": {"no-store"}}
	resp, err := s.dialer.client.Do(s.life, http.MethodGet, s.dialer.url, header)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			resp.Body.Close()
		}
	}()
	s.body = resp.Body
	if resp.StatusCode != http.StatusOK {
		return webclient.ReadStatusError(resp)
	}
	if got, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); got != eventStream {
		return &EndpointError{"expected Content-Type " + eventStream + ", got " + jsonscan.Quote(resp.Header.Get("Content-Type"))}
	}
	s.events = sse.NewReader(resp.Body, int(min(s.dialer.opts.MaxMessage, math.MaxInt)))
	first, err := s.events.Next()
	switch {
	case err != nil:
		return fmt.Errorf(`waiting for the event "endpoint": %w`, err)
	case first.Name != eventEndpoint:
		return &EndpointError{`expected the event "endpoint" first, got ` + jsonscan.Quote(first.Name)}
	}
	s.endpoint, err = endpointURL(resp.Request.URL, first.Data)
	return err
}

const eventStream = "text/event-stream"

// endpointURL says where messages are to be posted. Elsewhere than where the stream is
// they would take the program's credentials along.
func endpointURL(stream *url.URL, data []byte) (*url.URL, error) {
	if len(data) > maxEndpoint {
		return nil, &EndpointError{fmt.Sprintf("the server's endpoint has %d bytes; expected at most %d", len(data), maxEndpoint)}
	}
	text := strings.TrimSpace(string(data))
	ref, err := url.Parse(text)
	if err != nil || text == "" {
		return nil, &EndpointError{"the server's endpoint is " + jsonscan.Quote(text) + "; expected a URI"}
	}
	u := stream.ResolveReference(ref)
	if !webclient.SameOrigin(u, stream) {
		return nil, &EndpointError{"the server's endpoint is " + jsonscan.Quote(text) + "; expected one of the stream's own origin"}
	}
	u.User = stream.User
	u.Fragment, u.RawFragment = "", ""
	return u, nil
}
