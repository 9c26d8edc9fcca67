package servertest

import (
	"bytes"
	"context"
	"io"
	"mime"
	"net/http"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/internal/sse"
	"github.com/dovetail-go/dovetail/jsonrpc"
)

// A faultyTransport carries the messages of Streamable HTTP with faults: a POST carries one message of the
// client. The response, or a stream of events, carries the messages of the server.
type faultyTransport struct {
	*http.Transport
	faults *faults

	lifetime context.Context // of the second requests of duplicates
	end      context.CancelFunc
	running  sync.WaitGroup
}

func newFaultyTransport(network *http.Transport, faults *faults) *faultyTransport {
	t := &faultyTransport{Transport: network, faults: faults}
	t.lifetime, t.end = context.WithCancel(context.Background())
	return t
}

// close ends the requests of duplicates, and waits for them.
func (t *faultyTransport) close() {
	t.end()
	t.running.Wait()
}

// RoundTrip sends a request. A lost message counts as sent: a call has no response then.
func (t *faultyTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodPost {
		body, err := io.ReadAll(r.Body)
		r.Body.Close()
		if err != nil {
			return nil, err
		}
		switch t.faults.of(false, body) {
		case Drop:
			return t.lose(r, body)
		case Duplicate:
			t.duplicate(r, body)
		case Cut:
			return nil, io.ErrUnexpectedEOF
		case Deliver:
		}
		r = r.Clone(r.Context())
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	res, err := t.Transport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	switch kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")); kind {
	case "text/event-stream":
		res.Body = t.newEvents(r.Context(), res.Body, sse.NewReader(res.Body, maxTranscriptBytes))
	case "application/json":
		return t.receive(r, res)
	}
	return res, nil
}

// lose returns what the client gets for a message that is lost: nothing for a call.
func (t *faultyTransport) lose(r *http.Request, body []byte) (*http.Response, error) {
	message, err := jsonrpc.Decode(body)
	if err != nil {
		return nil, err
	}
	if req, ok := message.(*jsonrpc.Request); ok && !req.IsNotification() {
		<-r.Context().Done()
		return nil, context.Cause(r.Context())
	}
	return &http.Response{
		StatusCode: http.StatusAccepted, Header: http.Header{}, Body: http.NoBody, Request: r, Proto: r.Proto, ProtoMajor: 1, ProtoMinor: 1,
	}, nil
}

// duplicate sends a message once more. The response is discarded.
func (t *faultyTransport) duplicate(r *http.Request, body []byte) {
	again := r.Clone(t.lifetime)
	again.Body = io.NopCloser(bytes.NewReader(body))
	t.running.Go(func() {
		res, err := t.Transport.RoundTrip(again)
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, res.Body)
		res.Body.Close()
	})
}

// receive returns a response whose body is one message.
func (t *faultyTransport) receive(r *http.Request, res *http.Response) (*http.Response, error) {
	body, err := io.ReadAll(res.Body)
	res.Body.Close()
	if err != nil {
		return nil, err
	}
	res.Body = io.NopCloser(bytes.NewReader(body))
	switch t.faults.of(true, body) {
	case Drop:
		<-r.Context().Done()
		return nil, context.Cause(r.Context())
	case Duplicate: // only a stream can have a message twice
		events, err := sse.Append(nil, sse.Event{Data: body})
		if err != nil {
			return nil, err
		}
		res.Header.Set("Content-Type", "text/event-stream")
		res.Header.Del("Content-Length")
		res.ContentLength = -1
		res.Body = io.NopCloser(bytes.NewReader(append(events, events...)))
	case Cut:
		return nil, io.ErrUnexpectedEOF
	case Deliver:
	}
	return res, nil
}

// faultyEvents is a stream of events with faults.
type faultyEvents struct {
	io.Closer
	faults *faults
	events *sse.Reader
	ended  context.Context
	end    context.CancelFunc
	lost   bool          // a response was lost: the client must not learn that by the end of the stream
	rest   []byte        // of the current event
	retry  time.Duration // the last retry time that the client has
}

func (t *faultyTransport) newEvents(ctx context.Context, body io.Closer, events *sse.Reader) *faultyEvents {
	s := &faultyEvents{Closer: body, faults: t.faults, events: events}
	s.ended, s.end = context.WithCancel(ctx)
	return s
}

// Close ends the stream.
func (s *faultyEvents) Close() error {
	s.end()
	return s.Closer.Close()
}

// Read returns the next bytes of the stream.
func (s *faultyEvents) Read(p []byte) (int, error) {
	for len(s.rest) == 0 {
		if err := s.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

// next reads an event.
func (s *faultyEvents) next() error {
	event, err := s.events.Next()
	if err == io.EOF && s.changeRetry() {
		s.rest, err = sse.Append(nil, sse.Event{Retry: s.retry}) // the reader then returns EOF again
		return err
	}
	if err == io.EOF && s.lost {
		<-s.ended.Done()
	}
	if err != nil {
		return err
	}
	event.Retry = 0
	if s.changeRetry() {
		event.Retry = s.retry
	}
	s.rest, err = sse.Append(nil, event)
	if err != nil {
		return err
	}
	switch s.faults.of(true, event.Data) {
	case Drop:
		s.rest, s.lost = nil, s.lost || isResponse(event.Data)
	case Duplicate:
		s.rest = append(s.rest, s.rest...)
	case Cut:
		s.rest = nil
		return io.ErrUnexpectedEOF
	case Deliver:
	}
	return nil
}

// changeRetry reports whether the server has sent another retry time, also in an event without data,
// which the reader does not return.
func (s *faultyEvents) changeRetry() bool {
	changed := s.retry != s.events.Retry()
	s.retry = s.events.Retry()
	return changed
}

func isResponse(frame []byte) bool {
	message, err := jsonrpc.Decode(frame)
	_, ok := message.(*jsonrpc.Response)
	return err == nil && ok
}
