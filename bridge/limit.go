package bridge

import (
	"context"
	"errors"
	"sync/atomic"

	"golang.org/x/sync/semaphore"
)

// A limit bounds how many calls run at a server, and how many wait to.
type limit struct {
	running *semaphore.Weighted
	queue   int64
	queued  atomic.Int64
	calls   atomic.Int64 // that run
}

func newLimit(opts *ProxyOptions) *limit {
	return &limit{running: semaphore.NewWeighted(int64(opts.MaxCalls)), queue: int64(max(opts.MaxQueued, 0))}
}

var errBusy = errors.New("too many calls wait for the server")

// enter waits for its turn. Who has entered must leave.
func (l *limit) enter(ctx context.Context) error {
	if !l.running.TryAcquire(1) {
		defer l.queued.Add(-1)
		if l.queued.Add(1) > l.queue {
			return errBusy
		}
		if err := l.running.Acquire(ctx, 1); err != nil {
			return context.Cause(ctx)
		}
	}
	l.calls.Add(1)
	return nil
}

func (l *limit) leave() {
	l.calls.Add(-1)
	l.running.Release(1)
}
