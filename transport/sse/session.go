package sse

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/internal/bufpool"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/quota"
	"github.com/dovetail-go/dovetail/internal/sse"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport/internal/duplex"
)

const (
	eventEndpoint = "endpoint"
	eventMessage  = "message"
	// headerSession has the id of the session if the URI for messages does not have it.
	headerSession = "Mcp-Session-Id"

	// postTimeout bounds how long a posted message waits to be read before it is refused.
	postTimeout = 10 * time.Second
	// flushTimeout bounds how long closing a session waits for queued messages.
	flushTimeout = time.Second
	// closeTimeout bounds how long closing an endpoint waits for streams after their sessions
	// have ended.
	closeTimeout = 2 * time.Second
)

// A session is the server's end of one event stream. It implements [jsonrpc.Stream]: Read
// returns posted messages and Write sends events.
type session struct {
	id        string
	principal string
	network   string
	conn      *jsonrpc.Conn
	stream    *sse.Stream
	posted    chan posted
	charge    *bufpool.Charge // of the message that was read last
	queue     *duplex.Queue

	closeOnce sync.Once
	closing   chan struct{} // closed by Close
	sent      chan struct{} // closed when send has returned
}

// posted is a message that a client has posted.
type posted struct {
	text   []byte
	charge *bufpool.Charge // nil for a small message
}

func newSession(id, principal, network string) *session {
	return &session{
		id: id, principal: principal, network: network,
		posted: make(chan posted), queue: duplex.NewQueue(encodeMessage),
		closing: make(chan struct{}), sent: make(chan struct{}),
	}
}

func (s *session) holder() quota.Holder { return quota.HolderOf(s.principal, s.network) }

func encodeMessage(dst, message []byte) ([]byte, error) {
	return sse.Append(dst, sse.Event{Name: eventMessage, Data: jsonscan.Line(message)})
}

// Read returns the next message that was posted.
func (s *session) Read() ([]byte, error) {
	select {
	case m := <-s.posted:
		s.charge = m.charge
		return m.text, nil
	case <-s.closing:
		return nil, jsonrpc.ErrClosed
	}
}

// TakeCharge returns the charge of the message that was read last.
func (s *session) TakeCharge() *bufpool.Charge {
	charge := s.charge
	s.charge = nil
	return charge
}

// Write queues a message.
func (s *session) Write(ctx context.Context, msg []byte) error { return s.queue.Put(ctx, msg) }

// Close sends what is queued, for at most [flushTimeout], and ends the stream.
func (s *session) Close() error {
	s.closeOnce.Do(func() {
		s.queue.Close(jsonrpc.ErrClosed)
		close(s.closing)
	})
	select {
	case <-s.sent:
	case <-time.After(flushTimeout):
		s.stream.Abort()
	}
	return nil
}

// post hands a message to Read and returns the status of the response. With status 202, Read has
// the message and its charge. No message is queued: each request waits until its message is read.
func (s *session) post(ctx context.Context, msg posted) int {
	select {
	case <-s.closing:
		return http.StatusNotFound
	default:
	}
	select {
	case s.posted <- msg:
		return http.StatusAccepted
	case <-s.closing:
		return http.StatusNotFound
	case <-time.After(postTimeout):
	case <-ctx.Done():
	}
	return http.StatusServiceUnavailable
}

// send sends queued events, and a comment after each interval keepAlive without events,
// until the client disconnects or the session is closed. Events that are queued together
// share a write.
func (s *session) send(disconnected <-chan struct{}, keepAlive time.Duration) {
	for {
		var idle <-chan time.Time
		if keepAlive >= 0 {
			idle = time.After(keepAlive)
		}
		var err error
		select {
		case <-s.queue.Ready():
			err = s.stream.SendAll(s.queue.Take().Bytes())
		case <-idle:
			err = s.stream.SendComment()
		case <-disconnected:
			return
		case <-s.closing:
			_ = s.stream.SendAll(s.queue.Take().Bytes()) // the client may have disconnected
			return
		}
		if err != nil {
			return
		}
	}
}

var (
	errEndpointClosed = errors.New("the server is closing")
	errStillOpen      = errors.New("sse: streams are still open")
)

// sessions contains the sessions of an endpoint.
type sessions struct {
	quota *quota.Quota

	mu     sync.Mutex
	all    map[string]*session // nil for a session that does not receive messages yet
	closed bool
	empty  chan struct{} // closed when closed is true and all is empty
}

func newSessions(q *quota.Quota) *sessions {
	return &sessions{quota: q, all: map[string]*session{}, empty: make(chan struct{})}
}

// begin returns a new session. The error is meant for the client.
func (s *sessions) begin(principal, network string) (*session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errEndpointClosed
	}
	begun := newSession(rand.Text(), principal, network)
	if err := s.quota.Acquire(begun.holder()); err != nil {
		return nil, err
	}
	s.all[begun.id] = nil
	return begun, nil
}

// add lets a session receive messages. It returns false if the endpoint is closed.
func (s *sessions) add(begun *session) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.all[begun.id] = begun
	return true
}

// find returns the session with an id if it belongs to the principal, otherwise nil.
func (s *sessions) find(id, principal string) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	if found := s.all[id]; found != nil && found.principal == principal {
		return found
	}
	return nil
}

// end removes a session.
func (s *sessions) end(ended *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, ended.id)
	s.quota.Release(ended.holder())
	if s.closed && len(s.all) == 0 {
		close(s.empty)
	}
}

// shutdown refuses new sessions and returns the sessions that receive messages.
func (s *sessions) shutdown() []*session {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed && len(s.all) == 0 {
		close(s.empty)
	}
	s.closed = true
	running := make([]*session, 0, len(s.all))
	for _, session := range s.all {
		if session != nil {
			running = append(running, session)
		}
	}
	return running
}

// close ends all sessions and waits for them.
func (s *sessions) close() error {
	var closing sync.WaitGroup
	for _, session := range s.shutdown() {
		closing.Go(func() { session.conn.Close() })
	}
	closing.Wait()
	select {
	case <-s.empty:
		return nil
	case <-time.After(closeTimeout):
		return errStillOpen
	}
}
