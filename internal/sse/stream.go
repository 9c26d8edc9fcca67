package sse

import (
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

var errClosed = errors.New("sse: the stream is closed")

// A Stream is a response that sends events as they happen. Its methods may be
// called from any goroutine, as long as the request's handler runs. When one has
// failed, the client may have got half an event: all later calls fail as well,
// and the handler should return.
type Stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration
	aborted atomic.Bool

	mu  sync.Mutex
	buf []byte
	err error

	ending sync.Mutex // guards what may happen while mu is held by a write
	closed bool
}

// Start answers a request with status 200 and an event stream, and sends the
// headers at once. No write of at most 64 KiB may take longer than writeTimeout, if
// the server behind w has deadlines, as that of net/http has; its own ReadTimeout and
// WriteTimeout do not apply any more.
func Start(w http.ResponseWriter, writeTimeout time.Duration) *Stream {
	header := w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("Cache-Control", "no-store, no-transform")
	header.Set("X-Accel-Buffering", "no") // nginx would hold events back until it has a buffer full
	s := &Stream{w: w, control: http.NewResponseController(w), timeout: writeTimeout}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limitReading() // net/http may read a body that the handler has not, before it sends the header
	s.limit()
	w.WriteHeader(http.StatusOK)
	s.fail(s.control.Flush())
	s.unlimit()
	_ = s.control.SetReadDeadline(time.Time{}) // a deadline that passes would take the client for gone
	return s
}

// Send sends one event at once. It fails when the client is gone or has not taken
// it in time.
func (s *Stream) Send(e Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	buf, err := Append(s.buf[:0], e)
	if err != nil {
		return err
	}
	s.keep(buf)
	return s.write(buf)
}

// SendAll sends what [Append] and [AppendComment] have made, at once. The slice is
// not kept.
func (s *Stream) SendAll(events []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.write(events)
}

// Beat sends a comment, so that nobody takes a silent stream for dead and the
// server notices a dead client.
func (s *Stream) Beat() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keep(AppendComment(s.buf[:0], ""))
	return s.write(s.buf)
}

// Close must come before the handler returns. It bounds what the server has still to
// write then, and to read of a body that nobody has read; net/http takes these
// deadlines away with the response. It sends nothing; later calls fail.
func (s *Stream) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limitReading()
	s.limit()
	s.fail(errClosed)
	s.ending.Lock()
	defer s.ending.Unlock()
	s.closed = true
}

// Abort ends the stream at once, in the middle of a write if need be, which then
// fails. It does not wait for that. After Close it does nothing.
func (s *Stream) Abort() {
	s.ending.Lock()
	defer s.ending.Unlock()
	if !s.closed { // afterwards the response is net/http's again
		s.aborted.Store(true)
		s.setDeadline(past)
	}
}

// keep keeps a buffer for the next event.
func (s *Stream) keep(buf []byte) {
	if cap(buf) <= maxKept {
		s.buf = buf
	} else {
		s.buf = nil
	}
}

// write writes in pieces: whoever takes one in time is not too slow, however much
// there is.
func (s *Stream) write(buf []byte) error {
	for len(buf) > 0 && s.err == nil {
		piece := buf[:min(len(buf), writePiece)]
		buf = buf[len(piece):]
		s.limit()
		_, err := s.w.Write(piece)
		s.fail(err)
	}
	if s.err == nil {
		s.fail(s.control.Flush())
		s.unlimit()
	}
	return s.err
}

// fail keeps the first reason why the stream is of no use any more.
func (s *Stream) fail(err error) {
	if s.err == nil {
		s.err = err
	}
}

// past is a time by which nothing can be written.
var past = time.Unix(1, 0)

// limit and unlimit surround a write: over HTTP/2, a deadline that passes between
// two writes would end the stream.
func (s *Stream) limit()        { s.setDeadline(time.Now().Add(s.timeout)) }
func (s *Stream) unlimit()      { s.setDeadline(time.Time{}) }
func (s *Stream) limitReading() { _ = s.control.SetReadDeadline(time.Now().Add(s.timeout)) }

// setDeadline does nothing where there are no deadlines. Of Abort, which may come at
// any time, it sees to it that its deadline stays.
func (s *Stream) setDeadline(deadline time.Time) {
	_ = s.control.SetWriteDeadline(deadline)
	if s.aborted.Load() && deadline != past {
		_ = s.control.SetWriteDeadline(past)
	}
}
