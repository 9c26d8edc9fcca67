package oauth

import (
	"context"
	"errors"
	"fmt"
	"sync"

	lru "github.com/hashicorp/golang-lru/v2"
)

// sharedCalls runs a function once for all concurrent callers with the same key. Unlike
// golang.org/x/sync/singleflight, it does not run the function with the context of the
// first caller: the function is canceled only when its last waiter leaves. The zero value
// is ready to use.
type sharedCalls[V any] struct {
	mu    sync.Mutex
	calls map[string]*sharedCall[V]
}

type sharedCall[V any] struct {
	waiters int // guarded by sharedCalls.mu
	cancel  context.CancelCauseFunc
	done    chan struct{} // closed when value and err are set
	value   V
	err     error
}

// do joins the running call of the key or starts fn, and returns its result. When ctx ends
// first, do returns its cause; the last waiter also waits for fn and returns its error.
func (s *sharedCalls[V]) do(ctx context.Context, key string, fn func(context.Context) (V, error)) (V, error) {
	s.mu.Lock()
	call := s.calls[key]
	if call == nil {
		call = s.start(ctx, key, fn)
	}
	call.waiters++
	s.mu.Unlock()
	select {
	case <-call.done:
		return call.value, call.err
	case <-ctx.Done():
		return s.leave(key, call, context.Cause(ctx))
	}
}

// start runs fn in a goroutine. The caller holds the mutex.
func (s *sharedCalls[V]) start(ctx context.Context, key string, fn func(context.Context) (V, error)) *sharedCall[V] {
	call := &sharedCall[V]{done: make(chan struct{})}
	ctx, call.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	if s.calls == nil {
		s.calls = make(map[string]*sharedCall[V])
	}
	s.calls[key] = call
	go func() {
		defer close(call.done)
		defer call.cancel(nil)
		call.value, call.err = fn(ctx)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.remove(key, call)
	}()
	return call
}

func (s *sharedCalls[V]) leave(key string, call *sharedCall[V], cause error) (zero V, err error) {
	s.mu.Lock()
	call.waiters--
	last := call.waiters == 0
	if last {
		s.remove(key, call) // a later caller must not join a canceled call
	}
	s.mu.Unlock()
	if !last {
		return zero, cause
	}
	call.cancel(cause)
	<-call.done
	if call.err == nil || errors.Is(call.err, cause) {
		return call.value, call.err
	}
	return zero, fmt.Errorf("%w: %w", cause, call.err)
}

// remove forgets a call. The caller holds the mutex.
func (s *sharedCalls[V]) remove(key string, call *sharedCall[V]) {
	if s.calls[key] == call {
		delete(s.calls, key)
	}
}

// A keyedMutex is a set of mutexes, one per key. The zero value is ready to use.
type keyedMutex struct {
	mu    sync.Mutex
	locks map[string]*keyedLock
}

type keyedLock struct {
	held  chan struct{} // has capacity 1 and is full while the lock is held
	users int           // holder and waiters, guarded by keyedMutex.mu
}

// lock locks the mutex of the key. When ctx ends first, it returns the cause.
func (m *keyedMutex) lock(ctx context.Context, key string) (unlock func(), err error) {
	m.mu.Lock()
	l := m.locks[key]
	if l == nil {
		if m.locks == nil {
			m.locks = make(map[string]*keyedLock)
		}
		l = &keyedLock{held: make(chan struct{}, 1)}
		m.locks[key] = l
	}
	l.users++
	m.mu.Unlock()
	release := func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if l.users--; l.users == 0 {
			delete(m.locks, key)
		}
	}
	select {
	case l.held <- struct{}{}:
		return func() { <-l.held; release() }, nil
	case <-ctx.Done():
		release()
		return nil, context.Cause(ctx)
	}
}

// newLRU returns an LRU cache of a positive size, for which lru.New cannot fail.
func newLRU[K comparable, V any](size int) *lru.Cache[K, V] {
	cache, err := lru.New[K, V](size)
	if err != nil {
		panic(err)
	}
	return cache
}
