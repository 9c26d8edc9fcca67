// Package backoff spaces out repeated attempts: each pause is twice as long as the
// one before, up to a limit, with jitter, so that many clients that lost the same
// server do not come back all at once.
package backoff

import (
	"context"
	"math/rand/v2"
	"time"
)

const (
	// DefaultMin is the first pause if [Backoff.Min] is not set.
	DefaultMin = 100 * time.Millisecond

	// DefaultMax is the longest pause if [Backoff.Max] is not set.
	DefaultMax = 30 * time.Second
)

// A Backoff gives the pauses between attempts. The zero value is ready for use.
// It is not safe for concurrent use: each loop that retries has its own.
type Backoff struct {
	Min time.Duration // first pause, before jitter; 0 or less: DefaultMin
	Max time.Duration // no pause is longer; 0 or less: DefaultMax

	// Random returns a number in [0, 1). Default: [rand.Float64].
	Random func() float64

	pause time.Duration // the last one before jitter; 0: none yet
}

// Next returns the next pause: at random from half to one and a half times Min, then
// of twice that, and so on. A range that would go beyond Max ends there, so the
// pauses stay spread when they no longer grow.
func (b *Backoff) Next() time.Duration {
	limit := orDefault(b.Max, DefaultMax)
	switch {
	case b.pause == 0:
		b.pause = min(orDefault(b.Min, DefaultMin), limit)
	case b.pause > limit/2:
		b.pause = limit
	default:
		b.pause *= 2
	}
	random := b.Random
	if random == nil {
		random = rand.Float64
	}
	shortest := b.pause / 2
	longest := limit
	if b.pause < limit-shortest {
		longest = b.pause + shortest
	}
	return shortest + time.Duration(random()*float64(longest-shortest))
}

// Wait sleeps for the next pause. It returns early, with the context's error, when
// the context ends.
func (b *Backoff) Wait(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	timer := time.NewTimer(b.Next())
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Reset makes the next pause the first again. Call it after progress, not after
// a mere connection: a server that accepts and fails at once would be called without
// pause otherwise.
func (b *Backoff) Reset() { b.pause = 0 }

func orDefault(d, otherwise time.Duration) time.Duration {
	if d <= 0 {
		return otherwise
	}
	return d
}
