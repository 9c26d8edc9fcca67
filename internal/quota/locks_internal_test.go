package quota

import (
	"log/slog"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/internal/test/racetest"
)

// Each record is logged or counted as skipped.
func TestSamplesConcurrently(t *testing.T) {
	const n = 300
	s := NewSamples(slog.New(slog.DiscardHandler))
	now := time.Now()
	var logged [2]int
	sample := func(i int) func(int) {
		return func(int) {
			if _, ok := s.sample(now); ok {
				logged[i]++
			}
		}
	}
	racetest.Together(n, sample(0), sample(1))
	if all := logged[0] + logged[1]; all != firstSamples || s.skipped != 2*n-firstSamples {
		t.Errorf("%d records were logged and %d skipped, want %d and %d", all, s.skipped, firstSamples, 2*n-firstSamples)
	}
}
