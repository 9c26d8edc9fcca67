package sse

import (
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"
)

var (
	errEndpointClosed = errors.New("the server is closing")
	errStillOpen      = errors.New("sse: streams are still open")
)

// sessions are the sessions of an endpoint. A bound that is negative is none.
type sessions struct {
	max          int
	perPrincipal int

	mu     sync.Mutex
	all    map[string]*session // nil for one that has a place but does not run yet
	of     map[string]int      // how many each authenticated client has
	closed bool
	empty  chan struct{} // closed when closed, and none is left
}

func newSessions(most, perPrincipal int) *sessions {
	return &sessions{
		max: most, perPrincipal: perPrincipal,
		all: map[string]*session{}, of: map[string]int{}, empty: make(chan struct{}),
	}
}

// begin makes a session that has a place; the error is for the client.
func (s *sessions) begin(principal string) (*session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil, errEndpointClosed
	case s.max >= 0 && len(s.all) >= s.max:
		return nil, fmt.Errorf("busy: at most %d sessions may be open", s.max)
	case principal != "" && s.perPrincipal >= 0 && s.of[principal] >= s.perPrincipal:
		return nil, fmt.Errorf("busy: at most %d sessions may be open for one client", s.perPrincipal)
	}
	// 130 random bits, in characters that a URI may hold.
	begun := newSession(rand.Text(), principal)
	s.all[begun.id] = nil
	if principal != "" {
		s.of[principal]++
	}
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

// end gives the place of a session back.
func (s *sessions) end(ended *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, ended.id)
	if s.of[ended.principal]--; s.of[ended.principal] <= 0 {
		delete(s.of, ended.principal)
	}
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
