package quota

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

const (
	// firstSamples is how many records are logged without a delay.
	firstSamples = 3
	// sampleInterval is the time between later records.
	sampleInterval = 10 * time.Second
)

// Samples logs some of the records that clients can cause in any number: the first 3, then at
// most one in 10 seconds, with the number of records that were skipped before. Its methods may
// be called concurrently.
type Samples struct {
	logger *slog.Logger

	mu      sync.Mutex
	count   int
	next    time.Time // when another record may be logged
	skipped int
}

// NewSamples returns samples for a logger.
func NewSamples(logger *slog.Logger) *Samples { return &Samples{logger: logger} }

// Log logs or skips a record.
func (s *Samples) Log(level slog.Level, message string, args ...any) {
	if !s.logger.Enabled(context.Background(), level) {
		return
	}
	skipped, ok := s.sample(time.Now())
	if !ok {
		return
	}
	if skipped > 0 {
		args = append(args, "skipped", skipped)
	}
	s.logger.Log(context.Background(), level, message, args...)
}

// sample reports whether to log a record, and how many were skipped since the last one.
func (s *Samples) sample(now time.Time) (skipped int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.count >= firstSamples && now.Before(s.next) {
		s.skipped++
		return 0, false
	}
	s.count++
	s.next = now.Add(sampleInterval)
	skipped, s.skipped = s.skipped, 0
	return skipped, true
}
