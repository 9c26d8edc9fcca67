package sse

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dovetail-go/dovetail/internal/bufpool"
)

const (
	// writePiece is how many bytes are written under one deadline.
	writePiece = 64 << 10
	// maxQueued is how many bytes may wait to be written before a sender waits.
	maxQueued = 64 << 10
)

var errClosed = errors.New("sse: the stream is closed")

// Stream is an HTTP response that sends events. Its methods may be called concurrently
// until the request's handler returns.
//
// A goroutine writes the events. It runs only while there is something to write, and events
// that come during a write share the next one. A failed write is the error of the next
// Send. All later calls fail too, since the client may have received a part of an event,
// and the handler should return.
type Stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration
	aborted atomic.Bool

	mu      sync.Mutex
	queued  *bufpool.Buffer // what is written next; nil if empty
	room    chan struct{}   // closed when queued has been taken; nil if no sender waits
	writing bool            // the writer runs
	written sync.Cond       // signals that the writer has ended
	err     error           // of writing
	closed  bool            // Close was called

	ending sync.Mutex // guards over, also while a write holds mu
	over   bool       // Close has returned
}

// buffers holds the buffers of streams that have nothing to write.
var buffers bufpool.Pool

// Start answers a request with status 200 and an event stream, and sends the header.
// writeTimeout bounds each write of at most 64 KiB, if the server supports deadlines, as
// net/http does. The WriteTimeout of the server no longer applies. The body of the request must have been
// read, or abandoned: net/http may read the rest of it before it sends the header.
func Start(w http.ResponseWriter, writeTimeout time.Duration) *Stream {
	header := w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("Cache-Control", "no-store, no-transform")
	header.Set("X-Accel-Buffering", "no") // nginx would buffer events
	s := &Stream{w: w, control: http.NewResponseController(w), timeout: writeTimeout}
	s.written.L = &s.mu
	s.setWriteDeadline()
	w.WriteHeader(http.StatusOK)
	s.err = s.flush()
	return s
}

// Send queues an event. While more than 64 KiB are queued, it waits until ctx ends; a write
// in progress, which has its own timeout, may delay that. It fails if the client has
// disconnected or has not accepted earlier events in time.
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

// SendAll sends events encoded by [Append] and [AppendComment], and returns when they have
// been written. It does not retain the slice.
func (s *Stream) SendAll(events []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.awaitWriter()
	if err := s.sendError(); err != nil {
		return err
	}
	s.err = s.writeNow(events)
	return s.err
}

// SendComment sends a comment, unless events are being sent, so that intermediaries keep a
// silent stream open and the server notices a disconnected client.
func (s *Stream) SendComment() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.sendError(); err != nil {
		return err
	}
	if !s.writing {
		events := s.queue()
		events.Bytes = AppendComment(events.Bytes, "")
		s.startWriter()
	}
	return nil
}

// Close sends what is queued and waits for the writer. It must be called before the handler
// returns. It sets deadlines for what net/http still writes, and reads of an unread body;
// net/http removes them with the response. Later calls fail.
func (s *Stream) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.signalRoom()
	s.awaitWriter()
	if s.queued != nil {
		if s.err == nil {
			s.err = s.write(s.queued.Bytes) // net/http flushes it with the end of the response
		}
		s.queued.Free()
		s.queued = nil
	}
	s.setWriteDeadline()
	s.ending.Lock()
	defer s.ending.Unlock()
	s.over = true
}

// Abort ends the stream. A write in progress fails; Abort does not wait for it. It does
// nothing after Close.
func (s *Stream) Abort() {
	s.ending.Lock()
	defer s.ending.Unlock()
	if !s.over { // afterwards the response belongs to net/http
		s.aborted.Store(true)
		s.setDeadline(past)
	}
}

// sendError returns why the stream accepts no events.
func (s *Stream) sendError() error {
	if s.err == nil && s.closed {
		return errClosed
	}
	return s.err
}

// queue returns the buffer to which events are appended.
func (s *Stream) queue() *bufpool.Buffer {
	if s.queued == nil {
		s.queued = buffers.Get()
	}
	return s.queued
}

// awaitRoom waits until an event can be queued.
func (s *Stream) awaitRoom(ctx context.Context) error {
	for s.sendError() == nil && s.queued != nil && len(s.queued.Bytes) >= maxQueued {
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
	return s.sendError()
}

func (s *Stream) signalRoom() {
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

// awaitWriter waits for the end of the writer, whose writes have deadlines.
func (s *Stream) awaitWriter() {
	for s.writing {
		s.written.Wait()
	}
}

// writeQueued is the writer. Close sends the remaining messages when the stream is closed.
func (s *Stream) writeQueued() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.queued != nil && s.sendError() == nil {
		events := s.queued
		s.queued = nil
		s.signalRoom()
		s.mu.Unlock()
		err := s.writeNow(events.Bytes)
		events.Free()
		s.mu.Lock()
		s.err = err
	}
	s.signalRoom() // waiting senders get the error
	s.writing = false
	s.written.Broadcast()
}

// writeNow writes and flushes. A panic in a wrapper of the response ends the stream, not
// the program.
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

// write writes in pieces, so that the timeout does not depend on the amount.
func (s *Stream) write(events []byte) error {
	for len(events) > 0 {
		piece := events[:min(len(events), writePiece)]
		events = events[len(piece):]
		s.setWriteDeadline()
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
	s.clearWriteDeadline()
	return nil
}

// past is a deadline that has expired.
var past = time.Unix(1, 0)

// setWriteDeadline is called before each write, and clearWriteDeadline after it: over
// HTTP/2, a deadline that expires between two writes would end the stream.
func (s *Stream) setWriteDeadline()   { s.setDeadline(time.Now().Add(s.timeout)) }
func (s *Stream) clearWriteDeadline() { s.setDeadline(time.Time{}) }

// setDeadline does nothing if the server has no deadlines. A concurrent Abort wins.
func (s *Stream) setDeadline(deadline time.Time) {
	_ = s.control.SetWriteDeadline(deadline)
	if s.aborted.Load() && deadline != past {
		_ = s.control.SetWriteDeadline(past)
	}
}
