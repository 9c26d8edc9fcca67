package server

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"reflect"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport/store"
)

// startTimeout bounds starting all dependencies and mounts, and stopping them again after a
// failure.
const startTimeout = time.Minute

// A lifecycle starts the dependencies and mounts of a server, and stops them in reverse order.
type lifecycle struct {
	server *Server
	ready  atomic.Bool          // everything has been started
	values map[reflect.Type]any // read-only once ready is true

	mu            sync.Mutex
	done          chan struct{}           // closed when starting has ended; nil before it begins
	cancel        context.CancelCauseFunc // cancels starting
	checked       *Catalog                // the last result of mergeNext; nil once the server is ready
	startedMounts int                     // number of mounts whose start has begun
	err           error                   // why the server cannot serve
	publicErr     *jsonrpc.Error          // the error for clients
	stops         []func(context.Context) error
	ended         chan struct{} // closed when everything has been stopped; nil before that begins
}

// Start starts the dependencies in the order of Options.Dependencies, then the mounts. It returns
// when all of them run. The first request starts the server as well, but a program that calls Start
// before it serves gets the error.
//
// Starting takes at most one minute. An error is permanent: what was started is stopped, and
// clients get an error with a reference to the log. Two mounts that offer the same name are a
// *[CollisionError]. If ctx ends first, Start returns the error of ctx, and starting continues.
// Start may be called more than once and concurrently.
func (s *Server) Start(ctx context.Context) error {
	if s.life.ready.Load() {
		return nil
	}
	if err := await(ctx, s.life.startOnce()); err != nil {
		return err
	}
	_, err := s.life.failure()
	return err
}

// Ready returns nil if the server accepts calls. Otherwise the error says that it has not been started,
// is starting, could not start or is shutting down. Ready does not start the server and does not
// block. It may be called concurrently, for example by a readiness probe.
func (s *Server) Ready() error {
	select {
	case <-s.stopping:
		return errors.New(errStopping.Message)
	default:
	}
	if s.life.ready.Load() {
		return nil
	}
	s.life.mu.Lock()
	defer s.life.mu.Unlock()
	switch {
	case s.life.err != nil:
		return fmt.Errorf("the server could not start: %w", s.life.err)
	case s.life.done == nil:
		return errors.New("the server has not been started")
	}
	return errors.New("the server is starting")
}

// Idle reports whether [Server.Shutdown] would lose nothing: no call is running, and clients have left
// nothing behind in this process, such as sessions, subscriptions and tasks. What is in
// [Options].Store outlasts a shutdown, and does not count. A server with [Options].Webhooks is never
// idle. With a negative [Options].RetainedBytes, only calls count. Idle does not block.
func (s *Server) Idle() bool {
	return s.options.Webhooks == nil && s.calls.isIdle() && s.retained.Held() == 0
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

// ready waits until the server has started. The first call begins the start.
func (s *Server) ready(ctx context.Context) error {
	if s.life.ready.Load() {
		return nil
	}
	if err := await(ctx, s.life.startOnce()); err != nil {
		return err
	}
	public, _ := s.life.failure()
	if public != nil {
		return public
	}
	return nil
}

// started begins the start if necessary, and reports whether it is complete. The error is for
// clients.
func (l *lifecycle) started() (bool, error) {
	if l.ready.Load() {
		return true, nil
	}
	l.startOnce()
	if public, _ := l.failure(); public != nil {
		return false, public
	}
	return l.ready.Load(), nil
}

// failure returns the error for clients and the error for the program. Both are nil if the server
// can serve.
func (l *lifecycle) failure() (public *jsonrpc.Error, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.publicErr, l.err
}

// startOnce starts the server in the background unless that was done before. The channel is closed when
// starting has ended.
func (l *lifecycle) startOnce() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.done != nil {
		return l.done
	}
	l.done = make(chan struct{})
	if len(l.server.options.Dependencies)+len(l.server.mounted()) == 0 {
		l.ready.Store(true)
		close(l.done)
		l.startFeatures()
		return l.done
	}
	var ctx context.Context
	ctx, l.cancel = context.WithCancelCause(context.Background())
	go l.start(ctx)
	return l.done
}

// startFeatures begins the work of features in the background.
func (l *lifecycle) startFeatures() {
	for _, f := range l.server.features {
		if f.start != nil {
			f.start(l.server)
		}
	}
}

func (l *lifecycle) start(ctx context.Context) {
	defer close(l.done)
	defer l.cancel(nil)
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("starting took longer than %v", startTimeout))
	defer cancel()
	stops, err := l.startAll(ctx)
	if err == nil {
		l.startFeatures()
		return
	}
	ctx, cancel = context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	err = errors.Join(err, stopAll(ctx, stops))
	reference := rand.Text()
	l.server.options.Logger.Error("the server could not start", append(errorAttrs(err), "reference", reference)...)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil { // not shut down
		l.err = err
		l.publicErr = &jsonrpc.Error{Code: jsonrpc.InternalError, Message: "the server could not start, reference " + reference}
	}
}

// startAll starts everything and then marks the server as ready. stops are the functions that stop
// what was started; they are valid even if err is not nil.
func (l *lifecycle) startAll(ctx context.Context) (stops []func(context.Context) error, err error) {
	l.values = make(map[reflect.Type]any)
	for _, d := range l.server.options.Dependencies {
		if ctx.Err() != nil {
			return stops, context.Cause(ctx)
		}
		stop, err := d.startFor(ctx, l)
		if err != nil {
			return stops, err
		}
		stops = append(stops, stop)
	}
	for {
		m, err := l.nextMount(ctx, stops)
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

// nextMount returns the next mount to start. If there is none, it marks the server as ready, unless
// mounts collide.
func (l *lifecycle) nextMount(ctx context.Context, stops []func(context.Context) error) (*mount, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	mounts := l.server.mounted()
	if l.startedMounts < len(mounts) {
		l.startedMounts++
		return mounts[l.startedMounts-1], nil
	}
	if err := l.server.checkMounts(mounts, l.server.mergeParts, nil); err != nil {
		return nil, err
	}
	l.stops, l.checked = stops, nil
	l.ready.Store(true)
	return nil, nil
}

// checkMounts returns the collisions of mounts with each other and with the server, without those
// in known. A resource of a bridge that collides with an earlier part is no error: other servers
// choose its URI, and must not prevent the start.
func (s *Server) checkMounts(mounts []*mount, merge func(parts []Part) *Catalog, known []*CollisionError) error {
	parts := []Part{{serverPart, s.registry.catalog()}}
	bridged := make(map[string]bool)
	for _, m := range mounts {
		part := m.part()
		parts = append(parts, part)
		bridged[part.Owner] = len(part.Catalog.bridges) > 0
	}
	var errs []error
	for _, collision := range newCollisions(known, merge(parts).Collisions()) {
		if collision.Kind != mcp.KindTool && collision.Kind != mcp.KindPrompt && bridged[collision.Owner] && collision.Owner != collision.Other {
			continue // logged when the catalogs are merged
		}
		errs = append(errs, collision)
	}
	return errors.Join(errs...)
}

// addMount adds a mount. On a server that has started, it first starts the mount.
func (l *lifecycle) addMount(m *mount) error {
	if done, err := l.insertMount(m, nil); done || err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	stop, err := m.start(ctx, l.server)
	if err == nil {
		_, err = l.insertMount(m, stop)
	}
	if err != nil {
		err = errors.Join(err, stop(ctx))
	}
	return err
}

// insertMount adds a mount unless it collides. stop stops a mount that has been started. Without
// stop, done is false on a server that has started: the mount must be started first.
func (l *lifecycle) insertMount(m *mount, stop func(context.Context) error) (done bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return false, l.err
	}
	mounts := append(slices.Clone(l.server.mounted()), m)
	m.owner = fmt.Sprintf("mount %d (prefix %q)", len(mounts), m.Prefix)
	merge, known := l.mergeNext, []*CollisionError(nil)
	if l.ready.Load() {
		merge, known = l.server.mergeParts, l.server.Catalog().collisions
	}
	if err := l.server.checkMounts(mounts, merge, known); err != nil {
		return false, err
	}
	if l.ready.Load() {
		if stop == nil {
			return false, nil
		}
		l.stops = append(l.stops, stop)
	}
	l.server.mounts.Store(&mounts)
	return true, nil
}

func (s *Server) mergeParts(parts []Part) *Catalog { return Merge(s.merged.Load(), parts...) }

// mergeNext adds the last part to the merged catalog of the others, so that many mounts do not merge all parts each time.
// The result is valid until the next call. l.mu is held.
func (l *lifecycle) mergeNext(parts []Part) *Catalog {
	last := len(parts) - 1
	if l.checked == nil || !slices.Equal(l.checked.parts, parts[:last]) {
		l.checked = Merge(nil, parts[:last]...)
	}
	l.checked.parts = append(l.checked.parts, parts[last])
	l.checked.reserveNames(nil, parts[last])
	l.checked.addPart(nil, parts[last])
	return l.checked
}

// stop cancels a start in progress and stops everything that was started. Only the first call does
// so; others wait for it.
func (l *lifecycle) stop(ctx context.Context) error {
	l.mu.Lock()
	if l.err == nil {
		l.err, l.publicErr = errors.New(errStopping.Message), errStopping
	}
	if l.done == nil { // never started
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
	err := stopAll(ctx, stops)
	if _, ok := errors.AsType[*panicError](err); ok {
		l.server.options.Logger.Error("a dependency panicked while it was stopped", errorAttrs(err)...)
	}
	return err
}

func stopAll(ctx context.Context, stops []func(context.Context) error) error {
	var errs []error
	for _, stop := range slices.Backward(stops) {
		errs = append(errs, stop(ctx))
	}
	return errors.Join(errs...)
}

// A Dependency is a value that lives as long as its server: a database, a client, a cache. Create
// one with [Provide].
type Dependency struct {
	typ   reflect.Type
	start func(ctx context.Context) (value any, stop func(context.Context) error, err error)
}

// Provide returns a dependency of type T. A server has at most one dependency of each type.
//
// The server calls start once, before it answers calls. The context of start ends when everything
// has been started. stop may be nil. Otherwise it is called once, at shutdown or after a failed
// start, unless start itself returned an error. A dependency that needs another one is listed after
// it, and gets its value from a variable that both start functions use.
//
// Functions get the value with [Value], and methods of a service get it as a parameter. They use it
// concurrently.
//
// Starting all dependencies and mounts takes at most one minute. [Server.Start] returns the error
// of start, and an error for a panic. Clients get only a reference to the log.
func Provide[T any](start func(ctx context.Context) (value T, stop func(context.Context) error, err error)) Dependency {
	return Dependency{
		typ: reflect.TypeFor[T](),
		start: func(ctx context.Context) (any, func(context.Context) error, error) {
			return start(ctx)
		},
	}
}

// Value returns the server's dependency of type T. It panics if the server has none, which fails
// the call with an [InternalError]. It may be called concurrently.
func Value[T any](r *Request) T {
	value, ok := r.dependency(reflect.TypeFor[T]())
	if !ok {
		panic(fmt.Sprintf("server.Value: Options.Dependencies has none of type %v", reflect.TypeFor[T]()))
	}
	t, _ := value.(T) // fails for a nil interface value
	return t
}

func (r *Request) dependency(of reflect.Type) (value any, ok bool) {
	if r == nil || r.server == nil {
		return nil, false
	}
	value, ok = r.server.life.values[of]
	return value, ok
}

// checkDependencies rejects two dependencies of one type.
func checkDependencies(dependencies []Dependency) error {
	for i, d := range dependencies {
		if d.start == nil {
			return errors.New("a Dependency must be created with Provide")
		}
		if slices.ContainsFunc(dependencies[:i], func(other Dependency) bool { return other.typ == d.typ }) {
			return fmt.Errorf("there are two dependencies of type %v", d.typ)
		}
	}
	return nil
}

// startFor starts the dependency and returns the function that stops it.
func (d Dependency) startFor(ctx context.Context, l *lifecycle) (func(context.Context) error, error) {
	var stop func(context.Context) error
	err := d.recoverPanic("starting", func() error {
		value, started, err := d.start(ctx)
		if err != nil && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		l.values[d.typ], stop = value, started
		return err
	})
	return func(ctx context.Context) error {
		if stop == nil {
			return nil
		}
		return d.recoverPanic("stopping", func() error { return stop(ctx) })
	}, err
}

// recoverPanic calls do, and returns a panic of the dependency's function as an error.
func (d Dependency) recoverPanic(doing string, do func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = dependencyPanic{&panicError{p, debug.Stack()}}
		}
		if err != nil {
			err = fmt.Errorf("%s %v: %w", doing, d.typ, err)
		}
	}()
	return do()
}

// A dependencyPanic is a panic in a dependency. Its text and stack are logged. Error does not
// contain them.
type dependencyPanic struct{ *panicError }

func (dependencyPanic) Error() string { return "it panicked" }

func (e dependencyPanic) Unwrap() error { return e.panicError }

// Shutdown ends subscriptions, rejects new calls, waits for running calls until ctx ends, and stops
// mounts and dependencies in reverse order. Functions that run after their timeout are running calls. Tasks are running calls while their functions work. Those that
// wait for a person, for an approval or an answer, are given up immediately: with a Store, another replica
// continues them, or the next process; without one, they end with the process. It does not close
// connections; their transports do, and stdio.Serve and streamable.Serve return. It may be called more than
// once and concurrently; later calls wait for the first one. The error joins the error of ctx and the errors of everything
// that could not be stopped.
func (s *Server) Shutdown(ctx context.Context) error {
	s.stopOnce.Do(func() { close(s.stopping) })
	var waits []func(context.Context) error
	for _, f := range s.features {
		if f.stop != nil {
			waits = append(waits, f.stop(s))
		}
	}
	err := await(ctx, s.calls.stop())
	err = errors.Join(err, stopAll(ctx, waits), s.life.stop(ctx), s.store.close())
	if s.exchange != nil {
		s.exchange.close(ctx)
	}
	return err
}

// Stopping returns a channel that is closed when [Server.Shutdown] is called.
func (s *Server) Stopping() <-chan struct{} { return s.stopping }

// Store returns [Options].Store, for transports.
func (s *Server) Store() store.Store { return s.options.Store }

// A callCounter counts running calls.
type callCounter struct {
	mu      sync.Mutex
	running int
	stopped bool
	idle    chan struct{}
}

func (c *callCounter) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return false
	}
	c.running++
	return true
}

// extend counts a function that goes on after its call has ended. It returns false if no call is running.
func (c *callCounter) extend() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running == 0 {
		return false
	}
	c.running++
	return true
}

func (c *callCounter) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running--
	if c.stopped && c.running == 0 {
		close(c.idle)
	}
}

func (c *callCounter) isIdle() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.running == 0
}

// stop rejects further calls, and returns a channel that is closed when no call is running.
func (c *callCounter) stop() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.stopped {
		c.stopped, c.idle = true, make(chan struct{})
		if c.running == 0 {
			close(c.idle)
		}
	}
	return c.idle
}
