package sse

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/dovetail-go/dovetail/internal/deadline"
	"github.com/dovetail-go/dovetail/internal/httpclient"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/sse"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/internal/duplex"
)

const (
	// openTimeout bounds Dial, from the name lookup to the event "endpoint".
	openTimeout = 30 * time.Second
	// maxEndpoint is the maximum length in bytes of the URI in the event "endpoint".
	maxEndpoint = 8 << 10

	eventStream = "text/event-stream"
)

// Dial returns a dialer for the server at the http or https URL of its event stream. opts may
// be nil. A malformed URL is the error of every Dial of the dialer.
//
// Each Dial opens a stream, and so a session, of its own. It waits at most 30 seconds for the
// event "endpoint", and refuses an endpoint of another origin (*[EndpointError]). An endpoint
// {"session_id": ID} is the directory of the stream, and messages have the ID in the header
// Mcp-Session-Id; see [Options].SessionHeader.
//
// The client follows at most three redirects, only within the origin, and only if they keep
// the method. A message that the server does not accept fails its call with a
// *[jsonrpc.CallError] that says whether it may have been executed and contains the
// *httptransport.StatusError. When the server answers 404 or 410, or 400 or 422 with a body about the
// session, the session is lost and the connection ends ([transport.ErrSessionLost]).
func Dial(url string, opts *DialOptions) transport.Dialer {
	o := opts.withDefaults()
	return &dialer{opts: o, client: httpclient.New(url, o.HTTPClient, o.Header, o.Authorizer)}
}

// A dialer is shared by its connections.
type dialer struct {
	opts   DialOptions
	client *httpclient.Client
}

var errNoEndpoint = errors.New(`the event "endpoint" did not come within ` + openTimeout.String())

// Dial opens a stream.
func (d *dialer) Dial(ctx context.Context, handler jsonrpc.Handler) (transport.Conn, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err := d.client.Acquire(); err != nil {
		return nil, fmt.Errorf("sse: %w", err)
	}
	s, err := d.openStream(ctx)
	if err != nil {
		d.client.Release()
		return nil, fmt.Errorf("sse: %w", err)
	}
	return duplex.Dial(s, handler, &d.opts.Conn, s.endReason, d.client.Release), nil
}

// openStream opens a stream that outlives ctx.
func (d *dialer) openStream(ctx context.Context) (*clientStream, error) {
	s := &clientStream{dialer: d}
	ctx, cancel := deadline.With(ctx, openTimeout, errNoEndpoint)
	defer cancel()
	s.ctx, s.end = context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { s.end(context.Cause(ctx)) })
	err := s.open()
	if stop() && err == nil {
		return s, nil
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx) // err only says that the request was canceled
	}
	s.Close()
	return nil, err
}

// open sends the request and waits for the first event.
func (s *clientStream) open() (err error) {
	header := http.Header{"Accept": {eventStream}, "Cache-Control": {"no-store"}}
	resp, err := s.dialer.client.Do(s.ctx, http.MethodGet, s.dialer.client.URL(), header)
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
		return httpclient.ReadStatusError(resp)
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
	s.endpoint, s.session, err = readEndpoint(resp.Request.URL, first.Data)
	return err
}

// readEndpoint reads the data of the event "endpoint": the URL for messages, and the id that messages have in the header
// [headerSession], "" for none. The URL must have the origin of the stream, since the messages carry the program's
// credentials.
func readEndpoint(stream *url.URL, data []byte) (u *url.URL, session string, err error) {
	if len(data) > maxEndpoint {
		return nil, "", &EndpointError{fmt.Sprintf("the server's endpoint has %d bytes; expected at most %d", len(data), maxEndpoint)}
	}
	text, session := endpointText(data)
	if session != "" {
		text = "." // the directory of the stream
		if strings.ContainsFunc(session, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return nil, "", &EndpointError{"the server's session is " + jsonscan.Quote(session) + "; expected visible ASCII characters"}
		}
	}
	ref, err := url.Parse(text)
	if err != nil || text == "" {
		return nil, "", &EndpointError{"the server's endpoint is " + jsonscan.Quote(text) + "; expected a URI"}
	}
	u = stream.ResolveReference(ref)
	if !httpclient.SameOrigin(u, stream) {
		return nil, "", &EndpointError{"the server's endpoint is " + jsonscan.Quote(text) + "; expected one of the stream's own origin"}
	}
	u.User = stream.User
	u.Fragment, u.RawFragment = "", ""
	return u, session, nil
}

// endpointText returns the URI in the data of the event, or the id of a session without a URI. Some servers send the URI
// as a JSON string, or as a member of a JSON object. Those of lauren-mcp send the id in a JSON object.
func endpointText(data []byte) (uri, session string) {
	if jsonscan.Valid(data) != nil {
		return strings.TrimSpace(string(data)), ""
	}
	member := func(names ...string) string {
		for _, name := range names {
			if value, err := jsonscan.Find(data, name); err == nil && value != nil && jsonscan.KindOf(value) == jsonscan.String {
				return jsonscan.Unquote(bytes.TrimSpace(value))
			}
		}
		return ""
	}
	switch data = bytes.TrimSpace(data); jsonscan.KindOf(data) {
	case jsonscan.String:
		return jsonscan.Unquote(data), ""
	case jsonscan.Object:
		if uri = member("url", "uri", "endpoint"); uri != "" {
			return uri, ""
		}
		if session = member("session_id", "sessionId"); session != "" {
			return "", session
		}
	}
	return string(data), ""
}

// EndpointError is the error of Dial for a URL that does not serve this transport.
type EndpointError struct {
	// Reason says what was expected and what the server sent.
	Reason string
}

// Error returns the reason.
func (e *EndpointError) Error() string { return e.Reason }

// An endedError is [jsonrpc.ErrClosed] with a reason.
type endedError struct{ reason error }

func (e *endedError) Error() string   { return jsonrpc.ErrClosed.Error() + ": " + e.reason.Error() }
func (e *endedError) Unwrap() []error { return []error{jsonrpc.ErrClosed, e.reason} }
