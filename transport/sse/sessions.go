package sse

import (
	"crypto/rand"
	"errors"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/internal/seats"
)

var (
	errEndpointClosed = errors.New("the server is closing")
	errStillOpen      = errors.New("sse: streams are still open")
)

// sessions are the sessions of an endpoint.
type sessions struct {
	seats *seats.Seats

	mu     sync.Mutex
	all    map[string]*session // nil for one that has a seat but does not run yet
	closed bool
	empty  chan struct{} // closed when closed, and none is left
}

func newSessions(most, perPrincipal int) *sessions {
	return &sessions{seats: seats.New(most, perPrincipal), all: map[string]*session{}, empty: make(chan struct{})}
}

// begin makes a session that has a seat; the error is for the client.
func (s *sessions) begin(principal string) (*session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errEndpointClosed
	}
	if err := s.seats.Take(principal); err != nil {
		return nil, err
	}
	// 130 random bits, in characters that a URI may hold.
	begun := newSession(rand.Text(), principal)
	s.all[begun.id] = nil
	return begun, nil
}

// run makes a session known to those who post, unless all are to end.
func (s *sessions) run(begun *session) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.all[begun.id] = begun
	return true
}

// find returns the session with that id. That of somebody else is as unknown as one
// that never was.
func (s *sessions) find(id, principal string) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	if found := s.all[id]; found != nil && found.principal == principal {
		return found
	}
	return nil
}

// end gives the seat of a session back.
func (s *sessions) end(ended *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, ended.id)
	s.seats.Leave(ended.principal)
	s.closeIfEmpty()
}

func (s *sessions) closeIfEmpty() {
	if !s.closed || len(s.all) > 0 {
		return
	}
	select {
	case <-s.empty:
	default:
		close(s.empty)
	}
}

// shut lets no more sessions begin, and returns those that run.
func (s *sessions) shut() []*session {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.closeIfEmpty()
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
	var ending sync.WaitGroup
	for _, session := range s.shut() {
		ending.Go(func() { session.conn.Close() })
	}
	ending.Wait()
	timer := time.NewTimer(closeGrace)
	defer timer.Stop()
	select {
	case <-s.empty:
		return nil
	case <-timer.C:
		return errStillOpen
	}
}
