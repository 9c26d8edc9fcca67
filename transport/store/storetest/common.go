package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"time"

	"github.com/dovetail-go/dovetail/transport/store"
)

// An operation is a call of one method with a name.
type operation struct {
	name  string
	run   func(ctx context.Context, s store.Store, name string) error
	waits bool // until ctx ends
}

// operations returns an operation for each method of a store, and for each of their names.
func operations() []operation {
	data := []byte("data")
	return []operation{
		{"Get", func(ctx context.Context, s store.Store, name string) error {
			_, err := s.Get(ctx, name)
			return err
		}, false},
		{"Create", func(ctx context.Context, s store.Store, name string) error {
			_, err := s.Create(ctx, name, data, 0)
			return err
		}, false},
		{"Update", func(ctx context.Context, s store.Store, name string) error {
			_, err := s.Update(ctx, name, data, 1, 0)
			return err
		}, false},
		{"Delete", func(ctx context.Context, s store.Store, name string) error {
			return s.Delete(ctx, name, 0)
		}, false},
		{"Watch", func(ctx context.Context, s store.Store, name string) error {
			return errorOf(s.Watch(ctx, name))
		}, true},
		{"Append", func(ctx context.Context, s store.Store, name string) error {
			_, err := s.Append(ctx, name, data)
			return err
		}, false},
		{"Read", func(ctx context.Context, s store.Store, name string) error {
			return errorOf(s.Read(ctx, name, 0))
		}, false},
		{"Follow", func(ctx context.Context, s store.Store, name string) error {
			return errorOf(s.Follow(ctx, name, 0))
		}, true},
		{"Drop", func(ctx context.Context, s store.Store, name string) error {
			return s.Drop(ctx, name)
		}, false},
		{"Push", func(ctx context.Context, s store.Store, name string) error {
			return s.Push(ctx, name, "id", data)
		}, false},
		{"Push of id", func(ctx context.Context, s store.Store, name string) error {
			return s.Push(ctx, "queue-of-ids", name, data)
		}, false},
		{"Pull", func(ctx context.Context, s store.Store, name string) error {
			for {
				if _, err := s.Pull(ctx, name); err != nil {
					return err
				}
			}
		}, true},
		{"Publish", func(ctx context.Context, s store.Store, name string) error {
			return s.Publish(ctx, name, data)
		}, false},
		{"Subscribe", func(ctx context.Context, s store.Store, name string) error {
			stop, err := s.Subscribe(ctx, name, func(context.Context, store.Message) {})
			if err == nil {
				stop()
			}
			return err
		}, false},
		{"Request", func(ctx context.Context, s store.Store, name string) error {
			_, err := s.Request(ctx, name, data)
			return err
		}, false},
	}
}

// errorOf returns the error that an iterator yields.
func errorOf[T any](all iter.Seq2[T, error]) error {
	var failed error
	for _, err := range all {
		if failed != nil {
			return fmt.Errorf("the iterator went on after the error %w", failed)
		}
		failed = err
	}
	return failed
}

// names returns valid names. A store must not treat any two of them as equal.
func names() []string {
	return []string{
		"a", "A", "a/b", "a/B", "a-b", "a_b", "ab", "a/b/c", "a/bc", "-", "_", "0", "00", "1", "-/-",
		strings.Repeat("n", 199) + "1", strings.Repeat("n", 199) + "2", strings.Repeat("n/", 99) + "n",
	}
}

// Names are distinct, and the same name means different things for each capability.
func testNames(f *fixture) {
	for i, name := range names() {
		data := []byte(fmt.Sprint("data ", i))
		f.create(name, string(data))
		f.append(name, string(data))
		f.ok(f.store.Push(f.ctx, name, "id", data))
	}
	received := make(chan string, len(names()))
	for _, name := range names() {
		stop, err := f.store.Subscribe(f.ctx, name, func(_ context.Context, m store.Message) {
			received <- name + " received " + string(m.Data)
		})
		f.ok(err)
		defer stop()
	}
	for i, name := range names() {
		data := fmt.Sprint("data ", i)
		f.wantValue(name, data)
		f.wantEntries(name, 0, data)
		if job := f.pull(f.other, name); string(job.Data) != data || job.Queue != name || job.ID != "id" || job.Attempt != 1 {
			f.Errorf("Pull(%q): %+v, want %q", name, job, data)
		}
		f.ok(f.other.Publish(f.ctx, name, []byte(data)))
		if got, want := await(f, "Publish", received), name+" received "+data; got != want {
			f.Errorf("Publish(%q): %s, want %s", name, got, want)
		}
	}
	for _, name := range names() {
		f.ok(f.store.Delete(f.ctx, name, 0))
		f.ok(f.store.Drop(f.ctx, name))
	}
}

// Operations with names that CheckName refuses fail.
func testInvalidNames(f *fixture) {
	for _, name := range []string{
		"", "/", "a/", "/a", "a//b", "a b", " a", "a.b", ".", "..", "*", "a/*", ">", "$", "a:b", "{a}", "a\x00", "a\n", "é", `a\b`,
		strings.Repeat("n", 201),
	} {
		for _, op := range operations() {
			ctx, cancel := context.WithTimeout(f.ctx, eventTimeout)
			if err := op.run(ctx, f.store, name); err == nil || ctx.Err() != nil {
				f.Errorf("%s with the name %.20q: %v, want an immediate error", op.name, name, err)
			}
			cancel()
		}
	}
}

// Data are returned byte for byte by all capabilities.
func testValues(f *fixture) {
	values := [][]byte{
		nil, []byte(" "), []byte("\x00"), []byte("a\x00b\r\n"), []byte("null"), []byte("0042"), []byte(`{"a":[1.0,"\u00e9"]}`),
		[]byte("\xff\xfe\x80"), []byte("+OK\r\n"), bytes.Repeat([]byte("\x00\xff"), 5000),
	}
	for i, value := range values {
		f.roundTrip(fmt.Sprint("value", i), value)
	}
}

// Values of MaxValue are accepted. Larger ones are accepted too, or refused with ErrTooLarge.
func testLargeValues(f *fixture) {
	value := make([]byte, 8*store.MaxValue)
	for i := range value {
		value[i] = byte(i * i >> 8)
	}
	f.roundTrip("max", value[:store.MaxValue])

	for _, op := range []struct {
		name string
		run  func(value []byte) error
		read func(value []byte)
	}{
		{"Create", func(value []byte) error {
			_, err := f.store.Create(f.ctx, "large", value, 0)
			return err
		}, func(value []byte) { f.wantValue("large", string(value)) }},
		{"Append", func(value []byte) error {
			_, err := f.store.Append(f.ctx, "large", value)
			return err
		}, func(value []byte) { f.wantEntries("large", 0, string(value)) }},
		{"Push", func(value []byte) error {
			return f.store.Push(f.ctx, "large", "id", value)
		}, func(value []byte) { f.wantBytes("Pull", f.pull(f.other, "large").Data, value) }},
		{"Publish", func(value []byte) error {
			return f.store.Publish(f.ctx, "large", value)
		}, func([]byte) {}},
	} {
		if err := op.run(value); err == nil {
			op.read(value)
		} else {
			f.wantError(op.name+" of a large value", err, store.ErrTooLarge)
		}
	}
}

// roundTrip checks that all capabilities carry a value from one replica to the other.
func (f *fixture) roundTrip(name string, value []byte) {
	f.Helper()
	revision, err := f.store.Create(f.ctx, name, []byte("before"), 0)
	f.ok(err)
	revision, err = f.store.Update(f.ctx, name, value, revision, 0)
	f.ok(err)
	f.wantValue(name, string(value))
	for item, err := range f.other.Watch(f.ctx, name) {
		f.ok(err)
		if item.Revision < revision {
			continue
		}
		f.wantBytes("Watch", item.Value, value)
		break
	}

	f.append(name, string(value))
	f.wantEntries(name, 0, string(value))
	for entry, err := range f.other.Follow(f.ctx, name, 0) {
		f.ok(err)
		f.wantBytes("Follow", entry.Data, value)
		break
	}

	f.ok(f.store.Push(f.ctx, name, "id", value))
	job := f.pull(f.other, name)
	f.wantBytes("Pull", job.Data, value)
	f.ok(f.other.Ack(f.ctx, job))

	received := make(chan []byte, 2)
	stop, err := f.other.Subscribe(f.ctx, name, func(ctx context.Context, m store.Message) {
		received <- m.Data
		if m.Reply != nil {
			if err := m.Reply(ctx, m.Data); err != nil {
				f.Errorf("Reply: %v", err)
			}
		}
	})
	f.ok(err)
	defer stop()
	f.ok(f.store.Publish(f.ctx, name, value))
	f.wantBytes("Publish", await(f, "Publish", received), value)
	reply, err := f.store.Request(f.ctx, name, value)
	f.ok(err)
	f.wantBytes("Request", reply, value)
}

// Data belong to the caller before and after: the store has its own.
func testCopies(f *fixture) {
	buf := func() []byte { return []byte("right") }
	spoil := func(data []byte) { copy(data, "wrong") }

	created := buf()
	_, err := f.store.Create(f.ctx, "a", created, 0)
	f.ok(err)
	spoil(created)
	got, err := f.store.Get(f.ctx, "a")
	f.ok(err)
	f.wantBytes("Create", got.Value, buf())
	spoil(got.Value)
	for range 2 {
		for item, err := range f.store.Watch(f.ctx, "a") {
			f.ok(err)
			f.wantBytes("Get and Watch", item.Value, buf())
			spoil(item.Value)
			break
		}
	}
	updated := buf()
	_, err = f.store.Update(f.ctx, "a", updated, got.Revision, 0)
	f.ok(err)
	spoil(updated)
	f.wantValue("a", string(buf()))

	appended := buf()
	_, err = f.store.Append(f.ctx, "a", appended)
	f.ok(err)
	spoil(appended)
	for range 2 {
		for entry, err := range f.store.Read(f.ctx, "a", 0) {
			f.ok(err)
			f.wantBytes("Append and Read", entry.Data, buf())
			spoil(entry.Data)
		}
	}

	pushed := buf()
	f.ok(f.store.Push(f.ctx, "a", "id", pushed))
	spoil(pushed)
	for range 2 {
		job := f.pull(f.store, "a")
		f.wantBytes("Push and Pull", job.Data, buf())
		spoil(job.Data)
		f.ok(f.store.Nak(f.ctx, job, 0))
	}

	received := make(chan []byte, 2)
	release := make(chan struct{})
	for range 2 {
		stop, err := f.store.Subscribe(f.ctx, "a", func(ctx context.Context, m store.Message) {
			select {
			case <-release:
			case <-ctx.Done():
			}
			received <- bytes.Clone(m.Data)
			spoil(m.Data)
		})
		f.ok(err)
		defer stop()
	}
	published := buf()
	f.ok(f.store.Publish(f.ctx, "a", published))
	spoil(published)
	close(release)
	for range 2 {
		f.wantBytes("Publish", await(f, "Publish", received), buf())
	}
}

// An operation with a context that has ended fails with its error, and a wait ends with it.
func testContexts(f *fixture) {
	ended, cancel := context.WithCancel(f.ctx)
	cancel()
	for _, op := range operations() {
		f.wantError(op.name+" with a context that has ended", op.run(ended, f.store, "name"), context.Canceled)
		if !op.waits {
			continue
		}
		ctx, cancel := context.WithTimeout(f.ctx, 300*time.Millisecond)
		begin := time.Now()
		result := make(chan error, 1)
		f.start(func(context.Context) { result <- op.run(ctx, f.store, "name") })
		f.wantError(op.name+" while it waits", await(f, op.name+" whose context ends", result), context.DeadlineExceeded)
		if d := time.Since(begin); d < 300*time.Millisecond-tolerance {
			f.Errorf("%s returned after %v, its context ended after 300ms", op.name, d)
		}
		cancel()
	}
	stop, err := f.other.Subscribe(f.ctx, "silence", func(context.Context, store.Message) {})
	f.ok(err)
	defer stop()
	ctx, cancel := context.WithTimeout(f.ctx, 300*time.Millisecond)
	defer cancel()
	_, err = f.store.Request(ctx, "silence", nil)
	f.wantError("Request without a reply", err, context.DeadlineExceeded)
}

// After Close, operations and waits fail with ErrClosed. The store of another replica may be
// closed as well.
func testClose(f *fixture) {
	closer, ok := f.store.(io.Closer)
	if !ok {
		f.Skip("the store does not implement io.Closer")
	}
	var waits []<-chan error
	for _, op := range operations() {
		if op.waits {
			result := make(chan error, 1)
			f.start(func(ctx context.Context) { result <- op.run(ctx, f.store, "name") })
			waits = append(waits, result)
		}
	}
	handling, ended := make(chan struct{}, 1), false
	_, err := f.store.Subscribe(f.ctx, "name", func(ctx context.Context, m store.Message) {
		handling <- struct{}{}
		<-ctx.Done()
		ended = true
	})
	f.ok(err)
	f.ok(f.store.Publish(f.ctx, "name", nil))
	await(f, "Publish", handling)
	f.wait(200 * time.Millisecond) // until all wait
	f.ok(closer.Close())
	if !ended {
		f.Error("Close did not wait for a call of handle in progress")
	}
	for _, result := range waits {
		f.wantError("a wait while the store is closed", await(f, "the end of a wait", result), store.ErrClosed)
	}
	for _, op := range operations() {
		f.wantError(op.name+" of a closed store", op.run(f.ctx, f.store, "name"), store.ErrClosed)
	}
	f.ok(closer.Close())
}

// isOfStore reports whether an error is one of package store.
func isOfStore(err error) bool {
	for _, own := range []error{
		store.ErrNotFound, store.ErrExists, store.ErrConflict, store.ErrPurged, store.ErrLost,
		store.ErrNoResponder, store.ErrTooLarge, store.ErrFull, store.ErrClosed,
	} {
		if errors.Is(err, own) {
			return true
		}
	}
	return false
}
