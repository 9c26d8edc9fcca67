// Package seats counts the sessions of an endpoint, all together and those of each
// authenticated client.
package seats

import (
	"fmt"
	"sync"
)

// Seats are as many as there may be sessions. A bound that is negative is none. All
// methods may be called concurrently.
type Seats struct {
	max          int
	perPrincipal int

	mu    sync.Mutex
	taken int
	of    map[string]int // by authenticated clients
}

// New returns free seats.
func New(most, perPrincipal int) *Seats {
	return &Seats{max: most, perPrincipal: perPrincipal, of: make(map[string]int)}
}

// Take takes a seat for a client, whose name is "" if it is not authenticated. The
// error says that there is none, in words for the client.
func (s *Seats) Take(principal string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.max >= 0 && s.taken >= s.max:
		return fmt.Errorf("busy: at most %d sessions may be open", s.max)
	case principal != "" && s.perPrincipal >= 0 && s.of[principal] >= s.perPrincipal:
		return fmt.Errorf("busy: at most %d sessions may be open for one client", s.perPrincipal)
	}
	s.taken++
	if principal != "" {
		s.of[principal]++
	}
	return nil
}

// Leave gives a seat back that was taken for the client.
func (s *Seats) Leave(principal string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken--
	if s.of[principal]--; s.of[principal] <= 0 {
		delete(s.of, principal)
	}
}
