package storetest

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/transport/store"
)

const (
	// testTimeout bounds a subtest that hangs. It is long, since other processes may use the machine.
	testTimeout = 4 * time.Minute
	// eventTimeout bounds the wait for one event.
	eventTimeout = 20 * time.Second
	// tolerance is how much too early a time may be, since the engine has its own clock.
	tolerance = 100 * time.Millisecond
)

var errTimeout = errors.New("the test has not finished within " + testTimeout.String())

// An Engine is what one subtest tests. It has no data yet.
type Engine struct {
	// Connect returns a store. The stores that it returns are replicas: they have the same
	// data. It uses t.Fatal if it fails, and t.Cleanup to close the store.
	Connect func() store.Store
	// Stop makes the engine unreachable, and Start reachable again with all its data. If
	// they are nil, the subtests that need them are skipped. Connect must return a store after Stop too.
	Stop, Start func()
	// Lose makes the engine lose all its data, and all tables or streams in which it stores them. If it is nil,
	// the subtest that needs it is skipped.
	Lose func()
}

// Run tests a store, each property in a subtest. open is called once for each subtest. The
// subtests that use Stop and Start run one after the other, and then the rest in parallel.
func Run(t *testing.T, open func(t *testing.T, limits store.Limits) Engine) {
	for _, p := range properties() {
		t.Run(p.name, func(t *testing.T) {
			if !p.stops {
				t.Parallel()
			}
			p.run(t, open)
		})
	}
}

// RunVirtual is like Run, but each subtest has its own virtual time, see [synctest.Test].
func RunVirtual(t *testing.T, open func(t *testing.T, limits store.Limits) Engine) {
	for _, p := range properties() {
		t.Run(p.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { p.run(t, open) })
		})
	}
}

// A property is what one subtest checks.
type property struct {
	name   string
	test   func(f *fixture)
	limits store.Limits
	stops  bool // uses Stop and Start
	later  bool // Stop is called before the stores connect
	loses  bool // uses Lose
}

func properties() []property {
	few := store.Limits{LogEntries: 10}
	short := store.Limits{Lease: 3 * time.Second, LogAge: 3 * time.Second}
	long := store.Limits{Lease: 2 * testTimeout}
	return []property{
		{name: "Names", test: testNames},
		{name: "InvalidNames", test: testInvalidNames},
		{name: "Values", test: testValues},
		{name: "LargeValues", test: testLargeValues},
		{name: "Copies", test: testCopies},
		{name: "Contexts", test: testContexts},
		{name: "Close", test: testClose},

		{name: "KVCreate", test: testCreate},
		{name: "KVUpdate", test: testUpdate},
		{name: "KVDelete", test: testDelete},
		{name: "KVRevisions", test: testRevisions},
		{name: "KVExpiry", test: testExpiry},
		{name: "KVExpiryOfUpdates", test: testExpiryOfUpdates},
		{name: "KVConcurrentUpdates", test: testConcurrentUpdates},
		{name: "KVConcurrentCreates", test: testConcurrentCreates},
		{name: "WatchValues", test: testWatchValues},
		{name: "WatchChanges", test: testWatchChanges},
		{name: "WatchOrder", test: testWatchOrder},
		{name: "WatchExpiry", test: testWatchExpiry},

		{name: "LogOrder", test: testLogOrder},
		{name: "LogUnknown", test: testLogUnknown},
		{name: "LogEntries", test: testLogEntries, limits: few},
		{name: "LogAge", test: testLogAge, limits: short},
		{name: "LogDrop", test: testLogDrop},
		{name: "LogFollow", test: testFollow},
		{name: "LogFollowIdle", test: testFollowIdle, limits: short},
		{name: "LogFollowSlowly", test: testFollowSlowly, limits: few},
		{name: "LogFollowMany", test: testFollowMany},
		{name: "LogConcurrency", test: testLogConcurrency},

		{name: "QueueOrder", test: testQueueOrder},
		{name: "QueueDuplicates", test: testQueueDuplicates},
		{name: "QueuePull", test: testPull},
		{name: "QueueLease", test: testLease, limits: short},
		{name: "QueueExtend", test: testExtend, limits: short},
		{name: "QueueNak", test: testNak},
		{name: "QueueLost", test: testLost, limits: short},
		{name: "QueueConcurrency", test: testQueueConcurrency},

		{name: "BusPublish", test: testPublish},
		{name: "BusStoresNothing", test: testBusStoresNothing},
		{name: "BusStop", test: testStop},
		{name: "BusContext", test: testSubscriptionContext},
		{name: "BusRequest", test: testRequest},
		{name: "BusNoResponder", test: testNoResponder},
		{name: "BusSlowSubscriber", test: testSlowSubscriber},

		{name: "DownErrors", test: testDownErrors, limits: long, stops: true},
		{name: "DownWaits", test: testDownWaits, limits: long, stops: true},
		{name: "DownAtFirst", test: testDownAtFirst, stops: true, later: true},
		{name: "LostData", test: testLostData, loses: true},
	}
}

func (p property) run(t *testing.T, open func(t *testing.T, limits store.Limits) Engine) {
	ctx, cancel := context.WithTimeoutCause(t.Context(), testTimeout, errTimeout)
	t.Cleanup(cancel)
	limits, err := p.limits.WithDefaults()
	if err != nil {
		t.Fatal(err)
	}
	engine := open(t, p.limits)
	if p.stops && engine.Stop == nil {
		t.Skip("the engine cannot be stopped")
	}
	if p.loses && engine.Lose == nil {
		t.Skip("the engine cannot lose its data")
	}
	if p.later {
		engine.Stop()
	}
	f := &fixture{T: t, ctx: ctx, engine: engine, limits: limits}
	f.store = engine.Connect()
	f.other = engine.Connect()
	p.test(f)
}

// A fixture is one subtest.
type fixture struct {
	*testing.T
	ctx          context.Context // of this subtest
	engine       Engine
	limits       store.Limits
	store, other store.Store // two replicas
}

// replicas returns both replicas.
func (f *fixture) replicas() []store.Store { return []store.Store{f.store, f.other} }

// ok fails the test if there is an error.
func (f *fixture) ok(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// wantError checks the error of an operation.
func (f *fixture) wantError(operation string, err, want error) {
	f.Helper()
	if !errors.Is(err, want) {
		f.Errorf("%s: error %v, want %v", operation, err, want)
	}
}

// wantBytes checks data of an operation.
func (f *fixture) wantBytes(operation string, got, want []byte) {
	f.Helper()
	if !bytes.Equal(got, want) {
		f.Errorf("%s: got %.100q, %d bytes, want %.100q, %d bytes", operation, got, len(got), want, len(want))
	}
}

// wait lets time pass.
func (f *fixture) wait(d time.Duration) {
	f.Helper()
	select {
	case <-time.After(d):
	case <-f.ctx.Done():
		f.Fatal(context.Cause(f.ctx))
	}
}

// eventually calls done until it returns true.
func (f *fixture) eventually(what string, done func() bool) {
	f.Helper()
	for deadline := time.Now().Add(eventTimeout); !done(); f.wait(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			f.Fatalf("%s: not within %v", what, eventTimeout)
		}
	}
}

// await waits for an event.
func await[T any](f *fixture, what string, events <-chan T) T {
	f.Helper()
	select {
	case event, ok := <-events:
		if !ok {
			f.Fatalf("%s: ended early", what)
		}
		return event
	case <-time.After(eventTimeout):
		f.Fatalf("%s: not within %v", what, eventTimeout)
	}
	panic("unreachable")
}

// start runs a function in a goroutine. The test waits for it after its end; ctx ends then.
func (f *fixture) start(run func(ctx context.Context)) {
	ctx, cancel := context.WithCancel(f.ctx)
	var running sync.WaitGroup
	running.Go(func() { run(ctx) })
	f.Cleanup(func() {
		cancel()
		running.Wait()
	})
}

// A yielded is what an iterator yields.
type yielded[T any] struct {
	value T
	err   error
}

// collect sends what an iterator yields to a channel, which it closes at the end.
func collect[T any](f *fixture, iterate func(ctx context.Context) iter.Seq2[T, error]) <-chan yielded[T] {
	all := make(chan yielded[T], 1<<14)
	f.start(func(ctx context.Context) {
		defer close(all)
		for value, err := range iterate(ctx) {
			all <- yielded[T]{value, err}
		}
	})
	return all
}

// nextOf waits for the next value of an iterator.
func nextOf[T any](f *fixture, what string, all <-chan yielded[T]) T {
	f.Helper()
	next := await(f, what, all)
	if next.err != nil {
		f.Fatalf("%s: %v", what, next.err)
	}
	return next.value
}

// concurrently runs a function n times, concurrently, and waits.
func concurrently(n int, run func(i int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { run(i) })
	}
	all.Wait()
}
