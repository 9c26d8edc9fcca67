package ws

import (
	"slices"
	"testing"

	"github.com/dovetail-go/dovetail/internal/quota"
	"github.com/dovetail-go/dovetail/internal/test/racetest"
)

// An endpoint that was closed has no session, whatever begins at the same time.
func TestSessionsAreClosedConcurrently(t *testing.T) {
	ann := quota.HolderOf("ann", "")
	for range 500 {
		s := newSessions(quota.New("sessions", 10, 10))
		var running [4]bool // no lock: close waits for sessions
		serve := func(i int) func(int) {
			return func(int) {
				if err := s.begin(ann); err == nil {
					running[i] = true
					<-s.ctx.Done()
					running[i] = false
					s.end(ann)
				}
			}
		}
		closeAll := func(int) {
			s.close()
			if slices.Contains(running[:], true) {
				t.Error("a session runs after close")
			}
		}
		racetest.Together(1, serve(0), serve(1), closeAll, serve(2), serve(3), closeAll)
		if err := s.begin(ann); err != errEndpointClosed {
			t.Errorf("a closed endpoint begins a session: %v", err)
		}
	}
}
