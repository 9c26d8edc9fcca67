package nats_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	driver "github.com/nats-io/nats.go"

	"github.com/dovetail-go/dovetail/transport/store"
	"github.com/dovetail-go/dovetail/transport/store/nats"
)

// After each member of a cluster in turn has been killed, nothing is lost: writers, readers and
// workers that were connected to it continue with the others.
func TestMemberFails(t *testing.T) {
	t.Parallel()
	members := newCluster(t)
	var urls []string
	for _, m := range members {
		urls = append(urls, m.url())
	}
	opts := nats.Options{Replicas: 3, Timeout: 2 * time.Second}
	createStreams(t, urls[0], opts)
	stores := make([]*nats.Store, len(members))
	for i := range stores { // connected to different members
		order := append(urls[i:len(urls):len(urls)], urls[:i]...)
		inOrder := opts
		inOrder.Client = []driver.Option{driver.DontRandomize()}
		stores[i] = connect(t, strings.Join(order, ","), &inOrder)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()

	const count = 30 // per writer
	var readers, writers sync.WaitGroup
	total := count * len(stores)
	followed := make([]map[string]int, len(stores))
	watched := make([]map[string]bool, len(stores))
	for i, s := range stores {
		readers.Go(func() {
			followed[i] = map[string]int{}
			var last uint64
			for entry, err := range s.Follow(ctx, "log", 0) {
				if err != nil || entry.ID <= last {
					t.Errorf("follower %d: entry %d after %d, %v", i, entry.ID, last, err)
					return
				}
				last = entry.ID
				followed[i][string(entry.Data)]++
				if len(followed[i]) == total {
					return
				}
			}
		})
		readers.Go(func() {
			watched[i] = map[string]bool{}
			for item, err := range s.Watch(ctx, "values") {
				if err != nil {
					t.Errorf("watcher %d: %v", i, err)
					return
				}
				watched[i][item.Key] = true
				if len(watched[i]) == total {
					return
				}
			}
		})
	}
	jobs := make(chan string, total)
	working, stopWorkers := context.WithCancel(ctx)
	for i, s := range stores {
		readers.Go(func() {
			for {
				job, err := s.Pull(working, "jobs")
				if working.Err() != nil {
					return
				}
				if err != nil {
					t.Errorf("worker %d: %v", i, err)
					return
				}
				retry(ctx, t, "Ack", func() error { return s.Ack(ctx, job) })
				jobs <- job.ID
			}
		})
	}

	for i, s := range stores {
		writers.Go(func() {
			for n := range count {
				name := fmt.Sprintf("%d-%d", i, n)
				retry(ctx, t, "Append", func() error {
					_, err := s.Append(ctx, "log", []byte(name))
					return err
				})
				retry(ctx, t, "Create", func() error {
					_, err := s.Create(ctx, "values/"+name, nil, 0)
					if err == store.ErrExists { // by an attempt that seemed to fail
						err = nil
					}
					return err
				})
				retry(ctx, t, "Push", func() error { return s.Push(ctx, "jobs", name, nil) })
				if n%10 == 5 && i == n/10 { // the member to which the writer is connected
					members[i].stop()
					members[i].start()
				}
			}
		})
	}
	writers.Wait()
	done := map[string]bool{}
	for len(done) < total {
		select {
		case id := <-jobs:
			done[id] = true
		case <-ctx.Done():
			t.Fatalf("%d of %d jobs are done", len(done), total)
		}
	}
	stopWorkers()
	readers.Wait()
	for i := range stores {
		if len(followed[i]) != total || len(watched[i]) != total {
			t.Errorf("replica %d has received %d entries and %d values, want %d", i, len(followed[i]), len(watched[i]), total)
		}
	}
}

// A change with the newest revision of a key succeeds, whether the revision comes from a write or from a Watch at
// another member, which may know it before the leader of the stream.
func TestChangeOfNewestRevision(t *testing.T) { // alone, because it keeps the machine busy
	members := newCluster(t)
	opts := nats.Options{Replicas: 3, Timeout: startTimeout}
	createStreams(t, members[0].url(), opts)
	var stores []*nats.Store
	for _, m := range members {
		stores = append(stores, connect(t, m.url(), &opts))
	}
	var running sync.WaitGroup
	for i := range 63 {
		writer, watcher := stores[i%3], stores[(i+i/3)%3]
		prefix := fmt.Sprint("keys/", i)
		running.Go(func() {
			for n := range newestKeys {
				key := fmt.Sprint(prefix, "/", n)
				if err := changeTwice(t.Context(), writer, key); err != nil {
					t.Errorf("%s: %v", key, err)
				}
			}
		})
		running.Go(func() {
			seen := 0
			for item, err := range watcher.Watch(t.Context(), prefix) {
				if err == nil && string(item.Value) == "second" {
					seen++
					err = watcher.Delete(t.Context(), item.Key, item.Revision)
				}
				if err != nil {
					t.Errorf("%s: %v", item.Key, err)
				}
				if err != nil && item.Key == "" || seen == newestKeys {
					return
				}
			}
		})
	}
	running.Wait()
}

// changeTwice creates a value and replaces it immediately.
func changeTwice(ctx context.Context, s store.KV, key string) error {
	revision, err := s.Create(ctx, key, []byte("first"), 0)
	if err != nil {
		return err
	}
	_, err = s.Update(ctx, key, []byte("second"), revision, 0)
	return err
}

// retry repeats an operation until it succeeds.
func retry(ctx context.Context, t *testing.T, name string, operation func() error) {
	for {
		err := operation()
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			t.Errorf("%s: %v", name, err)
			return
		}
	}
}

// A store that is connected to one member of a cluster receives what is published at another one after Subscribe has
// returned, also if the third one has a store.
func TestSubscribersOfMembers(t *testing.T) {
	t.Parallel()
	members := newCluster(t)
	opts := nats.Options{Replicas: 3, Timeout: startTimeout}
	createStreams(t, members[0].url(), opts)
	var stores []*nats.Store
	for _, m := range members {
		stores = append(stores, connect(t, m.url(), &opts))
	}
	var running sync.WaitGroup
	for i := range 8 {
		running.Go(func() {
			for n := range 50 {
				subject := fmt.Sprintf("%d/%d", i, n)
				received := make(chan struct{}, 1)
				stop, err := stores[n%3].Subscribe(t.Context(), subject, func(context.Context, store.Message) { received <- struct{}{} })
				if err == nil {
					err = stores[(n+i)%3].Publish(t.Context(), subject, nil)
				}
				if err != nil {
					t.Error(err)
					return
				}
				select {
				case <-received:
				case <-time.After(5 * time.Second):
					t.Errorf("the message %s is lost", subject)
				}
				stop()
			}
		})
	}
	running.Wait()
}
