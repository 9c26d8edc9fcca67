package streamable

import (
	"context"
	"errors"
	"net/http"
	"sync"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport"
)

// dialState is all that changes in the life of a client's connection. These hold
// after each of its methods:
//
//   - a request is in underway exactly while it may have to be cut off;
//   - after lose and end, underway takes nothing in;
//   - after end, or when the last request that was under way at a loss has
//     finished, underway is empty, done is closed and the context has ended;
//   - the stream that belongs to no request is opened once.
type dialState struct {
	cancel context.CancelCauseFunc // ends what belongs to no call
	done   chan struct{}

	mu        sync.Mutex
	ended     error // why nothing is begun any more
	over      bool  // done is closed
	lastID    int64
	underway  map[int64]context.CancelFunc
	session   *dialSession
	listening bool
}

// A dialSession is what requests of a session have in their header. It does not
// change.
type dialSession struct {
	id      []string // one value, nil when the server has given none
	version []string // one value, nil as long as none has been agreed on
}

// addTo names the session in a header.
func (s *dialSession) addTo(header http.Header) {
	if s.id != nil {
		header[headerSession] = s.id
	}
	if s.version != nil {
		header[headerVersion] = s.version
	}
}

var errTooManyUnderway = errors.New("too many requests are under way")

func newDialState(cancel context.CancelCauseFunc) *dialState {
	return &dialState{
		cancel: cancel, done: make(chan struct{}),
		underway: make(map[int64]context.CancelFunc), session: new(dialSession),
	}
}

// begin takes a request in and gives it a number of its own.
func (s *dialState) begin(cancel context.CancelFunc, limit int) (number int64, session *dialSession, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended != nil {
		return 0, nil, s.ended
	}
	if len(s.underway) >= limit {
		return 0, nil, errTooManyUnderway
	}
	s.lastID++
	s.underway[s.lastID] = cancel
	return s.lastID, s.session, nil
}

// finish takes a request out.
func (s *dialState) finish(number int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.underway, number)
	if s.ended != nil && len(s.underway) == 0 {
		s.finishAll()
	}
}

// lose begins the end of a connection whose session the server has lost. What is
// under way will hear of that by itself, and is better told so than cut off. It
// says whether there is anything to wait for.
func (s *dialState) lose() (waits bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended != nil {
		return false
	}
	s.ended = jsonrpc.ErrClosed
	if len(s.underway) == 0 {
		s.finishAll()
	}
	return !s.over
}

// end cuts off what is under way. It returns the session if that had not ended.
func (s *dialState) end() *dialSession {
	s.mu.Lock()
	defer s.mu.Unlock()
	session := s.session
	if s.ended != nil {
		session = nil
	}
	s.ended = jsonrpc.ErrClosed
	s.finishAll()
	return session
}

// finishAll is the last change.
func (s *dialState) finishAll() {
	if s.over {
		return
	}
	s.over = true
	for number, cancel := range s.underway {
		delete(s.underway, number)
		cancel()
	}
	s.cancel(jsonrpc.ErrClosed)
	close(s.done)
}

func (s *dialState) endedWith() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended
}

// open begins a session, or goes on with what has been learned of it.
func (s *dialState) open(session *dialSession) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.session = session
}

// listen says whether the stream of the session has to be opened now.
func (s *dialState) listen() (*dialSession, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := !s.listening && s.ended == nil
	s.listening = true
	return s.session, first
}

// adopt hands an older transport over, unless the connection has ended.
func (s *dialState) adopt(take func(transport.Conn), older transport.Conn) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended == nil {
		take(older)
	}
	return s.ended
}
