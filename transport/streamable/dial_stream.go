package streamable

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/internal/backoff"
	"github.com/dovetail-go/dovetail/internal/httpclient"
	"github.com/dovetail-go/dovetail/internal/sse"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/httptransport"
	"github.com/dovetail-go/dovetail/transport/streamable/internal/wire"
)

// A cursor is the position in a stream and the delay before it is resumed.
type cursor struct {
	lastID   string
	retry    time.Duration // delay requested by the server, 0 if none
	pause    backoff.Backoff
	failures int // consecutive failures to resume
	short    int // consecutive streams that ended immediately and brought no message
}

// wait waits until the stream may be resumed. The server decides about the delay, unless it requests a short one and ends
// each stream immediately.
func (at *cursor) wait(ctx context.Context) error {
	pause := at.retry
	if pause == 0 || at.failures > 0 || at.short > 1 && pause < longRetry {
		pause = max(pause, at.pause.Next())
	}
	select {
	case <-time.After(pause):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// errOtherTransport is the error of a POST that is answered with the stream of HTTP+SSE (2024-11-05).
var errOtherTransport = errors.New(`the response begins with the event "endpoint": the server uses HTTP+SSE`)

var errStreamEnded = errors.New("the stream has ended without the response")

// readStream reads the stream of a call up to the response. In a session, it resumes a
// broken stream. See MCP 2025-11-25, basic/transports, section Resumability and Redelivery.
// If draining is true, a goroutine reads the rest of the stream and calls done.
func (p *post) readStream(body io.ReadCloser) (resp *jsonrpc.Response, draining bool, err error) {
	var at cursor
	for {
		resp, err := p.readEvents(body, &at)
		switch {
		case resp != nil:
			p.conn.incoming.Go(func(context.Context) { p.readRest(body) })
			return resp, true, nil
		case errors.Is(err, errOtherTransport):
			body.Close()
			return nil, false, p.callError(jsonrpc.Rejected, errOtherTransport)
		case p.ctx.Err() != nil, p.modern, at.lastID == "", isFinal(err):
			body.Close()
			return nil, false, p.networkError(err)
		}
		body.Close()
		var failure error
		if body, failure = p.conn.reopen(p.ctx, p.session, &at); failure != nil {
			return nil, false, p.networkError(fmt.Errorf("%w; resuming the stream: %w", err, failure))
		}
	}
}

// readRest reads the rest of a stream, so that net/http can reuse its connection, and calls
// done.
func (p *post) readRest(body io.ReadCloser) {
	defer p.done()
	httpclient.Drain(body, p.cancel)
	body.Close()
}

// A finalError is a stream error after which resuming is useless.
type finalError struct{ error }

func (e finalError) Unwrap() error { return e.error }

func isFinal(err error) bool {
	_, final := err.(finalError)
	return final
}

// readEvents handles the messages of a stream up to the response to the call. It returns
// either the response or the error that ended the stream.
func (p *post) readEvents(body io.Reader, at *cursor) (*jsonrpc.Response, error) {
	events := sse.NewReader(body, int(min(p.conn.dialer.opts.MaxMessage, math.MaxInt)))
	opened := time.Now()
	at.failures = 0
	at.short++
	for first := true; ; first = false {
		event, err := events.Next()
		if id := events.LastID(); id != "" {
			at.lastID = id
		}
		if retry := events.Retry(); retry != 0 {
			at.retry = retry
		}
		if err != nil {
			if time.Since(opened) >= stableAfter {
				at.pause.Reset()
			}
			if time.Since(opened) >= longRetry {
				at.short = 0
			}
			return nil, streamError(err)
		}
		if first && event.Name == "endpoint" && isEndpoint(event.Data) {
			return nil, finalError{errOtherTransport}
		}
		if len(event.Data) == 0 || event.Name != "" && event.Name != "message" {
			continue
		}
		at.pause.Reset()
		at.short = 0
		resp, reusable, err := p.receive(event.Data)
		switch {
		case err != nil:
			return nil, finalError{err}
		case resp != nil:
			return resp, nil
		case reusable:
			events.Recycle(event.Data)
		}
	}
}

// isEndpoint reports whether the data of an event "endpoint" is no message.
func isEndpoint(data []byte) bool {
	_, err := jsonrpc.Decode(data)
	return err != nil
}

func streamError(err error) error {
	if err == io.EOF {
		return errStreamEnded
	}
	if long, ok := errors.AsType[*sse.TooLongError](err); ok {
		return finalError{&SizeError{int64(long.Max)}}
	}
	return httpclient.NotReached(err)
}

// reopen resumes a stream. It retries temporary errors up to maxResumes times.
func (c *clientConn) reopen(ctx context.Context, session *dialSession, at *cursor) (io.ReadCloser, error) {
	for {
		if err := at.wait(ctx); err != nil {
			return nil, err
		}
		body, err := c.get(ctx, session, at.lastID)
		if err == nil {
			return body, nil
		}
		at.failures++
		if !isTemporary(err) || at.failures >= maxResumes {
			return nil, err
		}
	}
}

// get opens a stream, or resumes one if lastID is not empty. If the server does not know the
// session, the connection ends. A status alone does not say that: servers without streams answer 404.
func (c *clientConn) get(ctx context.Context, session *dialSession, lastID string) (io.ReadCloser, error) {
	header := http.Header{"Accept": typeEvents}
	if lastID != "" {
		header[wire.HeaderLastEventID] = []string{lastID}
	}
	session.addTo(header)
	res, err := c.dialer.client.Do(ctx, http.MethodGet, c.dialer.client.URL(), header)
	if err != nil {
		return nil, httpclient.NotReached(err)
	}
	if res.StatusCode == http.StatusOK && mediaType(res) == typeEvents[0] {
		return res.Body, nil
	}
	defer res.Body.Close()
	refused := httpclient.ReadStatusError(res)
	if sign := signOfStream(res.StatusCode); session.id != nil && sign != sessionKnown && c.isSessionLost(ctx, sign) {
		c.sessionLost()
		return nil, transport.ErrSessionLost
	}
	return nil, refused
}

// startListening opens the session's stream for unsolicited messages. It waits at most
// listenTimeout until the stream is open.
func (c *clientConn) startListening(ctx context.Context) {
	session, first := c.state.listen()
	if !first {
		return
	}
	answered := make(chan struct{})
	c.incoming.Go(func(context.Context) { c.listen(session, sync.OnceFunc(func() { close(answered) })) })
	select {
	case <-answered:
	case <-time.After(listenTimeout):
	case <-ctx.Done():
	}
}

// listen receives unsolicited messages until the connection ends or the server has no such
// stream. answered is called when the server has answered the first request.
func (c *clientConn) listen(session *dialSession, answered func()) {
	var at cursor
	p := &post{conn: c, session: session, from: callReceiver{receiver: receiver{clientConn: c}}}
	for {
		body, err := c.get(c.ctx, session, at.lastID)
		answered()
		switch {
		case err == nil:
			_, err = p.readEvents(body, &at)
			body.Close()
			if isFinal(err) {
				at.lastID = "" // skip the invalid event, which would be sent again
			}
		case isTemporary(err):
			at.failures++
		case at.lastID != "" && c.ctx.Err() == nil:
			at.lastID = "" // the events after it are lost; continue with new ones
			continue
		default:
			return
		}
		if at.wait(c.ctx) != nil {
			return
		}
	}
}

// isTemporary reports whether requesting a stream again can succeed: the server could not be
// reached, or it has not noticed yet that the previous stream is broken (status 409).
func isTemporary(err error) bool {
	status, ok := err.(*httptransport.StatusError)
	return errors.Is(err, transport.ErrNotReached) || ok && status.Status == http.StatusConflict
}

// receive handles one JSON text from the server: a message or, in version 2025-03-26, an array of messages. It returns
// the response to the call if the text contains it. If reusable is true, nothing retains the text. The error says why a
// response is malformed.
func (p *post) receive(text []byte) (resp *jsonrpc.Response, reusable bool, err error) {
	c := p.conn
	c.incoming.Trace(false, text)
	items, err := jsonrpc.SplitBatch(text)
	switch {
	case err != nil:
		c.report(err)
		return nil, false, nil
	case items == nil:
		return p.receiveOne(text)
	}
	for _, item := range items {
		found, _, err := p.receiveOne(item)
		if err != nil {
			return nil, false, err
		}
		if found != nil {
			resp = found
		}
	}
	return resp, false, nil
}

func (p *post) receiveOne(text []byte) (resp *jsonrpc.Response, reusable bool, err error) {
	c := p.conn
	msg, err := jsonrpc.Decode(text)
	if err != nil {
		c.report(err)
		if bad, ok := errors.AsType[*jsonrpc.DecodeError](err); ok && bad.Response && bad.ID.Matches(p.id) {
			return nil, false, err
		}
		return nil, false, nil
	}
	switch msg := msg.(type) {
	case *jsonrpc.Response:
		if msg.ID.Matches(p.id) {
			return msg, false, nil
		}
		c.report(&jsonrpc.UnexpectedResponseError{ID: msg.ID, Late: c.state.made(msg.ID), Err: msg.Error})
	case *jsonrpc.Request:
		if p.modern && !msg.IsNotification() {
			c.report(fmt.Errorf("streamable: the server sent a request with the method %q, which this version does not allow", msg.Method))
			return nil, false, nil
		}
		p.from.recycled = false
		if p.id.IsZero() { // on the stream for unsolicited messages
			c.incoming.ReceiveMessage(c.ctx, c, &p.from.receiver, msg)
		} else {
			c.incoming.ReceiveMessage(p.caller, &p.from, &p.from, msg)
		}
		return nil, p.from.recycled, nil
	}
	return nil, false, nil
}

// report passes an unexpected or malformed message to DialOptions.Conn.Malformed.
func (c *clientConn) report(err error) { c.dialer.opts.Conn.Malformed(err) }
