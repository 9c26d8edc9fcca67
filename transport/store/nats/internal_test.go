package nats

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/dovetail-go/dovetail/transport/store"
)

func open(t *testing.T) *Store {
	t.Helper()
	s, err := Embedded(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// A job that arrives when the worker no longer waits is available to others.
func TestJobOfEndedReceiver(t *testing.T) {
	for name, deliver := range map[string]func(r *receiver, message *nats.Msg){
		"before the end": func(r *receiver, message *nats.Msg) { r.receive(message); r.end() },
		"after the end":  func(r *receiver, message *nats.Msg) { r.end(); r.receive(message) },
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			if err := s.Push(t.Context(), "a", "job", nil); err != nil {
				t.Fatal(err)
			}
			if err := s.createWorker(t.Context(), "a"); err != nil {
				t.Fatal(err)
			}
			message, err := s.conn.Request("$JS.API.CONSUMER.MSG.NEXT."+s.queueStream()+"."+workerName("a"), nil, s.timeout)
			if err != nil {
				t.Fatal(err)
			}
			deliver(newReceiver(time.Now().Add(30*time.Second)), message)
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second) // the job is available before its lease ends
			defer cancel()
			job, err := s.Pull(ctx, "a")
			if err != nil || job.ID != "job" {
				t.Errorf("Pull: %+v, %v", job, err)
			}
		})
	}
}

// A sequence that has ended leaves nothing on the server.
func TestWatchLeavesNoConsumer(t *testing.T) {
	s := open(t)
	if _, err := s.Create(t.Context(), "a", nil, 0); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		for range s.Watch(t.Context(), "a") {
			break
		}
		ctx, cancel := context.WithCancel(t.Context())
		for range s.Watch(ctx, "a") {
			cancel()
		}
		cancel()
	}
	info, err := s.values.Info(t.Context())
	if err != nil || info.State.Consumers != 0 {
		t.Errorf("%d consumers are left, %v", info.State.Consumers, err)
	}
}

// Heartbeats that the worker has not read do not keep the job from it.
func TestReceiverOfHeartbeats(t *testing.T) {
	r := newReceiver(time.Now().Add(30 * time.Second))
	for range 100 {
		r.receive(&nats.Msg{Header: nats.Header{"Status": {"100"}}})
	}
	job := &nats.Msg{}
	r.receive(job)
	var last *nats.Msg
	for len(r.messages) > 0 {
		last = <-r.messages
	}
	if last != job {
		t.Errorf("received %+v, want the job", last)
	}
}

// A watcher ends when deletions may have been missed.
func TestWatchAfterLongInterruption(t *testing.T) {
	s := open(t)
	if _, err := s.Create(t.Context(), "a", nil, 0); err != nil {
		t.Fatal(err)
	}
	var last error
	items := 0
	for _, err := range s.Watch(t.Context(), "a") {
		if items++; err == nil && items == 1 {
			s.mu.Lock()
			s.lost = time.Now().Add(-deletionAge)
			s.mu.Unlock()
			s.connected()
		}
		last = err
	}
	if items != 2 || !errors.Is(last, errInterrupted) {
		t.Errorf("Watch yields %d items and ends with %v, want one and %v", items, last, errInterrupted)
	}
}

// A follower finds an entry of which it has not been told.
func TestFollowerFindsUntoldEntry(t *testing.T) {
	s := open(t)
	ctx := t.Context()
	config := s.log.CachedInfo().Config
	config.RePublish = nil // followers get no messages
	if _, err := s.js.UpdateStream(ctx, config); err != nil {
		t.Fatal(err)
	}
	first, err := s.Append(ctx, "a", nil)
	if err != nil {
		t.Fatal(err)
	}
	var second uint64
	for entry, err := range s.Follow(ctx, "a", 0) {
		if err != nil {
			t.Fatal(err)
		}
		if entry.ID != first {
			if entry.ID != second {
				t.Errorf("entry %d, want %d", entry.ID, second)
			}
			return
		}
		if second, err = s.Append(ctx, "a", nil); err != nil {
			t.Fatal(err)
		}
	}
}

// An acknowledgement after the lease does not reach the server, where it would concern another
// worker.
func TestLeaseOfWorker(t *testing.T) {
	s := open(t)
	if err := s.Push(t.Context(), "a", "job", nil); err != nil {
		t.Fatal(err)
	}
	job, err := s.Pull(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	job.Lease.(*lease).until = time.Now()
	for name, err := range map[string]error{
		"Ack":    s.Ack(t.Context(), job),
		"Extend": s.Extend(t.Context(), job),
		"Nak":    s.Nak(t.Context(), job, 0),
	} {
		if !errors.Is(err, store.ErrLost) {
			t.Errorf("%s: error %v, want %v", name, err, store.ErrLost)
		}
	}
	worker, err := s.js.Consumer(t.Context(), s.queueStream(), workerName("a"))
	if err != nil {
		t.Fatal(err)
	}
	if pending := worker.CachedInfo().NumAckPending; pending != 1 {
		t.Errorf("%d jobs are delivered for the server, want 1", pending)
	}
}

// All servers that have received a message are awaited, in whichever order their traces arrive.
func TestAwaitedTraces(t *testing.T) {
	hops := map[string]int{"": 2, "1": 0, "2": 1, "2.1": 0}
	orders := [][]string{{}}
	for range hops {
		var longer [][]string
		for _, order := range orders {
			for hop := range hops {
				if !slices.Contains(order, hop) {
					longer = append(longer, append(slices.Clone(order), hop))
				}
			}
		}
		orders = longer
	}
	for _, order := range orders {
		awaited := awaitedTraces{"": 1}
		for i, hop := range order {
			if len(awaited) == 0 {
				t.Errorf("%q: not awaited after %d traces", order, i)
				break
			}
			var received trace
			received.Hops = hops[hop]
			if hop != "" {
				received.Request.Header = map[string][]string{"Nats-Trace-Hop": {hop}}
			}
			awaited.receive(received)
		}
		if len(awaited) > 0 {
			t.Errorf("%q: then awaits %v", order, awaited)
		}
	}
}
