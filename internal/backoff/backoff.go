package backoff

import (
	"context"
	"math/rand/v2"
	"time"
)

// A Backoff computes the pauses of one loop of attempts. The zero value is ready for use.
// It must not be used concurrently.
type Backoff struct {
	Min time.Duration // first pause, before jitter; default 100 ms
	Max time.Duration // longest pause; default 30 s

	// Random returns a number in [0, 1). Default: [rand.Float64].
	Random func() float64

	pause time.Duration // the last one before jitter; 0 before the first
}

const (
	defaultMin = 100 * time.Millisecond
	defaultMax = 30 * time.Second
)

// Next returns the next pause. The first is between half of Min and one and a half times
// Min; each later range is twice as long and ends at Max, so that the pauses still differ
// when they no longer grow.
func (b *Backoff) Next() time.Duration {
	limit := orDefault(b.Max, defaultMax)
	switch {
	case b.pause == 0:
		b.pause = min(orDefault(b.Min, defaultMin), limit)
	case b.pause > limit/2:
		b.pause = limit
	default:
		b.pause *= 2
	}
	random := b.Random
	if random == nil {
		random = rand.Float64
	}
	shortest, longest := b.pause/2, limit
	if b.pause < limit-shortest {
		longest = b.pause + shortest
	}
	return shortest + time.Duration(random()*float64(longest-shortest))
}

// Wait sleeps for the next pause. If ctx ends first, it returns the error of ctx.
func (b *Backoff) Wait(ctx context.Context) error { return Sleep(ctx, b.Next()) }

// Sleep pauses for d. If ctx ends first, it returns the error of ctx.
func Sleep(ctx context.Context, d time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Reset makes the next pause the first one again. Call it after an attempt has made progress
// and not when a connection opens: a server may accept connections and then fail.
func (b *Backoff) Reset() { b.pause = 0 }

func orDefault(d, otherwise time.Duration) time.Duration {
	if d <= 0 {
		return otherwise
	}
	return d
}
