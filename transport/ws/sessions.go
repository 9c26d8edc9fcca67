package ws

import (
	"context"
	"errors"
	"sync"

	"github.com/dovetail-go/dovetail/internal/seats"
)

var errEndpointClosed = errors.New("the server is closing")

// sessions counts the sessions of an endpoint.
type sessions struct {
	seats *seats.Seats
	open  context.Context // of all sessions; it ends with close
	shut  context.CancelFunc

	mu  sync.Mutex // none begins while close waits
	all sync.WaitGroup
}

func newSessions(most, perPrincipal int) *sessions {
	s := &sessions{seats: seats.New(most, perPrincipal)}
	s.open, s.shut = context.WithCancel(context.Background())
	return s
}

// begin counts one more; the error is for the client.
func (s *sessions) begin(principal string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open.Err() != nil {
		return errEndpointClosed
	}
	if err := s.seats.Take(principal); err != nil {
		return err
	}
	s.all.Add(1)
	return nil
}

// end counts one less.
func (s *sessions) end(principal string) {
	s.seats.Leave(principal)
	s.all.Done()
}

// close ends all sessions and waits for them.
func (s *sessions) close() {
	s.mu.Lock()
	s.shut()
	s.mu.Unlock()
	s.all.Wait()
}
