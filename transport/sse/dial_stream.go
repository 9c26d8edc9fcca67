package sse

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/dovetail-go/dovetail/internal/sse"
	"github.com/dovetail-go/dovetail/internal/webclient"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport"
)

// A clientStream is the client's end of a session: events are read, and what is
// written is posted.
type clientStream struct {
	dialer   *dialer
	body     io.Closer // of the stream; nil when none came
	events   *sse.Reader
	endpoint *url.URL

	life context.Context // of the session, and all that is posted to it
	end  context.CancelCauseFunc
}

var (
	errStreamEnded = errors.New("the server has ended the stream")
	errSessionGone = errors.New("the server does not know the session")
)

// Read returns the next message. Events of other names, and without data, are none.
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

// Write posts a message, and returns when the server has accepted it. Who cancels
// what is under way does not make it undone: then, and when the session ends, a
// message that may have got through is taken for sent.
func (s *clientStream) Write(ctx context.Context, msg []byte) error {
	if s.life.Err() != nil {
		return jsonrpc.ErrClosed
	}
	delivery, err := s.post(ctx, bytes.Clone(msg)) // net/http may go on reading it
	switch ended := s.life.Err() != nil; {
	case err == nil, delivery == jsonrpc.MaybeExecuted && (ended || ctx.Err() != nil):
		return nil
	case ended, mayBeEnd(delivery, err) && s.endsSoon(ctx):
		return jsonrpc.ErrClosed
	case delivery == jsonrpc.NotSent && ctx.Err() != nil:
		return context.Cause(ctx)
	}
	s.dialer.opts.Logger.Debug("a message was not accepted", "error", err) // nobody waits for an answer
	return &jsonrpc.CallError{Delivery: delivery, Err: err}
}

// mayBeEnd tells a failure by which a session that has ended can be noticed. Some
// servers have 400 for one that they do not know.
func mayBeEnd(delivery jsonrpc.Delivery, err error) bool {
	if refused, ok := err.(*StatusError); ok {
		return refused.Status == http.StatusBadRequest
	}
	return delivery == jsonrpc.NotSent && errors.Is(err, transport.ErrNotReached)
}

// endsSoon waits a moment for the end of the session. When a server restarts, the
// stream breaks, and nobody knows which end of it is noticed first.
func (s *clientStream) endsSoon(ctx context.Context) bool {
	timer := time.NewTimer(endGrace)
	defer timer.Stop()
	select {
	case <-s.life.Done():
		return true
	case <-ctx.Done():
	case <-timer.C:
	}
	return false
}

// Close ends the stream and everything that is being posted.
func (s *clientStream) Close() error {
	s.end(jsonrpc.ErrClosed)
	if s.body != nil {
		s.body.Close()
	}
	return nil
}

// endReason says why the session has ended, nil if it has not or was closed here.
func (s *clientStream) endReason() error {
	if reason := context.Cause(s.life); reason != jsonrpc.ErrClosed {
		return reason
	}
	return nil
}

// post posts a message. With an error comes how far it got.
func (s *clientStream) post(caller context.Context, msg []byte) (jsonrpc.Delivery, error) {
	ctx, cancel := s.postContext(caller)
	defer cancel()
	stopEnd := context.AfterFunc(s.life, cancel)
	defer stopEnd()
	stopCaller := context.AfterFunc(caller, func() { time.AfterFunc(cancelGrace, cancel) })
	defer stopCaller()

	var progress webclient.Progress
	header := http.Header{"Content-Type": {"application/json"}}
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
		webclient.Drain(resp.Body, cancel)
		return 0, nil
	case http.StatusNotFound, http.StatusGone:
		s.end(errSessionGone)
		return jsonrpc.NotSent, jsonrpc.ErrClosed
	}
	refused := webclient.ReadStatusError(resp)
	return webclient.DeliveryOf(refused), refused
}

// postContext bounds posting a message as a call is bounded: by the caller's
// deadline, and by the default when there is none.
func (s *clientStream) postContext(caller context.Context) (context.Context, context.CancelFunc) {
	ctx := context.WithoutCancel(caller)
	if _, bounded := caller.Deadline(); bounded || s.dialer.opts.Conn.CallTimeout < 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, s.dialer.opts.Conn.CallTimeout)
}
