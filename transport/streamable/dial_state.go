package streamable

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"sync"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/streamable/internal/wire"
)

// dialState is the mutable state of a client's connection. Its methods keep these
// invariants:
//
//   - pending contains the requests that have begun and not finished;
//   - after sessionLost or end, no request begins;
//   - after end, or after sessionLost when the last request has finished, pending is empty,
//     done is closed and the context is canceled;
//   - the stream for unsolicited messages is opened at most once.
type dialState struct {
	cancel context.CancelCauseFunc // of clientConn.ctx
	done   chan struct{}

	mu        sync.Mutex
	ended     error // not nil if no request can begin
	closed    bool  // whether done is closed
	lastID    int64
	pending   map[int64]context.CancelFunc
	session   *dialSession
	handshake []byte // the params of "initialize"; nil until it was answered
	check     *sessionCheck
	listening bool
}

// A dialSession contains the header values of a session's requests. It is immutable.
type dialSession struct {
	id      []string // one value; nil if the server has not assigned one
	version []string // one value; nil until the version is negotiated
}

// addTo sets the session's values in a header.
func (s *dialSession) addTo(header http.Header) {
	if s.id != nil {
		header[wire.HeaderSession] = s.id
	}
	if s.version != nil {
		header[wire.HeaderVersion] = s.version
	}
}

var errTooManyPending = errors.New("too many requests are pending")

func newDialState(cancel context.CancelCauseFunc) *dialState {
	return &dialState{
		cancel: cancel, done: make(chan struct{}),
		pending: make(map[int64]context.CancelFunc), session: new(dialSession),
	}
}

// begin adds a request and returns its number and session. It fails if limit requests are
// pending.
func (s *dialState) begin(cancel context.CancelFunc, limit int) (number int64, session *dialSession, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended != nil {
		return 0, nil, s.ended
	}
	if len(s.pending) >= limit {
		return 0, nil, errTooManyPending
	}
	s.lastID++
	s.pending[s.lastID] = cancel
	return s.lastID, s.session, nil
}

// made reports whether a request had the id of a response, as [jsonrpc.ID.Matches] compares them.
func (s *dialState) made(id jsonrpc.ID) bool {
	text := []byte(id.String())
	if jsonscan.KindOf(text) == jsonscan.String {
		text = jsonscan.AppendUnquoted(nil, text)
	}
	number, err := strconv.ParseFloat(string(text), 64)
	s.mu.Lock()
	defer s.mu.Unlock()
	return err == nil && 0 < number && number <= float64(s.lastID) && id.Matches(jsonrpc.IntID(int64(number)))
}

// finish removes a request.
func (s *dialState) finish(number int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pending, number)
	if s.ended != nil && len(s.pending) == 0 {
		s.endAll()
	}
}

// sessionLost refuses further requests. Pending requests continue: the error that they get from the server is better
// than the error of a cancellation. sessionLost reports whether there are pending requests, and false on later calls.
func (s *dialState) sessionLost() (pending bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended != nil {
		return false
	}
	s.ended = transport.ErrSessionLost
	if len(s.pending) == 0 {
		s.endAll()
	}
	return !s.closed
}

// end cancels all pending requests. It returns the session, or nil if the connection had
// ended before.
func (s *dialState) end() *dialSession {
	s.mu.Lock()
	defer s.mu.Unlock()
	session := s.session
	if s.ended != nil {
		session = nil
	} else {
		s.ended = jsonrpc.ErrClosed
	}
	s.endAll()
	return session
}

// endAll cancels what is pending and closes done. The caller holds the lock.
func (s *dialState) endAll() {
	if s.closed {
		return
	}
	s.closed = true
	for number, cancel := range s.pending {
		delete(s.pending, number)
		cancel()
	}
	s.cancel(jsonrpc.ErrClosed)
	close(s.done)
}

func (s *dialState) endReason() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended
}

// setSession sets the session of further requests.
func (s *dialState) setSession(session *dialSession) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.session = session
}

// setHandshake stores the params of "initialize".
func (s *dialState) setHandshake(params []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handshake = params
}

// beginCheck returns the running check of the session. first is true if there was none: the caller runs the check.
func (s *dialState) beginCheck() (check *sessionCheck, handshake []byte, first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.check == nil {
		s.check, first = &sessionCheck{done: make(chan struct{})}, true
	}
	return s.check, s.handshake, first
}

// endCheck ends a check with its result.
func (s *dialState) endCheck(check *sessionCheck, sign lossSign) {
	s.mu.Lock()
	defer s.mu.Unlock()
	check.sign = sign
	close(check.done)
	s.check = nil
}

// listen returns the session. first is true on the first call, unless the connection has
// ended: the caller opens the stream for unsolicited messages.
func (s *dialState) listen() (session *dialSession, first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first = !s.listening && s.ended == nil
	s.listening = true
	return s.session, first
}

// ifOpen calls fn under the lock, or returns an error if the connection has ended.
func (s *dialState) ifOpen(fn func()) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended == nil {
		fn()
	}
	return s.ended
}
