package server

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dovetail-go/dovetail/jsonrpc"
)

// startTimeout bounds how long all dependencies of a server and what is mounted on it may
// take to start, and to stop again when that fails.
const startTimeout = time.Minute

// A lifecycle starts what a server depends on and what is mounted on it, and stops that in
// reverse order.
type lifecycle struct {
	server *Server
	ready  atomic.Bool          // all has been started
	values map[reflect.Type]any // do not change once it is ready

	mu     sync.Mutex
	done   chan struct{}           // closed when starting has ended, nil before it begins
	cancel context.CancelCauseFunc // of starting
	begun  int                     // how many mounts have been begun to start
	err    error                   // why the server cannot serve
	public *jsonrpc.Error          // what clients get instead
	stops  []func(context.Context) error
	ended  chan struct{} // closed when all has been stopped, nil before that begins
}

// Start starts what the server depends on, in the order of Options.Dependencies, and then
// what is mounted; it returns when all that runs. The first request does so as well; a
// program that calls Start before it serves learns of a failure earlier. The failure is
// final: what was started is stopped, and the server answers calls with a reference to
// the failure in its log. Two mounts that offer entries of one name are a failure, with a
// *[CollisionError].
//
// Starting takes at most a minute; when ctx ends before, Start returns and starting
// goes on.
func (s *Server) Start(ctx context.Context) error {
	if s.life.ready.Load() {
		return nil
	}
	if err := await(ctx, s.life.begin()); err != nil {
		return err
	}
	_, err := s.life.failure()
	return err
}

// await waits until done is closed or ctx ends.
func await(ctx context.Context, done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	default:
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// ready waits until the server has started, which the first call begins.
func (s *Server) ready(ctx context.Context) error {
	if s.life.ready.Load() {
		return nil
	}
	if err := await(ctx, s.life.begin()); err != nil {
		return err // of a caller that waits no longer
	}
	public, _ := s.life.failure()
	if public != nil {
		return public
	}
	return nil
}

// started reports whether all has been started, which it begins; the error is that of a
// failure, for clients.
func (l *lifecycle) started() (bool, error) {
	if l.ready.Load() {
		return true, nil
	}
	l.begin()
	if public, _ := l.failure(); public != nil {
		return false, public
	}
	return l.ready.Load(), nil
}

// failure returns why the server cannot serve, for clients and for the program.
func (l *lifecycle) failure() (public *jsonrpc.Error, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.public, l.err
}

// begin begins to start, unless that has begun.
func (l *lifecycle) begin() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.done != nil {
		return l.done
	}
	l.done = make(chan struct{})
	if len(l.server.options.Dependencies)+len(l.server.mounted()) == 0 {
		l.ready.Store(true)
		close(l.done)
		return l.done
	}
	var ctx context.Context
	ctx, l.cancel = context.WithCancelCause(context.Background())
	go l.start(ctx)
	return l.done
}

func (l *lifecycle) start(ctx context.Context) {
	defer close(l.done)
	defer l.cancel(nil)
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("starting took longer than %v", startTimeout))
	defer cancel()
	stops, err := l.startAll(ctx)
	if err == nil {
		return
	}
	ctx, cancel = context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	err = errors.Join(err, stopAll(ctx, stops))
	reference := rand.Text()
	l.server.options.Logger.Error("the server could not start", "error", err, "reference", reference)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil { // it has not been shut down
		l.err = err
		l.public = &jsonrpc.Error{Code: jsonrpc.InternalError, Message: "the server could not start, reference " + reference}
	}
}

// startAll starts everything, and then the server is ready. It returns what stops what
// has been started, after an error too.
func (l *lifecycle) startAll(ctx context.Context) (stops []func(context.Context) error, err error) {
	l.values = make(map[reflect.Type]any)
	for _, d := range l.server.options.Dependencies {
		if ctx.Err() != nil {
			return stops, context.Cause(ctx)
		}
		stop, err := d.begin(ctx, l)
		if err != nil {
			return stops, err
		}
		stops = append(stops, stop)
	}
	for {
		m, err := l.next(ctx, stops)
		if m == nil || err != nil {
			return stops, err
		}
		stop, err := m.start(ctx, l.server)
		stops = append(stops, stop)
		if err != nil {
			return stops, err
		}
	}
}

// next returns the mount to start next. Without one the server is ready, unless mounts
// collide.
func (l *lifecycle) next(ctx context.Context, stops []func(context.Context) error) (*mount, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	mounts := l.server.mounted()
	if l.begun < len(mounts) {
		l.begun++
		return mounts[l.begun-1], nil
	}
	if err := l.server.checkMounts(mounts, nil); err != nil {
		return nil, err
	}
	l.stops = stops
	l.ready.Store(true)
	return nil, nil
}

// checkMounts returns the collisions of mounts with each other and with the server, except
// for those that are known.
func (s *Server) checkMounts(mounts []*mount, known []*CollisionError) error {
	parts := []Part{{ownPart, s.registry.catalog()}}
	for _, m := range mounts {
		parts = append(parts, m.part())
	}
	var errs []error
	for _, collision := range Merge(s.merged.Load(), parts...).Collisions() {
		if !slices.ContainsFunc(known, collision.equals) {
			errs = append(errs, collision)
		}
	}
	return errors.Join(errs...)
}

// include adds a mount. Before the server is ready, the mount will be started with the
// server; afterwards it is started before it can be called.
func (l *lifecycle) include(m *mount) error {
	if done, err := l.includeBefore(m); done || err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	stop, err := m.start(ctx, l.server)
	if err == nil {
		err = l.includeStarted(m, stop)
	}
	if err != nil {
		err = errors.Join(err, stop(ctx))
	}
	return err
}

// includeBefore reports whether it has added a mount that will be started.
func (l *lifecycle) includeBefore(m *mount) (done bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return false, l.err
	}
	if l.ready.Load() {
		return false, l.checkWith(m)
	}
	return true, l.add(m)
}

func (l *lifecycle) includeStarted(m *mount, stop func(context.Context) error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return l.err
	}
	if err := l.add(m); err != nil {
		return err
	}
	l.stops = append(l.stops, stop)
	return nil
}

// add adds a mount. It is called with mu held.
func (l *lifecycle) add(m *mount) error {
	if err := l.checkWith(m); err != nil {
		return err
	}
	mounts := append(slices.Clone(l.server.mounted()), m)
	l.server.mounts.Store(&mounts)
	return nil
}

// checkWith returns the collisions that one more mount would bring.
func (l *lifecycle) checkWith(m *mount) error {
	mounts := append(slices.Clone(l.server.mounted()), m)
	m.owner = fmt.Sprintf("mount %d (prefix %q)", len(mounts), m.Prefix)
	var known []*CollisionError
	if l.ready.Load() {
		known = l.server.Catalog().collisions
	}
	return l.server.checkMounts(mounts, known)
}

// stop stops what was started, once. What is starting is given up.
func (l *lifecycle) stop(ctx context.Context) error {
	l.mu.Lock()
	if l.err == nil {
		l.err, l.public = errors.New(errStopping.Message), errStopping
	}
	if l.done == nil { // never started, and never to be
		l.done = make(chan struct{})
		close(l.done)
	}
	if l.cancel != nil {
		l.cancel(l.err)
	}
	done := l.done
	l.mu.Unlock()
	if err := await(ctx, done); err != nil {
		return err
	}
	l.mu.Lock()
	stops, first := l.stops, l.ended == nil
	if first {
		l.stops, l.ended = nil, make(chan struct{})
	}
	l.mu.Unlock()
	if !first {
		return await(ctx, l.ended)
	}
	defer close(l.ended)
	return stopAll(ctx, stops)
}

func stopAll(ctx context.Context, stops []func(context.Context) error) error {
	var errs []error
	for _, stop := range slices.Backward(stops) {
		errs = append(errs, stop(ctx))
	}
	return errors.Join(errs...)
}
