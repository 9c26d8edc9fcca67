package server

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dovetail-go/dovetail/jsonrpc"
)

// startTimeout bounds how long all dependencies of a server may take to start, and
// to stop again when that fails.
const startTimeout = time.Minute

// A lifespan starts what a server depends on, and stops it in reverse order.
type lifespan struct {
	server *Server
	ready  atomic.Bool // all has been started: values stay as they are
	values map[reflect.Type]any

	mu     sync.Mutex
	done   chan struct{}           // closed when starting has ended, nil before it begins
	cancel context.CancelCauseFunc // of starting
	begun  int                     // how many mounts have been begun to start
	err    error                   // why the server cannot serve
	stops  []func(context.Context) error
	ended  chan struct{} // closed when all has been stopped, nil before that begins
}

// Start starts what the server depends on, in the order of Options.Lifespan, and then
// what is mounted. The first request does so by itself; a program that calls Start
// before it serves learns of a failure earlier. The failure is final: whatever was
// started is stopped, and the server answers every request with the reason.
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
	return s.life.failure()
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

// failure is why the server cannot serve, nil if it can.
func (l *lifespan) failure() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// begin begins to start, unless somebody has.
func (l *lifespan) begin() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.done != nil {
		return l.done
	}
	l.done = make(chan struct{})
	if len(l.server.options.Lifespan)+len(l.server.provider.mounted()) == 0 {
		l.ready.Store(true)
		close(l.done)
		return l.done
	}
	var ctx context.Context
	ctx, l.cancel = context.WithCancelCause(context.Background())
	go l.start(ctx)
	return l.done
}

func (l *lifespan) start(ctx context.Context) {
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
	l.server.options.Logger.Error("the server could not start", "error", err)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil { // nobody has shut the server down
		l.err = err
	}
}

// startAll starts everything, and then the server is ready. It returns what stops what
// has been started, after an error too.
func (l *lifespan) startAll(ctx context.Context) (stops []func(context.Context) error, err error) {
	l.values = make(map[reflect.Type]any)
	for _, d := range l.server.options.Lifespan {
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
		if stop != nil {
			stops = append(stops, stop)
		}
		if err != nil {
			return stops, err
		}
	}
}

// next returns what of the mounted is to be started next. If it is nothing, the server
// is ready.
func (l *lifespan) next(ctx context.Context, stops []func(context.Context) error) (*mount, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if mounts := l.server.provider.mounted(); l.begun < len(mounts) {
		l.begun++
		return mounts[l.begun-1], nil
	}
	l.stops = stops
	l.ready.Store(true)
	return nil, nil
}

// include takes in what is mounted. Before the server is ready, it will be started with
// the server; afterwards it is started before anybody can call it.
func (l *lifespan) include(m *mount) error {
	if wait, err := l.includeBefore(m); wait || err != nil {
		return err
	}
	if err := l.server.provider.refuseMount(m); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	stop, err := m.start(ctx, l.server)
	if err == nil {
		err = l.includeStarted(m, stop)
	}
	if err != nil && stop != nil {
		err = errors.Join(err, stop(ctx))
	}
	return err
}

// includeBefore says whether it has taken in what will be started.
func (l *lifespan) includeBefore(m *mount) (done bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil || l.ready.Load() {
		return false, l.err
	}
	return true, l.server.provider.add(m)
}

func (l *lifespan) includeStarted(m *mount, stop func(context.Context) error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return l.err
	}
	if err := l.server.provider.add(m); err != nil {
		return err
	}
	l.stops = append(l.stops, stop)
	return nil
}

// stop stops what was started, once. What is starting is given up.
func (l *lifespan) stop(ctx context.Context) error {
	l.mu.Lock()
	if l.err == nil {
		l.err = errShutDown
	}
	if l.done == nil { // never started, and never to be
		l.done = make(chan struct{})
		close(l.done)
	}
	if l.cancel != nil {
		l.cancel(errShutDown)
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

var errShutDown = errors.New("the server is shutting down")

// Ready has the server started before it answers.
func (c core) Ready(ctx context.Context) error {
	if c.life.ready.Load() {
		return nil
	}
	if err := await(ctx, c.life.begin()); err != nil {
		return err // of a caller who waits no longer
	}
	switch err := c.life.failure(); err {
	case nil:
		return nil
	case errShutDown:
		return &jsonrpc.Error{Code: jsonrpc.InternalError, Message: err.Error()}
	default:
		return &jsonrpc.Error{Code: jsonrpc.InternalError, Message: "the server could not start: " + err.Error()}
	}
}
