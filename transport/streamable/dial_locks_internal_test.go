package streamable

import (
	"errors"
	"testing"

	"github.com/dovetail-go/dovetail/internal/test/racetest"
	"github.com/dovetail-go/dovetail/jsonrpc"
)

// A connection ends once, whatever happens at the same time, and cancels what is pending.
func TestConnectionEndsConcurrently(t *testing.T) {
	for range 200 {
		cancelled := make([]bool, 2) // a pending request is cancelled once, so no lock is needed
		s := newDialState(func(error) {})
		begin := func(i int) func(int) {
			return func(int) {
				number, _, err := s.begin(func() { cancelled[i] = true }, 2)
				if err == nil && i == 1 {
					s.finish(number)
				}
			}
		}
		ended := make([]*dialSession, 2)
		end := func(i int) func(int) { return func(int) { ended[i] = s.end() } }
		read := func(int) {
			if err := s.endReason(); err != nil && !errors.Is(err, jsonrpc.ErrClosed) {
				t.Errorf("the reason is %v", err)
			}
		}
		racetest.Together(1, begin(0), begin(1), end(0), read, end(1), func(int) { s.sessionLost() })
		if ended[0] != nil && ended[1] != nil {
			t.Error("it has ended twice")
		}
		if _, _, err := s.begin(func() {}, 2); !errors.Is(err, jsonrpc.ErrClosed) || len(s.pending) != 0 {
			t.Errorf("after the end: %v, and %d requests are pending", err, len(s.pending))
		}
		<-s.done
	}
}
