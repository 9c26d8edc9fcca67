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

// startTimeout bounds how long all dependencies of a server may take to start.
const startTimeout = time.Minute

// A Dependency is a value that lives as long as its server serves: a database, a
// client, a cache. [Depend] makes one.
type Dependency struct {
	of    reflect.Type
	start func(ctx context.Context) (value any, stop func(context.Context) error, err error)
}

// Depend describes a dependency of type T. start is called once, before the server
// answers its first request, and stop, which may be nil, once when the server is shut
// down. Functions get the value by [State], methods of a service as a parameter. There
// is one dependency of a type.
func Depend[T any](start func(ctx context.Context) (value T, stop func(context.Context) error, err error)) Dependency {
	return Dependency{
		of: reflect.TypeFor[T](),
		start: func(ctx context.Context) (any, func(context.Context) error, error) {
			return start(ctx)
		},
	}
}

// State returns the server's dependency of type T. It panics if the server has none:
// that is a mistake in the program, which costs the call that meets it.
func State[T any](r *Request) T {
	value, ok := r.server.life.values[reflect.TypeFor[T]()]
	if !ok {
		panic(fmt.Sprintf("server.State: Options.Lifespan has no dependency of type %v", reflect.TypeFor[T]()))
	}
	return value.(T)
}

// A lifespan starts what a server depends on, and stops it in reverse order.
type lifespan struct {
	server *Server
	ready  atomic.Bool // all has been started

	mu      sync.Mutex
	done    chan struct{} // closed when starting has ended, nil before it begins
	err     error         // why it failed
	values  map[reflect.Type]any
	stops   []func(context.Context) error
	stopped bool
}

// checkDependencies refuses two dependencies of one type.
func checkDependencies(dependencies []Dependency) error {
	for i, d := range dependencies {
		if d.start == nil {
			return errors.New("a Dependency is made by Depend")
		}
		if slices.ContainsFunc(dependencies[:i], func(other Dependency) bool { return other.of == d.of }) {
			return fmt.Errorf("there are two dependencies of type %v", d.of)
		}
	}
	return nil
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
	select {
	case <-s.life.begin():
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	s.life.mu.Lock()
	defer s.life.mu.Unlock()
	return s.life.err
}

// begin begins to start, unless somebody has.
func (l *lifespan) begin() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.done == nil {
		l.done = make(chan struct{})
		if len(l.server.options.Lifespan)+len(l.server.provider.mounted()) == 0 {
			l.ready.Store(true)
			close(l.done)
		} else {
			go l.start()
		}
	}
	return l.done
}

func (l *lifespan) start() {
	defer close(l.done)
	ctx, cancel := context.WithTimeoutCause(context.Background(), startTimeout, fmt.Errorf("starting took longer than %v", startTimeout))
	defer cancel()
	values := make(map[reflect.Type]any)
	var stops []func(context.Context) error
	err := l.startAll(ctx, values, &stops)
	if err != nil {
		err = errors.Join(err, stopAll(ctx, stops))
		stops = nil
		l.server.options.Logger.Error("the server could not start", "error", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.values, l.stops, l.err = values, stops, err
	l.ready.Store(err == nil)
}

func (l *lifespan) startAll(ctx context.Context, values map[reflect.Type]any, stops *[]func(context.Context) error) error {
	for _, d := range l.server.options.Lifespan {
		value, stop, err := d.start(ctx)
		if err != nil {
			return fmt.Errorf("starting %v: %w", d.of, err)
		}
		values[d.of] = value
		if stop != nil {
			*stops = append(*stops, stop)
		}
	}
	for _, m := range l.server.provider.mounted() {
		stop, err := m.start(ctx, l.server.changes.tell)
		if err != nil {
			return fmt.Errorf("starting what is mounted as %q: %w", m.prefix, err)
		}
		*stops = append(*stops, stop)
	}
	return nil
}

// add has something mounted that comes after the start stopped as well.
func (l *lifespan) add(stop func(context.Context) error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stops = append(l.stops, stop)
}

// stop stops what was started, once.
func (l *lifespan) stop(ctx context.Context) error {
	l.mu.Lock()
	if l.done == nil { // never started, and never to be
		l.done = make(chan struct{})
		l.err = errShutDown
		close(l.done)
	}
	done := l.done
	l.mu.Unlock()
	<-done
	l.mu.Lock()
	stops := l.stops
	l.stops = nil
	l.mu.Unlock()
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
	if err := c.Start(ctx); err != nil {
		return &jsonrpc.Error{Code: jsonrpc.InternalError, Message: "the server could not start: " + err.Error()}
	}
	return nil
}
