package sse

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dovetail-go/dovetail/internal/buffer"
)

var errClosed = errors.New("sse: the stream is closed")

// A Stream is a response that sends events as they happen. Its methods may be
// called from any goroutine, as long as the request's handler runs.
//
// What is sent is written by a goroutine that runs only as long as there is something to
// write, so that events that come while others are being written share the next write:
// a storm of them takes few system calls. Of a write that fails, the next Send tells.
// The client may have got half an event then: all later calls fail as well, and the
// handler should return.
type Stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration
	aborted atomic.Bool

	mu      sync.Mutex
	queued  *buffer.Buffer // what the writer takes next; nil when it has all
	room    chan struct{}  // closed when the writer has taken it; nil when nobody waits for that
	writing bool           // there is a writer
	written sync.Cond      // signals that there is none any more
	err     error          // why writing failed
	closed  bool           // nothing more is taken

	ending sync.Mutex // guards what may happen while mu is held by a write
	over   bool       // the response is net/http's again
}

// buffers are lent to streams while they have something to write.
var buffers buffer.Pool

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
	s.written.L = &s.mu
	s.limitReading() // net/http may read a body that the handler has not, before it sends the header
	s.limit()
	w.WriteHeader(http.StatusOK)
	s.err = s.flush()
	_ = s.control.SetReadDeadline(time.Time{}) // a deadline that passes would take the client for gone
	return s
}

// Send queues an event to be sent at once. It waits while more than 64 KiB are queued, as
// long as ctx allows: that ends with the write under way, which has its own bound. It
// fails when the client is gone or has not taken in time what was sent before.
func (s *Stream) Send(ctx context.Context, e Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.awaitRoom(ctx); err != nil {
		return err
	}
	events := s.queue()
	var err error
	if events.Bytes, err = Append(events.Bytes, e); err != nil {
		return err
	}
	s.startWriter()
	return nil
}

// SendAll sends what [Append] and [AppendComment] have made, and returns when it has been
// written. The slice is not kept.
func (s *Stream) SendAll(events []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.awaitWriter()
	if err := s.unusable(); err != nil {
		return err
	}
	s.err = s.writeNow(events)
	return s.err
}

// Beat sends a comment, unless something else is being sent, so that nobody takes a
// silent stream for dead and the server notices a dead client.
func (s *Stream) Beat() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.unusable(); err != nil {
		return err
	}
	if !s.writing {
		events := s.queue()
		events.Bytes = AppendComment(events.Bytes, "")
		s.startWriter()
	}
	return nil
}

// Close must come before the handler returns: it sends what is queued, and the writer has
// ended then. It bounds what the server has still to write, and to read of a body that
// nobody has read; net/http takes these deadlines away with the response. Later calls
// fail.
func (s *Stream) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.makeRoom()
	s.awaitWriter()
	if s.queued != nil {
		if s.err == nil {
			s.err = s.write(s.queued.Bytes) // net/http flushes it with the end of the response
		}
		s.queued.Free()
		s.queued = nil
	}
	s.limitReading()
	s.limit()
	s.ending.Lock()
	defer s.ending.Unlock()
	s.over = true
}

// Abort ends the stream at once, in the middle of a write if need be, which then
// fails. It does not wait for that. After Close it does nothing.
func (s *Stream) Abort() {
	s.ending.Lock()
	defer s.ending.Unlock()
	if !s.over { // afterwards the response is net/http's again
		s.aborted.Store(true)
		s.setDeadline(past)
	}
}

// unusable says why the stream takes nothing more.
func (s *Stream) unusable() error {
	if s.err == nil && s.closed {
		return errClosed
	}
	return s.err
}

// queue returns what the writer takes next, to be appended to.
func (s *Stream) queue() *buffer.Buffer {
	if s.queued == nil {
		s.queued = buffers.Get()
	}
	return s.queued
}

// awaitRoom waits until an event can be queued.
func (s *Stream) awaitRoom(ctx context.Context) error {
	for s.unusable() == nil && s.queued != nil && len(s.queued.Bytes) >= maxQueued {
		if s.room == nil {
			s.room = make(chan struct{})
		}
		room := s.room
		s.mu.Unlock()
		select {
		case <-room:
		case <-ctx.Done():
		}
		s.mu.Lock()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	return s.unusable()
}

func (s *Stream) makeRoom() {
	if s.room != nil {
		close(s.room)
		s.room = nil
	}
}

func (s *Stream) startWriter() {
	if !s.writing {
		s.writing = true
		go s.writeQueued()
	}
}

// awaitWriter waits for the end of the writer, each of whose writes has its bound.
func (s *Stream) awaitWriter() {
	for s.writing {
		s.written.Wait()
	}
}

// writeQueued is the writer. What is left when the stream is closed is for Close.
func (s *Stream) writeQueued() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.queued != nil && s.unusable() == nil {
		events := s.queued
		s.queued = nil
		s.makeRoom()
		s.mu.Unlock()
		err := s.writeNow(events.Bytes)
		events.Free()
		s.mu.Lock()
		s.err = err
	}
	s.makeRoom() // whoever waits for it learns why there is none
	s.writing = false
	s.written.Broadcast()
}

// writeNow writes and flushes. A writer around that of net/http that panics ends the
// stream, not the program.
func (s *Stream) writeNow(events []byte) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("sse: panic while writing: %v", p)
		}
	}()
	if err := s.write(events); err != nil {
		return err
	}
	return s.flush()
}

// write writes in pieces: whoever takes one in time is not too slow, however much
// there is.
func (s *Stream) write(events []byte) error {
	for len(events) > 0 {
		piece := events[:min(len(events), writePiece)]
		events = events[len(piece):]
		s.limit()
		if _, err := s.w.Write(piece); err != nil {
			return err
		}
	}
	return nil
}

// flush sends what has been written.
func (s *Stream) flush() error {
	if err := s.control.Flush(); err != nil {
		return err
	}
	s.unlimit()
	return nil
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
