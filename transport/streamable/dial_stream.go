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
	"github.com/dovetail-go/dovetail/internal/sse"
	"github.com/dovetail-go/dovetail/internal/webclient"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport"
)

// A cursor is how far a stream has been read, and when to come back for the rest.
type cursor struct {
	lastID string
	retry  time.Duration // what the server wants to be waited, 0 if it has not said
	pause  backoff.Backoff
	tries  int // that have failed since there was a stream
}

// wait waits until the stream may be asked for again.
func (at *cursor) wait(ctx context.Context) error {
	pause := at.retry
	if pause == 0 || at.tries > 0 {
		pause = max(pause, at.pause.Next())
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

var errCutOff = errors.New("the stream has ended without the response")

// follow reads the stream that answers a call until the response comes. In a
// session, a stream that breaks is taken up again. MCP 2025-11-25,
// basic/transports, "Resumability and Redelivery".
func (p *post) follow(body io.ReadCloser) (resp *jsonrpc.Response, kept bool, err error) {
	var at cursor
	for {
		resp, err := p.read(body, &at)
		switch {
		case resp != nil:
			p.conn.dispatcher.Go(func(context.Context) { p.drain(body) })
			return resp, true, nil
		case p.ctx.Err() != nil, p.modern, at.lastID == "", isFinal(err):
			body.Close()
			return nil, false, p.broken(err)
		}
		body.Close()
		var broken error
		if body, broken = p.conn.reopen(p.ctx, p.session, &at); broken != nil {
			return nil, false, p.broken(fmt.Errorf("%w; coming back for the rest: %w", err, broken))
		}
	}
}

// drain lets a stream end by itself, so that its connection can be used again.
func (p *post) drain(body io.ReadCloser) {
	defer p.done()
	webclient.Drain(body, p.cancel)
	body.Close()
}

// A finalError is what came of a stream that it makes no sense to read on.
type finalError struct{ error }

func (e finalError) Unwrap() error { return e.error }

func isFinal(err error) bool {
	_, final := err.(finalError)
	return final
}

// read takes the messages of a stream until the response to the call comes. The
// error says why it did not.
func (p *post) read(body io.Reader, at *cursor) (*jsonrpc.Response, error) {
	events := sse.NewReader(body, int(min(p.conn.dialer.opts.MaxMessage, math.MaxInt)))
	opened := time.Now()
	at.tries = 0
	for {
		event, err := events.Next()
		if id := events.LastID(); id != "" {
			at.lastID = id
		}
		if retry := events.Retry(); retry != 0 {
			at.retry = retry
		}
		if err != nil {
			if time.Since(opened) >= settled {
				at.pause.Reset()
			}
			return nil, streamError(err)
		}
		if len(event.Data) == 0 || event.Name != "" && event.Name != "message" {
			continue
		}
		at.pause.Reset()
		resp, borrowed, err := p.take(event.Data)
		switch {
		case err != nil:
			return nil, finalError{err}
		case resp != nil:
			return resp, nil
		case borrowed:
			events.Recycle(event.Data)
		}
	}
}

func streamError(err error) error {
	if err == io.EOF {
		return errCutOff
	}
	if long, ok := errors.AsType[*sse.TooLongError](err); ok {
		return finalError{&SizeError{int64(long.Max)}}
	}
	return webclient.NotReached(err)
}

// reopen waits and asks for what followed in a stream, until it gets that or
// there is no sense in asking.
func (c *clientConn) reopen(ctx context.Context, session *dialSession, at *cursor) (io.ReadCloser, error) {
	for {
		if err := at.wait(ctx); err != nil {
			return nil, err
		}
		body, err := c.get(ctx, session, at.lastID)
		if err == nil {
			return body, nil
		}
		at.tries++
		if !isPassing(err) || at.tries >= maxResumes {
			return nil, err
		}
	}
}

// get opens a stream, or takes one up again. A session that the server does not
// know any more has ended.
func (c *clientConn) get(ctx context.Context, session *dialSession, lastID string) (io.ReadCloser, error) {
	header := http.Header{"Accept": typeEvents}
	if lastID != "" {
		header[headerLastEventID] = []string{lastID}
	}
	session.addTo(header)
	res, err := c.dialer.client.Do(ctx, http.MethodGet, c.dialer.url, header)
	if err != nil {
		return nil, webclient.NotReached(err)
	}
	if res.StatusCode == http.StatusOK && mediaType(res) == typeEvents[0] {
		return res.Body, nil
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusNotFound && session.id != nil {
		c.lose()
		return nil, jsonrpc.ErrClosed
	}
	return nil, webclient.ReadStatusError(res)
}

// startListening opens the stream of a session for what the server sends unasked,
// and waits for that, but not for long.
func (c *clientConn) startListening(ctx context.Context) {
	session, first := c.state.listen()
	if !first {
		return
	}
	answered := make(chan struct{})
	c.dispatcher.Go(func(context.Context) { c.listen(session, sync.OnceFunc(func() { close(answered) })) })
	timer := time.NewTimer(listenGrace)
	defer timer.Stop()
	select {
	case <-answered:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// listen takes what the server sends unasked, as long as the connection lasts. A
// server need not have a stream for that. answered is called when it is known.
func (c *clientConn) listen(session *dialSession, answered func()) {
	var at cursor
	unasked := &post{conn: c, session: session}
	for {
		body, err := c.get(c.ctx, session, at.lastID)
		answered()
		switch {
		case err == nil:
			_, err = unasked.read(body, &at) // there is no response, so it ends or breaks
			body.Close()
			if isFinal(err) {
				at.lastID = "" // it would come again
			}
		case isPassing(err):
			at.tries++
		case at.lastID != "" && c.ctx.Err() == nil:
			at.lastID = "" // what followed is not kept: go on with what comes now
			continue
		default:
			return
		}
		if at.wait(c.ctx) != nil {
			return
		}
	}
}

// isPassing says whether it makes sense to ask for a stream again: the server was
// not reached, or has not noticed yet that the stream before has broken.
func isPassing(err error) bool {
	status, ok := err.(*StatusError)
	return errors.Is(err, transport.ErrNotReached) || ok && status.Status == http.StatusConflict
}
