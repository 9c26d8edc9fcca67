package sse

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/dovetail-go/dovetail/internal/httpclient"
	"github.com/dovetail-go/dovetail/internal/sse"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/httptransport"
)

const (
	// cancelDelay is how long posting a message continues after its call was canceled, so
	// that the server gets the message before its cancellation.
	cancelDelay = 250 * time.Millisecond
	// endTimeout is how long a failed message waits to learn whether the session has ended.
	endTimeout = 100 * time.Millisecond
)

// A clientStream is the client's end of a session. It implements [jsonrpc.Stream]: Read
// returns events and Write posts messages.
type clientStream struct {
	dialer   *dialer
	body     io.Closer // nil if the request failed
	events   *sse.Reader
	endpoint *url.URL
	session  string // in the header of each message, "" for none

	ctx context.Context // ends with the session
	end context.CancelCauseFunc
}

var errStreamEnded = errors.New("the server has ended the stream")

// Read returns the next message. It skips events with other names and events without data.
func (s *clientStream) Read() ([]byte, error) {
	for {
		e, err := s.events.Next()
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = errStreamEnded
			}
			s.end(err)
			return nil, jsonrpc.ErrClosed // endReason says more
		}
		if (e.Name == "" || e.Name == eventMessage) && len(e.Data) > 0 {
			return e.Data, nil
		}
	}
}

// Write posts a message and returns when the server has accepted it. If ctx or the session
// ends first, a message that the server may have received counts as sent.
func (s *clientStream) Write(ctx context.Context, msg []byte) error {
	if s.ctx.Err() != nil {
		return jsonrpc.ErrClosed
	}
	delivery, err := s.post(ctx, bytes.Clone(msg)) // net/http may read it after post returns
	switch ended := s.ctx.Err() != nil; {
	case err == nil, delivery == jsonrpc.MaybeExecuted && (ended || ctx.Err() != nil):
		return nil
	case ended, mayHaveEnded(delivery, err) && s.endsSoon(ctx):
		return jsonrpc.ErrClosed
	case delivery == jsonrpc.NotSent && ctx.Err() != nil:
		return context.Cause(ctx)
	}
	s.dialer.opts.Logger.Debug("message not accepted", "error", err)
	return &jsonrpc.CallError{Delivery: delivery, Err: err}
}

// mayHaveEnded reports whether a failure can mean that the session has ended. Some servers
// answer 400 for an unknown session.
func mayHaveEnded(delivery jsonrpc.Delivery, err error) bool {
	if refused, ok := err.(*httptransport.StatusError); ok {
		return refused.Status == http.StatusBadRequest
	}
	return delivery == jsonrpc.NotSent && errors.Is(err, transport.ErrNotReached)
}

// endsSoon waits at most [endTimeout] for the end of the session. When a server restarts,
// posting a message may fail before the stream does.
func (s *clientStream) endsSoon(ctx context.Context) bool {
	select {
	case <-s.ctx.Done():
		return true
	case <-ctx.Done():
	case <-time.After(endTimeout):
	}
	return false
}

// Close ends the stream and all posts.
func (s *clientStream) Close() error {
	s.end(jsonrpc.ErrClosed)
	if s.body != nil {
		s.body.Close()
	}
	return nil
}

// endReason returns why the session has ended. It is nil if the session has not ended or was
// closed by this side.
func (s *clientStream) endReason() error {
	switch reason := context.Cause(s.ctx); {
	case reason == nil, reason == jsonrpc.ErrClosed:
		return nil
	case errors.Is(reason, jsonrpc.ErrClosed):
		return reason
	default:
		return &endedError{reason}
	}
}

// post posts a message. With an error it returns how far the message got.
func (s *clientStream) post(caller context.Context, msg []byte) (jsonrpc.Delivery, error) {
	ctx, cancel := s.postContext(caller)
	defer cancel()
	stopEnd := context.AfterFunc(s.ctx, cancel)
	defer stopEnd()
	stopCaller := context.AfterFunc(caller, func() { time.AfterFunc(cancelDelay, cancel) })
	defer stopCaller()

	var progress httpclient.Progress
	header := http.Header{"Content-Type": {"application/json"}}
	if s.session != "" {
		header[headerSession] = []string{s.session}
	}
	resp, err := s.dialer.client.Post(ctx, s.endpoint, header, msg, &progress)
	if err != nil {
		if progress.Delivery() != jsonrpc.Rejected && errors.Is(ctx.Err(), context.DeadlineExceeded) {
			err = context.DeadlineExceeded
		}
		return progress.Delivery(), err
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK, http.StatusAccepted, http.StatusNoContent:
		httpclient.Drain(resp.Body, cancel)
		return 0, nil
	}
	refused := httpclient.ReadStatusError(resp)
	if isLost(refused) {
		s.end(transport.ErrSessionLost)
		return jsonrpc.NotSent, transport.ErrSessionLost
	}
	return httpclient.DeliveryOf(refused), refused
}

// isLost reports whether the refusal of a message means that the server does not know the session.
func isLost(refused *httptransport.StatusError) bool {
	switch refused.Status {
	case http.StatusNotFound, http.StatusGone:
		return true
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		return httpclient.NamesSession([]byte(refused.Body), "")
	}
	return false
}

// postContext returns the context for posting a message. It ends at the deadline of the
// caller, or after the default call timeout if the caller has none.
func (s *clientStream) postContext(caller context.Context) (context.Context, context.CancelFunc) {
	ctx := context.WithoutCancel(caller)
	if _, bounded := caller.Deadline(); bounded || s.dialer.opts.Conn.CallTimeout < 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, s.dialer.opts.Conn.CallTimeout)
}
