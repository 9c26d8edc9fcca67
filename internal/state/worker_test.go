package state_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/internal/state"
	"github.com/dovetail-go/dovetail/transport/store"
)

// A faultyQueue is a queue whose operations fail while it is away.
type faultyQueue struct {
	store.Queue
	away atomic.Bool
}

var errAway = errors.New("the queue cannot be reached")

func (q *faultyQueue) Pull(ctx context.Context, name string) (*store.Job, error) {
	if q.away.Load() {
		return nil, errAway
	}
	return q.Queue.Pull(ctx, name)
}

func (q *faultyQueue) Ack(ctx context.Context, job *store.Job) error {
	if q.away.Load() {
		return errAway
	}
	return q.Queue.Ack(ctx, job)
}

// A workerRig is a worker in a bubble with a queue in memory.
type workerRig struct {
	*testing.T
	queue  *faultyQueue
	worker state.Worker
	logged strings.Builder
	stop   context.CancelFunc
	done   chan struct{} // Work has returned
}

func newWorkerRig(t *testing.T, maximum int, do func(r *workerRig, job *store.Job)) *workerRig {
	memory, err := store.NewMemory(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = memory.Close() })
	r := &workerRig{T: t, queue: &faultyQueue{Queue: memory}, done: make(chan struct{})}
	r.worker = state.Worker{
		Queue: r.queue, Name: "jobs", Max: maximum, Do: func(job *store.Job) { do(r, job) },
		Logger: slog.New(slog.NewTextHandler(&r.logged, nil)),
	}
	ctx, stop := context.WithCancel(t.Context())
	r.stop = stop
	go func() {
		defer close(r.done)
		r.worker.Work(ctx)
	}()
	t.Cleanup(func() { stop(); <-r.done })
	return r
}

func (r *workerRig) push(ids ...string) {
	r.Helper()
	for _, id := range ids {
		if err := r.queue.Push(r.Context(), "jobs", id, nil); err != nil {
			r.Fatal(err)
		}
	}
}

func TestWorkerDoesAtMostMaxJobsAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var doing, most, all int
		r := newWorkerRig(t, 2, func(r *workerRig, job *store.Job) {
			mu.Lock()
			doing++
			most = max(most, doing)
			mu.Unlock()
			<-time.After(time.Second)
			mu.Lock()
			doing--
			all++
			mu.Unlock()
			r.worker.Finish(job)
		})
		r.push("1", "2", "3", "4", "5")
		<-time.After(2500 * time.Millisecond)
		r.stop()
		<-r.done // the fifth job was taken, and is done before Work returns
		mu.Lock()
		defer mu.Unlock()
		if most != 2 || all != 5 || doing != 0 {
			t.Errorf("%d jobs at a time, %d done, %d not done, expected 2, 5 and 0", most, all, doing)
		}
	})
}

func TestWorkerAndJobsThatEnd(t *testing.T) {
	tests := []struct {
		name string
		end  func(r *workerRig, job *store.Job) // of the first delivery
		want []time.Duration                    // when the job is delivered
		log  string
	}{
		{"finished", func(r *workerRig, job *store.Job) { r.worker.Finish(job) }, []time.Duration{0}, ""},
		{"handed back", func(r *workerRig, job *store.Job) { r.worker.HandBack(job, 3*time.Second) }, []time.Duration{0, 3 * time.Second}, ""},
		{"handed back without a pause", func(r *workerRig, job *store.Job) { r.worker.HandBack(job, -time.Second) }, []time.Duration{0, 0}, ""},
		{"left", func(*workerRig, *store.Job) {}, []time.Duration{0, 30 * time.Second}, ""},
		{"finished while the queue is away", func(r *workerRig, job *store.Job) {
			r.queue.away.Store(true)
			r.worker.Finish(job)
			r.queue.away.Store(false)
		}, []time.Duration{0, 30 * time.Second}, "the store does not know that a job has ended"},
		{"finished after its lease", func(r *workerRig, job *store.Job) {
			<-time.After(30*time.Second + time.Second)
			r.worker.Finish(job)
		}, []time.Duration{0, 30 * time.Second}, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				delivered := make(chan time.Duration, 10)
				r := newWorkerRig(t, 2, func(r *workerRig, job *store.Job) {
					delivered <- time.Since(began)
					if job.Attempt == 1 {
						test.end(r, job)
					} else {
						r.worker.Finish(job)
					}
				})
				r.push("1")
				<-time.After(2 * time.Minute)
				r.stop()
				<-r.done
				close(delivered)
				var got []time.Duration
				for at := range delivered {
					got = append(got, at.Truncate(time.Second))
				}
				if len(got) != len(test.want) || got[len(got)-1] != test.want[len(got)-1] {
					t.Errorf("delivered after %v, expected %v", got, test.want)
				}
				if logged := r.logged.String(); !strings.Contains(logged, test.log) || test.log == "" && logged != "" {
					t.Errorf("logged %q, expected %q", logged, test.log)
				}
			})
		})
	}
}

func TestWorkerGoesOnWhenTheStoreIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var done atomic.Int32
		r := newWorkerRig(t, 1, func(r *workerRig, job *store.Job) {
			done.Add(1)
			r.queue.away.Store(job.ID == "1")
			r.worker.Finish(job)
		})
		r.push("1", "2")
		<-time.After(time.Minute) // several failures
		if done.Load() != 1 {
			t.Errorf("%d jobs are done while the queue is away, expected 1", done.Load())
		}
		r.queue.away.Store(false)
		<-time.After(time.Minute)
		r.stop()
		<-r.done
		// The first job is delivered again, because the store did not know that it was done.
		if done.Load() < 2 || !strings.Contains(r.logged.String(), "jobs cannot be taken from the store") {
			t.Errorf("%d jobs are done, and the log is %q", done.Load(), r.logged.String())
		}
	})
}
