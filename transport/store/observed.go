package store

import (
	"context"
	"crypto/rand"
	"errors"
	"iter"
	"time"
)

// An Operation is an operation of a [Store] that has ended; see [Observed].
type Operation struct {
	Name string        // of the method in lower case, such as "get"
	Took time.Duration // until it returned; for Read the time without that of the loop's body
	Err  error
}

// Failure returns how the store has failed: "unreachable", "timeout", "full", "forged" or "closed". It returns "" for an
// operation that has succeeded, whose answer is another error of this package, such as [ErrNotFound], or whose caller has left.
func (o *Operation) Failure() string {
	if o.Err == nil || errors.Is(o.Err, context.Canceled) {
		return ""
	}
	for _, answer := range []error{ErrNotFound, ErrExists, ErrConflict, ErrPurged, ErrLost, ErrNoResponder, ErrTooLarge} {
		if errors.Is(o.Err, answer) {
			return ""
		}
	}
	switch {
	case errors.Is(o.Err, ErrFull):
		return "full"
	case errors.Is(o.Err, ErrForged):
		return "forged"
	case errors.Is(o.Err, ErrClosed):
		return "closed"
	case errors.Is(o.Err, context.DeadlineExceeded):
		return "timeout"
	}
	return "unreachable"
}

// Observed returns a store that reports the operations of inner, for metrics. observe is called when an operation has ended, by
// the goroutine of its caller; it must not block, and is called concurrently. Watch, Follow and Pull wait for what others do: they are
// reported only when they yield an error, without a time. Close closes inner and is not reported.
func Observed(inner Store, observe func(ctx context.Context, o Operation)) Store {
	return &observed{inner, observe}
}

type observed struct {
	inner   Store
	observe func(ctx context.Context, o Operation)
}

// ended reports an operation that began at a time.
func (s *observed) ended(ctx context.Context, name string, began time.Time, err error) {
	s.observe(ctx, Operation{name, time.Since(began), err})
}

// failed reports the error of an operation that waits, unless its context has ended.
func (s *observed) failed(ctx context.Context, name string, err error) {
	if err != nil && ctx.Err() == nil {
		s.observe(ctx, Operation{Name: name, Err: err})
	}
}

func (s *observed) Close() error { return s.inner.Close() }

func (s *observed) Get(ctx context.Context, key string) (item Item, err error) {
	defer func(began time.Time) { s.ended(ctx, "get", began, err) }(time.Now())
	return s.inner.Get(ctx, key)
}

func (s *observed) Create(ctx context.Context, key string, value []byte, ttl time.Duration) (revision uint64, err error) {
	defer func(began time.Time) { s.ended(ctx, "create", began, err) }(time.Now())
	return s.inner.Create(ctx, key, value, ttl)
}

func (s *observed) Update(ctx context.Context, key string, value []byte, revision uint64, ttl time.Duration) (newRevision uint64, err error) {
	defer func(began time.Time) { s.ended(ctx, "update", began, err) }(time.Now())
	return s.inner.Update(ctx, key, value, revision, ttl)
}

func (s *observed) Delete(ctx context.Context, key string, revision uint64) (err error) {
	defer func(began time.Time) { s.ended(ctx, "delete", began, err) }(time.Now())
	return s.inner.Delete(ctx, key, revision)
}

func (s *observed) Watch(ctx context.Context, prefix string) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		for item, err := range s.inner.Watch(ctx, prefix) {
			s.failed(ctx, "watch", err)
			if !yield(item, err) {
				return
			}
		}
	}
}

func (s *observed) Append(ctx context.Context, stream string, data []byte) (id uint64, err error) {
	defer func(began time.Time) { s.ended(ctx, "append", began, err) }(time.Now())
	return s.inner.Append(ctx, stream, data)
}

func (s *observed) Read(ctx context.Context, stream string, after uint64) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		began, failed := time.Now(), error(nil)
		defer func() { s.ended(ctx, "read", began, failed) }()
		for entry, err := range s.inner.Read(ctx, stream, after) {
			if err != nil {
				failed = err
			}
			yielded := time.Now()
			more := yield(entry, err)
			began = began.Add(time.Since(yielded))
			if !more {
				return
			}
		}
	}
}

func (s *observed) Follow(ctx context.Context, stream string, after uint64) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for entry, err := range s.inner.Follow(ctx, stream, after) {
			s.failed(ctx, "follow", err)
			if !yield(entry, err) {
				return
			}
		}
	}
}

func (s *observed) Drop(ctx context.Context, stream string) (err error) {
	defer func(began time.Time) { s.ended(ctx, "drop", began, err) }(time.Now())
	return s.inner.Drop(ctx, stream)
}

func (s *observed) Push(ctx context.Context, queue, id string, data []byte) (err error) {
	defer func(began time.Time) { s.ended(ctx, "push", began, err) }(time.Now())
	return s.inner.Push(ctx, queue, id, data)
}

func (s *observed) Pull(ctx context.Context, queue string) (*Job, error) {
	job, err := s.inner.Pull(ctx, queue)
	s.failed(ctx, "pull", err)
	return job, err
}

func (s *observed) Extend(ctx context.Context, job *Job) (err error) {
	defer func(began time.Time) { s.ended(ctx, "extend", began, err) }(time.Now())
	return s.inner.Extend(ctx, job)
}

func (s *observed) Ack(ctx context.Context, job *Job) (err error) {
	defer func(began time.Time) { s.ended(ctx, "ack", began, err) }(time.Now())
	return s.inner.Ack(ctx, job)
}

func (s *observed) Nak(ctx context.Context, job *Job, delay time.Duration) (err error) {
	defer func(began time.Time) { s.ended(ctx, "nak", began, err) }(time.Now())
	return s.inner.Nak(ctx, job, delay)
}

func (s *observed) Publish(ctx context.Context, subject string, data []byte) (err error) {
	defer func(began time.Time) { s.ended(ctx, "publish", began, err) }(time.Now())
	return s.inner.Publish(ctx, subject, data)
}

func (s *observed) Subscribe(ctx context.Context, subject string, handle func(ctx context.Context, m Message)) (stop func(), err error) {
	defer func(began time.Time) { s.ended(ctx, "subscribe", began, err) }(time.Now())
	return s.inner.Subscribe(ctx, subject, handle)
}

func (s *observed) Request(ctx context.Context, subject string, data []byte) (reply []byte, err error) {
	defer func(began time.Time) { s.ended(ctx, "request", began, err) }(time.Now())
	return s.inner.Request(ctx, subject, data)
}

// checkTTL is how long the value that a check writes is stored.
const checkTTL = time.Second

// Check reports whether a store can be used now: it writes a small value that expires after a second. The error is one of the
// engine, or [ErrFull].
func Check(ctx context.Context, kv KV) error {
	_, err := kv.Create(ctx, "status/"+rand.Text(), []byte{1}, checkTTL)
	return err
}
