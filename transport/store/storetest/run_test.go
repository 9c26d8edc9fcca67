package storetest_test

import (
	"context"
	"errors"
	"iter"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/internal/test/leaktest"
	"github.com/dovetail-go/dovetail/transport/store"
	"github.com/dovetail-go/dovetail/transport/store/storetest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// A store that can be stopped passes all tests.
func TestRunPasses(t *testing.T) {
	storetest.RunVirtual(t, open(func(s store.Store) store.Store { return s }))
}

// open returns a function that opens an engine whose stores wrap one store in memory.
func open(wrap func(s store.Store) store.Store) func(t *testing.T, limits store.Limits) storetest.Engine {
	return func(t *testing.T, limits store.Limits) storetest.Engine {
		m, err := store.NewMemory(&store.MemoryOptions{Limits: limits})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := m.Close(); err != nil {
				t.Error(err)
			}
		})
		s := &stoppable{Store: m}
		connect := func() store.Store { return wrap(s) }
		return storetest.Engine{Connect: connect, Stop: s.stop, Start: s.start}
	}
}

// A stoppable is a store in memory that can be unreachable.
type stoppable struct {
	store.Store
	down atomic.Bool

	mu     sync.Mutex
	missed []func() // call handle of the subscriptions
}

var errDown = errors.New("the engine is down")

func (s *stoppable) stop() { s.down.Store(true) }

func (s *stoppable) start() {
	s.down.Store(false)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, missed := range s.missed {
		missed()
	}
}

func (s *stoppable) check() error {
	if s.down.Load() {
		return errDown
	}
	return nil
}

func (s *stoppable) Get(ctx context.Context, key string) (store.Item, error) {
	if err := s.check(); err != nil {
		return store.Item{}, err
	}
	return s.Store.Get(ctx, key)
}

func (s *stoppable) Create(ctx context.Context, key string, value []byte, ttl time.Duration) (uint64, error) {
	if err := s.check(); err != nil {
		return 0, err
	}
	return s.Store.Create(ctx, key, value, ttl)
}

func (s *stoppable) Update(ctx context.Context, key string, value []byte, revision uint64, ttl time.Duration) (uint64, error) {
	if err := s.check(); err != nil {
		return 0, err
	}
	return s.Store.Update(ctx, key, value, revision, ttl)
}

func (s *stoppable) Delete(ctx context.Context, key string, revision uint64) error {
	if err := s.check(); err != nil {
		return err
	}
	return s.Store.Delete(ctx, key, revision)
}

func (s *stoppable) Append(ctx context.Context, stream string, data []byte) (uint64, error) {
	if err := s.check(); err != nil {
		return 0, err
	}
	return s.Store.Append(ctx, stream, data)
}

func (s *stoppable) Read(ctx context.Context, stream string, after uint64) iter.Seq2[store.Entry, error] {
	if err := s.check(); err != nil {
		return func(yield func(store.Entry, error) bool) { yield(store.Entry{}, err) }
	}
	return s.Store.Read(ctx, stream, after)
}

func (s *stoppable) Drop(ctx context.Context, stream string) error {
	if err := s.check(); err != nil {
		return err
	}
	return s.Store.Drop(ctx, stream)
}

func (s *stoppable) Push(ctx context.Context, queue, id string, data []byte) error {
	if err := s.check(); err != nil {
		return err
	}
	return s.Store.Push(ctx, queue, id, data)
}

func (s *stoppable) Publish(ctx context.Context, subject string, data []byte) error {
	if err := s.check(); err != nil {
		return err
	}
	return s.Store.Publish(ctx, subject, data)
}

func (s *stoppable) Subscribe(ctx context.Context, subject string, handle func(context.Context, store.Message)) (func(), error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	var mu sync.Mutex // the calls of handle follow one another
	handleOne := func(ctx context.Context, m store.Message) {
		mu.Lock()
		defer mu.Unlock()
		handle(ctx, m)
	}
	s.mu.Lock()
	s.missed = append(s.missed, func() { handleOne(ctx, store.Message{Missed: true}) })
	s.mu.Unlock()
	return s.Store.Subscribe(ctx, subject, handleOne)
}

func (s *stoppable) Request(ctx context.Context, subject string, data []byte) ([]byte, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	return s.Store.Request(ctx, subject, data)
}

// faults lists defects and a property that detects each.
var faults = map[string]struct {
	wrap     func(s store.Store) store.Store
	property string
}{
	"replaces in Create":            {func(s store.Store) store.Store { return replacing{s} }, "KVCreate"},
	"creates in Update":             {func(s store.Store) store.Store { return creating{s} }, "KVUpdate"},
	"ignores revisions":             {func(s store.Store) store.Store { return careless{s} }, "KVConcurrentUpdates"},
	"updates a deleted value":       {func(s store.Store) store.Store { return reviving{s} }, "WatchChanges"},
	"ignores the time to live":      {func(s store.Store) store.Store { return eternal{s} }, "KVExpiry"},
	"watches all keys":              {func(s store.Store) store.Store { return watchful{s} }, "WatchValues"},
	"does not watch the prefix key": {func(s store.Store) store.Store { return narrow{s} }, "WatchValues"},
	"hides deletions":               {func(s store.Store) store.Store { return hiding{s} }, "WatchChanges"},
	"yields what is left":           {func(s store.Store) store.Store { return lenient{s} }, "LogEntries"},
	"drops nothing":                 {func(s store.Store) store.Store { return keeping{s} }, "LogDrop"},
	"follows by reading again":      {func(s store.Store) store.Store { return polling{s} }, "LogFollowIdle"},
	"adds jobs again":               {func(s store.Store) store.Store { return &repeating{Store: s} }, "QueueDuplicates"},
	"acknowledges on delivery":      {func(s store.Store) store.Store { return hasty{s} }, "QueueLease"},
	"extends nothing":               {func(s store.Store) store.Store { return shorter{s} }, "QueueExtend"},
	"ignores the delay":             {func(s store.Store) store.Store { return impatient{s} }, "QueueNak"},
	"handles concurrently":          {func(s store.Store) store.Store { return disorderly{s} }, "BusPublish"},
	"does not wait in stop":         {func(s store.Store) store.Store { return leaving{s} }, "BusStop"},
	"waits for a subscriber":        {func(s store.Store) store.Store { return hopeful{s} }, "BusNoResponder"},
	"keeps the data in a closure":   {func(s store.Store) store.Store { return sharing{s} }, "Copies"},
	"limits values":                 {func(s store.Store) store.Store { return small{s} }, "LargeValues"},
	"allows any name":               {func(s store.Store) store.Store { return lax{s} }, "InvalidNames"},
	"ignores the context":           {func(s store.Store) store.Store { return stubborn{s} }, "Contexts"},
	"succeeds when it is down":      {func(s store.Store) store.Store { return confident{s} }, "DownErrors"},
	"ends a Watch when it is down":  {func(s store.Store) store.Store { return fragile{s} }, "DownWaits"},
	"begins no Watch when down":     {func(s store.Store) store.Store { return shy{s} }, "DownAtFirst"},
}

const faultVariable = "STORETEST_FAULT"

// Run detects each defect. Each runs in a process of its own, since a failed subtest fails
// its parents.
func TestRunFindsFaults(t *testing.T) {
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFaulty$/^"+fault.property+"$")
			cmd.Env = append(os.Environ(), faultVariable+"="+name)
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || !strings.Contains(string(out), "--- FAIL: TestFaulty/"+fault.property) {
				t.Errorf("the kit has not noticed (%v):\n%s", err, out)
			}
		})
	}
}

func TestFaulty(t *testing.T) {
	fault, ok := faults[os.Getenv(faultVariable)]
	if !ok {
		t.Skip("runs in a process that TestRunFindsFaults starts")
	}
	storetest.RunVirtual(t, open(fault.wrap))
}

type replacing struct{ store.Store }

func (s replacing) Create(ctx context.Context, key string, value []byte, ttl time.Duration) (uint64, error) {
	if err := s.Delete(ctx, key, 0); err != nil {
		return 0, err
	}
	return s.Store.Create(ctx, key, value, ttl)
}

type creating struct{ store.Store }

func (s creating) Update(ctx context.Context, key string, value []byte, revision uint64, ttl time.Duration) (uint64, error) {
	if revision == 0 {
		return s.Create(ctx, key, value, ttl)
	}
	return s.Store.Update(ctx, key, value, revision, ttl)
}

type careless struct{ store.Store }

func (s careless) Update(ctx context.Context, key string, value []byte, revision uint64, ttl time.Duration) (uint64, error) {
	item, err := s.Get(ctx, key)
	if err != nil {
		return 0, err
	}
	return s.Store.Update(ctx, key, value, max(revision, item.Revision), ttl)
}

// reviving is a store that creates a key again when it updates a deletion.
type reviving struct{ store.Store }

func (s reviving) Update(ctx context.Context, key string, value []byte, revision uint64, ttl time.Duration) (uint64, error) {
	newRevision, err := s.Store.Update(ctx, key, value, revision, ttl)
	if _, missing := s.Get(ctx, key); errors.Is(err, store.ErrConflict) && errors.Is(missing, store.ErrNotFound) {
		return s.Create(ctx, key, value, ttl)
	}
	return newRevision, err
}

type eternal struct{ store.Store }

func (s eternal) Create(ctx context.Context, key string, value []byte, ttl time.Duration) (uint64, error) {
	return s.Store.Create(ctx, key, value, min(ttl, 0))
}

type watchful struct{ store.Store }

func (s watchful) Watch(ctx context.Context, prefix string) iter.Seq2[store.Item, error] {
	first, _, _ := strings.Cut(prefix, "/")
	return s.Store.Watch(ctx, first)
}

type narrow struct{ store.Store }

func (s narrow) Watch(ctx context.Context, prefix string) iter.Seq2[store.Item, error] {
	return func(yield func(store.Item, error) bool) {
		for item, err := range s.Store.Watch(ctx, prefix) {
			if item.Key != prefix && !yield(item, err) {
				return
			}
		}
	}
}

type hiding struct{ store.Store }

func (s hiding) Watch(ctx context.Context, prefix string) iter.Seq2[store.Item, error] {
	return func(yield func(store.Item, error) bool) {
		for item, err := range s.Store.Watch(ctx, prefix) {
			if !item.Deleted && !yield(item, err) {
				return
			}
		}
	}
}

// lenient is a store that reads what is stored instead of returning ErrPurged.
type lenient struct{ store.Store }

func (s lenient) Read(ctx context.Context, stream string, after uint64) iter.Seq2[store.Entry, error] {
	return func(yield func(store.Entry, error) bool) {
		for entry, err := range s.Store.Read(ctx, stream, 0) {
			if (err != nil || entry.ID > after) && !yield(entry, err) {
				return
			}
		}
	}
}

type keeping struct{ store.Store }

func (keeping) Drop(context.Context, string) error { return nil }

// polling is a store that follows a stream by reading it again and again.
type polling struct{ store.Store }

func (s polling) Follow(ctx context.Context, stream string, after uint64) iter.Seq2[store.Entry, error] {
	return func(yield func(store.Entry, error) bool) {
		for {
			for entry, err := range s.Read(ctx, stream, after) {
				if !yield(entry, err) || err != nil {
					return
				}
				after = entry.ID
			}
			select {
			case <-time.After(time.Millisecond):
			case <-ctx.Done():
				yield(store.Entry{}, ctx.Err())
				return
			}
		}
	}
}

type repeating struct {
	store.Store
	pushes atomic.Int32
}

func (s *repeating) Push(ctx context.Context, queue, id string, data []byte) error {
	if s.pushes.Add(1)%2 == 0 {
		id += "-again"
	}
	return s.Store.Push(ctx, queue, id, data)
}

type hasty struct{ store.Store }

func (s hasty) Pull(ctx context.Context, queue string) (*store.Job, error) {
	job, err := s.Store.Pull(ctx, queue)
	if err == nil {
		err = s.Store.Ack(ctx, job)
	}
	return job, err
}

func (hasty) Ack(context.Context, *store.Job) error { return nil }

type shorter struct{ store.Store }

func (shorter) Extend(context.Context, *store.Job) error { return nil }

type impatient struct{ store.Store }

func (s impatient) Nak(ctx context.Context, job *store.Job, _ time.Duration) error {
	return s.Store.Nak(ctx, job, 0)
}

// disorderly is a store that does not wait for a call of handle before the next one.
type disorderly struct{ store.Store }

func (s disorderly) Subscribe(ctx context.Context, subject string, handle func(context.Context, store.Message)) (func(), error) {
	var calls atomic.Int32
	var handling sync.WaitGroup
	stop, err := s.Store.Subscribe(ctx, subject, func(ctx context.Context, m store.Message) {
		// Not 0: the race runtime of Go 1.26 crashes when a timer of a synctest bubble is due at once.
		delay := time.Duration(1+calls.Add(1)%3) * time.Millisecond
		handling.Add(1)
		time.AfterFunc(delay, func() {
			defer handling.Done()
			handle(ctx, m)
		})
	})
	if err != nil {
		return nil, err
	}
	return func() {
		stop()
		handling.Wait()
	}, nil
}

type leaving struct{ store.Store }

func (s leaving) Subscribe(ctx context.Context, subject string, handle func(context.Context, store.Message)) (func(), error) {
	ctx, cancel := context.WithCancel(ctx)
	if _, err := s.Store.Subscribe(ctx, subject, handle); err != nil {
		cancel()
		return nil, err
	}
	return cancel, nil
}

type hopeful struct{ store.Store }

func (s hopeful) Request(ctx context.Context, subject string, data []byte) ([]byte, error) {
	reply, err := s.Store.Request(ctx, subject, data)
	if errors.Is(err, store.ErrNoResponder) {
		<-time.After(5 * time.Second)
	}
	return reply, err
}

// sharing is a store that reads the caller's data later.
type sharing struct{ store.Store }

func (s sharing) Publish(ctx context.Context, subject string, data []byte) error {
	time.AfterFunc(time.Millisecond, func() { _ = s.Store.Publish(ctx, subject, data) })
	return nil
}

type small struct{ store.Store }

func (s small) Push(ctx context.Context, queue, id string, data []byte) error {
	if len(data) >= store.MaxValue {
		return store.ErrTooLarge
	}
	return s.Store.Push(ctx, queue, id, data)
}

type lax struct{ store.Store }

func (s lax) Drop(ctx context.Context, stream string) error {
	if store.CheckName(stream) != nil {
		return nil
	}
	return s.Store.Drop(ctx, stream)
}

type stubborn struct{ store.Store }

func (s stubborn) Append(ctx context.Context, stream string, data []byte) (uint64, error) {
	return s.Store.Append(context.WithoutCancel(ctx), stream, data)
}

type confident struct{ store.Store }

func (s confident) Publish(ctx context.Context, subject string, data []byte) error {
	if err := s.Store.Publish(ctx, subject, data); !errors.Is(err, errDown) {
		return err
	}
	return nil
}

// fragile is a store whose Watch ends with an error a second after it began.
type fragile struct{ store.Store }

func (s fragile) Watch(ctx context.Context, prefix string) iter.Seq2[store.Item, error] {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	return func(yield func(store.Item, error) bool) {
		defer cancel()
		s.Store.Watch(ctx, prefix)(yield)
	}
}

// shy is a store whose Watch ends with an error if it begins while the engine is down.
type shy struct{ store.Store }

func (s shy) Watch(ctx context.Context, prefix string) iter.Seq2[store.Item, error] {
	if _, err := s.Get(ctx, prefix); errors.Is(err, errDown) {
		return func(yield func(store.Item, error) bool) { yield(store.Item{}, err) }
	}
	return s.Store.Watch(ctx, prefix)
}
