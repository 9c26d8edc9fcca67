package main

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// notificationTimeout is how long a tally waits for the next notification after the result.
const notificationTimeout = 500 * time.Millisecond

// A lossError reports that notifications did not arrive in time.
type lossError struct {
	got, want int
}

func (e *lossError) Error() string {
	return fmt.Sprintf("%d of %d notifications arrived", e.got, e.want)
}

// A tally checks that progress notifications of one call count from one to the end, in order.
type tally struct {
	mu       sync.Mutex
	got      int
	last     float64
	end      int
	disorder error
	more     chan struct{}
}

func newTally(w Work) *tally { return &tally{end: w.Units, more: make(chan struct{}, 1)} }

// add adds one notification.
func (t *tally) add(progress float64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if progress <= t.last && t.disorder == nil {
		t.disorder = fmt.Errorf("progress %v after %v", progress, t.last)
	}
	t.got, t.last = t.got+1, progress
	select {
	case t.more <- struct{}{}:
	default:
	}
}

// now returns an error unless all notifications have arrived, in order.
func (t *tally) now() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.disorder == nil && t.got < t.end {
		return &lossError{got: t.got, want: t.end}
	}
	return t.disorder
}

// wait is for libraries whose notifications may arrive after the result.
func (t *tally) wait(ctx context.Context) error {
	for {
		err := t.now()
		lost, ok := err.(*lossError)
		if !ok {
			return err
		}
		select {
		case <-t.more:
		case <-time.After(notificationTimeout):
			return lost
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
