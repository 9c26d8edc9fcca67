package storetest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/dovetail-go/dovetail/transport/store"
)

// subscribe subscribes until the end of the test.
func (f *fixture) subscribe(s store.Store, subject string, handle func(ctx context.Context, m store.Message)) (stop func()) {
	f.Helper()
	stop, err := s.Subscribe(f.ctx, subject, handle)
	if err != nil {
		f.Fatalf("Subscribe(%q): %v", subject, err)
	}
	f.Cleanup(stop)
	return stop
}

// receive subscribes and returns the messages.
func (f *fixture) receive(s store.Store, subject string) <-chan store.Message {
	f.Helper()
	messages := make(chan store.Message, 1<<14)
	f.subscribe(s, subject, func(_ context.Context, m store.Message) { messages <- m })
	return messages
}

// Each subscriber receives each message once, in the order of its publisher.
func testPublish(f *fixture) {
	const publishers, each = 4, 100
	var subscribers []<-chan store.Message
	for _, s := range f.replicas() {
		subscribers = append(subscribers, f.receive(s, "a"), f.receive(s, "a"))
	}
	others := f.receive(f.store, "a/b")
	concurrently(publishers, func(i int) {
		for n := range each {
			if err := f.replicas()[i%2].Publish(f.ctx, "a", fmt.Appendf(nil, "%d:%d", i, n)); err != nil {
				f.Errorf("Publish: %v", err)
				return
			}
		}
	})
	if f.Failed() {
		return
	}
	f.ok(f.store.Publish(f.ctx, "a/b", []byte("other")))
	for _, messages := range subscribers {
		next := make([]int, publishers)
		for range publishers * each {
			m := await(f, "a message", messages)
			publisher, number, _ := strings.Cut(string(m.Data), ":")
			i, err := strconv.Atoi(publisher)
			if err != nil || i < 0 || i >= publishers || number != fmt.Sprint(next[i]) || m.Missed || m.Reply != nil {
				f.Fatalf("the message is %q, missed %t, after %v of the publishers", m.Data, m.Missed, next)
			}
			next[i]++
		}
	}
	f.wantBytes("Publish", await(f, "a message", others).Data, []byte("other"))
}

// A subscriber receives only messages that are sent after Subscribe has returned, and all of
// them.
func testBusStoresNothing(f *fixture) {
	for i, s := range f.replicas() {
		subject := fmt.Sprint("subject", i)
		f.ok(f.store.Publish(f.ctx, subject, []byte("before")))
		first := f.receive(f.store, subject)
		f.ok(f.store.Publish(f.ctx, subject, []byte("first")))
		f.wantBytes("Publish", await(f, "a message", first).Data, []byte("first"))
		second := f.receive(s, subject)
		f.ok(f.other.Publish(f.ctx, subject, []byte("second")))
		f.wantBytes("Publish", await(f, "a message", first).Data, []byte("second"))
		f.wantBytes("Publish", await(f, "a message", second).Data, []byte("second"))
	}
}

// stop waits for handle, whose context ends. Nothing is handled later.
func testStop(f *fixture) {
	var calls, ended atomic.Int32
	handling := make(chan struct{}, 10)
	stop := f.subscribe(f.store, "a", func(ctx context.Context, _ store.Message) {
		calls.Add(1)
		handling <- struct{}{}
		<-ctx.Done()
		<-time.After(10 * time.Millisecond) // later than a stop that does not wait
		ended.Add(1)
	})
	other := f.receive(f.store, "a")
	for range 2 {
		f.ok(f.store.Publish(f.ctx, "a", nil))
		await(f, "a message", other)
	}
	await(f, "a message", handling)
	stop()
	if ended.Load() != 1 {
		f.Error("stop did not wait for handle")
	}
	f.ok(f.store.Publish(f.ctx, "a", nil))
	await(f, "a message", other)
	stop() // again
	if calls.Load() != 1 {
		f.Errorf("handle was called %d times, want once", calls.Load())
	}
}

// A subscription ends with its context.
func testSubscriptionContext(f *fixture) {
	ctx, cancel := context.WithCancel(f.ctx)
	defer cancel()
	handling, ended := make(chan struct{}, 1), make(chan struct{}, 1)
	stop, err := f.store.Subscribe(ctx, "a", func(ctx context.Context, _ store.Message) {
		handling <- struct{}{}
		<-ctx.Done()
		ended <- struct{}{}
	})
	f.ok(err)
	f.ok(f.other.Publish(f.ctx, "a", nil))
	await(f, "a message", handling)
	cancel()
	await(f, "the end of handle", ended)
	stop()
	_, err = f.other.Request(f.ctx, "a", nil)
	f.wantError("Request after the subscription", err, store.ErrNoResponder)
}

// Request returns the first reply of a subscriber.
func testRequest(f *fixture) {
	for _, s := range f.replicas() {
		stop := f.subscribe(s, "a", func(ctx context.Context, m store.Message) {
			if err := m.Reply(ctx, append([]byte("reply to "), m.Data...)); err != nil {
				f.Errorf("Reply: %v", err)
			}
			_ = m.Reply(ctx, []byte("second reply")) // too late, perhaps
		})
		for i, from := range f.replicas() {
			reply, err := from.Request(f.ctx, "a", fmt.Appendf(nil, "request %d", i))
			f.ok(err)
			f.wantBytes("Request", reply, fmt.Appendf(nil, "reply to request %d", i))
		}
		stop()
	}
	// One of two subscribers does not reply.
	silent := f.receive(f.store, "b")
	f.subscribe(f.other, "b", func(ctx context.Context, m store.Message) {
		if err := m.Reply(ctx, m.Data); err != nil {
			f.Errorf("Reply: %v", err)
		}
	})
	concurrently(20, func(i int) {
		request := fmt.Sprint("request ", i)
		reply, err := f.replicas()[i%2].Request(f.ctx, "b", []byte(request))
		if err != nil || string(reply) != request {
			f.Errorf("Request(%s): %q, %v", request, reply, err)
		}
	})
	for range 20 {
		if m := await(f, "a request", silent); m.Reply == nil {
			f.Errorf("the request %q has no Reply", m.Data)
		}
	}
}

// A request without a subscriber fails. A request whose subscriber ends without a reply fails within the limit of
// operations.
func testNoResponder(f *fixture) {
	f.receive(f.store, "a/b")
	f.receive(f.other, "b")
	for _, s := range f.replicas() {
		ctx, cancel := context.WithTimeout(f.ctx, 3*time.Second)
		_, err := s.Request(ctx, "a", []byte("request"))
		f.wantError("Request without a subscriber", err, store.ErrNoResponder)
		if ctx.Err() != nil {
			f.Error("Request without a subscriber took more than three seconds")
		}
		cancel()
	}
	handling := make(chan struct{}, 1)
	stop := f.subscribe(f.store, "a", func(context.Context, store.Message) { handling <- struct{}{} })
	result := make(chan error, 1)
	f.start(func(ctx context.Context) {
		_, err := f.other.Request(ctx, "a", nil)
		result <- err
	})
	await(f, "a request", handling)
	stop()
	if err := await(f, "the end of Request", result); err == nil || errors.Is(err, context.Canceled) {
		f.Errorf("Request whose subscriber ends: %v", err)
	}
}

// A subscriber that is late by 1,000 messages receives all of them. If it is later, a message
// with Missed is where others may be lost.
func testSlowSubscriber(f *fixture) {
	for _, count := range []int{1000, 5000} {
		subject := fmt.Sprint("late/", count)
		handling, release := make(chan struct{}, 1), make(chan struct{})
		messages := make(chan store.Message, 1<<14)
		blocked := false
		f.subscribe(f.other, subject, func(ctx context.Context, m store.Message) {
			if !blocked {
				blocked = true
				handling <- struct{}{}
				select {
				case <-release:
				case <-ctx.Done():
				}
			}
			messages <- m
		})
		f.ok(f.store.Publish(f.ctx, subject, []byte("0")))
		await(f, "a message", handling)
		for n := 1; n <= count; n++ {
			f.ok(f.store.Publish(f.ctx, subject, fmt.Append(nil, n)))
		}
		close(release)
		next, missed := 0, false
		for next <= count {
			m := f.nextMessage(subject, messages, count+1)
			if m.Missed {
				missed = true
				continue
			}
			n, err := strconv.Atoi(string(m.Data))
			if err != nil || n < next || n > next && (!missed || count == 1000) {
				f.Fatalf("the message is %q after number %d, missed: %t", m.Data, next-1, missed)
			}
			next, missed = n+1, false
		}
	}
}

// nextMessage waits for a message, and sends the last one until there is any.
func (f *fixture) nextMessage(subject string, messages <-chan store.Message, last int) (next store.Message) {
	f.Helper()
	f.eventually("a message", func() bool {
		select {
		case next = <-messages:
			return true
		default:
			f.ok(f.store.Publish(f.ctx, subject, fmt.Append(nil, last)))
			return false
		}
	})
	return next
}
