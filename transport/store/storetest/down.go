package storetest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/dovetail-go/dovetail/transport/store"
)

// While the engine is down, operations fail within their own limit. When it is up again, they succeed, and nothing is
// lost.
func testDownErrors(f *fixture) {
	f.create("kept", "value")
	ids := f.append("kept", "1", "2")
	f.push("kept", "job", "held")
	f.wantJob(f.store, "kept", "job", 1)
	held := f.wantJob(f.other, "kept", "held", 1)
	f.push("kept", "next")
	for round := range 2 {
		f.engine.Stop()
		all := operations()
		concurrently(len(all), func(i int) {
			if all[i].waits {
				return
			}
			ctx, cancel := context.WithTimeout(f.ctx, eventTimeout)
			defer cancel()
			err := all[i].run(ctx, f.store, fmt.Sprint("down", round))
			if err == nil || isOfStore(err) || ctx.Err() != nil {
				f.Errorf("%s while the engine is down: error %v", all[i].name, err)
			}
		})
		f.engine.Start()
	}
	// Both replicas work again.
	for i, s := range f.replicas() {
		f.eventually("a request after the engine is up again", func() bool {
			stop, err := s.Subscribe(f.ctx, "again", func(ctx context.Context, m store.Message) {
				if m.Reply != nil {
					_ = m.Reply(ctx, m.Data) // Request shows whether it has arrived
				}
			})
			if err != nil {
				return false
			}
			defer stop()
			reply, err := f.replicas()[1-i].Request(f.ctx, "again", []byte("request"))
			return err == nil && string(reply) == "request"
		})
		f.eventually("a new value after the engine is up again", func() bool {
			_, err := s.Create(f.ctx, fmt.Sprint("again", i), []byte("value"), 0)
			return err == nil
		})
	}
	f.wantValue("kept", "value")
	f.wantEntries("kept", ids[0], "2")
	f.append("kept", "3")
	f.wantEntries("kept", ids[0], "2", "3")
	f.ok(f.other.Ack(f.ctx, held))
	f.ok(f.store.Push(f.ctx, "kept", "next", nil)) // not again
	f.ok(f.store.Ack(f.ctx, f.wantJob(f.store, "kept", "next", 1)))
}

// Waits and subscriptions outlast the time in which the engine is down.
func testDownWaits(f *fixture) {
	changed := f.create("a/changed", "before")
	deleted := f.create("a/deleted", "before")
	f.create("a/same", "before")
	changes := f.watch(f.other, "a")
	for range 3 {
		nextOf(f, "Watch", changes)
	}
	f.append("a", "1")
	entries, none := f.follow(f.other, "a", 0), f.follow(f.other, "b", 0)
	f.wantNext(entries, "1")
	messages := f.receive(f.other, "a")
	f.ok(f.store.Publish(f.ctx, "a", []byte("before")))
	await(f, "a message", messages)
	jobs := f.pulled(f.other, "a")

	f.engine.Stop()
	f.wait(2 * time.Second)
	f.engine.Start()
	f.retry("Update", func() error {
		_, err := f.store.Update(f.ctx, "a/changed", []byte("after"), changed, 0)
		return err
	})
	f.ok(f.store.Delete(f.ctx, "a/deleted", deleted))
	f.create("a/new", "after")
	f.append("a", "2")
	f.append("b", "1")
	f.push("a", "job")

	missing := map[string]bool{"a/changed": true, "a/deleted": true, "a/new": true}
	for len(missing) > 0 {
		item := nextOf(f, "Watch", changes) // values that have not changed may be yielded again
		if item.Deleted && item.Key == "a/deleted" || string(item.Value) == "after" {
			delete(missing, item.Key)
		}
	}
	f.wantNext(entries, "2")
	f.wantNext(none, "1")
	if job := nextOf(f, "Pull", jobs); job.ID != "job" || job.Attempt != 1 {
		f.Errorf("Pull returned %+v, want attempt 1", job)
	}
	missed := false
	for received := false; !received; {
		m := f.nextMessage("a", messages, 1)
		received = !m.Missed
		missed = missed || m.Missed
	}
	if !missed {
		f.Error("a message without Missed before it followed an interruption")
	}
}

// retry repeats an operation until it succeeds.
func (f *fixture) retry(what string, operation func() error) {
	f.Helper()
	f.eventually(what, func() bool { return operation() == nil })
}

// Stores that connect before the engine can be reached work when it can. So do waits that have begun before.
func testDownAtFirst(f *fixture) {
	if _, err := f.store.Get(f.ctx, "a"); err == nil || isOfStore(err) {
		f.Errorf("Get before the engine is up: error %v", err)
	}
	changes, entries, jobs := f.watch(f.store, "a"), f.follow(f.store, "a", 0), f.pulled(f.store, "a")
	f.wait(time.Second)
	f.engine.Start()
	f.retry("a new value", func() error {
		_, err := f.other.Create(f.ctx, "a", []byte("value"), 0)
		return err
	})
	f.append("a", "1")
	f.push("a", "job")
	f.wantBytes("Watch", nextOf(f, "Watch", changes).Value, []byte("value"))
	f.wantNext(entries, "1")
	if job := nextOf(f, "Pull", jobs); job.ID != "job" || job.Attempt != 1 {
		f.Errorf("Pull returned %+v, want attempt 1", job)
	}
	messages := f.receive(f.store, "a")
	f.ok(f.other.Publish(f.ctx, "a", []byte("message")))
	if m := await(f, "a message", messages); m.Missed || string(m.Data) != "message" {
		f.Errorf("received %+v, want the message", m)
	}
	_, err := f.store.Request(f.ctx, "none", nil)
	f.wantError("Request", err, store.ErrNoResponder)
}

// pulled pulls one job.
func (f *fixture) pulled(s store.Store, queue string) <-chan yielded[*store.Job] {
	return collect(f, func(ctx context.Context) iter.Seq2[*store.Job, error] {
		return func(yield func(*store.Job, error) bool) { yield(s.Pull(ctx, queue)) }
	})
}

// An engine that has lost all its data is like a new one, without new stores. Waits go on, or end with an error.
// Revisions and ids are greater than all revisions and ids before the loss, so that they are not confused.
func testLostData(f *fixture) {
	revision := f.create("a", "before")
	id := f.append("a", "before")[0]
	f.push("a", "lost")
	held := f.wantJob(f.store, "a", "lost", 1)
	changes, entries, jobs := f.watch(f.store, "a"), f.follow(f.store, "a", 0), f.pulled(f.store, "a")
	nextOf(f, "Watch", changes)
	f.wantNext(entries, "before")
	messages := f.receive(f.other, "a")

	f.engine.Lose()
	for i, s := range f.replicas() {
		f.retry("Create", func() error {
			_, err := s.Create(f.ctx, fmt.Sprint("works", i), nil, 0)
			return err
		})
	}
	f.wantNone("a")
	f.wantEntries("a", 0)
	f.wantPurged("a", id)
	_, err := f.store.Update(f.ctx, "a", []byte("after"), revision, 0)
	f.wantError("Update of a lost value", err, store.ErrConflict)
	if f.create("a", "after") <= revision {
		f.Errorf("a new value has a revision of at most %d, the revision of a lost value", revision)
	}
	if f.append("a", "after")[0] <= id {
		f.Errorf("a new entry has an id of at most %d, the id of a lost entry", id)
	}
	f.push("a", "new")
	if err := f.store.Ack(f.ctx, held); err != nil && !errors.Is(err, store.ErrLost) {
		f.Errorf("Ack of a lost job: error %v, want none or %v", err, store.ErrLost)
	}

	for ended := false; !ended; {
		change := await(f, "Watch", changes)
		ended = change.err != nil || string(change.value.Value) == "after"
	}
	if entry := await(f, "Follow", entries); entry.err == nil && string(entry.value.Data) != "after" {
		f.Errorf("Follow yields %q", entry.value.Data)
	}
	if job := nextOf(f, "Pull", jobs); job.ID != "new" || job.Attempt != 1 {
		f.Errorf("Pull returned %+v, want the new job", job)
	}
	for m := f.nextMessage("a", messages, 1); m.Missed; {
		m = f.nextMessage("a", messages, 1)
	}
}
