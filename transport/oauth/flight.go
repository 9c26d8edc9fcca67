package oauth

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// flights are pieces of work that are done once for all who wait for them at the time.
// The zero value is ready.
type flights[V any] struct {
	mu     sync.Mutex
	byName map[string]*flight[V]
}

// A flight does not end because who began it has gone: others may wait. Who leaves last
// ends it, and waits for its end. One that was sent off ends by itself, or with all.
type flight[V any] struct {
	waiting int
	sent    bool
	cancel  context.CancelCauseFunc
	landed  chan struct{}
	value   V     // once it has landed
	err     error // likewise
}

// share joins the work of a name that is under way, or begins it, and returns what comes
// of it; or why ctx has ended, and for the last who waits what could not be done then.
func (f *flights[V]) share(ctx context.Context, name string, work func(context.Context) (V, error)) (V, error) {
	f.mu.Lock()
	one := f.board(ctx, name, work)
	one.waiting++
	f.mu.Unlock()
	select {
	case <-one.landed:
		return one.value, one.err
	case <-ctx.Done():
		return f.leave(name, one, context.Cause(ctx))
	}
}

// send begins the work of a name, unless it is under way. Nobody has to wait for it.
func (f *flights[V]) send(ctx context.Context, name string, work func(context.Context) (V, error)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.board(ctx, name, work).sent = true
}

// end ends all that is under way, and waits for that.
func (f *flights[V]) end(why error) {
	f.mu.Lock()
	var all []*flight[V]
	for _, one := range f.byName {
		all = append(all, one)
		one.cancel(why)
	}
	f.mu.Unlock()
	for _, one := range all {
		<-one.landed
	}
}

// board is for who has the lock.
func (f *flights[V]) board(ctx context.Context, name string, work func(context.Context) (V, error)) *flight[V] {
	if one := f.byName[name]; one != nil {
		return one
	}
	one := &flight[V]{landed: make(chan struct{})}
	ctx, one.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	if f.byName == nil {
		f.byName = make(map[string]*flight[V])
	}
	f.byName[name] = one
	go func() {
		defer close(one.landed)
		defer one.cancel(nil)
		one.value, one.err = work(ctx)
		f.mu.Lock()
		defer f.mu.Unlock()
		f.forget(name, one)
	}()
	return one
}

func (f *flights[V]) leave(name string, one *flight[V], why error) (value V, err error) {
	f.mu.Lock()
	one.waiting--
	last := one.waiting == 0 && !one.sent
	if last {
		f.forget(name, one) // who comes now does not wait for what is ended
	}
	f.mu.Unlock()
	if !last {
		return value, why
	}
	one.cancel(why)
	<-one.landed
	if one.err == nil || errors.Is(one.err, why) {
		return one.value, one.err
	}
	return value, fmt.Errorf("%w: %w", why, one.err)
}

// forget is for who has the lock.
func (f *flights[V]) forget(name string, one *flight[V]) {
	if f.byName[name] == one {
		delete(f.byName, name)
	}
}
