package postgres

import (
	"context"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/transport/store"
)

const (
	// pollPause is the longest time between two reads of a wait. A notification that is lost
	// delays the wait by this time.
	pollPause = 10 * time.Second
	// retryPause is the time between two attempts to read or to connect while the server cannot be
	// reached.
	retryPause = 200 * time.Millisecond
	// maxChanged is how many changed keys wait for a watcher. With more, it reads all
	// keys again.
	maxChanged = 10_000
)

// A waiter is one call of Watch, Follow or Pull.
type waiter struct {
	wake chan struct{}

	mu    sync.Mutex
	all   bool // anything may have changed
	names map[string]bool
}

// receive implements [listener].
func (w *waiter) receive(m message) { w.notify(m.Name) }

// notify notes that something has changed, or anything if name is empty.
func (w *waiter) notify(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if name == "" || len(w.names) >= maxChanged {
		w.all, w.names = true, map[string]bool{}
	}
	if !w.all {
		w.names[name] = true
	}
	signal(w.wake)
}

// take returns what has changed since the last call.
func (w *waiter) take() (names []string, all bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name := range w.names {
		names = append(names, name)
	}
	all, w.all, w.names = w.all, false, map[string]bool{}
	return names, all
}

// repeat calls step until it is done or returns an error that is not temporary. Between two
// calls, it waits for a change of what has the name, at most for the pause that step returns. step
// gets the names of what has changed, or all if anything may have.
func (s *Store) repeat(ctx context.Context, k kind, name string, step func(names []string, all bool) (pause time.Duration, done bool, err error)) error {
	if err := store.CheckName(name); err != nil {
		return err
	}
	w := &waiter{wake: make(chan struct{}, 1), all: true, names: map[string]bool{}}
	topic := k.topic(name)
	s.hub.join(topic, w)
	defer s.hub.leave(topic, w)
	poll := time.NewTicker(pollPause)
	defer poll.Stop()
	for {
		pause, done, err := step(w.take())
		event := w.wake
		switch {
		case err == nil && done:
			return nil
		case err != nil && (s.ended(ctx) != nil || !isTemporary(err)):
			return err
		case err != nil:
			w.notify("")
			pause, event = retryPause, nil
		}
		select {
		case <-event:
		case <-time.After(pause):
		case <-poll.C:
			w.notify("")
		case <-ctx.Done():
		case <-s.ctx.Done():
		}
		if err := s.ended(ctx); err != nil {
			return err
		}
	}
}
